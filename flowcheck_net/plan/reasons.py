"""Why each point of a plan is there: the plan is made again without it, and what gets worse is the reason."""

from collections.abc import Iterable
from dataclasses import replace

from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.plan import Plan, StageProof
from flowcheck_net.plan.problem import Limit, PlanningProblem
from flowcheck_net.plan.solve import solve
from flowcheck_net.spec.load import Specs

_TRIED = 16
"""More points than this are explained by what they show only: each trial is a plan of its own."""


def why(specs: Specs, plan: Plan) -> tuple[str, ...]:
    """A line for each point: what it shows, and what would be worse without it."""
    fabric = Fabric.from_spec(specs.topology)
    problem = build_problem(fabric, build_job(specs.job, specs.topology), specs.policy)
    shown: dict[str, list[str]] = {}
    for hop in plan.hops:
        for point in {hop.point, *hop.also}:
            shown.setdefault(point, []).append(f"{hop.group}/{hop.channel}/{hop.index}")
    lines = []
    for number, point in enumerate(sorted({point.id for point in plan.points})):
        hops = shown.get(point, [])
        words = f"{point} shows {len(hops)} hop{'s' if len(hops) != 1 else ''} of {_groups(hops)}"
        reason = _without(problem, point, plan.proof.stages) if number < _TRIED else "not tried without it"
        lines.append(f"{words}; {reason}")
    return tuple(lines)


def _groups(hops: Iterable[str]) -> str:
    lanes = sorted({hop.rpartition("/")[0] for hop in hops})
    return ", ".join(lanes[:3]) + (f" and {len(lanes) - 3} more" if len(lanes) > 3 else "")


def _without(problem: PlanningProblem, point: str, stages: tuple[StageProof, ...]) -> str:
    """The first stage of the objective that is worse when the point may not be chosen."""
    taps = tuple(replace(t, refusals=(*t.refusals, Limit.ALLOWED)) if t.id == point else t for t in problem.taps)
    other = solve(replace(problem, taps=taps))
    if other is None:
        return "without it there is no plan"
    found = {stage.name: stage.value for stage in other.proof.stages}
    for stage in stages:
        if stage.name == "canonical order":
            break
        if stage.name in found and found[stage.name] != stage.value:
            return f"without it {stage.name}: {stage.value:,} -> {found[stage.name]:,}"
    return "another point would do as well, this one is the first by name"
