"""Checked specs -> the job as all later steps need it."""

from collections.abc import Mapping, Sequence

from flowcheck_net.errors import Infeasible, PlanError
from flowcheck_net.ids import Address, Channel, GroupName, HostName, NicName, Qpn, Rank
from flowcheck_net.model.groups import data_parallel_groups
from flowcheck_net.model.job import Broadcast, Bucket, Dtype, HopNics, Job, Nccl, Protocol, RankPlace, Ring, Wire
from flowcheck_net.model.wire_protocol import geometry
from flowcheck_net.spec.job import JobSpec, RingSpec
from flowcheck_net.spec.topology import Topology

_Addresses = Mapping[tuple[str, str], Address]
"""(host, NIC) -> the address that ranks send from."""


def build_job(job: JobSpec, topology: Topology) -> Job:
    """Join job and topology: places, groups, rings and what is on the wire.

    Raises:
        Infeasible: a group's gradients never cross the network, so no observation point can see them; it names all such
            groups.
        PlanError: the layout does not fit the ranks, or NCCL of this version cannot do what the file says.
    """
    addresses = {(h.name, n.name): Address(n.addresses[0]) for h in topology.hosts for n in h.nics}
    places = _places(job, addresses)
    groups = data_parallel_groups(job)
    _refuse_invisible(groups, places)
    return Job(
        name=job.name,
        wire=_wire(job),
        places=places,
        rings=_rings(job, groups, places, addresses),
        iteration_time=job.iteration_time,
    )


def _places(job: JobSpec, addresses: _Addresses) -> tuple[RankPlace, ...]:
    ranks = sorted(job.ranks, key=lambda r: r.rank)
    return tuple(RankPlace(Rank(r.rank), HostName(r.host), NicName(r.nic), addresses[r.host, r.nic]) for r in ranks)


def _refuse_invisible(groups: Mapping[GroupName, Sequence[Rank]], places: Sequence[RankPlace]) -> None:
    problems = []
    for name, ranks in groups.items():
        hosts = {places[r].host for r in ranks}
        if len(ranks) < 2:
            problems.append(f"{name} is rank {ranks[0]} alone: it has no all-reduce")
        elif len(hosts) == 1:
            problems.append(f"{name} lies wholly in host {hosts.pop()}: its all-reduce never crosses the network")
    if problems:
        raise Infeasible(
            "gradients that no switch can see: " + "; ".join(problems),
            hint="place the ranks of each data-parallel group on two hosts or more, or save these groups another way",
        )


def _rings(
    job: JobSpec,
    groups: Mapping[GroupName, tuple[Rank, ...]],
    places: Sequence[RankPlace],
    addresses: _Addresses,
) -> tuple[Ring, ...]:
    stated = {(r.group, r.channel): r for r in job.rings}
    rings = [
        _ring(name, Channel(channel), ranks, stated.get((name, channel)), places, addresses)
        for name, ranks in groups.items()
        for channel in range(job.nccl.channels)
    ]
    return tuple(sorted(rings, key=lambda r: (r.group, r.channel)))


def _ring(
    group: GroupName,
    channel: Channel,
    ranks: tuple[Rank, ...],
    stated: RingSpec | None,
    places: Sequence[RankPlace],
    addresses: _Addresses,
) -> Ring:
    if stated is None:
        return Ring(group, channel, ranks)
    order = tuple(Rank(r) for r in stated.order)
    following = order[1:] + order[:1]
    return Ring(
        group,
        channel,
        order,
        tuple(tuple(Qpn(q) for q in hop) for hop in stated.qpns),
        tuple(
            _hop_nics(pair, places[source], places[target], addresses)
            for pair, source, target in zip(stated.nics, order, following, strict=False)
        ),
    )


def _hop_nics(pair: tuple[str, ...], source: RankPlace, target: RankPlace, addresses: _Addresses) -> HopNics:
    send, receive = pair or (source.nic, target.nic)
    return HopNics(NicName(send), addresses[source.host, send], NicName(receive), addresses[target.host, receive])


def _wire(job: JobSpec) -> Wire:
    wire = Wire(
        nccl=_nccl(job),
        mtu=job.mtu,
        buckets=tuple(Bucket(b.name, b.elements, Dtype(b.dtype)) for b in job.buckets),
        broadcasts=tuple(Broadcast(b.bytes) for b in job.broadcasts),
    )
    _refuse_overlap(wire)
    return wire


def _nccl(job: JobSpec) -> Nccl:
    """The settings with the defaults of the version: NCCL v2.8.4 to v2.28.9 ``src/transport/net_ib.cc``."""
    stated = job.nccl
    version = stated.version_tuple
    split = stated.split_data_on_qps
    if split is False and version < (2, 18, 0) and stated.qps_per_connection > 1:
        raise PlanError(
            f"nccl.split_data_on_qps is false, but NCCL {stated.version} always cuts messages over all queue pairs",
            hint="leave split_data_on_qps out, or correct the version (the switch came with 2.18)",
        )
    adaptive = stated.adaptive_routing
    return Nccl(
        version=version,
        protocol=Protocol(stated.protocol),
        channels=stated.channels,
        threads=stated.threads,
        extra_step=job.collective.extra_step,
        qps_per_connection=stated.qps_per_connection,
        # NCCL_IB_SPLIT_DATA_ON_QPS: default 1 up to 2.19, 0 from 2.20
        split_data_on_qps=version < (2, 20, 0) if split is None else split,
        # up to 2.15 every large message has the closing write; from 2.16 it is off on RoCE unless asked for
        adaptive_routing=version < (2, 16, 0) if adaptive is None else adaptive,
        adaptive_routing_threshold=stated.adaptive_routing_threshold,
    )


def _refuse_overlap(wire: Wire) -> None:
    """Refuse thread counts with which the chunks of NCCL up to 2.19 would overlap: then the threads cannot be right."""
    nccl = wire.nccl
    if nccl.version >= (2, 20, 0) or nccl.protocol is not Protocol.SIMPLE:
        return
    if geometry(nccl.protocol).chunk % (nccl.threads * 8):
        raise PlanError(
            f"nccl.threads {nccl.threads} cannot be: Simple chunks of NCCL up to 2.19 would overlap",
            hint="give the working threads (64, 128, 256 or 512), without the extra warp that only synchronises",
        )
