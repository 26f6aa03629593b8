"""All connections of a capture together: which job would send this?"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from flowcheck_net.ids import Address
from flowcheck_net.model.job import Broadcast, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import broadcast_wire_sizes
from flowcheck_net.model.wire_protocol import geometry
from flowcheck_net.receive.learn import Connection, Order, Whole, connections, in_turn, protocols_of, repeat_of
from flowcheck_net.receive.learn_search import REGIMES, Shape, shapes
from flowcheck_net.receive.records import Records

_MOST_TRIED = 24
"""Messages of a connection in which nothing repeats that are searched for an all-reduce."""
_BEHIND_2_20 = (2, 20, 0)
_CLEAR_TO_SEND = {32: "to 2.19", 64: "from 2.20 on"}


@dataclass(frozen=True, slots=True)
class Hop:
    """One direction between two hosts, all channels together."""

    channels: tuple[Connection, ...]
    protocol: Protocol
    patterns: tuple[tuple[int, ...], ...]
    """Sizes of one iteration, by channel."""
    starts: tuple[int, ...]
    """Index of the first message of the first iteration that was seen, by channel."""
    iterations: int
    by_pauses: bool
    readings: tuple[Shape, ...]
    """The best first; every one would put these messages here."""
    period: float
    """Seconds from one iteration to the next; 0: only one was seen."""

    @property
    def ends(self) -> tuple[Address, Address]:
        """Sender and receiver."""
        return self.channels[0].source, self.channels[0].destination


@dataclass(frozen=True, slots=True)
class Learned:
    """What a capture tells of its job."""

    hops: tuple[Hop, ...]
    """Those that a ring explains."""
    others: tuple[Connection, ...]
    """Those that none does: point-to-point, other collectives, too torn."""
    shape: Shape | None
    """What all hops agree on."""
    broadcasts: tuple[int, ...]
    """Bytes of data at the most, in order, before the first iteration."""
    clear_to_send: int | None
    """Bytes of a clear-to-send write; None: none seen."""

    @property
    def protocol(self) -> Protocol:
        """Of the hops."""
        return Counter(hop.protocol for hop in self.hops).most_common(1)[0][0]


def learn(records: Records, dtype: Dtype = Dtype.FP32) -> Learned:
    """Find the all-reduces of a capture without any expectation.

    Args:
        records: Of the capture.
        dtype: Element type to reckon with: nothing on the wire tells it.
    """
    found = connections(records)
    clear = _clear_to_send(records)
    pairs: dict[tuple[Address, Address], list[Connection]] = defaultdict(list)
    for each in found:
        pairs[each.source, each.destination].append(each)
    hops = [hop for many in pairs.values() for hop in _hops(many, dtype, clear)]
    used = {(hop.ends, qpn) for hop in hops for channel in hop.channels for qpn in channel.qpns}
    others = [c for c in found if not any(((c.source, c.destination), qpn) in used for qpn in c.qpns)]
    shape = _agreed(hops)
    kept = [hop for hop in hops if shape is None or _reading(hop, shape) is not None]
    broadcasts = _broadcasts(kept, shape)
    return Learned(tuple(kept), tuple(others), shape, broadcasts, clear)


def _clear_to_send(records: Records) -> int | None:
    sizes = Counter[int]()
    for flow in records.flows:
        distinct = sum(last - first + 1 for first, last in flow.seen)
        if flow.packets.get("clear_to_send", 0) and not flow.packets.get("write", 0) and distinct:
            sizes[round(flow.bytes / distinct)] += distinct
    best = sizes.most_common(1)
    return best[0][0] if best and best[0][0] in _CLEAR_TO_SEND else None


def _regimes(order: Order, clear: int | None) -> list[tuple[int, int, int]]:
    """Versions that the immediates and the clear-to-send writes allow."""
    found = []
    for version in REGIMES:
        big = version >= (2, 29, 0)
        ordered = order is Order.NONE or (order is Order.BIG) == big
        if ordered and (clear is None or (clear == 64) == (version >= _BEHIND_2_20)):
            found.append(version)
    return found


def _hops(many: Sequence[Connection], dtype: Dtype, clear: int | None) -> Iterator[Hop]:
    """The connections of one direction as channels of a ring: all alike ones together, else each for itself."""
    alike: dict[tuple[bool, bool], list[Connection]] = defaultdict(list)
    for each in many:
        if len(each.wholes) > 1:
            flagged = not any(each.sizes) or protocols_of([each]) == (Protocol.LL,)
            alike[flagged, each.split].append(each)
    for group in (sorted(found, key=lambda c: c.qpns) for found in alike.values()):
        yield from _hops_of_alike(group, dtype, clear)


def _hops_of_alike(group: Sequence[Connection], dtype: Dtype, clear: int | None) -> Iterator[Hop]:
    """First what repeats, for it leaves little to try; then what may be a single iteration."""
    for search in (_repeating, _single):
        trials = (_hop(trial, search(trial), dtype, clear) for trial in _groupings(group))
        hop = next((found for found in trials if found is not None), None)
        if hop is not None:
            yield hop
            return
        if len(group) > 1:
            alone = [_hop([one], search([one]), dtype, clear) for one in group]
            if any(alone):
                yield from (found for found in alone if found is not None)
                return


def _groupings(group: Sequence[Connection]) -> Iterator[list[Connection]]:
    """As channels of one queue pair each, then with 2, 3, ... queue pairs each on which messages take turns."""
    yield list(group)
    for count in range(2, len(group) + 1):
        if len(group) % count == 0 and not group[0].split:
            yield [in_turn(group[n : n + count]) for n in range(0, len(group), count)]


def _hop(
    channels: Sequence[Connection], iterations: Iterator["_Iterations"], dtype: Dtype, clear: int | None
) -> Hop | None:
    regimes = _regimes(channels[0].order, clear)
    for starts, patterns, count, by_pauses in iterations:
        for protocol in protocols_of(channels):
            readings = tuple(shapes(patterns, protocol, dtype, regimes))
            if readings:
                period = _time(channels[0].wholes, starts[0], len(patterns[0]))
                return Hop(tuple(channels), protocol, patterns, starts, count, by_pauses, readings, period)
    return None


_Iterations = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], int, bool]
"""(first message of each channel, pattern of each, iterations, does it rest on pauses)"""


def _repeating(channels: Sequence[Connection]) -> Iterator[_Iterations]:
    """What repeats on all channels."""
    repeats = [repeat_of(channel) for channel in channels]
    known = [repeat for repeat in repeats if repeat is not None]
    if len(known) == len(channels):
        patterns = tuple(repeat.sizes for repeat in known)
        yield (
            tuple(r.start for r in known),
            patterns,
            max(r.iterations for r in known),
            any(r.by_pauses for r in known),
        )


def _single(channels: Sequence[Connection]) -> Iterator[_Iterations]:
    """What may be an iteration where nothing repeats."""
    shortest = min(len(channel.wholes) for channel in channels)
    if len(channels) > 1:
        for length in range(min(shortest, _MOST_TRIED), 0, -1):
            starts = tuple(len(c.wholes) - length for c in channels)
            yield starts, tuple(c.sizes[-length:] for c in channels), 1, False
    else:
        skipped = max(0, shortest - _MOST_TRIED)
        for starts, patterns, count, by_pauses in _blocks(channels[0].sizes[skipped:]):
            yield (starts[0] + skipped,), patterns, count, by_pauses


def _blocks(sizes: Sequence[int]) -> Iterator[_Iterations]:
    """Every run of messages that may be an iteration, the one that explains most first."""
    found: dict[tuple[int, ...], int] = {}
    for start in range(len(sizes)):
        for stop in range(start + 1, len(sizes) + 1):
            if any(sizes[start:stop]):
                found.setdefault(tuple(sizes[start:stop]), start)
    counted = [(_occurrences(sizes, block), block, start) for block, start in found.items()]
    for count, block, start in sorted(counted, key=lambda each: (-each[0] * sum(each[1]), len(each[1]))):
        yield (start,), (block,), count, False


def _occurrences(sizes: Sequence[int], block: Sequence[int]) -> int:
    count = at = 0
    while at + len(block) <= len(sizes):
        hit = tuple(sizes[at : at + len(block)]) == tuple(block)
        count += hit
        at += len(block) if hit else 1
    return count


def _time(wholes: Sequence[Whole], start: int, length: int) -> float:
    times = [wholes[n].first_time for n in range(start, len(wholes), length)]
    return median(two - one for one, two in pairwise(times)) / 1e9 if len(times) > 1 else 0.0


def _agreed(hops: Sequence[Hop]) -> Shape | None:
    """The reading that most hops share, with what all of them allow. Ranks that are too few for the hosts are none."""
    hosts = {end for hop in hops for end in hop.ends}
    both = {hop.ends for hop in hops} & {(b, a) for a, b in (hop.ends for hop in hops)}
    scores: Counter[tuple[int, bool, int]] = Counter()
    for hop in hops:
        for reading in hop.readings:
            fits = reading.ranks == 2 if both and len(hosts) == 2 else reading.ranks >= len(hosts)
            if fits:
                scores[reading.ranks, reading.extra_step, len(reading.elements)] += 1
    if not scores:
        return None
    most = max(scores.values())
    ranks, extra, buckets = min((k for k, n in scores.items() if n == most), key=lambda k: (k[2], k[1], k[0]))
    same = [r for h in hops for r in h.readings if (r.ranks, r.extra_step, len(r.elements)) == (ranks, extra, buckets)]
    agreed = same[0]
    for other in same[1:]:
        agreed = _common(agreed, other) or agreed
    return agreed


def _common(one: Shape, two: Shape) -> Shape | None:
    """What both allow; None: nothing."""
    pairs = zip(one.elements, two.elements, strict=True)
    elements = tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in pairs)
    threads = {version: set(fits) for version, fits in two.versions}
    versions = tuple(
        (version, kept)
        for version, fits in one.versions
        if version in threads and (kept := tuple(n for n in fits if n in threads[version]))
    )
    if not versions or any(low > high for low, high in elements):
        return None
    return replace(one, elements=elements, versions=versions)


def _reading(hop: Hop, shape: Shape) -> Shape | None:
    """The hop's reading that agrees with the shape of all."""
    wanted = (shape.ranks, shape.extra_step, len(shape.elements))
    fits = (r for r in hop.readings if (r.ranks, r.extra_step, len(r.elements)) == wanted)
    return next((r for r in fits if _common(r, shape) is not None), None)


