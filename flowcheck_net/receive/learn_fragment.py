"""What was learned of a job as a ``job.yaml`` to complete: what cannot be known stands as a comment with the reason."""

from collections.abc import Iterator

from flowcheck_net.ids import Address
from flowcheck_net.model.job import Dtype, Protocol
from flowcheck_net.receive.learn import Connection, Order, protocols_of
from flowcheck_net.receive.learn_job import Hop, Learned
from flowcheck_net.receive.replay_chain import count

_VERSIONS = {
    (2, 18, 3): "2.8 to 2.19",
    (2, 20, 5): "2.20 and 2.21",
    (2, 22, 3): "2.22",
    (2, 24, 3): "2.23 to 2.25",
    (2, 26, 2): "2.26 to 2.28",
    (2, 29, 2): "2.29 and later",
}
_SHOWN = 12


def fragment(learned: Learned, sources: tuple[str, ...], dtype: Dtype) -> str:
    """Lines of YAML, the connections as comments before them."""
    return "\n".join([*_connections(learned, sources), *(_job(learned, dtype) if learned.shape else _nothing())]) + "\n"


def _connections(learned: Learned, sources: tuple[str, ...]) -> Iterator[str]:
    yield f"# learned from {', '.join(sources)}"
    for hop in learned.hops:
        yield f"# {hop.ends[0]} -> {hop.ends[1]}: {count(hop.iterations, 'iteration')} of an all-reduce"
        for number, (channel, pattern) in enumerate(zip(hop.channels, hop.patterns, strict=True)):
            yield f"#   channel {number}, {_form(channel, hop.protocol)}: messages of {_sizes(pattern)}"
        if hop.by_pauses:
            yield "#   these sizes repeat sooner than the pauses: how many all-reduces an iteration has rests on pauses"
    for other in learned.others:
        yield f"# {other.source} -> {other.destination}: no all-reduce of a ring was found"
        form, messages = _form(other, protocols_of([other])[0]), count(len(other.wholes), "message")
        yield f"#   {form}: {messages} of {_sizes(other.sizes)}"


def _sizes(sizes: tuple[int, ...]) -> str:
    more = len(sizes) - _SHOWN
    return ", ".join(map(str, sizes[:_SHOWN])) + " B" + (f", and {more} more" if more > 0 else "")


def _form(channel: Connection, protocol: Protocol) -> str:
    """Queue pairs, protocol, immediates and form of the messages."""
    pairs = ", ".join(f"{qpn:#x}" for qpn in channel.qpns)
    how = "each message cut over them, " if channel.split else "messages in turn, " if len(channel.qpns) > 1 else ""
    closed = ", closed by a 0-byte write" if any(whole.closed for whole in channel.wholes) else ""
    single = ", every packet a write of its own" if any(whole.writes > 1 for whole in channel.wholes) else ""
    mtu = f"MTU {channel.mtu}" if channel.mtu else "MTU not seen"
    return (
        f"queue pair{'s' if len(channel.qpns) > 1 else ''} {pairs}, {how}{protocol}, {mtu}, "
        f"immediate {channel.order}{closed}{single}"
    )


def _nothing() -> Iterator[str]:
    yield "# No iteration of a ring all-reduce was recognised, so there is no job to write down. It may be a tree,"
    yield "# another collective, several in one NCCL group, or too short a capture: take two iterations or more."


def _job(learned: Learned, dtype: Dtype) -> Iterator[str]:
    shape = learned.shape
    if shape is None:
        return
    yield "version: 1"
    yield "name: learned  # not on the wire: the job's name"
    extra = ", extra_step: true" if shape.extra_step else ""
    yield f"collective: {{algorithm: ring{extra}}}"
    yield from _nccl(learned)
    yield from _mtu(learned)
    yield from _ranks(learned)
    yield "buckets:"
    for number, (least, most) in enumerate(shape.elements):
        span = f"{least} to {most} elements give the same messages; " if least < most else ""
        yield f"  - {{name: bucket{number}, elements: {most}, dtype: {dtype}}}  # {span}the type is not on the wire"
    if learned.broadcasts:
        yield "broadcasts:  # what came before the first iteration; at the most, where flags or padding round up"
        yield from (f"  - {{bytes: {size}}}" for size in learned.broadcasts)
    period = next((hop.period for hop in learned.hops if hop.period), 0.0)
    if period:
        yield f"iteration_time: {period:.6g}"
    else:
        yield "iteration_time: 1.0  # not known: only one iteration was seen"


