"""``job.yaml``: the training job, its collective and how NCCL cuts it."""

import re
from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import Name, Spec, Version
from flowcheck_net.spec.ranges import (
    COUNT_END,
    GROUP_PATTERN,
    JOB_LENGTH,
    JOB_PATTERN,
    MOST_BROADCAST_BYTES,
    MOST_CHANNELS,
    MOST_ELEMENTS,
    MOST_HEADS,
    MOST_QPS,
    MOST_SECONDS,
    QPN_END,
    QPN_FIRST,
)

RankNumber = Annotated[int, Field(ge=0, lt=COUNT_END)]
QpNumber = Annotated[int, Field(ge=QPN_FIRST, lt=QPN_END)]
Axis = Annotated[int, Field(ge=1, lt=COUNT_END)]
GroupLabel = Annotated[str, Field(pattern=GROUP_PATTERN)]
"""``dp``: dense gradients; ``edp``: expert ones; ``inst``, ``rep``: shards, between optimizer instances or replicas."""


class Collective(Spec):
    """The collective operation that carries the gradients."""

    algorithm: Literal["ring", "tree", "nvlstree", "nvls", "collnet-direct", "collnet-chain", "sharp", "pat"]
    """NCCL algorithm of the all-reduce; ``ring``, ``tree`` and ``nvlstree`` can be planned."""
    extra_step: bool = False
    """True for the patched ring all-reduce with one more all-gather step, which makes every hop complete by itself."""


class StrategySpec(Spec):
    """What the training framework reduces, and how: it decides whether whole gradients are on the wire at all."""

    name: Literal[
        "ddp",
        "horovod",
        "megatron-ddp",
        "megatron-distributed-optimizer",
        "megatron-fsdp",
        "zero0",
        "zero1",
        "zero2",
        "zero3",
        "zero++",
        "fsdp-full",
        "fsdp-shard-grad-op",
        "hsdp",
    ] = "ddp"
    """The framework's way of data parallelism."""
    instances: Annotated[int, Field(ge=1, lt=COUNT_END)] | None = None
    """Megatron's num_distributed_optimizer_instances: replicas of the sharded optimizer (default 1)."""
    shard: Annotated[int, Field(ge=1, lt=COUNT_END)] | None = None
    """Ranks of one shard group of ``hsdp``; the data-parallel group holds a whole number of them."""
    all_reduce: bool | None = None
    """Only ``zero1`` and ``zero2``: are buckets all-reduced, or reduced to their owners? Read it from the config."""
    comm_hook: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=63)] = "none"
    """Communication hook that changes what is sent, such as ``powersgd`` or ``fp16-compress``; default ``none``."""


class NcclSpec(Spec):
    """What decides how NCCL cuts and sends the data. Read it from the job's NCCL log."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    """NCCL version in three parts, such as ``2.19.3``; 2.8 to 2.30 are known."""
    protocol: Literal["LL", "LL128", "Simple"]
    """Wire protocol of the all-reduce."""
    channels: Annotated[int, Field(ge=1, le=MOST_CHANNELS)]
    """Channels that the all-reduce uses; each has a ring of its own."""
    threads: int
    """GPU threads of a channel: a multiple of 32 from 64 to 640 (at most 512 for LL)."""
    qps_per_connection: Annotated[int, Field(ge=1, le=MOST_QPS)] = 1
    """Queue pairs of a connection (NCCL_IB_QPS_PER_CONNECTION)."""
    split_data_on_qps: bool | None = None
    """NCCL_IB_SPLIT_DATA_ON_QPS: is a message cut over all queue pairs? Leave out for the default of the version."""
    adaptive_routing: bool | None = None
    """Are large messages closed by a separate empty write? Leave out for the default of the version on RoCE."""
    adaptive_routing_threshold: Annotated[int, Field(ge=0, lt=COUNT_END)] = 8192
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
    etp: Axis | None = None
    """Expert-tensor-parallel size; left out: the same as ``tp``."""


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

    group: GroupLabel
    """Data-parallel group: ``dp0``, ``dp1``, in the order of ``groups`` or of the layout."""
    channel: Annotated[int, Field(ge=0, lt=MOST_CHANNELS)]
    """NCCL channel."""
    order: tuple[RankNumber, ...]
    """Global ranks in ring order: each sends to the next, the last to the first."""
    qpns: tuple[tuple[QpNumber, ...], ...] = ()
    """Destination queue pairs of each hop, in the order of ``order``: one list a hop. Leave out where not known."""
    nics: tuple[tuple[Name, ...], ...] = ()
    """NICs of each hop, in the order of ``order``: ``[sender's, receiver's]``, or ``[]`` for the ranks' own."""


