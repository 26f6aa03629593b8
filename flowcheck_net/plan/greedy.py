"""Problem -> a valid choice without a solver: an upper bound for tests, never a silent fallback.

It takes the tap that gives the most rings a hop they still need for the fewest bytes, again and again. It may miss a
choice that exists; what it finds is valid.
"""

from flowcheck_net.plan.problem import Choice, PlanningProblem


def greedy(problem: PlanningProblem) -> Choice | None:
    """A valid choice, or ``None`` when this way finds none. Knows bandwidth, sessions and sources only.

    Raises:
        ValueError: The problem has other limits, such as ``copies_apart``.
    """
    if problem.copies_apart or problem.survive or problem.cuts or problem.budgets or _has_fine_limits(problem):
        raise ValueError("greedy does not know copies_apart and the limits of linear_limits")
    state = _State(problem)
    while state.wanting():
        moves = [move for move in state.moves() if state.gain(*move) > 0]
        if not moves:
            return None
        state.take(*min(moves, key=lambda m: (-state.gain(*m), state.size(m[0]), m)))
    return Choice(tuple(sorted(state.chosen.items())), tuple(sorted(state.counted.items())))


def _has_fine_limits(problem: PlanningProblem) -> bool:
    return any(s.rooms or s.many or s.once or not s.split or s.filter_entries is not None for s in problem.switches)


class _State:
    """What is chosen so far, and what is left of the limits."""

    def __init__(self, problem: PlanningProblem) -> None:
        self._problem = problem
        self.chosen: dict[int, int] = {}
        """Tap -> capture."""
        self.counted: dict[int, int] = {}
        """Hop -> tap."""
        self._missing = [ring.hops for ring in problem.rings]
        self._hops: dict[int, list[int]] = {}
        for number, hop in enumerate(problem.hops):
            for tap in hop.taps:
                self._hops.setdefault(tap, []).append(number)
        self._limits = {limits.name: limits for limits in problem.switches}

    def wanting(self) -> bool:
        """Does a ring still need a hop?"""
        return any(missing > 0 for missing in self._missing)

    def moves(self) -> list[tuple[int, int]]:
        """Every (tap, capture) that the limits still permit."""
        return [
            (t, c)
            for t, tap in enumerate(self._problem.taps)
            if t not in self.chosen and not tap.refusals
            for c, capture in enumerate(self._problem.captures)
            if capture.switch == tap.switch and self._fits(t, c)
        ]

    def _fits(self, tap: int, capture: int) -> bool:
        taps, captures = self._problem.taps, self._problem.captures
        here = [t for t, c in self.chosen.items() if c == capture]
        switch = captures[capture].switch
        used = {c for c in self.chosen.values() if captures[c].switch == switch} | {capture}
        load = sum(taps[t].rate for t in here) + taps[tap].rate
        limits = self._limits[switch]
        return (
            load <= captures[capture].capacity and len(here) < limits.max_sources and len(used) <= limits.max_sessions
        )

    def gain(self, tap: int, capture: int) -> int:
        """Hops that it adds to rings which still need one."""
        left = list(self._missing)
        gained = 0
        for number in self._hops.get(tap, ()):
            ring = self._problem.hops[number].ring
            able = self._problem.hops[number].counts and capture in self._problem.rings[ring].captures
            fresh = able and number not in self.counted
            if fresh and left[ring] > 0:
                left[ring] -= 1
                gained += 1
        return gained

    def size(self, tap: int) -> int:
        """Bytes a step that it mirrors."""
        return sum(self._problem.hops[number].size for number in self._hops.get(tap, ()))

    def take(self, tap: int, capture: int) -> None:
        """Choose it."""
        self.chosen[tap] = capture
        for number in self._hops.get(tap, ()):
            ring = self._problem.hops[number].ring
            able = self._problem.hops[number].counts and capture in self._problem.rings[ring].captures
            if able and number not in self.counted:
                self.counted[number] = tap
                self._missing[ring] -= 1