def _nccl(learned: Learned) -> Iterator[str]:
    shape, hop = learned.shape, learned.hops[0]
    if shape is None:
        return
    channel, (version, threads) = hop.channels[0], shape.versions[0]
    ranges = "; ".join(_VERSIONS[v] for v, _ in shape.versions)
    yield f"# version: {ranges} would send these messages"
    if version < (2, 22, 0):
        yield f"# threads: {', '.join(map(str, sorted(threads)))} would; NCCL's log tells (TUNING)"
    else:
        yield "# threads: play no part from 2.22 on"
    channels = max(len(each.channels) for each in learned.hops)
    yield "# channels: as many as alike queue pairs between two hosts; one whose ring goes another way is not counted"
    parts = [f"version: {'.'.join(map(str, version))}", f"protocol: {learned.protocol}", f"channels: {channels}"]
    parts += [f"threads: {threads[0]}", f"qps_per_connection: {len(channel.qpns)}"]
    if len(channel.qpns) > 1:
        parts.append(f"split_data_on_qps: {str(channel.split).lower()}")
    if any(w.closed and w.writes == 1 for h in learned.hops for c in h.channels for w in c.wholes):
        parts.append("adaptive_routing: true")
    yield f"nccl: {{{', '.join(parts)}}}"
    if any(w.writes > 1 for h in learned.hops for c in h.channels for w in c.wholes):
        yield "# every packet is a write of its own here: not NCCL's wire format, and it cannot be planned or audited"
    if channel.order is Order.NONE:
        yield "# immediates are no lengths: request numbers (NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=BY_ID), or no NCCL"


def _mtu(learned: Learned) -> Iterator[str]:
    found = sorted({c.mtu for hop in learned.hops for c in hop.channels if c.mtu})
    if found:
        yield f"mtu: {found[-1]}"
    else:
        yield "mtu: 4096  # not known: no message took more than one packet"


def _ranks(learned: Learned) -> Iterator[str]:
    ranks = learned.shape.ranks if learned.shape else 0
    known = _places(learned)
    yield f"# {ranks} ranks by the messages of a hop; the hosts and cards behind the addresses are not on the wire"
    yield f"groups: [[{', '.join(map(str, range(ranks)))}]]"
    yield "ranks:"
    for rank in range(ranks):
        where = f"address {known[rank]}" if known[rank] else "not seen"
        yield f"  - {{rank: {rank}, host: host{rank + 1}, nic: mlx5_0}}  # {where}"
    yield from _queue_pairs(learned, known)


def _places(learned: Learned) -> list[Address | None]:
    """The address of each rank in ring order, turned so that every hop is where its messages allow; None: not seen."""
    ranks = learned.shape.ranks if learned.shape else 0
    following = {hop.ends[0]: hop.ends[1] for hop in learned.hops}
    starts = [source for source in following if source not in following.values()] or list(following)[:1]
    found: list[Address | None] = []
    for start in [*starts, *following]:
        at: Address | None = start
        while at is not None and at not in found:
            found.append(at)
            at = following.get(at)
    found = [*found[:ranks], *[None] * (ranks - len(found))]
    for turn in range(ranks):
        turned = [found[(n - turn) % ranks] for n in range(ranks)]
        if all(_may_stand(hop, turned, ranks) for hop in learned.hops):
            return turned
    return found


def _may_stand(hop: Hop, places: list[Address | None], ranks: int) -> bool:
    fits = {position for reading in hop.readings if reading.ranks == ranks for position in reading.hops}
    return hop.ends[0] in places and places.index(hop.ends[0]) in fits


def _queue_pairs(learned: Learned, known: list[Address | None]) -> Iterator[str]:
    """The queue pairs of each ring, where all its hops were seen."""
    ranks = len(known)
    by_ends: dict[tuple[Address | None, Address | None], Hop] = {hop.ends: hop for hop in learned.hops}
    around = [by_ends.get((known[n], known[(n + 1) % ranks])) for n in range(ranks)]
    if None in around:
        yield "# rings: hops are missing, so that the queue pairs of a ring cannot be written down"
        return
    yield "rings:  # that channels ascend with their queue pairs is NCCL's habit, and is not on the wire"
    hops = [hop for hop in around if hop is not None]
    for channel in range(min(len(hop.channels) for hop in hops)):
        pairs = ", ".join(f"[{', '.join(str(q) for q in hop.channels[channel].qpns)}]" for hop in hops)
        order = ", ".join(map(str, range(ranks)))
        yield f"  - {{group: dp0, channel: {channel}, order: [{order}], qpns: [{pairs}]}}"
