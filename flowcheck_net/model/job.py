"""The training job as the planner, the synthesiser and the audit need it: frozen, checked, without YAML."""

from dataclasses import dataclass, replace
from enum import StrEnum

from flowcheck_net.ids import Address, Channel, GroupName, HostName, NicName, Qpn, Rank


class Protocol(StrEnum):
    """NCCL's wire protocols."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


class Dtype(StrEnum):
    """Element type of a gradient bucket."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP64 = "fp64"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return {"fp64": 8, "fp32": 4}.get(self.value, 2)


@dataclass(frozen=True, slots=True)
class Nccl:
    """How NCCL cuts and sends a collective. Facts: NCCL 2.8 to 2.30 sources."""

    version: tuple[int, int, int]
    protocol: Protocol
    channels: int
    threads: int
    """Working threads of a channel's block, without Simple's extra warp; they set the chunk size up to 2.21."""
    extra_step: bool
    """The patched all-reduce whose all-gather half sends N chunks instead of N-1."""
    qps_per_connection: int
    split_data_on_qps: bool
    adaptive_routing: bool
    """Messages over ``adaptive_routing_threshold`` are closed by a separate 0-byte write with immediate."""
    adaptive_routing_threshold: int
    """Bytes; NCCL_IB_AR_THRESHOLD, default 8192."""


class BucketKind(StrEnum):
    """Whose gradients a bucket holds; experts have data-parallel groups of their own."""

    DENSE = "dense"
    EXPERT = "expert"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One all-reduce of an iteration."""

    name: str
    elements: int
    """All-reduced by one group: a shard of the framework's bucket where the optimizer is sharded."""
    dtype: Dtype
    kind: BucketKind = BucketKind.DENSE

    @property
    def size(self) -> int:
        """Bytes of gradient."""
        return self.elements * self.dtype.size


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A broadcast that shares the ring's connections, such as DDP's parameters at the start."""

    size: int
    """Bytes of data (before protocol overhead)."""


@dataclass(frozen=True, slots=True)
class Wire:
    """All that decides the packets of one iteration on one hop."""

    nccl: Nccl
    mtu: int
    """RoCE path MTU in bytes: 256, 512, 1024, 2048 or 4096."""
    buckets: tuple[Bucket, ...]
    """In the order of their all-reduces."""
    broadcasts: tuple[Broadcast, ...]


@dataclass(frozen=True, slots=True, order=True)
class RankPlace:
    """Where a rank runs."""

    rank: Rank
    host: HostName
    nic: NicName
    address: Address


@dataclass(frozen=True, slots=True, order=True)
class HopNics:
    """The NICs at both ends of a hop: a rank may use others than its own, by channel and by direction."""

    send: NicName
    send_address: Address
    receive: NicName
    receive_address: Address


@dataclass(frozen=True, slots=True, order=True)
class Ring:
    """One channel of one data-parallel group. Hop ``i`` goes from ``ranks[i]`` to ``ranks[(i + 1) % N]``."""

    group: GroupName
    channel: Channel
    ranks: tuple[Rank, ...]
    """Ring order: ring index -> global rank."""
    qpns: tuple[tuple[Qpn, ...], ...] = ()
    """Destination queue pairs of each hop where they are known (one tuple a hop), else empty."""
    nics: tuple[HopNics, ...] = ()
    """NICs of each hop where the job names them (one a hop), else empty: the ranks' own."""
    carries: tuple[BucketKind, ...] = (BucketKind.DENSE,)
    """Buckets of these kinds are reduced on it."""

    @property
    def size(self) -> int:
        """Ranks in the ring, which is also its number of hops."""
        return len(self.ranks)

    @property
    def hop_count(self) -> int:
        """Hops are numbered from 0 to this (without)."""
        return self.size

    def hop(self, index: int) -> tuple[Rank, Rank]:
        """Sender and receiver of hop ``index``."""
        return self.ranks[index], self.ranks[(index + 1) % self.size]

    def hop_qpns(self, index: int) -> tuple[Qpn, ...]:
        """Destination queue pairs of hop ``index`` where they are known, else empty."""
        return self.qpns[index] if self.qpns else ()

    def hop_nics(self, index: int) -> HopNics | None:
        """NICs of hop ``index`` where the job names them."""
        return self.nics[index] if self.nics else None


