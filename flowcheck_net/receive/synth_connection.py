"""What one connection of a ring or tree sends: sends of an iteration, their course over queue pairs, PSNs and time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from flowcheck_net.ids import Qpn
from flowcheck_net.model.job import Lane, Protocol, RankPlace, Ring, Wire
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.model.wire import WireMessage, broadcast_wire_sizes
from flowcheck_net.model.wire_qps import has_closing_write, packets, pieces, splits
from flowcheck_net.receive.synth_faults import Fault
from flowcheck_net.receive.synth_frames import PSN_MASK
from flowcheck_net.receive.synth_payload import data_size

STEP_LATENCY = 5_000
"""Nanoseconds between the end of a send and the next one: reduction, proxy and clear-to-send."""
RESEND_PAUSE = 4_000
"""Nanoseconds from the last packet sent in vain to the first one sent again."""

SLOT_BYTES = {Protocol.LL: 65_536, Protocol.LL128: 614_400, Protocol.SIMPLE: 524_288}
"""Bytes of a FIFO slot (``domain/nccl-wire.md`` section 1)."""
_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Part:
    """One RDMA message of a send: the piece of one queue pair, or the write that closes it."""

    qp: int
    """Queue pair when the connection's first send of all is on queue pair 0."""
    start: int
    """Wire bytes of the send before it."""
    size: int
    packets: int
    closed: bool
    """A closing write follows: the immediate is there."""
    closes: bool


@dataclass(frozen=True, slots=True)
class Send:
    """One ``isend`` of NCCL: one step of the connection (two for a ring's Simple)."""

    key: str
    """Which gradient stream it carries."""
    element: int
    """Bytes of an element."""
    data_offset: int
    """Byte offset in the stream."""
    data_bytes: int
    size: int
    """Wire bytes."""
    parts: tuple[Part, ...]

    @property
    def packets(self) -> int:
        """Packets of all its parts."""
        return sum(part.packets for part in self.parts)


@dataclass(frozen=True, slots=True)
class Connection:
    """One hop of a ring or tree and its queue pairs."""

    lane: Lane
    hop: int
    source: RankPlace
    destination: RankPlace
    qpns: tuple[Qpn, ...]
    """Of the receiver: where data go."""
    reverse_qpns: tuple[Qpn, ...]
    """Of the sender: where clear-to-send writes and acknowledgements go."""
    ports: tuple[int, ...]
    """UDP source port of each queue pair, the same in both directions."""
    base: int
    """Virtual address of the receiver's FIFO."""
    keys: tuple[int, int]
    """Remote keys: of the receiver's data buffer, of the sender's clear-to-send FIFO."""
    start_psn: int
    """First PSN of every queue pair, both directions."""

    @property
    def name(self) -> str:
        """``group/channel/hop``, as faults and reports write it."""
        return f"{self.lane.group}/{self.lane.channel}/{self.hop}"


def iteration_sends(wire: Wire, lane: Lane, hop: int) -> tuple[Send, ...]:
    """The sends of one iteration on a hop, in order."""
    messages = lane_messages(wire, lane, hop)
    one_send = attrgetter("bucket", "loop", "chunk", "slice", "reduced")
    return tuple(_send(wire, lane, tuple(group)) for _, group in groupby(messages, key=one_send))


def _send(wire: Wire, lane: Lane, messages: Sequence[WireMessage]) -> Send:
    """Messages that the model cut from one send, put together again."""
    parts: list[Part] = []
    start = 0
    for message, following in zip(messages, (*messages[1:], None), strict=True):
        closed = following is not None and following.closes
        parts.append(Part(message.qp, start, message.wire_bytes, message.packets, closed, message.closes))
        start += message.wire_bytes
    first = messages[0]
    state = "sum" if first.reduced else f"partial{first.contributions}"
    return Send(
        key=f"{lane.group}/bucket{first.bucket}/{state}",
        element=wire.buckets[first.bucket].dtype.size,
        data_offset=first.data_offset,
        data_bytes=sum(message.data_bytes for message in messages),
        size=start,
        parts=tuple(parts),
    )


def broadcast_sends(wire: Wire, lane: Lane, hop: int) -> tuple[Send, ...]:
    """The declared broadcasts on a hop, from rank 0 of the ring: nothing goes into the root. A tree carries none."""
    if not isinstance(lane, Ring) or hop == lane.size - 1:
        return ()
    sends: list[Send] = []
    for number, broadcast in enumerate(wire.broadcasts):
        offset = 0
        for size in broadcast_wire_sizes(wire, broadcast, lane.channel):
            data = data_size(wire.nccl.protocol, size)
            parts = _broadcast_parts(wire, size, len(sends))
            sends.append(Send(f"{lane.group}/broadcast{number}/{lane.channel}", 1, offset, data, size, parts))
            offset += data
    return tuple(sends)