class TreeSpec(Spec):
    """One channel's tree, as NCCL's ``Trees`` or ``Tree`` log lines give it."""

    group: GroupLabel
    """Data-parallel group, such as ``dp0``."""
    channel: Annotated[int, Field(ge=0, lt=MOST_CHANNELS)]
    """NCCL channel."""
    edges: tuple[tuple[RankNumber, RankNumber], ...]
    """``[parent, child]`` as global ranks, edges inside a host too; each rank but the root is the child of one edge."""
    down_qpns: tuple[tuple[QpNumber, ...], ...] = ()
    """Queue pairs of each edge's parent-to-child connection, as numbered at the child: one list an edge."""
    up_qpns: tuple[tuple[QpNumber, ...], ...] = ()
    """Queue pairs of each edge's child-to-parent connection, as numbered at the parent: one list an edge."""
    nics: tuple[tuple[Name, ...], ...] = ()
    """NICs of each edge, ``[parent's, child's]``, or ``[]`` for the ranks' own."""


class NvlsHeadsSpec(Spec):
    """Which ranks send a group's data between hosts, as NCCL's ``NVLS Head`` log lines give it."""

    group: GroupLabel
    """Data-parallel group, such as ``dp0``."""
    heads: Annotated[tuple[tuple[RankNumber, ...], ...], Field(min_length=1, max_length=MOST_HEADS)]
    """One list a head: its rank on every host, in the same order of hosts."""


class BucketSpec(Spec):
    """One all-reduce of an iteration."""

    name: Name
    """Unique within the job."""
    elements: Annotated[int, Field(ge=1, le=MOST_ELEMENTS)]
    """Gradient elements of the whole bucket, padding included; where an optimizer shards it, the shards are equal."""
    dtype: Literal["fp32", "fp16", "bf16", "fp64"]
    """Element type on the wire."""
    groups: Literal["dense", "expert"] = "dense"
    """Which parameters it holds: dense ones, or those of experts, which are reduced over groups of their own."""


class BroadcastSpec(Spec):
    """A broadcast that shares the ring's connections, such as DDP's parameters at the start."""

    bytes: Annotated[int, Field(ge=1, le=MOST_BROADCAST_BYTES)]
    """Bytes of data, before protocol overhead."""


class JobSpec(Spec):
    """A training job."""

    version: Version
    name: Annotated[str, Field(pattern=JOB_PATTERN, max_length=JOB_LENGTH)]
    """Marks our mirror sessions on the switches: lower-case letters and digits, single dashes between."""
    collective: Collective
    nccl: NcclSpec
    mtu: Literal[256, 512, 1024, 2048, 4096]
    """RoCE path MTU in bytes (payload of a packet), not the Ethernet MTU."""
    layout: Layout | None = None
    """The parallel layout. Give this or ``groups``."""
    groups: tuple[tuple[RankNumber, ...], ...] | None = None
    """The data-parallel groups as lists of global ranks. Give this or ``layout``."""
    expert_groups: tuple[tuple[RankNumber, ...], ...] = ()
    """With ``groups``: the groups of expert gradients, ``edp0``, ``edp1`` and so on."""
    strategy: StrategySpec = StrategySpec()
    """How the framework reduces gradients; left out: every bucket is all-reduced (DDP)."""
    ranks: Annotated[tuple[RankSpec, ...], Field(min_length=1)]
    """Every rank, 0 to n-1."""
    rings: tuple[RingSpec, ...] = ()
    """Ring orders that are known; other rings take the group's order on every channel."""
    trees: tuple[TreeSpec, ...] = ()
    """With algorithm ``tree``: trees that are known; others follow from NCCL's construction over the group's hosts."""
    nvls_heads: tuple[NvlsHeadsSpec, ...] = ()
    """With algorithm ``nvlstree``: head ranks that are known; otherwise every rank of a group is a head of its host."""
    buckets: Annotated[tuple[BucketSpec, ...], Field(min_length=1)]
    """The all-reduces of an iteration, in order."""
    broadcasts: tuple[BroadcastSpec, ...] = ()
    """Broadcasts on the same connections."""
    iteration_time: Annotated[float, Field(gt=0, le=MOST_SECONDS)]
    """Seconds from one iteration to the next."""
