"""The checker accepts what the planner makes and sees every single thing that is changed in it."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import Address, CapturePort, PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSource
from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.plan import make
from flowcheck_net.plan.assemble import assemble
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.check import check
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, PlannedSession
from flowcheck_net.plan.problem import Limit, PlanningProblem
from flowcheck_net.spec.load import Specs
from tests.oracle.plan_specs import leaf_fabric, policy, ring_job, to_specs

HOSTS = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}


@lru_cache(maxsize=1)
def good() -> tuple[Specs, Plan, PlanningProblem]:
    """Three hops over two leaves, one of the ports shared with another tenant."""
    captures = [("n", "leaf1", "800G"), ("n", "leaf1", "400G"), ("m", "leaf2", "400G")]
    topology = leaf_fabric(HOSTS, captures, spines=2, shared=["leaf1:P1"])
    rules = policy(copies=2)
    rules["failure_domains"]["checkpoint_apart"] = True
    specs = to_specs(topology, ring_job([list(HOSTS)]), rules)
    fabric = Fabric.from_spec(specs.topology)
    return specs, make_plan(specs), build_problem(fabric, build_job(specs.job, specs.topology), specs.policy)


def rules_broken(plan: Plan, problem: PlanningProblem | None = None) -> set[str]:
    return {violation.rule for violation in check(plan, problem if problem is not None else good()[2])}


def test_a_made_plan_is_accepted() -> None:
    _, plan, problem = good()
    assert check(plan, problem) == ()
    assert plan.sessions[0].session.filters


def with_session(number: int, change: Callable[[PlannedSession], PlannedSession]) -> Plan:
    plan = good()[1]
    changed = tuple(change(s) if n == number else s for n, s in enumerate(plan.sessions))
    return replace(plan, sessions=changed)


def source(port: str, direction: Direction = Direction.RX) -> MirrorSource:
    return MirrorSource(PortName(port), direction)


def unwatched(planned: PlannedSession) -> MirrorSource:
    """A port of the switch that the session does not watch."""
    every = (source(port, direction) for port in ("P1", "P2") for direction in Direction)
    return next(one for one in every if one not in planned.session.sources)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda s: replace(s, session=replace(s.session, sources=s.session.sources[:1])), "coverage-or-points"),
        (lambda s: replace(s, session=replace(s.session, sources=(*s.session.sources, unwatched(s)))), "points"),
        (lambda s: replace(s, session=replace(s.session, sources=(source("P99"),))), "unknown tap"),
        (lambda s: replace(s, session=replace(s.session, filters=())), "isolation"),
        (lambda s: replace(s, session=replace(s.session, filters=s.session.filters[1:])), "isolation"),
        (lambda s: replace(s, session=replace(s.session, destination=PortName("P1"))), "wrong destination"),
        (lambda s: replace(s, capture=CapturePort("m:cap0")), "wrong destination"),
        (lambda s: replace(s, session=replace(s.session, name=SessionName("ops-1"))), "name without our mark"),
        (lambda s: replace(s, session=replace(s.session, name=SessionName("fcn-other-1"))), "name without our mark"),
        (lambda s: replace(s, switch=SwitchName("leaf9")), "unknown switch"),
    ],
)
def test_each_change_of_a_session_is_seen(change: Callable[[PlannedSession], PlannedSession], rule: str) -> None:
    broken = rules_broken(with_session(0, change))
    assert broken & ({"points"} if rule == "coverage-or-points" else {rule})


def test_a_filter_for_somebody_else_is_seen() -> None:
    foreign = FlowFilter(Address("10.9.9.9"), Address("10.9.9.8"))
    plan = with_session(0, lambda s: replace(s, session=replace(s.session, filters=(*s.session.filters, foreign))))
    assert rules_broken(plan) == {"isolation"}


def test_each_limit_of_the_problem_is_seen() -> None:
    _, plan, problem = good()
    small = tuple(replace(c, capacity=c.capacity - 1) for c in problem.captures)
    assert "bandwidth" in rules_broken(plan, replace(problem, captures=small))
    none = tuple(replace(s, max_sessions=0) for s in problem.switches)
    assert rules_broken(plan, replace(problem, switches=none)) == {"sessions"}
    few = tuple(replace(s, max_sources=0) for s in problem.switches)
    assert rules_broken(plan, replace(problem, switches=few)) == {"sources"}
    refused = tuple(replace(t, refusals=(Limit.DIRECTION,)) for t in problem.taps)
    assert rules_broken(plan, replace(problem, taps=refused)) == {"refused tap"}
    nowhere = tuple(replace(r, captures=()) for r in problem.rings)
    assert rules_broken(plan, replace(problem, rings=nowhere)) == {"checkpoint_apart"}
    more = tuple(replace(r, copies=3) for r in problem.rings)
    assert rules_broken(plan, replace(problem, rings=more)) == {"coverage"}
    shared = tuple(replace(s, apart=("room-1",)) for s in problem.switches)
    assert rules_broken(plan, replace(problem, switches=shared, copies_apart=True)) == {"copies_apart"}


def test_each_claim_of_the_plan_is_seen() -> None:
    plan = good()[1]
    hop, line = plan.hops[0], plan.coverage[0]
    assert rules_broken(replace(plan, points=plan.points[1:])) == {"points"}
    assert rules_broken(replace(plan, loads=plan.loads[1:])) == {"loads"}
    assert rules_broken(replace(plan, switches=plan.switches[1:])) == {"switches"}
    assert rules_broken(replace(plan, hops=(replace(hop, copies=2), *plan.hops[1:]))) == {"hops"}
    assert "hops" in rules_broken(replace(plan, hops=plan.hops[1:]))
    assert "hops" in rules_broken(replace(plan, hops=(*plan.hops, hop)))
    assert "coverage" in rules_broken(replace(plan, hops=(replace(hop, counted=False), *plan.hops[1:])))
    assert rules_broken(replace(plan, coverage=(replace(line, copies=3),))) == {"coverage"}
    assert rules_broken(replace(plan, coverage=(replace(line, wanted=1),))) == {"coverage"}
    for name in ("unmet", "duplicate_bytes", "mirrored_bytes", "gradient_bytes", "sessions", "switches"):
        cost = replace(plan.cost, **{name: getattr(plan.cost, name) + 1})
        assert rules_broken(replace(plan, cost=cost)) == {"cost"}, name


def test_one_source_in_two_sessions_is_seen() -> None:
    plan = good()[1]
    first = plan.sessions[0]
    again = replace(first, capture=CapturePort("n:cap1"), session=replace(first.session, name=SessionName("fcn-job-9")))
    assert "source in two sessions" in rules_broken(replace(plan, sessions=(*plan.sessions, again)))


def test_make_plan_raises_when_the_checker_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that forgets a hop must not get a plan out of the door."""
    monkeypatch.setattr(make, "assemble", lambda *args: replace(assemble(*args), hops=()))
    with pytest.raises(PlanError, match="the planner and its checker disagree") as caught:
        make_plan(good()[0])
    assert "hop" in caught.value.message
    assert "report it" in caught.value.hint