def _broadcast_parts(wire: Wire, size: int, turn: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    closed = has_closing_write(wire.nccl, size)
    for piece in pieces(wire.nccl, size, turn):
        parts.append(Part(piece.qp, piece.offset, piece.length, packets(piece.length, wire.mtu), closed, closes=False))
        if closed:
            parts.append(Part(piece.qp, piece.offset + piece.length, 0, 1, closed=False, closes=True))
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Run:
    """Packets ``first`` to ``stop`` (without) of a message, sent back to back."""

    first: int
    stop: int
    start: int
    """Nanoseconds."""
    lost: int | None = None
    """The packet that the network lost in this run, so that the receiver discards the rest of it."""
    seen: bool = True
    """The lost packet came by the observation points."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One RDMA message on its way."""

    send: Send
    part: Part
    qp: int
    psn: int
    """24-bit PSN of its first packet."""
    number: int
    """Index of its first packet among all data packets of the hop in this iteration."""
    runs: tuple[Run, ...]
    gap: int
    """Nanoseconds from packet to packet."""
    end: int
    """Nanoseconds, after its last packet."""
    step: int
    """Step of the connection: FIFO slot and LL flag follow from it."""
    messages: int
    """Messages completed on the queue pair with this one (MSN)."""
    clear_to_send: int | None
    """Index of the clear-to-send write that comes before it; None: not the first part of its send."""


class Course:
    """Walks a connection through its sends: steps, turns of queue pairs, PSNs and times.

    Every observer of a connection walks a course of its own and sees the same, so nothing needs to be remembered.
    """

    def __init__(self, wire: Wire, connection: Connection, gap: int) -> None:
        """``gap``: nanoseconds from packet to packet."""
        queue_pairs = len(connection.qpns)
        self._turns = not splits(wire.nccl)
        simple_ring = wire.nccl.protocol is Protocol.SIMPLE and isinstance(connection.lane, Ring)
        self._step_size = 2 if simple_ring else 1
        self._gap = gap
        self._psn = [connection.start_psn] * queue_pairs
        self._messages = [0] * queue_pairs
        self._step = 0
        self._sends = 0

    def iteration(self, sends: Sequence[Send], starts: Sequence[int], resent: Mapping[int, Fault]) -> Iterator[Sent]:
        """Send everything once.

        Args:
            sends: What is sent.
            starts: When each of them starts at the earliest, nanoseconds.
            resent: Data packets of this iteration that the network loses, each with its fault.
        """
        shift = self._sends if self._turns else 0
        number = 0
        free = 0
        for send, earliest in zip(sends, starts, strict=True):
            now = max(earliest, free)
            clear_to_send: int | None = self._sends
            for part in send.parts:
                sent = self._message(send, part, (part.qp + shift) % len(self._psn), number, now, resent, clear_to_send)
                yield sent
                clear_to_send = None
                number += part.packets
                now = sent.end
            free = now + STEP_LATENCY
            self._step += self._step_size
            self._sends += 1

    def _message(
        self,
        send: Send,
        part: Part,
        qp: int,
        number: int,
        now: int,
        resent: Mapping[int, Fault],
        clear_to_send: int | None,
    ) -> Sent:
        psn = self._psn[qp]
        self._psn[qp] = (psn + part.packets) & PSN_MASK
        self._messages[qp] += 1
        runs = self._runs(part.packets, number, now, resent)
        end = runs[-1].start + (runs[-1].stop - runs[-1].first) * self._gap
        return Sent(send, part, qp, psn, number, runs, self._gap, end, self._step, self._messages[qp], clear_to_send)

    def _runs(self, count: int, number: int, now: int, resent: Mapping[int, Fault]) -> tuple[Run, ...]:
        """Go-back-N: after each lost packet some more are sent in vain, then all again from the lost one on."""
        if not resent:
            return (Run(0, count, now),)
        runs: list[Run] = []
        first = 0
        for lost in range(count):
            fault = resent.get(number + lost)
            if fault is None or (runs and lost < runs[-1].stop):
                continue
            stop = min(lost + fault.window + 1, count)
            runs.append(Run(first, stop, now, lost, fault.seen))
            now += (stop - first) * self._gap + RESEND_PAUSE
            first = lost
        return (*runs, Run(first, count, now))


def slot_address(connection: Connection, protocol: Protocol, step: int) -> int:
    """Virtual address of the FIFO slot of a step."""
    return connection.base + step % _SLOTS * SLOT_BYTES[protocol]
