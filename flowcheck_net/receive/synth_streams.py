"""Streams of copies: what one tap sees of one direction of one connection, packet by packet."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from flowcheck_net.ids import Address, CapturePort
from flowcheck_net.intent import Direction, WindowRule
from flowcheck_net.model.job import Wire
from flowcheck_net.receive import synth_frames as roce
from flowcheck_net.receive.synth_connection import SLOT_BYTES, Connection, Sent, slot_address
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker
from flowcheck_net.receive.synth_payload import WIRE_PIECE, Gradients, data_range, wire_form
from flowcheck_net.receive.synth_route import Crossing, Tap

CLEAR_TO_SEND_LEAD = 2_000
"""Nanoseconds from the clear-to-send write to the data it lets through."""
RESPONSE = 1_000
"""Nanoseconds from a packet to its acknowledgement."""
SWITCH_LATENCY = 600
"""Nanoseconds that a switch holds a packet."""
NO_DATA = -1
"""Number of a packet that carries no data of the hop."""


class Copy(NamedTuple):
    """One mirrored packet at a capture port; ordered by time."""

    time: int
    """Nanoseconds since the epoch."""
    stream: int
    """Number of its stream."""
    frame: bytes
    opcode: int
    psn: int
    number: int
    """Index among the hop's data packets of the iteration, or ``NO_DATA``."""
    dest_qp: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What a tap sees of one direction of a connection, and how."""

    capture: CapturePort
    queue_pairs: frozenset[int]
    """Indices of the queue pairs whose way crosses the tap."""
    delay: int
    """Nanoseconds from the sender's port to the tap."""
    hop_limit: int
    windows: tuple[WindowRule, ...]
    """See ``Tap.windows``."""

    @classmethod
    def at(cls, tap: Tap, queue_pairs: frozenset[int], crossing: Crossing, *, routed: bool) -> "Sight":
        """At a crossing; ``routed``: every switch on the way takes one from the hop limit, else it bridges."""
        crossed = crossing.depth + (crossing.direction is Direction.TX)
        delay, hop_limit = crossed * SWITCH_LATENCY, 64 - (crossed if routed else 0)
        return cls(tap.capture, queue_pairs, delay, hop_limit, tap.windows)


class Stream:
    """One direction of a connection at one tap."""

    addresses: tuple[Address, Address]
    """Source and destination of its packets."""
    carries_data: ClassVar[bool] = False

    def __init__(self, number: int, sight: Sight, connection: Connection, wire: Wire) -> None:
        self.number = number
        self.sight = sight
        self.connection = connection
        self._wire = wire

    @property
    def capture(self) -> CapturePort:
        """Where the copies arrive."""
        return self.sight.capture

    def copies(self, course: Iterable[Sent], iteration: int) -> Iterator[Copy]:
        """What the tap sees of one iteration, in order of time."""
        raise NotImplementedError

    def _makers(self, source: Address, destination: Address, qpns: Sequence[int]) -> dict[int, FrameMaker]:
        ports = self.connection.ports
        return {
            qp: FrameMaker(Endpoints(source, destination, ports[qp], qpns[qp], self.sight.hop_limit))
            for qp in self.sight.queue_pairs
        }

    def _control_psn(self, index: int) -> int:
        """PSN of clear-to-send write ``index``: they alone use the reverse direction of queue pair 0."""
        return (self.connection.start_psn + index) & roce.PSN_MASK


