"""Messages where two captures of one flow meet: what was cut in two becomes one message again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcheck_net.receive.records import Message
from flowcheck_net.receive.records_ranges import Ranges, covered, intersection, next_in, reach
from flowcheck_net.receive.records_rows import ROW, MessageRows, message_of, moved, rows_of

_PART = 0x1F
_HEADS = frozenset({6, 10, 11})
"""RDMA WRITE First, Only, Only with immediate: the opcodes without the transport bits."""
_MIDDLE = 7


@dataclass(frozen=True, slots=True)
class Side:
    """One capture of the flow, positions in the numbering of the earlier one."""

    seen: Ranges
    messages: bytes
    """Rows, by position."""
    open_end: bool = False
    """Its last message, known or not, goes on behind its last packet."""

    @property
    def count(self) -> int:
        """Messages."""
        return len(self.messages) // ROW.size

    def message(self, number: int) -> Message:
        """One of them."""
        return message_of(ROW.unpack_from(self.messages, number * ROW.size))

    def last_of(self, message: Message) -> int:
        """The highest packet that was seen of a message."""
        return reach(self.seen, message.position, message.packets)


def side(seen: Ranges, messages: Sequence[Message], shift: int, *, open_end: bool) -> Side:
    """A side of which the positions of messages are to be moved; those of ``seen`` are right."""
    rows = messages.data if isinstance(messages, MessageRows) else rows_of(messages)
    return Side(seen, moved(rows, shift), open_end)


@dataclass(frozen=True, slots=True)
class Seam:
    """The messages of both sides as one."""

    rows: bytes
    to_come: int | None
    """Packets that the last message still lacks, where it lies across the seam; None: it does not."""
    near: tuple[Message, ...]
    """The messages at the seam, of either side, as they were."""


@dataclass(slots=True)
class _Piece:
    """A message near the seam."""

    message: Message
    end: int | None
    """Its last position; None: unknown, it takes what comes until another begins."""
    last: int
    """Its highest packet seen."""


def sew(one: Side, two: Side, seen: Ranges) -> Seam:
    """Join the messages of the earlier and the later side; ``seen`` is what either saw."""
    pieces = _open_pieces(one, two.seen[0][0])
    kept = one.count - len(pieces)
    highest = one.seen[-1][1]
    bound = max((highest, *(piece.end for piece in pieces if piece.end is not None)))
    goes_on = next_in(two.seen, highest + 1) if pieces and pieces[-1].end is None else None
    near = [piece.message for piece in pieces]
    both = intersection(one.seen, two.seen)
    used = 0
    while used < two.count:
        message = two.message(used)
        if message.position > bound and (message.position != goes_on or _headed(message)):
            break
        near.append(message)
        if covered(both, message.position, two.last_of(message)) < message.packets:
            _place(pieces, message, two)
        used += 1
    joined = [_settled(pieces, at, one, seen) for at in range(len(pieces))]
    rows = one.messages[: kept * ROW.size] + rows_of(joined) + two.messages[used * ROW.size :]
    last_here = pieces and used == two.count and pieces[-1].last == seen[-1][1]
    return Seam(rows, _to_come(pieces[-1], two, seen) if last_here else None, tuple(near))


def _open_pieces(one: Side, low: int) -> list[_Piece]:
    """Messages of the earlier side that packets of the later one may belong to, by position."""
    found: list[_Piece] = []
    for number in range(one.count - 1, -1, -1):
        message = one.message(number)
        last = one.last_of(message)
        end: int | None = last
        if message.expected_packets is not None:
            end = max(last, message.position + message.expected_packets - 1)
        elif one.open_end and last == one.seen[-1][1]:
            end = None
        if end is not None and end < low:
            break
        found.append(_Piece(message, end, last))
    return found[::-1]


def _headed(message: Message) -> bool:
    return message.opcode & _PART in _HEADS


def _place(pieces: list[_Piece], message: Message, two: Side) -> None:
    """Put a message of the later side where it belongs."""
    last = two.last_of(message)
    own = _Piece(message, _end_of(message), last)
    home = next((piece for piece in reversed(pieces) if piece.message.position <= message.position), None)
    inside = home is not None and (home.end is None or message.position <= home.end)
    if home is None or not inside or (_headed(message) and message.position > home.message.position):
        pieces.append(own)
        pieces.sort(key=lambda piece: piece.message.position)
        return
    rest = next_in(two.seen, home.end + 1) if home.end is not None and last > home.end else None
    home.last = max(home.last, last if rest is None else home.end or last)
    home.message = _joined(home.message, message, two)
    if rest is not None:
        opcode = message.opcode & ~_PART | _MIDDLE
        tail = replace(message, position=rest, opcode=opcode, bytes=None, ll_flag=None, icrc_sum=None)
        home.message = replace(home.message, icrc_sum=None, immediate=None)
        pieces.append(_Piece(replace(tail, first_psn=rest % (1 << 24)), None, last))


def _end_of(message: Message) -> int | None:
    return None if message.expected_packets is None else message.position + message.expected_packets - 1


def _joined(one: Message, two: Message, side: Side) -> Message:
    """What the later side says of a message, added to what the earlier one says. Packets are counted later."""
    known = one.icrc_sum is not None and two.icrc_sum is not None
    return replace(
        one,
        bytes=two.bytes if one.bytes is None else one.bytes,
        expected_packets=two.expected_packets if one.expected_packets is None else one.expected_packets,
        immediate=one.immediate if two.immediate is None else two.immediate,
        ll_flag=two.ll_flag if one.ll_flag is None else one.ll_flag,
        icrc_sum=(one.icrc_sum or 0) + (two.icrc_sum or 0) if known else None,
        packets=one.packets + two.packets,
        first_time=min(one.first_time, two.first_time),
        last_time=max(one.last_time, two.last_time),
    )


def _settled(pieces: list[_Piece], at: int, one: Side, seen: Ranges) -> Message:
    """The message of a piece, its packets counted; what only repeats packets changes nothing else."""
    piece = pieces[at]
    last = piece.last if piece.end is None else piece.end
    if at + 1 < len(pieces):
        last = min(last, pieces[at + 1].message.position - 1)
    packets = covered(seen, piece.message.position, last)
    if packets == piece.message.packets:
        return piece.message
    return replace(piece.message, packets=packets, icrc_sum=None)


def _to_come(piece: _Piece, two: Side, seen: Ranges) -> int:
    if piece.end is None:
        return int(two.open_end)
    return max(0, piece.end - seen[-1][1])
