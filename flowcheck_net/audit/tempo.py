"""Do the iterations of a flow that is not as expected keep the time of iterations?

Where positions jump, or messages belong to no iteration, lengths may put one iteration in two places, or two in one.
Training computes between iterations: two that lie much closer than others are one, and a pause as long inside of one
is the border between two.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from flowcheck_net.audit.pattern import Pattern, Track

_PART = 0.5
"""Of an iteration: what is shorter is no step from one to the next, what is longer no pause inside."""
_WORDS = (
    "its positions jump or go back, and by their times {}, as after a connection that began anew amidst an iteration: "
    "which packets belong to which iteration is not certain"
)


def out_of_time(track: Track, pattern: Pattern, bases: Sequence[int], period: float, strange: bool) -> str:
    """Why the iterations of a flow may be other ones; empty where it is regular or nothing speaks against them.

    Args:
        track: The flow.
        pattern: One iteration, or as many as it takes queue pairs to take turns.
        bases: Positions of all iterations that messages confirm.
        period: Nanoseconds of an iteration by the job; 0: not known.
        strange: Does the flow show messages that belong to no iteration, and are no broadcasts?
    """
    if not strange and all(two - one == pattern.span for one, two in pairwise(bases)):
        return ""
    parts = [times for base in bases for times in _parts(track, pattern, base) if times]
    starts = sorted(times[0] for times in parts)
    steps = [two - one for one, two in pairwise(starts)]
    typical = median(steps) if len(steps) > 1 else 0
    least = _PART * min((pace for pace in (typical, period) if pace > 0), default=0)
    if any(step < least for step in steps):
        return _WORDS.format("one iteration lies in two places")
    if least and any(two - one > least for times in parts for one, two in pairwise(times)):
        return _WORDS.format("two iterations lie in one place")
    return ""


def _parts(track: Track, pattern: Pattern, base: int) -> list[list[int]]:
    """Of each iteration at ``base``, the times of its messages in order."""
    ends = [*pattern.borders[1:], pattern.span]
    return [
        sorted(time for m in track.between(base + first, base + end) for time in (m.first_time, m.last_time))
        for first, end in zip(pattern.borders, ends, strict=True)
    ]
