"""From records alone to the message pattern of each connection: what repeats, in which form, how often.

Nothing is known beforehand. Pieces of a message are put together, the shortest repetition is looked for, and where
sizes repeat inside an iteration the pauses between iterations tell how long it is. Loss breaks a repetition only where
it happened, so that it is found as long as most of it is there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import median

from flowcheck_net.ids import Address, Qpn
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.records import Flow, Message, Records

_ENOUGH = 0.6
"""Part of the messages that must come again after one period."""
_LONGEST = 4096
"""Messages of an iteration that are looked for at most."""
_DOMINATES = 2.0


class Order(StrEnum):
    """How the immediate states the length of a message."""

    LITTLE = "little-endian"
    """NCCL up to 2.28."""
    BIG = "big-endian"
    """NCCL from 2.29 on."""
    NONE = "not the length"


@dataclass(frozen=True, slots=True)
class Whole:
    """A message of NCCL, put together from what one queue pair carries of it."""

    size: int
    """Wire bytes over all queue pairs, as the immediate says, or those on this one."""
    own: int
    """Wire bytes on this queue pair."""
    writes: int
    """RDMA writes that carry them, the closing one not counted."""
    closed: bool
    """A 0-byte write with the immediate closes it."""
    first_time: int
    last_time: int
    ll_flag: int | None


@dataclass(frozen=True, slots=True)
class Connection:
    """One queue pair, or several that take turns on whole messages, and what it carries."""

    source: Address
    destination: Address
    qpns: tuple[Qpn, ...]
    mtu: int | None
    order: Order
    split: bool
    """Every message is cut over all queue pairs."""
    wholes: tuple[Whole, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all messages in order."""
        return tuple(whole.size for whole in self.wholes)


@dataclass(frozen=True, slots=True)
class Repeat:
    """What repeats on a connection."""

    start: int
    """Index of the first message of the first whole iteration."""
    sizes: tuple[int, ...]
    """Of the messages of an iteration."""
    iterations: int
    """How many were seen."""
    by_pauses: bool
    """The length rests on pauses: the sizes alone repeat sooner."""


def connections(records: Records) -> tuple[Connection, ...]:
    """One for each data flow, at the capture that shows most of it."""
    best: dict[tuple[Address, Address, Qpn], Flow] = {}
    for flow in records.flows:
        key = (flow.source, flow.destination, flow.dest_qp)
        if flow.packets.get("write", 0) and (key not in best or flow.bytes > best[key].bytes):
            best[key] = flow
    found = [_connection(flow) for _, flow in sorted(best.items())]
    return tuple(_cut_over_queue_pairs([each for each in found if each.wholes]))


def _connection(flow: Flow) -> Connection:
    messages = [m for m in flow.messages if m.bytes is not None]
    order = _order(messages)
    wholes = tuple(_wholes(messages, order))
    return Connection(flow.source, flow.destination, (flow.dest_qp,), flow.mtu, order, split=False, wholes=wholes)


def _length(message: Message, order: Order) -> int | None:
    if message.immediate is None or order is Order.NONE:
        return None
    return message.immediate if order is Order.LITTLE else _swapped(message.immediate)


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")


def _order(messages: Sequence[Message]) -> Order:
    """The order in which an immediate is a length most often: of this message, or a little more than this piece."""
    counts: Counter[Order] = Counter()
    told = 0
    for message in messages:
        if message.immediate is not None and message.bytes:
            told += 1
            for order, value in ((Order.LITTLE, message.immediate), (Order.BIG, _swapped(message.immediate))):
                counts[order] += message.bytes <= value < 256 * (message.bytes + 128)
    best = max(Order.LITTLE, Order.BIG, key=lambda order: counts[order])
    return best if 2 * counts[best] > told or not told else Order.NONE


def _wholes(messages: Sequence[Message], order: Order) -> Iterator[Whole]:
    """Writes without immediate, up to the 0-byte write that has it, are one message."""
    open_: list[Message] = []
    for message in messages:
        length = _length(message, order)
        if message.immediate is None:
            open_.append(message)
            continue
        closed = bool(open_) and not message.bytes
        if open_ and not closed:
            yield from (_whole([each], None, closed=False) for each in open_)
        yield _whole([*open_, message] if closed else [message], length, closed=closed)
        open_ = []
    yield from (_whole([each], None, closed=False) for each in open_)


def _whole(parts: Sequence[Message], length: int | None, *, closed: bool) -> Whole:
    own = sum(part.bytes or 0 for part in parts)
    return Whole(
        size=own if length is None else max(length, own),
        own=own,
        writes=len(parts) - closed,
        closed=closed,
        first_time=parts[0].first_time,
        last_time=max(part.last_time for part in parts),
        ll_flag=parts[0].ll_flag,
    )


def _cut_over_queue_pairs(found: Sequence[Connection]) -> Iterator[Connection]:
    """Join queue pairs whose pieces add up to the messages that their immediates tell."""
    pairs: dict[tuple[Address, Address], list[Connection]] = defaultdict(list)
    for each in found:
        pairs[each.source, each.destination].append(each)
    for many in pairs.values():
        waiting = list(many)
        while waiting:
            one = waiting.pop(0)
            others = [other for other in waiting if _same_message(one, other)] if _is_piece(one) else []
            count = next((n for n in range(1, len(others) + 1) if _adds_up([one, *others[:n]])), 0)
            for other in others[:count]:
                waiting.remove(other)
            yield replace(one, qpns=(*one.qpns, *(q for o in others[:count] for q in o.qpns)), split=count > 0)


