"""What a job must fulfil beyond the form of its values: NCCL's limits, the layout, ranks and rings."""

from collections.abc import Iterator
from math import prod

from flowcheck_net.spec.check_collective import check_collective
from flowcheck_net.spec.check_strategy import check_strategy
from flowcheck_net.spec.check_topology import Device
from flowcheck_net.spec.check_trees import check_heads, check_trees, tree_nics
from flowcheck_net.spec.explain import Words, did_you_mean
from flowcheck_net.spec.groups import (
    AXES,
    Groups,
    data_parallel_size,
    expert_data_parallel_size,
    expert_tensor_size,
    named_groups,
)
from flowcheck_net.spec.job import JobSpec, Layout, RingSpec
from flowcheck_net.spec.ranges import LEAST_THREADS, MAX_THREADS, NEWEST_NCCL, OLDEST_NCCL, THREAD_STEP
from flowcheck_net.spec.yamlpos import Fault


def check_job(job: JobSpec) -> Iterator[Fault]:
    """Every fault of the job by itself."""
    yield from _nccl(job)
    yield from _rank_numbers(job)
    yield from _layout(job)
    if job.groups is not None:
        yield from _groups(job, "groups", "dp", job.groups)
    if job.expert_groups:
        yield from _groups(job, "expert_groups", "edp", job.expert_groups)
    yield from check_collective(job)
    yield from check_strategy(job)
    yield from _rings(job)
    yield from check_trees(job)
    yield from check_heads(job)
    yield from _queue_pairs(job)
    yield from _bucket_names(job)


def check_job_places(job: JobSpec, known: dict[str, Device]) -> Iterator[Fault]:
    """Every rank must run on a host and NIC of the topology, given as its devices by name."""
    hosts = {name: device for name, device in known.items() if device.kind == "hosts"}
    words = Words(hosts)
    for i, place in enumerate(job.ranks):
        host = hosts.get(place.host)
        if host is not None:
            if place.nic not in host.ports:
                cure = did_you_mean(place.nic, host.ports)
                yield Fault(("ranks", i, "nic"), f"host {place.host} has no NIC '{place.nic}' in the topology", cure)
        elif place.host in known:
            yield Fault(("ranks", i, "host"), f"'{place.host}' is no host: it is in {known[place.host].kind}")
        else:
            message = f"there is no host '{place.host}' in the topology"
            yield Fault(("ranks", i, "host"), message, words.cure(place.host))
    yield from _ring_nics(job, hosts)
    yield from tree_nics(job, hosts)


def _ring_nics(job: JobSpec, hosts: dict[str, Device]) -> Iterator[Fault]:
    """The NICs of a hop must be those of its two hosts."""
    host_of = {place.rank: place.host for place in job.ranks}
    for i, ring in enumerate(job.rings):
        for h, pair in enumerate(ring.nics[: len(ring.order)]):
            ends = ring.order[h], ring.order[(h + 1) % len(ring.order)]
            for n, (nic, rank) in enumerate(zip(pair, ends, strict=False)):
                host = hosts.get(host_of.get(rank, ""))
                if host is not None and nic not in host.ports:
                    words = f"host {host_of[rank]} of rank {rank} has no NIC '{nic}' in the topology"
                    yield Fault(("rings", i, "nics", h, n), words, did_you_mean(nic, host.ports))


def _nccl(job: JobSpec) -> Iterator[Fault]:
    nccl = job.nccl
    if not OLDEST_NCCL <= nccl.version_tuple[:2] <= NEWEST_NCCL:
        span = f"{OLDEST_NCCL[0]}.{OLDEST_NCCL[1]} to {NEWEST_NCCL[0]}.{NEWEST_NCCL[1]}"
        yield Fault(("nccl", "version"), f"NCCL {nccl.version} is not known", f"supported: {span}")
    most = MAX_THREADS[nccl.protocol]
    if nccl.threads % THREAD_STEP or not LEAST_THREADS <= nccl.threads <= most:
        span = f"a multiple of {THREAD_STEP} from {LEAST_THREADS} to {most}"
        yield Fault(("nccl", "threads"), f"{nccl.protocol} threads must be {span} (found {nccl.threads})")


