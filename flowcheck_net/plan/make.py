"""Specs -> a checked plan."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import CapturePort, HostName, NodeName, SwitchName
from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.model.job import Job
from flowcheck_net.model.platforms import site_digests
from flowcheck_net.plan.assemble import Assembled, assemble
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.check import check
from flowcheck_net.plan.explain import explain
from flowcheck_net.plan.plan import Fingerprint, Picture, Plan
from flowcheck_net.plan.problem import PlanningProblem
from flowcheck_net.plan.solve import Solved, solve
from flowcheck_net.plan.windows import LONGEST_PERIOD, MessageWindow, message_windows, rules_by_point, trimmed
from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.fields import field_digests
from flowcheck_net.spec.load import Specs, fingerprint


def make_plan(specs: Specs, progress: Callable[[str], None] | None = None, *, running: Plan | None = None) -> Plan:
    """The optimal plan, checked by code that knows nothing of how it was made.

    Args:
        specs: The three input files.
        progress: Called with a line of words at each step.
        running: The plan in force: of equally good plans the one that changes least of it is taken.

    Raises:
        Infeasible: No choice of observation points will do; the message names the rings and the limit.
        PlanError: The job or the fabric cannot be planned, or the checker disagrees with the planner.
    """
    tell = progress if progress is not None else _silent
    tell("reading the fabric")
    fabric = Fabric.from_spec(specs.topology)
    job = build_job(specs.job, specs.topology)
    tell("listing what can be watched")
    problem = build_problem(fabric, job, specs.policy)
    if running is not None:
        problem = replace(problem, running=_still_there(problem, running))
    solved = solve(problem, progress)
    if solved is None:
        tell("no plan exists: looking for the limit that forbids it")
        raise explain(problem).error()
    windows = _windows(specs, job, problem, solved)
    problem = trimmed(problem, job, windows) if specs.policy.strategy == "exact" else problem
    plan = _with_windows(_plan(specs, fabric, job, problem, solved), windows)
    tell("checking the plan")
    violations = check(plan, problem)
    if violations:
        faults = "\n  ".join(str(v) for v in violations)
        raise PlanError(
            f"the planner and its checker disagree; no plan was made:\n  {faults}",
            hint="this is a fault of the planner: report it with the three input files",
        )
    return plan


def _windows(specs: Specs, job: Job, problem: PlanningProblem, solved: Solved) -> tuple[MessageWindow, ...]:
    """What to mirror of each hop; nothing to say where whole ports are mirrored.

    Raises:
        PlanError: a window cannot be programmed.
    """
    if specs.policy.strategy == "port":
        return ()
    windows = message_windows(job, assemble(problem, solved.choice).hops, exact=specs.policy.strategy == "exact")
    nameless = [w for w in windows if not w.qpns]
    if nameless:
        raise PlanError(
            f"strategy {specs.policy.strategy} follows queue pairs, and the job does not name those of "
            f"{_hop_names(nameless)}",
            hint="add `qpns` to the rings in job.yaml (`down_qpns` and `up_qpns` to the trees): `flowcheck-net import "
            "nccl` takes them from NCCL's log, a capture shows them; or plan with `strategy: port`",
        )
    endless = [w for w in windows if w.period > LONGEST_PERIOD]
    if endless:
        raise PlanError(
            f"a loop of {_hop_names(endless)} has {endless[0].period} messages, a switch counts {LONGEST_PERIOD}",
            hint="plan with `strategy: port`",
        )
    return windows


def _hop_names(windows: list[MessageWindow]) -> str:
    names = [f"{w.group}/{w.channel}/{w.index}" for w in windows]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more hops" if len(names) > _NAMED else "")


_NAMED = 6


def _with_windows(plan: Plan, windows: tuple[MessageWindow, ...]) -> Plan:
    told = rules_by_point(plan.job, windows, plan.hops)
    sessions = []
    for planned in plan.sessions:
        points = (f"{planned.switch}:{s.port}:{s.direction}" for s in planned.session.sources)
        rules = tuple(rule for point in points for rule in told.get(point, ()))
        sessions.append(replace(planned, session=replace(planned.session, windows=rules)))
    return replace(plan, windows=windows, sessions=tuple(sessions))


def _still_there(problem: PlanningProblem, running: Plan) -> tuple[tuple[int, int], ...]:
    """The points of the running plan that may still be chosen."""
    tap = {one.id: n for n, one in enumerate(problem.taps) if not one.refusals}
    capture = {(one.switch, one.port): n for n, one in enumerate(problem.captures) if not one.refusals}
    found = ((tap.get(p.id), capture.get((p.switch, p.capture))) for p in running.points)
    return tuple(sorted((t, c) for t, c in found if t is not None and c is not None))


def _silent(words: str) -> None:
    del words


def _plan(specs: Specs, fabric: Fabric, job: Job, problem: PlanningProblem, solved: Solved) -> Plan:
    parts = assemble(problem, solved.choice)
    touched = sorted({planned.switch for planned in parts.sessions})
    return Plan(
        fingerprint=Fingerprint(
            *fingerprint(specs), field_digests(specs), site_digests(fabric.address(s).platform for s in fabric.switches)
        ),
        job=job,
        switches=tuple(fabric.address(switch) for switch in touched),
        points=parts.points,
        sessions=parts.sessions,
        hops=parts.hops,
        coverage=parts.coverage,
        cost=parts.cost,
        proof=solved.proof,
        picture=_picture(specs, problem, job, parts),
        loads=parts.loads,
    )


def _picture(specs: Specs, problem: PlanningProblem, job: Job, parts: Assembled) -> Picture:
    """The job's hosts, the checkpoint nodes in use, and the switches on their paths."""
    links = tuple((*split_end(one), *split_end(two)) for one, two in specs.topology.links)
    hosts = {place.host for place in job.places}
    nodes = {_node(load.capture) for load in parts.loads}
    certain = {tap.switch for tap in problem.taps}
    switches = certain | _between({switch.name for switch in specs.topology.switches}, certain, links)
    kept = {*switches, *hosts, *nodes}
    return Picture(
        switches=tuple(sorted(SwitchName(name) for name in switches)),
        hosts=tuple(sorted(HostName(name) for name in hosts)),
        nodes=tuple(sorted(NodeName(name) for name in nodes)),
        links=tuple(sorted(link for link in links if link[0] in kept and link[2] in kept)),
    )


def _node(capture: CapturePort) -> str:
    return split_end(capture)[0]


def _between(switches: set[str], certain: Iterable[SwitchName], links: Iterable[tuple[str, str, str, str]]) -> set[str]:
    """Switches that join two or more of the ``certain`` ones, such as the spines over their leaves."""
    inside = set(certain)
    neighbours: dict[str, set[str]] = {}
    for one, _, two, _ in links:
        neighbours.setdefault(one, set()).add(two)
        neighbours.setdefault(two, set()).add(one)
    return {s for s in switches - inside if len(neighbours.get(s, set()) & inside) > 1}
