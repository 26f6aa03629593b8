"""Where the iterations lie on one queue pair: positions decide, message lengths find the first one.

Once the base position of an iteration is known, every expected packet has a position, whatever was lost. A base is
found where the lengths of observed messages agree with the pattern and none contradicts. After an iteration the next
one is looked for right behind it, then at whole spans behind it (lost messages, lost iterations), then anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flowcheck_net.audit.again import came_again
from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.audit.ranges import Ranges, clip, holes, merge
from flowcheck_net.audit.restart import Clock, runs
from flowcheck_net.audit.scan import scan
from flowcheck_net.audit.settle import settle
from flowcheck_net.audit.tempo import out_of_time
from flowcheck_net.audit.window_place import doubt_of, from_start
from flowcheck_net.model.expect import HopWindow
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
    span: int = 0
    """Packets that it takes; 0 where the place is not known."""
    qp: int = 0
    """Which part of the iteration (``WireMessage.qp``)."""
    guess: bool = False
    """Not between two confirmed ones, and confirmed by no message but empty ones and such as a broadcast has: what was
    seen there proves nothing."""


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


def place(
    track: Track,
    pattern: Pattern,
    broadcasts: frozenset[int],
    window: HopWindow | None = None,
    period: float = 0.0,
) -> Placement:
    """Find every iteration of ``pattern`` on a flow.

    Args:
        track: The flow.
        pattern: One iteration.
        broadcasts: Sizes of declared messages that may stand between iterations.
        window: Which of its messages the switch mirrors; None: all.
        period: Nanoseconds from one iteration to the next by the job, where the flow does not show it; 0: not known.
    """
    bases, others, ambiguous = _find(track, pattern, broadcasts, window)
    clock = Clock(track, pattern, bases, period)
    twice = came_again(track, pattern, bases)
    torn = out_of_time(track, pattern, bases, period, any(m.bytes not in broadcasts for m in others))
    filled, doubt = _with_inferred(track, pattern, bases, others, -1 if window is None else window.start, clock)
    firm = [base for base in bases if window is not None or not _weak(track, pattern, base, broadcasts)]
    confirmed = range(min(firm), max(firm) + 1) if firm else range(0)
    windows = tuple(
        Window(None, 0, 0, None, None)
        if base is None
        else replace(window_at(track, pattern, base), guess=base not in confirmed)
        for base in filled
    )
    taken = [(b, b + pattern.span - 1) for b in filled if b is not None]
    taken += [(m.position, message_end(m) - 1) for m in others]
    return Placement(windows, tuple(others), _outside(track, merge(taken)), ambiguous or doubt or torn or twice)


def _find(
    track: Track, pattern: Pattern, broadcasts: frozenset[int], window: HopWindow | None
) -> tuple[list[int], list[Message], str]:
    """Bases in order, the messages outside of their iterations, and why the bases may be others."""
    if window is not None and (known := from_start(track, pattern, window)) is not None:
        return *known, ""
    bases, others = scan(track, pattern, broadcasts)
    if window is not None:
        strange = [m for m in others if m.bytes not in broadcasts]
        return bases, others, doubt_of(track, pattern, bases, strange)
    ambiguous = ""
    if pattern.self_similar:
        bases, ambiguous = settle(track, pattern, bases, others, broadcasts)
    return bases, others, ambiguous


def _with_inferred(
    track: Track, pattern: Pattern, bases: Sequence[int], others: Sequence[Message], start: int, clock: Clock
) -> tuple[tuple[int | None, ...], str]:
    """Add the iterations of which no message length was seen: between, before and behind the confirmed ones.

    The connections on the queue pair come in order of time. ``start``: no iteration is before it. The text says why
    they may be other ones.
    """
    between = merge([(m.position, message_end(m) - 1) for m in others])
    out: list[int | None] = []
    connections = runs(track, pattern, bases, between, clock)
    for run in connections.found:
        before = run[0] - pattern.span
        earlier = run[0] == bases[0] and track.first < run[0] and run[0] != start
        if earlier and not clip(between, before, run[0] - 1) and track.first != 0:
            out.extend((before,) if track.allows(pattern, before) else ())
        for base, following in pairwise(run):
            out.append(base)
            lost = _lost(base + pattern.span, following, pattern.span, between)
            out.extend(b if b is not None and track.allows(pattern, b) else None for b in lost)
        out.append(run[-1])
        end = run[-1] + pattern.span
        if run[-1] == bases[-1] and track.last >= end and not clip(between, end, track.last):
            out.extend(_behind(track, pattern, run[-1], clock))
    return tuple(out), connections.doubt


def _behind(track: Track, pattern: Pattern, base: int, clock: Clock) -> Iterator[int]:
    """Iterations without any length behind the last one, as far as its packets go and the time allows."""
    end = base + pattern.span
    beyond = [m for m in track.headless if m.position >= end]
    timely = (clock.reaches(base, m.last_time, (m.position - end) // pattern.span) for m in beyond)
    reached = (m.position + m.packets for m, fits in zip(beyond, timely, strict=True) if fits)
    for following in range(end, max(reached, default=end), pattern.span):
        if not track.allows(pattern, following):
            return
        yield following


def _lost(end: int, following: int, span: int, between: Ranges) -> Iterator[int | None]:
    """Iterations without any length between two confirmed ones."""
    for first, last in holes(between, end, following - 1):
        count, rest = divmod(last - first + 1, span)
        for number in range(count):
            yield first + number * span if rest == 0 else None


def window_at(track: Track, pattern: Pattern, base: int) -> Window:
    """What was seen of a pattern that begins at position ``base``."""
    fit = track.fit(pattern, base)
    inside = track.between(base, base + pattern.span)
    first = min((m.first_time for m in inside), default=None)
    last = max((m.last_time for m in inside), default=None)
    return Window(base, fit.matches, fit.conflicts, first, last, pattern.span)


def _weak(track: Track, pattern: Pattern, base: int, broadcasts: frozenset[int]) -> bool:
    """May all that was seen of an incomplete iteration be declared broadcasts as well? Empty messages prove nothing."""
    end = base + pattern.span
    inside = track.between(base, end)
    torn = len(inside) < len(pattern.sizes) and any(pattern.sizes)
    headless = any(base <= m.position < end for m in track.headless)
    return torn and bool(broadcasts) and not headless and all(not m.bytes or m.bytes in broadcasts for m in inside)


def _outside(track: Track, taken: Ranges) -> Ranges:
    """Seen packets that nothing explains."""
    return merge(part for first, last in track.flow.seen for part in holes(taken, first, last))