class DataStream(Stream):
    """The sender's direction: data, and acknowledgements of clear-to-send writes."""

    carries_data = True

    def __init__(self, number: int, sight: Sight, connection: Connection, wire: Wire, gradients: Gradients) -> None:
        super().__init__(number, sight, connection, wire)
        self.addresses = connection.source.address, connection.destination.address
        self._gradients = gradients
        self._frames = self._makers(*self.addresses, connection.qpns)

    def copies(self, course: Iterable[Sent], iteration: int) -> Iterator[Copy]:
        """What the tap sees of one iteration, in order of time."""
        for sent in course:
            if sent.clear_to_send is not None and 0 in self._frames:
                yield self._acknowledgement(sent.runs[0].start, sent.clear_to_send)
            if sent.qp in self._frames:
                yield from self._message(sent, iteration)

    def _acknowledgement(self, start: int, index: int) -> Copy:
        psn = self._control_psn(index)
        extension = roce.aeth(roce.ACK_SYNDROME, index + 1)
        frame = self._frames[0].frame(roce.ACKNOWLEDGE, psn, extension, b"", ack=False)
        time = start - CLEAR_TO_SEND_LEAD + RESPONSE + self.sight.delay
        return Copy(time, self.number, frame, roce.ACKNOWLEDGE, psn, NO_DATA, self.connection.qpns[0])

    def _message(self, sent: Sent, iteration: int) -> Iterator[Copy]:
        make = self._frames[sent.qp].frame
        dest_qp = self.connection.qpns[sent.qp]
        mtu, per_block = self._wire.mtu, WIRE_PIECE // self._wire.mtu
        last = sent.part.packets - 1
        first_extension, last_extension = self._extensions(sent)
        current, block = -1, b""
        for run in sent.runs:
            time = run.start + self.sight.delay
            for packet in range(run.first, run.stop):
                if packet // per_block != current:
                    current = packet // per_block
                    block = self._block(sent, iteration, current)
                begin = packet % per_block * mtu
                payload = block[begin : begin + mtu]
                if 0 < packet < last:
                    opcode, extension, ack = roce.WRITE_MIDDLE, b"", False
                else:
                    opcode = _edge_opcode(packet, last, closed=sent.part.closed)
                    extension = (first_extension if packet == 0 else b"") + (last_extension if packet == last else b"")
                    ack = packet == last and not sent.part.closed
                if packet != run.lost or run.seen:
                    psn = (sent.psn + packet) & roce.PSN_MASK
                    frame = make(opcode, psn, extension, payload, ack=ack)
                    yield Copy(time, self.number, frame, opcode, psn, sent.number + packet, dest_qp)
                time += sent.gap

    def _extensions(self, sent: Sent) -> tuple[bytes, bytes]:
        """RETH of the first packet, immediate of the last one (none where a closing write carries it)."""
        address = slot_address(self.connection, self._wire.nccl.protocol, sent.step) + sent.part.start
        header = roce.reth(address, self.connection.keys[0], sent.part.size)
        if sent.part.closed:
            return header, b""
        return header, roce.immediate(sent.send.size, self._wire.nccl.version)

    def _block(self, sent: Sent, iteration: int, number: int) -> bytes:
        """Payload of the packets of block ``number`` of a message (WIRE_PIECE bytes, the last one less)."""
        protocol, send = self._wire.nccl.protocol, sent.send
        start = sent.part.start + number * WIRE_PIECE
        stop = min(start + WIRE_PIECE, sent.part.start + sent.part.size)
        aligned = start - start % 2048
        begin, end = data_range(protocol, send.data_bytes, aligned, stop)
        data = b""
        if end > begin:
            key = f"{iteration}/{send.key}"
            data = self._gradients.read(key, send.element, send.data_offset + begin, send.data_offset + end)
        return wire_form(protocol, data, sent.step + 1, stop - aligned)[start - aligned :]


def _edge_opcode(packet: int, last: int, *, closed: bool) -> int:
    """Opcode of the first or last packet of a write."""
    if last == 0:
        return roce.WRITE_ONLY if closed else roce.WRITE_ONLY_IMM
    if packet == 0:
        return roce.WRITE_FIRST
    return roce.WRITE_LAST if closed else roce.WRITE_LAST_IMM


class AnswerStream(Stream):
    """The receiver's direction: clear-to-send writes, acknowledgements of data, and NAKs."""

    def __init__(self, number: int, sight: Sight, connection: Connection, wire: Wire) -> None:
        super().__init__(number, sight, connection, wire)
        self.addresses = connection.destination.address, connection.source.address
        self._frames = self._makers(*self.addresses, connection.reverse_qpns)
        self._clear_bytes = 32 if wire.nccl.version < (2, 20, 0) else 64

    def copies(self, course: Iterable[Sent], iteration: int) -> Iterator[Copy]:
        """What the tap sees of one iteration, in order of time."""
        for sent in course:
            if sent.clear_to_send is not None and 0 in self._frames:
                yield self._clear_to_send(sent, sent.clear_to_send)
            if sent.qp in self._frames:
                yield from self._acknowledgements(sent)

    def _clear_to_send(self, sent: Sent, index: int) -> Copy:
        """NCCL's FIFO entry: address, size, key, number of requests, tag, index."""
        protocol, psn = self._wire.nccl.protocol, self._control_psn(index)
        address = slot_address(self.connection, protocol, sent.step)
        entry = struct.pack("<QIIIIQ", address, SLOT_BYTES[protocol], self.connection.keys[0], 1, 0, index + 1)
        payload = entry + bytes(self._clear_bytes - len(entry))
        target = self.connection.base - (1 << 24) + index % 32 * 256
        extension = roce.reth(target, self.connection.keys[1], len(payload))
        frame = self._frames[0].frame(roce.WRITE_ONLY, psn, extension, payload, ack=True)
        time = sent.runs[0].start - CLEAR_TO_SEND_LEAD + self.sight.delay
        return Copy(time, self.number, frame, roce.WRITE_ONLY, psn, NO_DATA, self.connection.reverse_qpns[0])

    def _acknowledgements(self, sent: Sent) -> Iterator[Copy]:
        for run in sent.runs:
            if run.lost is not None and run.stop > run.lost + 1:
                arrived = run.start + (run.lost + 2 - run.first) * sent.gap
                yield self._answer(sent, arrived, run.lost, roce.NAK_SYNDROME, sent.messages - 1)
        if not sent.part.closed:
            yield self._answer(sent, sent.end, sent.part.packets - 1, roce.ACK_SYNDROME, sent.messages)

    def _answer(self, sent: Sent, after: int, packet: int, syndrome: int, messages: int) -> Copy:
        psn = (sent.psn + packet) & roce.PSN_MASK
        frame = self._frames[sent.qp].frame(roce.ACKNOWLEDGE, psn, roce.aeth(syndrome, messages), b"", ack=False)
        time = after + RESPONSE + self.sight.delay
        dest_qp = self.connection.reverse_qpns[sent.qp]
        return Copy(time, self.number, frame, roce.ACKNOWLEDGE, psn, NO_DATA, dest_qp)