def _rank_numbers(job: JobSpec) -> Iterator[Fault]:
    count = len(job.ranks)
    first: dict[int, int] = {}
    for i, place in enumerate(job.ranks):
        if place.rank in first:
            yield Fault(("ranks", i, "rank"), f"rank {place.rank} is in ranks.{first[place.rank]} already")
        elif place.rank >= count:
            yield Fault(("ranks", i, "rank"), f"ranks are numbered 0 to {count - 1} (found {place.rank})")
        first.setdefault(place.rank, i)


def _layout(job: JobSpec) -> Iterator[Fault]:
    if job.layout is None:
        if job.groups is None:
            yield Fault((), "neither layout nor groups is here", "say which ranks reduce together")
        return
    if job.groups is not None:
        yield Fault(("groups",), "layout and groups are both here", "keep one of them", at_key=True)
    layout, count = job.layout, len(job.ranks)
    if sorted(layout.order.split("-")) != sorted(AXES):
        words = f"must name each of {', '.join(AXES)} once, joined by dashes (found '{layout.order}')"
        yield Fault(("layout", "order"), words, "Megatron's default is tp-cp-ep-dp-pp")
    dp = data_parallel_size(layout, count)
    if dp == 0:
        words = f"tp x cp x pp = {layout.tp} x {layout.cp} x {layout.pp} does not divide the {count} ranks"
        yield Fault(("layout",), words, at_key=True)
    elif dp * layout.cp == 1:
        yield Fault(("layout",), "one data-parallel rank is left: no gradient crosses the network", at_key=True)
    else:
        yield from _experts(layout, count, dp)


def _experts(layout: Layout, count: int, dp: int) -> Iterator[Fault]:
    """The expert axes must divide the ranks too, and pipeline stages must be the same for both (Megatron's asserts)."""
    etp, edp = expert_tensor_size(layout), expert_data_parallel_size(layout, count)
    axes = layout.order.split("-")
    if sorted(axes) != sorted(AXES):
        return
    if edp == 0:
        words = f"etp x ep x pp = {etp} x {layout.ep} x {layout.pp} does not divide the {count} ranks"
        yield Fault(("layout",), words, at_key=True)
        return
    dense = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "dp": dp}
    expert = {"tp": etp, "cp": 1, "ep": layout.ep, "dp": edp}
    before = axes[: axes.index("pp")]
    if layout.pp > 1 and prod(dense[a] for a in before) != prod(expert[a] for a in before):
        words = f"with order {layout.order} the experts would have other pipeline stages than the dense parameters"
        yield Fault(("layout", "order"), words, "put pp last, as Megatron asks for")


def _groups(job: JobSpec, key: str, prefix: str, groups: Groups) -> Iterator[Fault]:
    ranks = {place.rank for place in job.ranks}
    first: dict[int, int] = {}
    for g, group in enumerate(groups):
        if len(group) < 2:
            yield Fault((key, g), f"group {prefix}{g} has {len(group)} ranks", "a group has two or more")
        for k, rank in enumerate(group):
            if rank not in ranks:
                yield Fault((key, g, k), f"rank {rank} is not in ranks")
            elif rank in first:
                yield Fault((key, g, k), f"rank {rank} is in group {prefix}{first[rank]} already")
            first.setdefault(rank, g)
    left = sorted(ranks - first.keys())
    if left:
        words = ", ".join(str(rank) for rank in left[:8]) + (", ..." if len(left) > 8 else "")
        yield Fault((key,), f"in no group: ranks {words}", "a rank outside every group would not be observed")


