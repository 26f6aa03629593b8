"""A connection that begins anew on the same queue pair: the positions jump, and no iteration was lost between.

Only time tells a jump from lost iterations: those that fit between two positions must fit between their times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from flowcheck_net.audit.pattern import Pattern, Track
from flowcheck_net.audit.ranges import Ranges, clip, holes

_SLACK = 2.0
"""Iterations may be this many times faster than the fastest one seen."""
_NEXT = 1.5
"""Periods from the start of an iteration, within which the next one starts."""
_TOLD = (
    "a jump of its positions holds {} iterations, which by the iteration time of the job do not fit into the time: "
    "perhaps a connection began anew, but no two neighbours were seen that show how fast iterations follow each other"
)
_BETWEEN = (
    "a connection began anew on it, and packets between its iterations and those of the one before belong to none "
    "that is known, so that the numbers of the later ones are not certain"
)


@dataclass(frozen=True, slots=True)
class Runs:
    """The iterations of each connection on a queue pair."""

    found: tuple[tuple[int, ...], ...]
    """Positions of the iterations, the connections in order of time."""
    doubt: str
    """Why they may be other connections; empty: certain."""


class Clock:
    """When the iterations of a flow were, and how fast one can follow the other."""

    def __init__(self, track: Track, pattern: Pattern, bases: Sequence[int], period: float) -> None:
        """Measure the pace.

        Args:
            track: The flow.
            pattern: One iteration, or as many as it takes queue pairs to take turns.
            bases: Positions of all iterations that messages confirm.
            period: Nanoseconds of an iteration by the job; 0: not known.
        """
        self._times = {base: _times(track, pattern, base) for base in bases}
        steps = [self._times[two][0] - self._times[one][0] for one, two in pairwise(bases) if two - one == pattern.span]
        self.measured = min((step for step in steps if step > 0), default=0)
        """Nanoseconds from one iteration to the next; 0: no two neighbours were seen."""
        self._longest = max((last - first for first, last in self._times.values()), default=0)
        self._told = period * len(pattern.borders)

    def restarted(self, base: int, following: int, lost: int) -> bool:
        """Did a new connection begin between two iterations, between which ``lost`` would fit by their positions?"""
        elapsed = self._times[following][0] - self._times[base][1]
        return elapsed < 0 or not self._fits(lost, elapsed, self._pace)

    def only_told(self, base: int, following: int, lost: int) -> bool:
        """Does nothing but the iteration time of the job say so?"""
        elapsed = self._times[following][0] - self._times[base][1]
        return not self.measured and elapsed >= 0 and self._fits(lost, elapsed, self._longest)

    def reaches(self, base: int, time: int, lost: int) -> bool:
        """May a packet seen at ``time`` be ``lost`` iterations behind the one after ``base``?"""
        return self._fits(lost, time - self._times[base][1], self._pace)

    def leaves_room(self, base: int, following: int) -> bool:
        """Is there time for another iteration between two?"""
        apart = abs(self._times[following][0] - self._times[base][0])
        return not self.measured or apart > _NEXT * self.measured

    def first_time(self, base: int) -> int:
        """Nanoseconds since the epoch."""
        return self._times[base][0]

    @property
    def _pace(self) -> float:
        return self.measured or max(self._told, self._longest)

    @staticmethod
    def _fits(lost: int, elapsed: int, pace: float) -> bool:
        return lost <= 0 or lost * pace <= _SLACK * elapsed + pace


def _times(track: Track, pattern: Pattern, base: int) -> tuple[int, int]:
    inside = track.between(base, base + pattern.span)
    return min(m.first_time for m in inside), max(m.last_time for m in inside)


def runs(track: Track, pattern: Pattern, bases: Sequence[int], between: Ranges, clock: Clock) -> Runs:
    """Tell the connections on a queue pair apart.

    Args:
        track: The flow.
        pattern: One iteration.
        bases: Positions of all iterations that messages confirm.
        between: Positions of messages outside of iterations.
        clock: Made of the same.
    """
    found: list[list[int]] = [[base] for base in bases[:1]]
    doubts = []
    for base, following in pairwise(bases):
        lost = (following - base) // pattern.span - 1
        if clock.restarted(base, following, lost):
            found.append([])
            if clock.only_told(base, following, lost):
                doubts.append(_TOLD.format(lost))
            strange = _strange(track, base + pattern.span, following - 1, between)
            if strange and clock.leaves_room(base, following):
                doubts.append(_BETWEEN)
        found[-1].append(following)
    in_time = sorted(found, key=lambda run: clock.first_time(run[0]))
    return Runs(tuple(tuple(run) for run in in_time), next(iter(doubts), ""))


def _strange(track: Track, first: int, last: int, between: Ranges) -> bool:
    """Were packets seen in a range of positions that are of no known message?"""
    seen = clip(track.flow.seen, first, last)
    return any(holes(between, low, high) for low, high in seen)
