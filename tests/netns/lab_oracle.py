"""What really happened in a lab, by packet sockets of the tests' own: no code of the product looks at a packet."""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from socket import inet_ntoa

from flowcheck_net.lab.build import Lab
from tests.netns.veth import Listener, Namespace

HOST_PORTS = (("leaf1", "host1"), ("leaf1", "host2"), ("leaf2", "host3"), ("leaf2", "host4"))
"""Where the cables of the job's hosts end: all that a host sends comes out here, before any switch has touched it."""
CAPTURES = (("ckpt1", "cap0"), ("ckpt1", "cap1"), ("ckpt2", "cap0"), ("ckpt2", "cap1"))
RANKS = 4
_EXTENSION = {6: 16, 7: 0, 8: 0, 9: 4, 11: 20}
"""Data of a send of NCCL: bytes of RETH and immediate by opcode (First, Middle, Last, Last+Imm, Only+Imm)."""
_JOB_QPS = range(0x100, 0x200)
"""Of the job, as synth numbers them; clear-to-send writes are WRITE ONLY (10), other traffic has other numbers."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A data packet of the job: the same on every cable."""

    flow: tuple[str, str, int]
    """Source, destination, queue pair: one hop of the ring."""
    psn: int
    payload: bytes = field(repr=False, compare=False)


def data_packet(frame: bytes) -> Packet | None:
    """IPv4 and BTH read at their fixed places; None: not one of the job's data packets."""
    if len(frame) < 58 or frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != struct.pack(">H", 4791):
        return None
    opcode, queue_pair = frame[42], int.from_bytes(frame[47:50], "big")
    if opcode not in _EXTENSION or queue_pair not in _JOB_QPS:
        return None
    flow = inet_ntoa(frame[26:30]), inet_ntoa(frame[30:34]), queue_pair
    return Packet(flow, int.from_bytes(frame[51:54], "big"), frame[54 + _EXTENSION[opcode] : -4])


def sources(frames: list[bytes]) -> Counter[str]:
    """IPv4 packets by their source."""
    return Counter(inet_ntoa(frame[26:30]) for frame in frames if frame[12:14] == b"\x08\x00")


@dataclass(frozen=True, slots=True)
class Truth:
    """The job's data packets that left the hosts, and those that reached the checkpoint nodes."""

    sent: frozenset[Packet]
    arrived: frozenset[Packet]
    iterations: int
    watched: frozenset[tuple[str, str, int]]
    """The hops whose copies are to come."""

    @property
    def packets(self) -> int:
        """Of a hop and iteration: every hop of a ring sends alike, and each iteration is one run of PSNs."""
        numbers = set(Counter(packet.flow for packet in self.sent).values())
        assert len(numbers) == 1, numbers
        each, rest = divmod(numbers.pop(), self.iterations)
        assert rest == 0
        return each

    def verdicts(self) -> list[str]:
        """Of each iteration, from payloads alone: what N-1 hops of a ring of N send alike is fully reduced."""
        per = self.packets
        by_iteration: dict[int, list[Packet]] = defaultdict(list)
        for packet in self.sent:
            by_iteration[packet.psn // per].append(packet)
        return [self._verdict(by_iteration[number]) for number in range(self.iterations)]

    def _verdict(self, packets: list[Packet]) -> str:
        carriers: dict[bytes, set[tuple[str, str, int]]] = defaultdict(set)
        for packet in packets:
            if packet.payload:
                carriers[packet.payload].add(packet.flow)
        reduced = {payload for payload, flows in carriers.items() if len(flows) == RANKS - 1}
        assert len(reduced) == 128  # 32 768 elements of 4 bytes in packets of 1 024
        here = {packet.payload for packet in packets if packet in self.arrived}
        if reduced - here:
            return "GAP"
        complete = all(packet in self.arrived for packet in packets if packet.flow in self.watched)
        return "COVERED" if complete else "RECOVERED"


class Ears:
    """Packet sockets on the cables of hosts and of capture NICs."""

    def __init__(self, listeners: Mapping[tuple[str, str], Listener]) -> None:
        self._listeners = listeners
        self.frames: dict[tuple[str, str], list[bytes]] = {}

    def collect(self) -> None:
        """Everything that has come."""
        self.frames = {place: listener.waiting() for place, listener in self._listeners.items()}

    def truth(self, iterations: int, watched: frozenset[tuple[str, str, int]] = frozenset()) -> Truth:
        """What the frames say; with nothing ``watched``, the hops of which at least one copy came."""
        sent, arrived = (
            frozenset(p for place in places for frame in self.frames[place] if (p := data_packet(frame)))
            for places in (HOST_PORTS, CAPTURES)
        )
        return Truth(sent, arrived, iterations, watched or frozenset(packet.flow for packet in arrived))


@contextmanager
def listening(lab: Lab) -> Iterator[Ears]:
    """Hear all cables for as long as the block lasts."""
    with ExitStack() as stack:
        yield Ears(
            {
                (node, interface): stack.enter_context(Namespace(lab.place.processes[node].pid).listening(interface))
                for node, interface in (*HOST_PORTS, *CAPTURES)
            }
        )
