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


@dataclass(frozen=True, slots=True)
class Bucket:
    """One all-reduce of an iteration."""

    name: str
    elements: int
    dtype: Dtype

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

    @property
    def size(self) -> int:
        """Ranks in the ring, which is also its number of hops."""
        return len(self.ranks)

    def hop(self, index: int) -> tuple[Rank, Rank]:
        """Sender and receiver of hop ``index``."""
        return self.ranks[index], self.ranks[(index + 1) % self.size]


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

    def ends(self, ring: Ring, index: int) -> tuple[RankPlace, RankPlace]:
        """Sender and receiver of hop ``index``, with the NICs that this hop uses."""
        source, target = (self.places[rank] for rank in ring.hop(index))
        if not ring.nics:
            return source, target
        nics = ring.nics[index]
        return (
            replace(source, nic=nics.send, address=nics.send_address),
            replace(target, nic=nics.receive, address=nics.receive_address),
        )
