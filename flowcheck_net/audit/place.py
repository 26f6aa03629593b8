"""Where the iterations lie on one queue pair: positions decide, message lengths find the first one.

Once the base position of an iteration is known, every expected packet has a position, whatever was lost. A base is
found where the lengths of observed messages agree with the pattern and none contradicts. After an iteration the next
one is looked for right behind it, then at whole spans behind it (lost messages, lost iterations), then anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.audit.ranges import Ranges, clip, holes, merge
from flowcheck_net.audit.settle import settle
from flowcheck_net.receive.records import Message


@dataclass(frozen=True, slots=True)
class Window:
    """One iteration on one queue pair at one capture."""

    base: int | None
    """Position of its first packet; None: an iteration that must have been there, at an unknown place."""
    matches: int
    """Messages whose RETH confirms the place; 0: inferred from its neighbours."""
    conflicts: int
    """Messages whose start or length is not the expected one."""
    first_time: int | None
    """Nanoseconds since the epoch, of the messages seen; None: none seen."""
    last_time: int | None


@dataclass(frozen=True, slots=True)
class Placement:
    """All iterations of one flow."""

    windows: tuple[Window, ...]
    others: tuple[Message, ...]
    """Messages outside of every iteration."""
    unplaced: Ranges
    """Seen packets (ranges of positions) in no iteration and in no known message."""
    ambiguous: str
    """Why the places are not certain; empty: they are."""

    def whole(self, pattern: Pattern) -> bool:
        """Is there an iteration of which every message was recognised?"""
        return any(w.matches == len(pattern.sizes) for w in self.windows)


def place(track: Track, pattern: Pattern, broadcasts: frozenset[int]) -> Placement:
    """Find every iteration of ``pattern`` on a flow.

    Args:
        track: The flow.
        pattern: One iteration.
        broadcasts: Sizes of declared messages that may stand between iterations.
    """
    bases, others = _scan(track, pattern, broadcasts)
    ambiguous = ""
    if pattern.self_similar:
        bases, ambiguous = settle(track, pattern, bases, others)
    filled = _with_inferred(track, pattern, bases, others)
    windows = tuple(_window(track, pattern, base) for base in filled)
    taken = [(b, b + pattern.span - 1) for b in filled if b is not None]
    taken += [(m.position, message_end(m) - 1) for m in others]
    return Placement(windows, tuple(others), _outside(track, merge(taken)), ambiguous)


def _scan(track: Track, pattern: Pattern, broadcasts: frozenset[int]) -> tuple[list[int], list[Message]]:
    """Bases that observed messages confirm, in order, and the messages outside."""
    bases: list[int] = []
    others: list[Message] = []
    end = 0 if track.first == 0 else None
    index = 0
    rare: list[Message] = []
    while index < len(track.known):
        message = track.known[index]
        base = _ahead(track, pattern, message, bases, end)
        if base is None and pattern.indices_of(message):
            base = _search(track, pattern, message, end, broadcasts, rare)
        if base is None:
            others.append(message)
            end = message_end(message)
            index += 1
        else:
            bases.append(base)
            end = base + pattern.span
            index = track.next_index(end)
    return bases, others


def _ahead(track: Track, pattern: Pattern, message: Message, bases: Sequence[int], end: int | None) -> int | None:
    """The base right behind what came before, or whole spans behind the last iteration, where one of them fits."""
    ahead = [end] if end is not None and end <= message.position < end + pattern.span else []
    if bases:
        ahead.append(bases[-1] + (message.position - bases[-1]) // pattern.span * pattern.span)
    for base in ahead:
        if track.fits_cleanly(pattern, base) or track.fit(pattern, base).in_step:
            return base
    return None


def _search(
    track: Track, pattern: Pattern, message: Message, end: int | None, broadcasts: frozenset[int], rare: list[Message]
) -> int | None:
    """The cleanest base at any offset of the pattern: most messages explained, then nearest to the message.

    The rarest size among the next messages anchors the search, so that long runs of equal chunks stay cheap. ``rare``
    keeps it from one search to the next.
    """
    best: tuple[int, int] | None = None
    for base in _bases_around(pattern, message, _anchor(track, pattern, message, rare)):
        allowed = (end is None or base >= end) and message.position - base in pattern.starts
        matches = track.fits_cleanly(pattern, base) if allowed else 0
        if matches and not _may_be_broadcast(pattern, message, matches, broadcasts):
            best = max(best or (0, base), (matches, base))
    return best[1] if best else None


def _anchor(track: Track, pattern: Pattern, message: Message, rare: list[Message]) -> Message:
    """A message from this one on, less than an iteration away, whose size has few places in the pattern."""
    if not rare or not message.position <= rare[0].position < message.position + pattern.span:
        near = [m for m in track.between(message.position, message.position + pattern.span) if pattern.indices_of(m)]
        rare[:] = [min(near, key=lambda m: (len(pattern.indices_of(m)), m.position))]
    return rare[0]


def _bases_around(pattern: Pattern, message: Message, anchor: Message) -> Sequence[int]:
    """Bases that put ``message`` inside the iteration and ``anchor`` at a place of its size."""
    found = set()
    for index in pattern.indices_of(anchor):
        base = anchor.position - pattern.offsets[index]
        found.add(base + (message.position - base) // pattern.step * pattern.step)
    return sorted(found, reverse=True)


def _may_be_broadcast(pattern: Pattern, message: Message, matches: int, broadcasts: frozenset[int]) -> bool:
    """Does the iteration rest on one message that may as well be a declared broadcast?"""
    return matches == 1 and len(pattern.sizes) > 1 and message.bytes in broadcasts


def _with_inferred(
    track: Track, pattern: Pattern, bases: Sequence[int], others: Sequence[Message]
) -> tuple[int | None, ...]:
    """Add the iterations of which no message length was seen: between, before and behind the confirmed ones."""
    if not bases:
        return ()
    between = merge([(m.position, message_end(m) - 1) for m in others])
    out: list[int | None] = []
    before = bases[0] - pattern.span
    if track.first < bases[0] and not clip(between, before, bases[0] - 1) and track.first != 0:
        out.append(before)
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        out.append(base)
        end = base + pattern.span
        if following is not None:
            out.extend(_lost(end, following, pattern.span, between))
        elif track.last >= end and not clip(between, end, track.last):
            out.extend(range(end, track.last + 1, pattern.span))
    return tuple(out)


def _lost(end: int, following: int, span: int, between: Ranges) -> Iterator[int | None]:
    """Iterations without any length between two confirmed ones."""
    for first, last in holes(between, end, following - 1):
        count, rest = divmod(last - first + 1, span)
        for number in range(count):
            yield first + number * span if rest == 0 else None


def _window(track: Track, pattern: Pattern, base: int | None) -> Window:
    if base is None:
        return Window(None, 0, 0, None, None)
    fit = track.fit(pattern, base)
    inside = track.between(base, base + pattern.span)
    first = min((m.first_time for m in inside), default=None)
    last = max((m.last_time for m in inside), default=None)
    return Window(base, fit.matches, fit.conflicts, first, last)


def _outside(track: Track, taken: Ranges) -> Ranges:
    """Seen packets that nothing explains."""
    return merge(part for first, last in track.flow.seen for part in holes(taken, first, last))
