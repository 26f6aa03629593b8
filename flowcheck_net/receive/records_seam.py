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
    """Its last position by its length; None: unknown."""
    last: int
    """Its highest packet seen."""
    closed: bool
    """Its last packet was seen, or the length tells which it is: what comes behind is another's."""

    @property
    def start(self) -> int:
        """Its first position."""
        return self.message.position

    @property
    def headed(self) -> bool:
        """Does it begin with its First or Only?"""
        return _headed(self.message)

    def holds(self, position: int) -> bool:
        """Would a packet that begins no message be its own there?"""
        if self.end is not None:
            return position <= self.end
        return position <= self.last or not self.closed


def sew(one: Side, two: Side, seen: Ranges) -> Seam:
    """Join the messages of the earlier and the later side; ``seen`` is what either saw."""
    own = _open_pieces(one, two.seen[0][0])
    kept = one.count - len(own)
    highest = one.seen[-1][1]
    bound = max((highest, *(piece.end for piece in own if piece.end is not None)))
    goes_on = next_in(two.seen, highest + 1) if own and not own[-1].closed else None
    near = [piece.message for piece in own]
    both = intersection(one.seen, two.seen)
    others: list[_Piece] = []
    used = 0
    while used < two.count:
        message = two.message(used)
        if message.position > bound and (message.position != goes_on or _headed(message)):
            break
        near.append(message)
        if covered(both, message.position, two.last_of(message)) < message.packets:
            others.append(_piece(two, used))
        used += 1
    pieces = _disjoint([*own, *others], seen)
    joined = [_settled(pieces, at, seen) for at in range(len(pieces))]
    rows = one.messages[: kept * ROW.size] + rows_of(joined) + two.messages[used * ROW.size :]
    last_here = pieces and used == two.count and pieces[-1].last == seen[-1][1]
    return Seam(rows, _to_come(pieces[-1], seen) if last_here else None, tuple(near))


def _piece(side: Side, number: int) -> _Piece:
    """A message of a side.

    Where its length is unknown it goes on unless its end was seen: that it has an immediate, or that what follows it at
    once or without a head would have been its own.
    """
    message = side.message(number)
    last = side.last_of(message)
    if message.expected_packets is not None:
        return _Piece(message, max(last, message.position + message.expected_packets - 1), last, closed=True)
    if number + 1 < side.count:
        following = side.message(number + 1)
        closed = message.immediate is not None or not _headed(following) or following.position == last + 1
    else:
        closed = not (side.open_end and last == side.seen[-1][1])
    return _Piece(message, None, last, closed)


def _open_pieces(one: Side, low: int) -> list[_Piece]:
    """Messages of the earlier side that packets of the later one may belong to, by position."""
    found: list[_Piece] = []
    behind: int | None = None
    for number in range(one.count - 1, -1, -1):
        piece = _piece(one, number)
        if (not piece.holds(low) and piece.last < low) or (behind is not None and behind <= low):
            break
        found.append(piece)
        behind = piece.start
    return found[::-1]


def _headed(message: Message) -> bool:
    return message.opcode & _PART in _HEADS


def _disjoint(pieces: Sequence[_Piece], seen: Ranges) -> list[_Piece]:
    """What packets in the order of their numbers would have made of the pieces of both sides."""
    left = sorted(pieces, key=lambda piece: (piece.start, not piece.headed))
    found: list[_Piece] = []
    while left:
        piece = left.pop(0)
        before = found[-1] if found else None
        if before is None or not before.holds(piece.start):
            found.append(piece)
            continue
        head = piece.headed and piece.start > before.start
        rest = _cut(before, piece.start if head else _shared_end(before, piece), seen)
        if head:
            before.last = min(before.last, piece.start - 1)
            found.append(piece)
        else:
            more = _cut(piece, _shared_end(before, piece), seen)
            _absorb(before, piece)
            left += [more] if more else []
        left += [rest] if rest else []
        left.sort(key=lambda piece: (piece.start, not piece.headed))
    return found


def _shared_end(before: _Piece, piece: _Piece) -> int:
    """Where a message ends of which two pieces are known, the second without a head."""
    ends = [p.last for p in (before, piece) if p.end is None and p.closed]
    if before.end is not None:
        return before.end
    return min(ends, default=max(before.last, piece.last))


def _cut(piece: _Piece, position: int, seen: Ranges) -> _Piece | None:
    """Leave the piece what it has up to ``position``; the rest, a piece without head. None: it has nothing above."""
    if piece.last <= position:
        return None
    start = next_in(seen, position + 1) or piece.last
    opcode = piece.message.opcode & ~_PART | _MIDDLE
    rest = replace(piece.message, position=start, first_psn=start % (1 << 24), opcode=opcode, packets=0)
    rest = replace(rest, bytes=None, expected_packets=None, ll_flag=None, icrc_sum=None)
    cut = _Piece(rest, None, piece.last, piece.closed and piece.end is None)
    piece.message = replace(piece.message, icrc_sum=None, immediate=None)
    piece.last = position
    return cut


def _absorb(piece: _Piece, other: _Piece) -> None:
    """Add a piece of the same message."""
    piece.message = _joined(piece.message, other.message)
    if piece.end is None:
        piece.end = other.end
        piece.closed |= other.closed
    piece.last = max(piece.last, other.last)


def _joined(one: Message, two: Message) -> Message:
    """What one piece says of a message, added to what another one says. Packets are counted later."""
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


def _settled(pieces: list[_Piece], at: int, seen: Ranges) -> Message:
    """The message of a piece, its packets counted; what only repeats packets changes nothing else."""
    piece = pieces[at]
    last = piece.last if piece.end is None else piece.end
    if at + 1 < len(pieces):
        last = min(last, pieces[at + 1].start - 1)
    packets = covered(seen, piece.start, last)
    if packets == piece.message.packets:
        return piece.message
    return replace(piece.message, packets=packets, icrc_sum=None)


def _to_come(piece: _Piece, seen: Ranges) -> int:
    if piece.end is None:
        return 0 if piece.closed else 1
    return max(0, piece.end - seen[-1][1])
