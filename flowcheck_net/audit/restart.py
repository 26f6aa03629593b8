"""A connection that begins anew on the same queue pair: the positions jump, and no iteration was lost between.

Only time tells a jump from lost iterations: those that fit between two positions must fit between their times.
"""

from collections.abc import Sequence
from itertools import pairwise

from flowcheck_net.audit.pattern import Pattern, Track

_SLACK = 2.0
"""Iterations may be this many times faster than the fastest one seen."""


class Clock:
    """When the iterations of a flow were, and how fast one can follow the other."""

    def __init__(self, track: Track, pattern: Pattern, bases: Sequence[int]) -> None:
        """``bases``: positions of all iterations that messages confirm."""
        self._times = {base: _times(track, pattern, base) for base in bases}
        steps = [self._times[two][0] - self._times[one][0] for one, two in pairwise(bases) if two - one == pattern.span]
        ahead = [step for step in steps if step > 0]
        self._pace = min(ahead) if ahead else max((last - first for first, last in self._times.values()), default=0)

    def restarted(self, base: int, following: int, lost: int) -> bool:
        """Did a new connection begin between two iterations, between which ``lost`` would fit by their positions?"""
        elapsed = self._times[following][0] - self._times[base][1]
        return elapsed < 0 or (lost > 0 and lost * self._pace > _SLACK * elapsed + self._pace)

    def first_time(self, base: int) -> int:
        """Nanoseconds since the epoch."""
        return self._times[base][0]


def _times(track: Track, pattern: Pattern, base: int) -> tuple[int, int]:
    inside = track.between(base, base + pattern.span)
    return min(m.first_time for m in inside), max(m.last_time for m in inside)


def runs(track: Track, pattern: Pattern, bases: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The iterations of each connection on the queue pair, the connections in order of time."""
    if not bases:
        return ()
    clock = Clock(track, pattern, bases)
    found: list[list[int]] = [[bases[0]]]
    for base, following in pairwise(bases):
        lost = (following - base) // pattern.span - 1
        if clock.restarted(base, following, lost):
            found.append([])
        found[-1].append(following)
    return tuple(tuple(run) for run in sorted(found, key=lambda run: clock.first_time(run[0])))
