"""No plan exists: say which rings, which limit forbids them, and what would do.

Every cure is tried as a whole, by solving the problem again with all of it carried out. One that cannot be, or that
does not do, is a first step and is called one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Infeasible
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import components, formulate
from flowcheck_net.plan.problem import Limit, PlanningProblem, RingNeed
from flowcheck_net.plan.programme import Component
from flowcheck_net.plan.relax import LIFTABLE, lift, solvable, with_copies
from flowcheck_net.plan.shortage import Shortage, shortage

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why there is no plan."""

    rings: tuple[str, ...]
    """Those that cannot be covered together with the others: as few as possible."""
    limits: tuple[Limit, ...]
    """Lifting the first would do; where no single one would, all of these together."""
    message: str
    cures: tuple[str, ...]

    def error(self) -> Infeasible:
        """The error to raise."""
        return Infeasible(self.message, hint="; or ".join(self.cures))


def explain(problem: PlanningProblem) -> Explanation:
    """The explanation of a problem that has no solution."""
    bare = _bare_rings(problem)
    return bare if bare is not None else _limits(problem)


def _bare_rings(problem: PlanningProblem) -> Explanation | None:
    """Rings that no setting can help: too few hops leave a host, or too few cross a port that every path crosses."""
    hidden = [ring for ring in problem.rings if ring.network_hops < ring.hops]
    if hidden:
        ring = hidden[0]
        facts = f"{ring.name} has {ring.network_hops} between hosts and needs {ring.hops}"
        message = f"{_names(hidden)} cannot be seen: limit: {Limit.HOPS}: {facts}; no switch sees a hop inside a host"
        cure = f"spread the ranks of group {ring.group} over more hosts, or change its ring order"
        return Explanation(tuple(r.name for r in hidden), (Limit.HOPS,), message, (cure,))
    certain = [sum(bool(h.taps) for h in problem.hops if h.ring == n and h.counts) for n in range(len(problem.rings))]
    lost = [(ring, seen) for ring, seen in zip(problem.rings, certain, strict=True) if seen < ring.hops]
    if not lost:
        return None
    ring, seen = lost[0]
    facts = f"{ring.name} needs {ring.hops} hops, and {seen} of its {ring.network_hops} cross such a port"
    message = f"{_names([r for r, _ in lost])} cannot be seen for certain: limit: {Limit.PATH}: {facts}"
    cure = "describe every cable of these hosts in the topology, or pin the paths of their traffic"
    return Explanation(tuple(r.name for r, _ in lost), (Limit.PATH,), message, (cure, *_fewer_copies(problem)))


def _limits(problem: PlanningProblem) -> Explanation:
    """The limits that a setting or a part could lift."""
    alone = [[limit] for limit in LIFTABLE if solvable(lift(problem, limit))]
    cures = [_cure(problem, limits) for limits in alone or [_together(problem)]]
    rings = _unmet(problem)
    limits = tuple(cures[0].missing)
    details = "; ".join(item.detail for item in cures[0].missing.values())
    word = "limit" if len(limits) == 1 else "limits"
    message = f"{_names(rings)} cannot have {_copies(rings)}: {word}: {details}"
    hints = (*(cure.words() for cure in cures), *_fewer_copies(problem))
    return Explanation(tuple(r.name for r in rings), limits, message, hints)


@dataclass(frozen=True, slots=True)
class _Cure:
    """What is missing of limits that would do together."""

    missing: dict[Limit, Shortage]
    proven: bool
    """With all of it carried out there is a plan."""

    def words(self) -> str:
        wanted = " and ".join(item.cure for item in self.missing.values())
        return wanted if self.proven else f"first {wanted}; this alone may not be enough"


def _cure(problem: PlanningProblem, limits: Sequence[Limit]) -> _Cure:
    """Limit by limit, each with the cures of those before carried out and only those after it still lifted.

    So with the last one carried out nothing is lifted any more. New ports come first: they need sessions.
    """
    missing: dict[Limit, Shortage] = {}
    proven = True
    for number in reversed(range(len(limits))):
        limit, later = limits[number], limits[:number]
        asked = _lifted(problem, later)
        if missing and solvable(asked):
            continue
        found = shortage(asked, limit)
        cured = found.change(problem) if found.change is not None else None
        if cured is None or not solvable(_lifted(cured, later)):
            proven, cured = False, lift(problem, limit)
        problem = cured
        missing = {limit: found, **missing}
    return _Cure(missing, proven)


def _lifted(problem: PlanningProblem, limits: Iterable[Limit]) -> PlanningProblem:
    for limit in limits:
        problem = lift(problem, limit)
    return problem


def _together(problem: PlanningProblem) -> list[Limit]:
    """Limits which would do together and of which none can be left out."""
    needed = list(LIFTABLE)
    for limit in LIFTABLE:
        if solvable(_lifted(problem, (other for other in needed if other is not limit))):
            needed.remove(limit)
    return needed


def _unmet(problem: PlanningProblem) -> list[RingNeed]:
    """As few rings as possible whose absence would let all others be covered.

    Parts that share no switch are asked one by one: all at once takes the solver minutes where a part takes an instant.
    """
    return [problem.rings[ring] for part in components(problem) for ring in _given_up(problem, part)]


def _given_up(problem: PlanningProblem, part: Component) -> list[int]:
    programme = formulate(problem, part)
    gives_up = {ring: programme.column() for ring in programme.need}
    for ring, column in gives_up.items():
        programme.loosen(programme.need[ring], column, problem.rings[ring].hops)
    found = Solver(programme).minimise(dict.fromkeys(gives_up.values(), 1))
    return [ring for ring, column in gives_up.items() if found is None or found.columns[column] > 0.5]


def _fewer_copies(problem: PlanningProblem) -> Iterator[str]:
    """The largest number of copies that would do with everything else as it is."""
    most = max(ring.copies for ring in problem.rings)
    for copies in range(most - 1, 0, -1):
        if solvable(with_copies(problem, copies)):
            yield f"copies: {copies} in the policy"
            return


def _copies(rings: list[RingNeed]) -> str:
    wanted = sorted({ring.copies for ring in rings})
    hops = sorted({ring.hops for ring in rings})
    words = " or ".join(str(n) for n in wanted)
    return f"{words} {'copy' if wanted == [1] else 'copies'} ({' or '.join(str(n) for n in hops)} hops)"


def _names(rings: Sequence[RingNeed]) -> str:
    more = f" and {len(rings) - _SHOWN} more" if len(rings) > _SHOWN else ""
    return ", ".join(ring.name for ring in rings[:_SHOWN]) + more