def _is_piece(one: Connection) -> bool:
    return any(whole.size > whole.own for whole in one.wholes)


def _same_message(one: Connection, other: Connection) -> bool:
    same = sum(a.size == b.size for a, b in zip(one.wholes, other.wholes, strict=False))
    return 2 * same > max(len(one.wholes), len(other.wholes))


def _adds_up(group: Sequence[Connection]) -> bool:
    """Do the pieces of most messages make up the whole?"""
    rows = list(zip(*(each.wholes for each in group), strict=False))
    right = [sum(whole.own for whole in row) == row[0].size for row in rows]
    return 2 * right.count(True) > len(rows)


def in_turn(group: Sequence[Connection]) -> Connection:
    """Several queue pairs as one connection whose messages take turns on them: in the order of time."""
    wholes = sorted((w for each in group for w in each.wholes), key=lambda w: (w.first_time, w.last_time))
    qpns = tuple(qpn for each in group for qpn in each.qpns)
    return replace(group[0], qpns=qpns, wholes=tuple(wholes))


def repeat_of(connection: Connection) -> Repeat | None:
    """The iterations of a connection; None where nothing repeats."""
    sizes = connection.sizes
    shortest = _period(sizes)
    between = _between_pauses(connection, shortest)
    if between is not None or shortest is None:
        return between
    start = _phase(connection.wholes, sizes, shortest)
    columns = (Counter(sizes[start + n :: shortest]) for n in range(shortest))
    iterations = (len(sizes) - start) // shortest
    pattern = tuple(column.most_common(1)[0][0] for column in columns if column)
    return Repeat(start, pattern, iterations, by_pauses=False) if iterations else None


def _between_pauses(connection: Connection, shortest: int | None) -> Repeat | None:
    """The run of messages between two long pauses that is met most; those that lost a message are met less."""
    sizes, borders = connection.sizes, _borders(connection.wholes)
    ends = [0, *borders, len(sizes)]
    runs = Counter(sizes[a:b] for a, b in pairwise(ends))
    run, times = runs.most_common(1)[0]
    if times < 2 or len(run) < (shortest or 0) or (shortest is None and 3 * times < len(ends) - 1):
        return None
    start = next(a for a, b in pairwise(ends) if sizes[a:b] == run)
    while start >= len(run) and sizes[start - len(run) : start] == run:
        start -= len(run)  # the first one may follow other messages without a pause
    alike = sum(2 * (Counter(sizes[a:b]) & Counter(run)).total() > len(run) for a, b in pairwise(ends))
    return Repeat(start, run, alike, by_pauses=shortest is not None and shortest != len(run))


def _period(sizes: Sequence[int]) -> int | None:
    """The shortest distance at which most messages come again, as many as at any other."""
    scores: dict[int, float] = {}
    for length in range(1, min(len(sizes) // 2, _LONGEST) + 1):
        same = sum(a == b for a, b in zip(sizes, sizes[length:], strict=False))
        scores[length] = same / (len(sizes) - length)
    best = max(scores.values(), default=0.0)
    if best < _ENOUGH:
        return None
    return next(length for length, score in scores.items() if score >= best - (1 - best) / 2 - 0.02)


def _borders(wholes: Sequence[Whole]) -> list[int]:
    """Indices of messages behind the longest pauses: those that dominate all shorter ones by most."""
    pauses = [(two.first_time - one.last_time, n) for n, (one, two) in enumerate(pairwise(wholes), 1)]
    ranked = sorted(pauses, reverse=True)
    ratios = [(max(1, a[0]) / max(1, b[0]), n) for n, (a, b) in enumerate(pairwise(ranked), 1)]
    ratio, count = max(ratios, default=(0.0, 0))
    return sorted(n for _, n in ranked[:count]) if ratio >= _DOMINATES else []


def _phase(wholes: Sequence[Whole], sizes: Sequence[int], length: int) -> int:
    """Index of the first message of the first iteration: where pauses are longest, else where repeating begins."""
    pauses: dict[int, list[int]] = defaultdict(list)
    for n, (one, two) in enumerate(pairwise(wholes), 1):
        pauses[n % length].append(two.first_time - one.last_time)
    typical = sorted(((median(values), -place) for place, values in pauses.items()), reverse=True)
    begins = next((n for n in range(len(sizes) - length) if sizes[n] == sizes[n + length]), 0)
    clear = typical and (len(typical) == 1 or typical[0][0] >= _DOMINATES * max(1, typical[1][0]))
    if not clear:
        return begins
    place = -typical[0][1]
    return begins + (place - begins) % length


def protocols_of(channels: Sequence[Connection]) -> tuple[Protocol, ...]:
    """By the flags of LL lines; LL128 sends whole groups of lines, as Simple may by chance. The likelier one first."""
    full = [whole for channel in channels for whole in channel.wholes if whole.size]
    flagged = sum(whole.ll_flag is not None for whole in full)
    if full and 2 * flagged > len(full) and all(whole.size % 16 == 0 for whole in full):
        return (Protocol.LL,)
    if full and all(whole.size % 2048 == 0 for whole in full):
        return Protocol.LL128, Protocol.SIMPLE
    return (Protocol.SIMPLE,)
