"""How many messages a hop has, reckoned without making them: a number that nobody can hold is refused beforehand."""

from flowcheck_net.errors import PlanError
from flowcheck_net.model.job import Job, Lane, Protocol, Ring, Wire
from flowcheck_net.model.wire_protocol import geometry
from flowcheck_net.model.wire_qps import splits

MOST_MESSAGES = 2**18
"""Messages of one hop in one iteration: 131 GB of gradient a channel with Simple, 75 GB with LL128, 4 GB with LL, on
one queue pair. To list so many takes some seconds."""

_LEAST_TREE_CHUNK = 30_720
"""Bytes: 32 KiB, the least that NCCL halves a tree's chunk to, 15/16 of it with LL128."""


def message_count(wire: Wire, ring_size: int) -> int:
    """About how many messages of buckets one hop of a ring carries in an iteration (its loops are counted whole)."""
    chunk = geometry(wire.nccl.protocol).chunk
    loop = 2 * ring_size * _sends(wire)
    return sum((b.size // (wire.nccl.channels * ring_size * chunk) + 1) * loop for b in wire.buckets)


def tree_count(wire: Wire, heads: int) -> int:
    """At most so many messages of buckets one edge of a tree carries in one direction in an iteration."""
    parts = wire.nccl.channels * max(1, heads) * _LEAST_TREE_CHUNK
    return sum((b.size // parts + 1) * _writes(wire) for b in wire.buckets)


def broadcast_count(wire: Wire, size: int) -> int:
    """About how many messages a broadcast of ``size`` bytes has on one channel."""
    return size // (wire.nccl.channels * geometry(wire.nccl.protocol).broadcast_chunk) + 1


def job_excess(job: Job) -> str:
    """What the job has too much of; empty: each hop can be listed."""
    sizes = {_shape(lane) for lane in job.lanes}
    rings = (message_count(job.wire, size) for is_ring, size in sizes if is_ring)
    trees = (tree_count(job.wire, heads) for is_ring, heads in sizes if not is_ring)
    broadcasts = (broadcast_count(job.wire, b.size) for b in job.wire.broadcasts)
    for what, counts in (("buckets", (*rings, *trees)), ("broadcasts", tuple(broadcasts))):
        if (most := max(counts, default=0)) > MOST_MESSAGES:
            return (
                f"{what}: about {most:,} messages on one hop in an iteration, at most {MOST_MESSAGES:,} can be listed"
            )
    return ""


def refuse_excess(job: Job) -> None:
    """Refuse a job whose messages cannot be listed; raises PlanError."""
    if excess := job_excess(job):
        hint = "are the bucket sizes elements of one bucket? see also channels and qps_per_connection in job.yaml"
        raise PlanError(f"job.{excess}", hint=hint)


def _shape(lane: Lane) -> tuple[bool, int]:
    return (True, lane.size) if isinstance(lane, Ring) else (False, lane.heads)


def _writes(wire: Wire) -> int:
    """RDMA writes of one NCCL message at the most."""
    nccl = wire.nccl
    return (nccl.qps_per_connection if splits(nccl) else 1) * (2 if nccl.adaptive_routing else 1)


def _sends(wire: Wire) -> int:
    return _writes(wire) * (2 if wire.nccl.protocol is Protocol.SIMPLE else 1)