@dataclass(frozen=True, slots=True, order=True)
class TreeEdge:
    """One edge of a tree: two connections, one in each direction."""

    parent: Rank
    child: Rank
    down_qpns: tuple[Qpn, ...] = ()
    """Destination queue pairs from parent to child where they are known, else empty."""
    up_qpns: tuple[Qpn, ...] = ()
    """Destination queue pairs from child to parent where they are known, else empty."""
    nics: tuple[HopNics, ...] = ()
    """One, from parent to child, where the job names the NICs; empty: the ranks' own."""


@dataclass(frozen=True, slots=True, order=True)
class Tree:
    """One channel of one group that reduces up a tree and broadcasts down it (NCCL's Tree and NVLSTree).

    Hop ``2 e`` goes down edge ``e``, from parent to child, and carries the tree's whole share fully reduced. Hop
    ``2 e + 1`` goes up it and carries partial sums.
    """

    group: GroupName
    """For NVLSTree with the head, such as ``dp0.head3``: each head is a tree of its own with its part of the data."""
    channel: Channel
    edges: tuple[TreeEdge, ...]
    members: int
    """Ranks of the communicator."""
    hosts: int
    """Hosts of the communicator."""
    head: int = 0
    """NVLSTree: which part of each loop it carries, 0 .. ``heads - 1``."""
    heads: int = 0
    """NVLSTree: ranks of each host that send to other hosts. 0: a plain tree, which carries all of its channel."""
    carries: tuple[BucketKind, ...] = (BucketKind.DENSE,)
    """Buckets of these kinds are reduced on it."""

    @property
    def size(self) -> int:
        """Ranks in the tree."""
        return len(self.edges) + 1

    @property
    def hop_count(self) -> int:
        """Hops are numbered from 0 to this (without)."""
        return 2 * len(self.edges)

    def is_down(self, index: int) -> bool:
        """Does hop ``index`` carry fully reduced data?"""
        return index % 2 == 0

    def hop(self, index: int) -> tuple[Rank, Rank]:
        """Sender and receiver of hop ``index``."""
        edge = self.edges[index // 2]
        return (edge.parent, edge.child) if self.is_down(index) else (edge.child, edge.parent)

    def hop_qpns(self, index: int) -> tuple[Qpn, ...]:
        """Destination queue pairs of hop ``index`` where they are known, else empty."""
        edge = self.edges[index // 2]
        return edge.down_qpns if self.is_down(index) else edge.up_qpns

    def hop_nics(self, index: int) -> HopNics | None:
        """NICs of hop ``index`` where the job names them."""
        stated = self.edges[index // 2].nics
        if not stated or self.is_down(index):
            return stated[0] if stated else None
        down = stated[0]
        return HopNics(down.receive, down.receive_address, down.send, down.send_address)


Lane = Ring | Tree
"""One channel of one group: what is planned, watched and audited as one."""


@dataclass(frozen=True, slots=True)
class Job:
    """The whole job."""

    name: str
    wire: Wire
    places: tuple[RankPlace, ...]
    """Sorted by rank; ``places[r].rank == r``."""
    rings: tuple[Ring, ...]
    """Every ring whose full sum crosses the network, sorted by (group, channel)."""
    iteration_time: float
    """Seconds."""
    trees: tuple[Tree, ...] = ()
    """Every tree whose full sum crosses the network, sorted by (group, channel)."""

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """All rings and trees, sorted by (group, channel)."""
        return tuple(sorted((*self.rings, *self.trees), key=lambda lane: (lane.group, lane.channel)))

    def ends(self, lane: Lane, index: int) -> tuple[RankPlace, RankPlace]:
        """Sender and receiver of hop ``index``, with the NICs that this hop uses."""
        source, target = (self.places[rank] for rank in lane.hop(index))
        nics = lane.hop_nics(index)
        if nics is None:
            return source, target
        return (
            replace(source, nic=nics.send, address=nics.send_address),
            replace(target, nic=nics.receive, address=nics.receive_address),
        )
