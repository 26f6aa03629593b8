"""Writes NCCL debug logs of made-up jobs, in the forms that NCCL's own format strings give by version.

It shares nothing with the importer: forms are written out here from NCCL's sources (v2.8 to v2.30).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class FakeJob:
    """A communicator of ``len(hosts) * gpus`` ranks, ranks host by host."""

    hosts: Sequence[str]
    gpus: int
    rings: Sequence[Sequence[int]]
    """One order a channel."""
    version: tuple[int, int, int] = (2, 19, 3)
    nic: Callable[[int, int, str], int] = lambda rank, channel, direction: rank
    """(local rank, channel, direction) -> NIC number."""
    comm_id: str = "0x1234abcd"
    pid: int = 1000
    tid: int = 1
    """Added to the pid: another communicator of the same process starts on another thread."""
    ranks: Sequence[int] | None = None
    """World ranks of the communicator's ranks; default: all."""
    network: str = "IB"
    mtu: int = 3
    """As NCCL prints it."""
    ring_lines: bool = True
    ring_connections: bool = True
    lazy: bool = False
    """Connect at the first collective, as 2.22 and later do."""
    tree_lines: bool = False
    """Write the connections of the trees too."""
    settings: Mapping[str, str] = field(default_factory=dict)
    tuning: Sequence[str] = ()
    prefix: str = ""
    plain_prefix: bool = False

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def members(self) -> list[int]:
        return list(self.ranks) if self.ranks is not None else list(range(len(self.hosts) * self.gpus))

    def host(self, rank: int) -> str:
        return self.hosts[self.members[rank] // self.gpus]

    def local(self, rank: int) -> int:
        return self.members[rank] % self.gpus

    def head(self, rank: int, tid: int | None = None) -> str:
        pid = self.pid + self.local(rank)
        thread = pid + self.tid if tid is None else tid
        return f"{self.prefix}{self.host(rank)}:{pid}:{thread} [{self.local(rank)}] NCCL INFO "

    def lines(self, rank: int) -> list[str]:
        """All lines of one rank, in the order in which NCCL writes them."""
        say = self.head(rank)
        new = self.version >= (2, 18, 0)
        gpu = str(self.local(rank)) if new else f"{0x10100 + self.local(rank):x}"
        init = self.init(rank)
        found = []
        version = ".".join(map(str, self.version))
        if rank == 0:
            found.append(f"{'' if self.plain_prefix else say}NCCL version {version}+cuda12.3")
        found += [f"{say}{name} set by environment to {value}" for name, value in self.settings.items()]
        names = " ".join(f"[{n}]mlx5_{n}:1/RoCE" for n in range(self.gpus))
        if self.network == "IB":
            found.append(f"{say}NET/IB : Using {names} [RO]; OOB eth0:10.9.0.{1 + self.local(rank)}<0>")
        found.append(f"{say}Using network {self.network}")
        if new and self.comm_id:
            found.append(f"{say}{init} - Init START")
        if rank == 0:
            found += [f"{say}{self.ring_list(c)}" for c in range(len(self.rings))]
        if self.ring_lines:
            found += [f"{say}{self.ring_line(rank, c)}" for c in range(len(self.rings))]
        found.append(f"{say}Trees" + "".join(f" [{c}] {self.tree(rank)}" for c in range(len(self.rings))))
        if not self.lazy:
            found += self.connected(rank, gpu)
        found.append(f"{say}{len(self.rings)} coll channels, 0 nvls channels, 8 p2p channels, 8 p2p channels per peer")
        found.append(f"{say}{init} - Init COMPLETE")
        if self.lazy:
            found += self.connected(rank, gpu)
        if rank == 0:
            found += [f"{self.head(0, self.pid)}{line}" for line in self.tuning]
        return found

    def init(self, rank: int) -> str:
        local = self.local(rank)
        device = f"cudaDev {local} nvmlDev {local}" if self.version >= (2, 18, 0) else f"cudaDev {local}"
        pointer = f"0x7f{self.members[rank]:04x}0{self.tid:04x}"
        text = f"comm {pointer} rank {rank} nranks {self.size} {device} busId {0x10100 + local:x}"
        text += f" commId {self.comm_id}" if self.comm_id else ""
        return f"ncclCommInitRank {text}" if self.version >= (2, 21, 0) else text

    def connected(self, rank: int, gpu: str) -> list[str]:
        """Connections to both neighbours of each ring, and of each tree."""
        found = []
        for channel, ring in enumerate(self.rings):
            at = list(ring).index(rank)
            if self.ring_connections:
                found += self.connections(rank, ring[at - 1], rank, channel, gpu)
                found += self.connections(rank, rank, ring[(at + 1) % self.size], channel, gpu)
            for other in (rank - 1, rank + 1):
                if self.tree_lines and 0 <= other < self.size:
                    found += self.connections(rank, other, rank, channel, gpu)
                    found += self.connections(rank, rank, other, channel, gpu)
        return found

    def ring_line(self, rank: int, channel: int) -> str:
        ring = list(self.rings[channel])
        at = ring.index(rank)
        return f"Ring {channel:02d} : {ring[at - 1]} -> {rank} -> {ring[(at + 1) % self.size]}"

    def ring_list(self, channel: int) -> str:
        ring = list(self.rings[channel])
        ring = ring[ring.index(0) :] + ring[: ring.index(0)]
        head = f"Channel {channel:02d}/{len(self.rings):02d} :"
        if self.version < (2, 23, 0):
            return head + "".join(f" {rank:3d}" for rank in ring[:20])
        width = len(str(self.size - 1))
        line = head + "".join(f" {rank:{width}d}" for rank in ring)
        return line if len(line) < 128 else line[:124] + "..."

    def tree(self, rank: int) -> str:
        """A chain 0 - 1 - 2 ...: children before the arrow, parent after."""
        child = rank + 1 if rank + 1 < self.size else -1
        return f"{child}/-1/-1->{rank}->{rank - 1}"

    def connections(self, me: int, source: int, target: int, channel: int, gpu: str) -> list[str]:
        say, index = self.head(me), "/0" if self.version >= (2, 12, 0) else ""
        edge = f"Channel {channel:02d}{index} : {source}[{gpu}] -> {target}[{gpu}]"
        if self.host(source) == self.host(target):
            return [f"{say}{edge} via P2P/IPC/read"] if me == source else []
        direction = "send" if me == source else "receive"
        nic = self.nic(self.local(me), channel, direction)
        found = [f"{say}{edge} [{direction}] via NET/{self.network}/{nic}/GDRDMA"]
        if self.network == "IB" and direction == "send":
            found.append(self.head(me, tid=self.pid + 77) + self.queue_pair(nic, 0x400 + 16 * channel, self.host(me)))
        return found

    def queue_pair(self, nic: int, number: int, host: str) -> str:
        address = (0x0A000001 | self.hosts.index(host) << 16 | nic << 8).to_bytes(4, "big")
        interface = int.from_bytes(b"\x00\x00\xff\xff" + address, "little")
        gid = f"mtu {self.mtu} GID 3 (0/{interface:X})"
        if self.version >= (2, 29, 7):
            device = f"NET/IB: ncclIbConnectImpl: NCCL Dev {nic} IbDev {nic} Port 1"
            return f"{device} qp_num {number} {gid} ctsFifoRkey=0x1 ctsFifoLkey=0x2"
        if self.version >= (2, 20, 0):
            ece = "query_ece={supported=1, vendor_id=0x15b3, options=0x2, comp_mask=0x0} "
            gid = gid.replace("GID", f"{ece}GID") if self.version < (2, 27, 0) else gid
            return f"NET/IB: NCCL Dev {nic} IbDev {nic} Port 1 qpn {number} {gid} fifoRkey=0x1 fifoLkey=0x2"
        return f"NET/IB: Dev {nic} Port 1 qpn {number} {gid}"

    def text(self) -> str:
        return "\n".join(line for rank in range(self.size) for line in self.lines(rank)) + "\n"


def by_host(count: int, gpus: int, channels: int) -> list[list[int]]:
    """Rings that enter each host at another GPU on each channel and go through all its GPUs."""
    rings = []
    for channel in range(channels):
        order = [(gpu + channel) % gpus for gpu in range(gpus)]
        rings.append([host * gpus + gpu for host in range(count) for gpu in order])
    return rings