def _rings(job: JobSpec) -> Iterator[Fault]:
    groups = {group.name: group.ranks for group in named_groups(job)}
    first: dict[tuple[str, int], int] = {}
    for i, ring in enumerate(job.rings):
        if ring.channel >= job.nccl.channels:
            words = f"must be less than nccl.channels = {job.nccl.channels} (found {ring.channel})"
            yield Fault(("rings", i, "channel"), words)
        key = (ring.group, ring.channel)
        if key in first:
            words = f"the ring of {ring.group} on channel {ring.channel} is in rings.{first[key]} already"
            yield Fault(("rings", i), words)
        first.setdefault(key, i)
        if groups and ring.group not in groups:
            yield Fault(("rings", i, "group"), f"there is no group '{ring.group}'", did_you_mean(ring.group, groups))
        elif groups:
            yield from _ring_order(ring, i, groups[ring.group])


def _ring_order(ring: RingSpec, index: int, group: tuple[int, ...]) -> Iterator[Fault]:
    if sorted(ring.order) != sorted(group):
        wanted = ", ".join(str(rank) for rank in sorted(group)[:16]) + (", ..." if len(group) > 16 else "")
        words = f"must hold each rank of {ring.group} once: {wanted} (found {_shown(ring.order)})"
        yield Fault(("rings", index, "order"), words)
    if ring.qpns and len(ring.qpns) != len(ring.order):
        words = f"a ring of {len(ring.order)} hops needs {len(ring.order)} lists (found {len(ring.qpns)})"
        yield Fault(("rings", index, "qpns"), words, "one list a hop, in the order of order")
    if ring.nics and len(ring.nics) != len(ring.order):
        words = f"a ring of {len(ring.order)} hops needs {len(ring.order)} pairs (found {len(ring.nics)})"
        yield Fault(
            ("rings", index, "nics"), words, "one pair a hop, in the order of order; [] for the ranks' own NICs"
        )
    for h, pair in enumerate(ring.nics):
        if len(pair) not in (0, 2):
            words = f"must be a pair [sender's NIC, receiver's NIC], or [] (found a list of {len(pair)})"
            yield Fault(("rings", index, "nics", h), words)


def _shown(order: tuple[int, ...]) -> str:
    return ", ".join(str(rank) for rank in order[:16]) + (", ..." if len(order) > 16 else "")


def _queue_pairs(job: JobSpec) -> Iterator[Fault]:
    """A destination queue pair belongs to one hop: its number is unique on the receiver's NIC."""
    nics = {place.rank: (place.host, place.nic) for place in job.ranks}
    wanted = job.nccl.qps_per_connection
    owner: dict[tuple[str, int], str] = {}
    for i, ring in enumerate(job.rings):
        for h, qpns in enumerate(ring.qpns):
            if len(qpns) != wanted:
                words = f"must hold qps_per_connection = {wanted} queue pairs (found {len(qpns)})"
                yield Fault(("rings", i, "qpns", h), words)
            nic = _receiving_nic(ring, h, nics)
            for q, qpn in enumerate(qpns if nic is not None else ()):
                key = (str(nic), qpn)
                if key in owner:
                    words = f"queue pair {qpn:#x} of {nic} belongs to {owner[key]} already"
                    yield Fault(("rings", i, "qpns", h, q), words)
                owner.setdefault(key, f"rings.{i}.qpns.{h}")


def _receiving_nic(ring: RingSpec, hop: int, nics: dict[int, tuple[str, str]]) -> str | None:
    """``host:nic`` where the hop ends; None where the receiver is no rank of the job."""
    found = nics.get(ring.order[(hop + 1) % len(ring.order)]) if ring.order else None
    if found is None:
        return None
    stated = ring.nics[hop] if hop < len(ring.nics) else ()
    return f"{found[0]}:{stated[1] if len(stated) == 2 else found[1]}"


def _bucket_names(job: JobSpec) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for i, bucket in enumerate(job.buckets):
        if bucket.name in first:
            yield Fault(("buckets", i, "name"), f"the name '{bucket.name}' is taken by buckets.{first[bucket.name]}")
        first.setdefault(bucket.name, i)
