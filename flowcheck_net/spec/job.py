"""``job.yaml``: the training job, its collective and how NCCL cuts it."""

import re
from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import Name, Spec, Version

RankNumber = Annotated[int, Field(ge=0, lt=2**31)]
QpNumber = Annotated[int, Field(ge=2, lt=2**24)]
Axis = Annotated[int, Field(ge=1, lt=2**31)]


class Collective(Spec):
    """The collective operation that carries the gradients."""

    algorithm: Literal["ring"]
    """NCCL algorithm. This version plans ``ring``."""
    extra_step: bool = False
    """True for the patched all-reduce with one more all-gather step, which makes every hop complete by itself."""


class NcclSpec(Spec):
    """What decides how NCCL cuts and sends the data. Read it from the job's NCCL log."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    """NCCL version in three parts, such as ``2.19.3``; 2.8 to 2.30 are known."""
    protocol: Literal["LL", "LL128", "Simple"]
    """Wire protocol of the all-reduce."""
    channels: Annotated[int, Field(ge=1, le=64)]
    """Channels that the all-reduce uses; each has a ring of its own."""
    threads: int
    """GPU threads of a channel: a multiple of 32 from 64 to 640 (at most 512 for LL)."""
    qps_per_connection: Annotated[int, Field(ge=1, le=128)] = 1
    """Queue pairs of a connection (NCCL_IB_QPS_PER_CONNECTION)."""
    split_data_on_qps: bool | None = None
    """NCCL_IB_SPLIT_DATA_ON_QPS: is a message cut over all queue pairs? Leave out for the default of the version."""
    adaptive_routing: bool | None = None
    """Are large messages closed by a separate empty write? Leave out for the default of the version on RoCE."""
    adaptive_routing_threshold: Annotated[int, Field(ge=0, lt=2**31)] = 8192
    """Bytes (NCCL_IB_AR_THRESHOLD): larger messages are large."""

    @property
    def version_tuple(self) -> tuple[int, int, int]:
        """The version as numbers, so that 2.9 comes before 2.10."""
        match = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)", self.version)
        if match is None:
            raise ValueError(f"not an NCCL version: {self.version!r}")
        return int(match[1]), int(match[2]), int(match[3])


class Layout(Spec):
    """How the ranks are laid out over the parallel axes. The data-parallel size is what remains."""

    order: str = "tp-cp-ep-dp-pp"
    """The five axes joined by dashes, fastest first (Megatron's order string)."""
    tp: Axis = 1
    """Tensor-parallel size."""
    cp: Axis = 1
    """Context-parallel size."""
    ep: Axis = 1
    """Expert-parallel size."""
    pp: Axis = 1
    """Pipeline-parallel size."""


class RankSpec(Spec):
    """Where one rank runs."""

    rank: RankNumber
    """Global rank."""
    host: Name
    """A host of the topology."""
    nic: Name
    """The NIC of that host that the rank sends and receives with."""


class RingSpec(Spec):
    """The order of one ring, where it is not the group's own order."""

    group: Annotated[str, Field(pattern=r"^dp[0-9]{1,9}$")]
    """Data-parallel group: ``dp0``, ``dp1``, in the order of ``groups`` or of the layout."""
    channel: Annotated[int, Field(ge=0, lt=64)]
    """NCCL channel."""
    order: tuple[RankNumber, ...]
    """Global ranks in ring order: each sends to the next, the last to the first."""
    qpns: tuple[tuple[QpNumber, ...], ...] = ()
    """Destination queue pairs of each hop, in the order of ``order``: one list a hop. Leave out where not known."""
    nics: tuple[tuple[Name, ...], ...] = ()
    """NICs of each hop, in the order of ``order``: ``[sender's, receiver's]``, or ``[]`` for the ranks' own."""


class BucketSpec(Spec):
    """One all-reduce of an iteration."""

    name: Name
    """Unique within the job."""
    elements: Annotated[int, Field(ge=1, le=2**40)]
    """Number of gradient elements."""
    dtype: Literal["fp32", "fp16", "bf16", "fp64"]
    """Element type on the wire."""


class BroadcastSpec(Spec):
    """A broadcast that shares the ring's connections, such as DDP's parameters at the start."""

    bytes: Annotated[int, Field(ge=1, le=2**44)]
    """Bytes of data, before protocol overhead."""


class JobSpec(Spec):
    """A training job."""

    version: Version
    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
    """Marks our mirror sessions on the switches: lower-case letters and digits, single dashes between."""
    collective: Collective
    nccl: NcclSpec
    mtu: Literal[256, 512, 1024, 2048, 4096]
    """RoCE path MTU in bytes (payload of a packet), not the Ethernet MTU."""
    layout: Layout | None = None
    """The parallel layout. Give this or ``groups``."""
    groups: tuple[tuple[RankNumber, ...], ...] | None = None
    """The data-parallel groups as lists of global ranks. Give this or ``layout``."""
    ranks: Annotated[tuple[RankSpec, ...], Field(min_length=1)]
    """Every rank, 0 to n-1."""
    rings: tuple[RingSpec, ...] = ()
    """Ring orders that are known; other rings take the group's order on every channel."""
    buckets: Annotated[tuple[BucketSpec, ...], Field(min_length=1)]
    """The all-reduces of an iteration, in order."""
    broadcasts: tuple[BroadcastSpec, ...] = ()
    """Broadcasts on the same connections."""
    iteration_time: Annotated[float, Field(gt=0, le=1e9)]
    """Seconds from one iteration to the next."""
