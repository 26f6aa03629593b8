"""What one line of an NCCL log can say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommInit:
    """``comm 0x... rank 3 nranks 16 ... - Init COMPLETE`` (or ``START``)."""

    pointer: str
    """Address of the communicator in this process."""
    rank: int
    size: int
    cuda_device: int
    bus_id: str
    """PCI bus id of the GPU, hexadecimal without punctuation: ``101c0`` is ``0000:10:1c.0``; empty where not said."""
    comm_id: str
    """The same on all ranks; empty before 2.16 and for the children of a split from 2.23 on."""
    parent: str
    """Pointer of the communicator that was split; empty for others."""
    split: str
    """Which split of the parent, and its colour; empty for others."""
    complete: bool


@dataclass(frozen=True, slots=True)
class RingLink:
    """``Ring 00 : 9 -> 0 -> 7``: one rank's neighbours on one channel."""

    channel: int
    previous: int
    rank: int
    next: int


@dataclass(frozen=True, slots=True)
class RingList:
    """``Channel 00/08 : 0 7 6 ...``: the whole ring of a channel, by rank 0, cut where it is long."""

    channel: int
    channels: int
    ranks: tuple[int, ...]
    """Those that are certainly whole numbers."""
    cut: bool
    """The line says itself that it was cut."""


@dataclass(frozen=True, slots=True)
class TreeLink:
    """One rank's place in the tree of one channel."""

    channel: int
    rank: int
    up: int
    """Parent; -1 at the root."""
    down: tuple[int, ...]
    """Children, without the empty places."""


@dataclass(frozen=True, slots=True)
class TreeLinks:
    """``Trees [0] 1/8/-1->0->-1 [1] ...``: one rank's places on all channels."""

    links: tuple[TreeLink, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Connection:
    """``Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/1/GDRDMA``."""

    channel: int
    index: int
    """0: ring and tree; others: point to point. 0 where the version does not say."""
    source: int
    target: int
    direction: str
    """``send`` or ``receive``; empty for connections within a host."""
    network: str
    """``IB``, ``Socket``, ``AWS Libfabric``; empty within a host."""
    device: int
    """NCCL's number of the NIC; -1 within a host."""
    proxy: int
    """Rank whose process serves the connection (PXN); -1: the rank's own. Never a port number."""
    gpu_direct: bool
    shared: bool
    """Buffers shared by point-to-point connections: not a ring."""
    local: str
    """How the ranks meet within a host, such as ``P2P/IPC``; empty for network connections."""


@dataclass(frozen=True, slots=True)
class NetDevices:
    """``NET/IB : Using [0]mlx5_0:1/RoCE ...``: NIC names by NCCL's number, as they stand in the list."""

    names: tuple[str, ...]
    """A merged NIC is the names of its parts, joined by ``+``."""
    links: frozenset[str]
    """``RoCE``, ``IB``."""


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """``NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 ...``."""

    number: int
    name: str
    parts: int


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue pair of one end of a connection, named by that end."""

    receiver: bool
    """False: the sender's own, which data packets do not carry. True (from 2.29.7): the destination of data packets."""
    device: int
    """NCCL's number of the NIC."""
    device_name: str
    """RDMA device where the line names it, else empty."""
    number: int
    mtu: int
    """Path MTU in bytes as far as this end goes; 0 where the line does not say."""
    address: str
    """RoCE address of the NIC; empty where the line does not say."""
    infiniband: bool


@dataclass(frozen=True, slots=True)
class Tuning:
    """``AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}``."""

    function: str
    """Empty up to 2.22, which does not say."""
    size: int
    """Bytes."""
    algorithm: str
    """``ring``, ``tree``, ``nvlstree``, ``collnetdirect``, ``collnetchain``, ``nvls``, ``pat``."""
    protocol: str
    """``LL``, ``LL128`` or ``Simple``."""
    channels: tuple[int, int] | None
    """First and last channel; None up to 2.23, which does not say."""
    pointer: str
    """Communicator, which only some builds name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """``NCCL_PROTO set by environment to LL``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Channels:
    """``8 coll channels, ...``."""

    count: int


@dataclass(frozen=True, slots=True)
class Network:
    """``Using network IB``."""

    name: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that begins like one of these and is none in this version's grammar."""


Record = (
    CommInit
    | RingLink
    | RingList
    | TreeLink
    | TreeLinks
    | Connection
    | NetDevices
    | VirtualDevice
    | QueuePair
    | Tuning
    | Setting
    | Channels
    | Network
    | Unread
)
