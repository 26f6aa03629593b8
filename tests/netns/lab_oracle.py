"""What really happened in a lab, by packet sockets of the tests' own: no code of the product looks at a packet."""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from socket import AF_INET, AF_INET6, inet_ntop
from typing import NamedTuple

from flowcheck_net.lab.blueprint import End
from flowcheck_net.lab.build import Lab
from tests.netns.veth import Listener, Namespace

_EXTENSION = {6: 16, 7: 0, 8: 0, 9: 4, 11: 20}
"""Data of a send of NCCL: bytes of RETH and immediate by opcode (First, Middle, Last, Last+Imm, Only+Imm)."""
_JOB_QPS = range(0x100, 0x7000)
"""Of the job, as its file or synth numbers them; clear-to-send is WRITE ONLY (10), other traffic has other numbers."""


class _Header(NamedTuple):
    """Where in an Ethernet frame an IP header has what."""

    family: int
    protocol: int
    addresses: int
    end: int


_HEADERS = {b"\x08\x00": _Header(AF_INET, 23, 26, 34), b"\x86\xdd": _Header(AF_INET6, 20, 22, 54)}


@dataclass(frozen=True, slots=True)
class Packet:
    """A data packet of the job: the same on every cable."""

    flow: tuple[str, str, int]
    """Source, destination, queue pair: one hop of the ring."""
    psn: int
    payload: bytes = field(repr=False, compare=False)


def data_packet(frame: bytes) -> Packet | None:
    """IP and BTH read at their fixed places; None: not one of the job's data packets."""
    frame = peeled(frame)
    kind = frame[12:14]
    if kind not in _HEADERS or frame[_HEADERS[kind].protocol] != 17:
        return None
    udp = _HEADERS[kind].end
    if frame[udp + 2 : udp + 4] != struct.pack(">H", 4791):
        return None
    opcode, queue_pair = frame[udp + 8], int.from_bytes(frame[udp + 13 : udp + 16], "big")
    if opcode not in _EXTENSION or queue_pair not in _JOB_QPS:
        return None
    flow = *_addresses(frame), queue_pair
    return Packet(flow, int.from_bytes(frame[udp + 17 : udp + 20], "big"), frame[udp + 20 + _EXTENSION[opcode] : -4])


def sources(frames: list[bytes]) -> Counter[str]:
    """IP packets by their source, which is that of the copied frame where it is in a tunnel."""
    return Counter(_addresses(frame)[0] for frame in map(peeled, frames) if frame[12:14] in _HEADERS)


def peeled(frame: bytes) -> bytes:
    """What an ERSPAN type II tunnel over IPv4 carries, at its fixed place; any other frame as it is."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 47 and frame[36:38] == b"\x88\xbe":
        return frame[50:]  # Ethernet 14, IPv4 20, GRE with sequence number 8, ERSPAN 8
    return frame


def _addresses(frame: bytes) -> tuple[str, str]:
    head = _HEADERS[frame[12:14]]
    middle = (head.addresses + head.end) // 2
    return (
        inet_ntop(head.family, frame[head.addresses : middle]),
        inet_ntop(head.family, frame[middle : head.end]),
    )


@dataclass(frozen=True, slots=True)
class Truth:
    """The job's data packets that left the hosts, and those that reached the checkpoint nodes."""

    sent: frozenset[Packet]
    arrived: frozenset[Packet]
    iterations: int
    watched: frozenset[tuple[str, str, int]]
    """The hops whose copies are to come."""
    ranks: int
    """Of a group."""

    def packets(self, flow: tuple[str, str, int]) -> int:
        """Of a hop and iteration: each iteration is one run of PSNs."""
        each, rest = divmod(sum(packet.flow == flow for packet in self.sent), self.iterations)
        assert rest == 0
        return each

    def by_iteration(self) -> list[list[Packet]]:
        """The packets sent in each iteration."""
        per = {flow: self.packets(flow) for flow in {packet.flow for packet in self.sent}}
        found: list[list[Packet]] = [[] for _ in range(self.iterations)]
        for packet in self.sent:
            found[packet.psn // per[packet.flow]].append(packet)
        return found

    def reduced(self, packets: list[Packet]) -> set[bytes]:
        """What all hops of a ring but one, or all edges of a tree, carry alike is fully reduced."""
        carriers: dict[bytes, set[tuple[str, str, int]]] = defaultdict(set)
        for packet in packets:
            if packet.payload:
                carriers[packet.payload].add(packet.flow)
        return {payload for payload, flows in carriers.items() if len(flows) == self.ranks - 1}

    def verdicts(self) -> list[str]:
        """Of each iteration, from payloads alone."""
        return [self._verdict(packets) for packets in self.by_iteration()]

    def _verdict(self, packets: list[Packet]) -> str:
        reduced = self.reduced(packets)
        assert reduced
        here = {packet.payload for packet in packets if packet in self.arrived}
        if reduced - here:
            return "GAP"
        complete = all(packet in self.arrived for packet in packets if packet.flow in self.watched)
        return "COVERED" if complete else "RECOVERED"


class Ears:
    """Packet sockets on the cables of hosts and of capture NICs."""

    def __init__(self, lab: Lab, listeners: Mapping[End, Listener]) -> None:
        self._listeners = listeners
        self.captures = capture_ends(lab)
        self.hosts = host_ports(lab)
        self.frames: dict[End, list[bytes]] = {}

    def collect(self) -> None:
        """Everything that has come."""
        self.frames = {place: listener.waiting() for place, listener in self._listeners.items()}

    def truth(self, iterations: int, ranks: int = 4) -> Truth:
        """What the frames say; watched are the hops of which at least one copy came."""
        sent, arrived = (
            frozenset(p for place in places for frame in self.frames[place] if (p := data_packet(frame)))
            for places in (self.hosts, self.captures)
        )
        return Truth(sent, arrived, iterations, frozenset(packet.flow for packet in arrived), ranks)

    def copies(self, source: str) -> int:
        """Packets of a source at all capture ports together."""
        return sum(sources(self.frames[place])[source] for place in self.captures)


def host_ports(lab: Lab) -> tuple[End, ...]:
    """Where the cables of hosts end: all that a host sends comes out here, before any switch has touched it."""
    return tuple(lab.drawn.far(end) for end in lab.drawn.cards)


def capture_ends(lab: Lab) -> tuple[End, ...]:
    """The capture NICs."""
    return tuple(End(node, nic) for node in lab.drawn.nodes for nic in lab.drawn.captures(node))


@contextmanager
def listening(lab: Lab) -> Iterator[Ears]:
    """Hear all cables for as long as the block lasts."""
    with ExitStack() as stack:
        listeners = {
            end: stack.enter_context(Namespace(lab.place.processes[end.node].pid).listening(end.interface))
            for end in (*host_ports(lab), *capture_ends(lab))
        }
        yield Ears(lab, listeners)
