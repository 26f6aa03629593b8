"""Checked specs -> the job as all later steps need it."""

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import Address, HostName, NicName, Rank
from flowcheck_net.model.build_lanes import Addresses, build_lanes
from flowcheck_net.model.groups import reduction_groups, shards
from flowcheck_net.model.job import Broadcast, Bucket, BucketKind, Dtype, Job, Nccl, Protocol, RankPlace, Wire
from flowcheck_net.model.strategy import refuse_invisible, refuse_unobservable
from flowcheck_net.model.wire_count import refuse_excess
from flowcheck_net.model.wire_regimes import chunks_overlap
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.topology import Topology


def build_job(job: JobSpec, topology: Topology) -> Job:
    """Join job and topology: places, groups, rings and what is on the wire.

    Raises:
        Infeasible: whole gradients are never on the network (the strategy, the algorithm, or a group inside one host);
            it names the groups, the reason and the way out.
        PlanError: the layout does not fit the ranks, NCCL of this version cannot do what the file says, or a hop has
            more messages than can be listed.
    """
    addresses = {(h.name, n.name): Address(n.addresses[0]) for h in topology.hosts for n in h.nics}
    places = _places(job, addresses)
    groups = reduction_groups(job)
    refuse_unobservable(job)
    refuse_invisible(groups, places)
    rings, trees = build_lanes(job, groups, places, addresses)
    made = Job(
        name=job.name,
        wire=_wire(job),
        places=places,
        rings=rings,
        iteration_time=job.iteration_time,
        trees=trees,
    )
    refuse_excess(made)
    return made


def _places(job: JobSpec, addresses: Addresses) -> tuple[RankPlace, ...]:
    ranks = sorted(job.ranks, key=lambda r: r.rank)
    return tuple(RankPlace(Rank(r.rank), HostName(r.host), NicName(r.nic), addresses[r.host, r.nic]) for r in ranks)


def _wire(job: JobSpec) -> Wire:
    wire = Wire(
        nccl=_nccl(job),
        mtu=job.mtu,
        buckets=_buckets(job),
        broadcasts=tuple(Broadcast(b.bytes) for b in job.broadcasts),
    )
    _refuse_overlap(wire)
    return wire


def _buckets(job: JobSpec) -> tuple[Bucket, ...]:
    """What one group all-reduces of each bucket: one of equal shards where the optimizer is sharded."""
    kinds = [BucketKind(bucket.groups) for bucket in job.buckets]
    parts = {kind: max(1, shards(job, kind)) for kind in set(kinds)}
    return tuple(
        Bucket(b.name, b.elements // parts[kind], Dtype(b.dtype), kind)
        for b, kind in zip(job.buckets, kinds, strict=True)
    )


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
    if chunks_overlap(wire.nccl):
        raise PlanError(
            f"nccl.threads {wire.nccl.threads} cannot be: Simple chunks of NCCL up to 2.19 would overlap",
            hint="give the working threads (64, 128, 256 or 512), without the extra warp that only synchronises",
        )
