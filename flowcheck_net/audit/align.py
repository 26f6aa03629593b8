"""One numbering of iterations for all flows: by their order, checked by time.

A flow counts its own iterations without holes (lost ones are in it as empty windows), so one shift a flow is enough.
The flow that shows the most iterations is the reference; every other one is shifted to where its times lie nearest.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from flowcheck_net.audit.place import Window


def shifts(flows: Sequence[Sequence[Window]], period: float = 0.0) -> tuple[int, ...]:
    """For each flow the number of its first window, such that the smallest is 0. Empty flows get 0.

    Args:
        flows: The iterations of each.
        period: Nanoseconds from one iteration to the next, for flows that show only one; 0: not known.
    """
    if not any(flows):
        return tuple(0 for _ in flows)
    reference = max(flows, key=_timed)
    found = [_shift(reference, flow, period) if flow else 0 for flow in flows]
    lowest = min(shift for shift, flow in zip(found, flows, strict=True) if flow)
    return tuple(shift - lowest if flow else 0 for shift, flow in zip(found, flows, strict=True))


def _timed(windows: Sequence[Window]) -> int:
    return sum(w.first_time is not None for w in windows)


def _shift(reference: Sequence[Window], flow: Sequence[Window], told: float) -> int:
    """Windows of ``reference`` before the first one of ``flow``; negative where ``flow`` began earlier."""
    if flow is reference or not _timed(flow) or not _timed(reference):
        return 0
    best = min(_candidates(reference, flow), key=lambda s: (*_distance(reference, flow, s), abs(s)))
    away = _distance(reference, flow, best)[0]
    gap = _signed_gap(reference, flow, best)
    period = _period(reference) or _period(flow) or told
    if not period:
        return best if away <= _length(reference) + _length(flow) else (1 if gap > 0 else -1)
    return best if away <= period / 2 else best + round(gap / period)


def _candidates(reference: Sequence[Window], flow: Sequence[Window]) -> set[int]:
    """Shifts that bring the first, middle or last timed window of ``flow`` near one of ``reference``."""
    starts = [(w.first_time, i) for i, w in enumerate(reference) if w.first_time is not None]
    timed = [(i, w.first_time) for i, w in enumerate(flow) if w.first_time is not None]
    result = set()
    for index, time in {timed[0], timed[len(timed) // 2], timed[-1]}:
        at = bisect_left(starts, (time, 0))
        for _, near in starts[max(0, at - 2) : at + 2]:
            result.add(near - index)
    return result


def _pairs(reference: Sequence[Window], flow: Sequence[Window], shift: int) -> Iterable[tuple[int, int, int, int]]:
    """Times (first, last of the reference; first, last of the flow) of windows that ``shift`` puts together."""
    for index, window in enumerate(flow):
        at = index + shift
        if 0 <= at < len(reference):
            other = reference[at]
            if other.first_time is not None and window.first_time is not None:
                yield other.first_time, other.last_time or other.first_time, window.first_time, window.last_time or 0


def _distance(reference: Sequence[Window], flow: Sequence[Window], shift: int) -> tuple[float, float]:
    """Mean nanoseconds between paired windows: first their gap (0 when they overlap), then that of their starts."""
    pairs = list(_pairs(reference, flow, shift))
    if not pairs:
        return float("inf"), float("inf")
    gaps = [max(0, first - other_last, other_first - last) for other_first, other_last, first, last in pairs]
    starts = [abs(first - other_first) for other_first, _, first, _ in pairs]
    return sum(gaps) / len(gaps), sum(starts) / len(starts)


def _signed_gap(reference: Sequence[Window], flow: Sequence[Window], shift: int) -> float:
    return median(first - other_first for other_first, _, first, _ in _pairs(reference, flow, shift))


def _period(windows: Sequence[Window]) -> float:
    """Median nanoseconds from one iteration to the next; 0 where fewer than two are seen."""
    timed = [(i, w.first_time) for i, w in enumerate(windows) if w.first_time is not None]
    steps = [(t2 - t1) / (i2 - i1) for (i1, t1), (i2, t2) in pairwise(timed)]
    return median(steps) if steps else 0.0


def _length(windows: Sequence[Window]) -> int:
    return max((w.last_time or 0) - w.first_time for w in windows if w.first_time is not None)


def out_of_step(flows: Sequence[Sequence[Window]], starts: Sequence[int], period: float = 0.0) -> tuple[bool, ...]:
    """For each flow, whether one shift does not do: it leaves out an iteration, or the reference does.

    An iteration that contradicts the pattern is in no window, so that those behind it would get the number of the one
    before. From there on both ends of the windows lie a period away from those of the reference, more or less than
    before. A window that is torn, or one that both capture late, moves only one end or all of them slowly. A window
    that only one captures late moves both, but the next ones come back, and on neither flow is there room for a
    missing iteration: window follows window without a packet between.
    Late ones at the very end may as well be another shift.

    Args:
        flows: The iterations of each.
        starts: Their shifts.
        period: As for ``shifts``.
    """
    reference, begin = max(zip(flows, starts, strict=True), key=lambda pair: _timed(pair[0]), default=((), 0))
    length = _period(reference) or period
    return tuple(
        bool(flow) and length > 0 and _leaps(reference, flow, start - begin, length)
        for flow, start in zip(flows, starts, strict=True)
    )


def _leaps(reference: Sequence[Window], flow: Sequence[Window], shift: int, period: float) -> bool:
    """Are windows a period later or earlier than those before, unless they are late for a moment only?"""
    steady: tuple[int, int, int] | None = None
    late = False
    for index, window in enumerate(flow):
        at = index + shift
        other = reference[at] if 0 <= at < len(reference) else None
        if other is None or other.first_time is None or window.first_time is None:
            continue
        first = window.first_time - other.first_time
        last = (window.last_time or 0) - (other.last_time or other.first_time)
        if steady is None:
            steady = index, first, last
            continue
        before, *was = steady
        moved = first - was[0], last - was[1]
        late = min(moved) > period / 2 or max(moved) < -period / 2
        if not late:
            steady = index, first, last
        elif not (_unbroken(flow, before, index) and _unbroken(reference, before + shift, at)):
            return True
    return late


def _unbroken(windows: Sequence[Window], first: int, last: int) -> bool:
    """Was each window seen, and does it begin at the very position where the one before ends?"""
    return all(
        one.base is not None and two.base == one.base + one.span and one.matches and two.matches
        for one, two in pairwise(windows[first : last + 1])
    )
