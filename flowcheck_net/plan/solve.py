"""Problem -> the best choice, with its proof.

The objective is lexicographic: each stage is minimised to proven optimality, then held by a row, then the next one is
minimised. Every value is recomputed in whole numbers from the chosen taps; a rounding error of the solver is an error
here and never a plan.

Parts of the problem that share no switch are solved alone, equal ones once. For each part a small programme over
classes of interchangeable taps gives a bound and says how many taps of each class to take; the full programme over
just those taps then mostly meets the bound, which proves them optimal. Where it does not, the full programme over all
taps decides (docs/design/0006).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flowcheck_net.errors import PlanError
from flowcheck_net.plan.aggregate import Aggregate, Outline, OutlineProgramme, aggregate, choose_members, is_outlined
from flowcheck_net.plan.decompose import Index, Part, Region, extract, regions
from flowcheck_net.plan.highs import NAME, Solver, exact
from flowcheck_net.plan.linear import formulate
from flowcheck_net.plan.plan import Proof, StageProof
from flowcheck_net.plan.problem import Choice, PlanningProblem
from flowcheck_net.plan.programme import TIES, Component, Programme

_REPORT = "this is a fault of the planner: report it with the three input files"


@dataclass(frozen=True, slots=True)
class Solved:
    """The best choice and what was proven about it."""

    choice: Choice
    proof: Proof


@dataclass(frozen=True, slots=True)
class Bound:
    """What no choice can beat, and how many taps of each class would reach it."""

    costs: tuple[int, ...]
    """Duplicate bytes, mirrored bytes, sessions, switches."""
    counts: tuple[tuple[int, int], ...]
    """(class, taps)"""


def solve(problem: PlanningProblem, progress: Callable[[str], None] | None = None) -> Solved | None:
    """The optimal choice; ``None`` when it is proven that there is none.

    Raises:
        PlanError: The solver stopped without a proof, or its numbers do not hold in exact arithmetic.
    """
    tell = progress if progress is not None else _silent
    parts = regions(problem)
    planner = _Planner(problem)
    taps: list[tuple[int, int]] = []
    counted: list[tuple[int, int]] = []
    stages: dict[str, StageProof] = {}
    for number, part in enumerate(parts, start=1):
        component = part.component
        tell(f"solving part {number} of {len(parts)}: {len(component.rings)} rings, {len(component.switches)} switches")
        found = planner.solve(part)
        if found is None:
            return None
        taps.extend(found.choice.taps)
        counted.extend(found.choice.counted)
        for stage in found.proof.stages:
            before = stages.get(stage.name, StageProof(stage.name, 0, 0))
            stages[stage.name] = StageProof(stage.name, before.value + stage.value, before.bound + stage.bound)
    choice = Choice(tuple(sorted(taps)), tuple(sorted(counted)))
    return Solved(choice, _proof(tuple(stages.values())))


def solve_whole(problem: PlanningProblem, component: Component) -> Solved | None:
    """The optimal choice of a component by one programme over all of its taps; ``None``: there is none."""
    programme = formulate(problem, component)
    if not programme.count:
        return None
    solver = Solver(programme)
    proofs: list[StageProof] = []
    columns: tuple[float, ...] = ()
    for name, terms in programme.stages:
        found = solver.settle(terms)
        if found is None and name == TIES:
            break  # its numbers are large: should the solver stumble, the choice of the stage before stands
        if found is None:
            if proofs:
                raise PlanError(f"the solver lost its own solution before {name}; no plan was made", hint=_REPORT)
            return None
        columns = found.columns
        proofs.append(StageProof(name, found.value, found.bound))
    _hold(programme, proofs, columns)
    choice = Choice(_picked(programme.choose, columns), _picked(programme.count, columns))
    return Solved(choice, _proof(tuple(proof for proof in proofs if proof.name != TIES)))


class _Planner:
    """Answers for the parts of one problem; equal questions are answered once."""

    def __init__(self, problem: PlanningProblem) -> None:
        self._index = Index(problem)
        self._outlined = is_outlined(problem)
        self._bounds: dict[Outline, Bound | None] = {}
        self._answers: dict[PlanningProblem, Solved | None] = {}

    def solve(self, region: Region) -> Solved | None:
        """The optimal choice of a part, in the numbers of the whole problem; ``None``: there is none."""
        if not self._outlined:
            return solve_whole(self._index.problem, region.component)
        if not region.taps:
            return None
        for fine in (False, True):
            found = aggregate(self._index, region, fine=fine)
            bound = self._bound(found.outline)
            if bound is None and not fine:
                return None
            solved = None if bound is None else self._meet(region, found, bound)
            if solved is not None:
                return solved
        return self._answer(extract(self._index, region, region.taps))

    def _meet(self, region: Region, found: Aggregate, bound: Bound) -> Solved | None:
        """A choice that is as good as the bound, which proves it optimal; ``None``: not found this way."""
        taps = choose_members(self._index, found, dict(bound.counts))
        if taps is None:
            return None
        solved = self._answer(extract(self._index, region, taps))
        if solved is None or tuple(stage.value for stage in solved.proof.stages) != bound.costs:
            return None
        return solved

    def _bound(self, outline: Outline) -> Bound | None:
        if outline not in self._bounds:
            self._bounds[outline] = _bound(outline)
        return self._bounds[outline]

    def _answer(self, part: Part) -> Solved | None:
        if part.problem not in self._answers:
            rings = tuple(range(len(part.problem.rings)))
            everything = Component(rings, tuple(limits.name for limits in part.problem.switches))
            self._answers[part.problem] = solve_whole(part.problem, everything)
        found = self._answers[part.problem]
        return None if found is None else replace(found, choice=part.whole(found.choice))


def _bound(outline: Outline) -> Bound | None:
    """The optimum of an outline, stage by stage; no two of its taps see one hop, so duplicates are 0."""
    programme = OutlineProgramme(outline).programme
    solver = Solver(programme)
    costs = [0]
    columns: tuple[float, ...] = ()
    for name, terms in programme.stages:
        found = solver.settle(terms)
        if found is None and name == TIES:
            break
        if found is None:
            if len(costs) > 1:
                raise PlanError(f"the solver lost its own solution before {name}; no plan was made", hint=_REPORT)
            return None
        columns = found.columns
        if name != TIES:
            costs.append(found.bound)
    counts: dict[int, int] = {}
    for (number, _), x in programme.choose.items():
        counts[number] = counts.get(number, 0) + round(columns[x])
    return Bound(tuple(costs), tuple(counts.items()))


def _silent(words: str) -> None:
    del words


def _hold(programme: Programme, proofs: list[StageProof], columns: tuple[float, ...]) -> None:
    """The last stage may not have given up what an earlier one reached."""
    stages = dict(programme.stages)
    for proof in proofs:
        name, terms = proof.name, stages[proof.name]
        value = exact(terms, columns)
        if value != proof.value:
            message = f"the solver lost {name} ({proof.value} became {value}) to rounding; no plan was made"
            raise PlanError(message, hint=_REPORT)


def _picked(columns: Mapping[tuple[int, int], int], values: tuple[float, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(key for key, column in columns.items() if values[column] > 0.5))


def _proof(stages: tuple[StageProof, ...]) -> Proof:
    gap = max((abs(s.value - s.bound) / max(1.0, abs(s.value)) for s in stages), default=0.0)
    last = stages[-1].bound if stages else 0.0
    return Proof(solver=NAME, status="optimal", bound=last, gap=gap, stages=stages)
