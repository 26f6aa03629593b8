"""No plan exists: say which rings, which limit forbids them, and what would do.

Every cure that changes a setting or adds a part is proven by solving the problem again with that change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Infeasible
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import components, formulate
from flowcheck_net.plan.problem import Limit, PlanningProblem, RingNeed
from flowcheck_net.plan.programme import Component
from flowcheck_net.plan.relax import LIFTABLE, lift, with_copies
from flowcheck_net.plan.shortage import shortage, whole

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
    alone = [limit for limit in LIFTABLE if _feasible(lift(problem, limit))]
    limits = alone[:1] or _together(problem)
    rings = _unmet(problem)
    if alone:
        missing = [shortage(problem, limit) for limit in alone]
        cures = [item.cure for item in missing]
    else:
        missing = [shortage(_without(problem, limits, limit), limit) for limit in limits]
        cures = [" and ".join(item.cure for item in missing)]
    details = "; ".join(item.detail for item in missing[: len(limits)])
    word = "limit" if len(limits) == 1 else "limits"
    message = f"{_names(rings)} cannot have {_copies(rings)}: {word}: {details}"
    return Explanation(tuple(r.name for r in rings), tuple(limits), message, (*cures, *_fewer_copies(problem)))


def _without(problem: PlanningProblem, limits: Sequence[Limit], kept: Limit) -> PlanningProblem:
    """The problem with all of ``limits`` lifted but one."""
    for limit in limits:
        problem = lift(problem, limit) if limit is not kept else problem
    return problem


def _together(problem: PlanningProblem) -> list[Limit]:
    """Limits which would do together and of which none can be left out."""
    needed = list(LIFTABLE)
    for limit in LIFTABLE:
        if _feasible(_without(problem, needed, limit)):
            needed.remove(limit)
    return needed


def _feasible(problem: PlanningProblem) -> bool:
    return Solver(whole(problem)).minimise({}) is not None


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
        if _feasible(with_copies(problem, copies)):
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