def _broadcasts(hops: Sequence[Hop], shape: Shape | None) -> tuple[int, ...]:
    """What came before the first iteration, read as broadcasts and kept where the wire model gives these messages."""
    if shape is None:
        return ()
    found: list[tuple[int, ...]] = []
    for hop in hops:
        before = [channel.sizes[:start] for channel, start in zip(hop.channels, hop.starts, strict=True)]
        torn = all(size in pattern for sizes, pattern in zip(before, hop.patterns, strict=True) for size in sizes)
        if before[0] and not torn and len({len(each) for each in before}) == 1:
            found.append(_read_broadcasts(before, hop.protocol, shape))
    return max(found, key=len, default=())


def _read_broadcasts(before: Sequence[Sequence[int]], protocol: Protocol, shape: Shape) -> tuple[int, ...]:
    line = geometry(protocol)
    version, threads = shape.versions[0]
    nccl = Nccl(version, protocol, len(before), threads[0], False, 1, False, False, 8192)
    sizes: list[int] = []
    data, run = 0, 0
    for row in zip(*before, strict=True):
        held = [size // line.line_wire * line.line_data for size in row]
        data, run = data + sum(held), run + 1
        if min(held) < line.broadcast_chunk - line.broadcast_chunk % line.grain:
            sizes.append(data)
            data, run = 0, 0
    if data:
        sizes.append(data)
    wire = Wire(nccl, 4096, (), ())
    for channel, seen in enumerate(before):
        made = [s for size in sizes for s in broadcast_wire_sizes(wire, Broadcast(max(1, size)), channel)]
        if made != list(seen):
            return ()
    return tuple(size for size in sizes if size)
