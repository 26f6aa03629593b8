"""Message windows as the sessions of switches say them: made, carried, compared, refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from flowcheck_net.apply.compare import session_lines
from flowcheck_net.apply.preflight import obstacles
from flowcheck_net.drivers.fake_device import FakeSwitch, Refused
from flowcheck_net.drivers.fake_store import switch_from_json, switch_to_json
from flowcheck_net.drivers.session_json import session_from_json, session_to_json
from flowcheck_net.errors import PlanError, StalePlan
from flowcheck_net.ids import Address, Qpn
from flowcheck_net.intent import MirrorSession, WindowRule
from flowcheck_net.model.platforms import capabilities, known_platforms
from flowcheck_net.plan.check_windows import windows_hold
from flowcheck_net.plan.compare import compare
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, plan_from_json, plan_to_json
from tests.doubles.switches import LIMITS, session
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

FOLLOWING = replace(LIMITS, message_window=True)
RULE = WindowRule(Address("10.0.0.2"), Qpn(0x514), 12, 6, 12)


def windowed(*rules: WindowRule, name: str = "fcn-gpt-0", port: str = "Ethernet1") -> MirrorSession:
    return replace(session(name, f"{port}:rx"), windows=rules)


def plan_of(strategy: str = "reduced", *, named: bool = True, size: int = 4, tree: bool = False, **job: Any) -> Plan:
    """A ring or tree on one leaf of fake switches, a capture port for each point."""
    hosts = {f"h{n}": "leaf1" for n in range(size)}
    made: Raw = ring_job([list(hosts)])
    if tree:
        made["collective"] = {"algorithm": "tree"}
        edges = [[0, 1], [1, 2], [2, 3]]
        made["rings"] = []
        made["trees"] = [{"group": "dp0", "channel": 0, "edges": edges}]
        if named:
            made["trees"][0] |= {"down_qpns": [[0x200], [0x201], [0x202]], "up_qpns": [[0x300], [0x301], [0x302]]}
    else:
        made["rings"] = [{"group": "dp0", "channel": 0, "order": list(range(size))}]
        if named:
            made["rings"][0]["qpns"] = [[0x100 + n] for n in range(size)]
    topology = leaf_fabric(hosts, [("n", "leaf1", "800G")] * 2)
    return make_plan(to_specs(topology, {**made, **job}, {**policy(copies=1), "strategy": strategy}))


def rules_of(plan: Plan) -> list[WindowRule]:
    return [rule for planned in plan.sessions for rule in planned.session.windows]


def test_rules_are_canonical() -> None:
    other = replace(RULE, qpn=Qpn(1))
    assert windowed(RULE, other, RULE).windows == (other, RULE)


def test_a_session_without_windows_is_the_same_json_as_before() -> None:
    assert session_to_json(session("fcn-gpt-0", "Ethernet1:rx")).keys() == {"name", "sources", "destination", "filters"}


def test_windows_survive_json() -> None:
    made = windowed(RULE, WindowRule(Address("fd00::2"), Qpn(7), 1, 0, 0))
    assert session_from_json(json.loads(json.dumps(session_to_json(made)))) == made


@pytest.mark.parametrize("change", [{"qpn": -1}, {"low": "1"}, {"destination": ""}, {"size": 1}])
def test_what_is_no_rule_is_refused(change: Raw) -> None:
    raw: Any = json.loads(json.dumps(session_to_json(windowed(RULE))))
    raw["windows"][0].update(change)
    with pytest.raises(ValueError, match="fcn-gpt-0"):
        session_from_json(raw)


def test_the_fake_switch_keeps_windows_in_its_file() -> None:
    switch = FakeSwitch("leaf1", FOLLOWING)
    switch.create(windowed(RULE))
    again = switch_from_json(switch_to_json(switch), "leaf1", FOLLOWING)  # type: ignore[arg-type]
    assert again.sessions == switch.sessions


def test_a_switch_that_cannot_follow_refuses() -> None:
    with pytest.raises(Refused, match="message windows"):
        FakeSwitch("leaf1", LIMITS).create(windowed(RULE))


def test_preflight_refuses_by_capability() -> None:
    assert obstacles([windowed(RULE)], (), FOLLOWING) == ()
    (words,) = obstacles([windowed(RULE)], (), LIMITS)
    assert words == "fcn-gpt-0 has message windows, platform fake cannot follow queue pairs"


def test_only_what_can_follow_messages_says_so() -> None:
    able = {name for name in known_platforms() if capabilities(name).message_window}
    assert able == {"fake", "bmv2", "tofino"}


def test_one_queue_pair_has_one_window_on_a_switch() -> None:
    same = windowed(RULE, name="fcn-gpt-1", port="Ethernet2")
    other = replace(same, windows=(replace(RULE, low=8),))
    limits = replace(FOLLOWING, source_in_many_sessions=True)
    assert obstacles([windowed(RULE), same], (), limits) == ()
    (words,) = obstacles([windowed(RULE), other], (), limits)
    assert words == "fcn-gpt-1: queue pair 0x514 at 10.0.0.2 has another window in session fcn-gpt-0"


def test_a_diff_shows_windows() -> None:
    assert "  window 10.0.0.2 queue pair 0x514: messages 6 to 12 of 12" in session_lines(windowed(RULE))


def test_the_plan_gives_each_session_the_windows_of_its_hops() -> None:
    """Hop 0 of a ring of 4 in two slices: 12 ends a loop, the reduced half is 6 to 12."""
    plan = plan_of()
    assert len(rules_of(plan)) == len(plan.hops) == len(plan.windows) == 2
    for hop, window in zip(plan.hops, plan.windows, strict=True):
        (rule,) = [r for r in rules_of(plan) if r.qpn == 0x100 + hop.index]
        assert (rule.destination, rule.period, rule.low, rule.high) == (window.destination, 12, 6, 12)


def test_without_a_strategy_no_session_has_windows() -> None:
    assert rules_of(plan_of("port")) == []
    (text,) = (line for line in plan_to_json(plan_of("port")).splitlines())
    assert text.count('"windows"') == 1, "that of the plan itself, as before: the same bytes"


def test_broadcasts_turn_the_window() -> None:
    """LL, 16 B: one message on each hop but the one into rank 0."""
    nccl = {"version": "2.19.3", "protocol": "LL", "channels": 1, "threads": 512}
    plan = plan_of(nccl=nccl, broadcasts=[{"bytes": 16}])
    by_hop = {r.qpn - 0x100: (r.low, r.high) for r in rules_of(plan)}
    assert plan.windows[0].period == 6
    for index, window in by_hop.items():
        assert window == ((3, 6) if index == 3 else (4, 1))


def test_of_a_tree_edge_that_leads_up_nothing_is_mirrored() -> None:
    plan = plan_of(tree=True)
    up = {r.qpn: (r.period, r.low, r.high) for r in rules_of(plan)}
    assert any(qpn >= 0x300 for qpn in up), "the point sees an edge that leads up"
    assert all(window == ((1, 0, 0) if qpn >= 0x300 else (1, 0, 1)) for qpn, window in up.items())


@pytest.mark.parametrize("tree", [False, True])
def test_queue_pairs_must_be_named(tree: bool) -> None:
    with pytest.raises(PlanError, match=r"does not name those of dp0/0/\d") as caught:
        plan_of(named=False, tree=tree)
    assert "qpns" in caught.value.hint
    assert "strategy: port" in caught.value.hint
    assert plan_of("port", named=False, tree=tree).windows == ()


def altered(plan: Plan) -> Plan:
    planned = plan.sessions[0]
    rules = tuple(replace(r, low=r.low + 1) for r in planned.session.windows)
    changed = replace(planned, session=replace(planned.session, windows=rules))
    return replace(plan, sessions=(changed, *plan.sessions[1:]))


def test_a_plan_whose_sessions_say_other_windows_is_refused() -> None:
    text = plan_to_json(plan_of())
    assert plan_to_json(plan_from_json(text, "plan.json")) == text
    with pytest.raises(StalePlan, match="has not its message windows"):
        plan_from_json(plan_to_json(altered(plan_of())), "plan.json")


def test_another_window_is_a_change_of_the_session() -> None:
    plan = plan_of()
    assert compare(plan, plan).same
    assert not compare(plan, altered(plan)).same


def wrong(plan: Plan, **change: int) -> list[str]:
    """What the checker says when every rule of the plan is changed."""

    def changed(rule: WindowRule) -> WindowRule:
        moved = {name: getattr(rule, name) + by for name, by in change.items()}
        return replace(rule, **moved)

    sessions = tuple(
        replace(p, session=replace(p.session, windows=tuple(changed(r) for r in p.session.windows)))
        for p in plan.sessions
    )
    return [violation.detail for violation in windows_hold(replace(plan, sessions=sessions))]


@pytest.mark.parametrize("strategy", ["reduced", "exact"])
@pytest.mark.parametrize("tree", [False, True])
def test_the_checker_finds_windows_that_hold_what_was_promised(strategy: str, tree: bool) -> None:
    nccl = {"version": "2.19.3", "protocol": "LL", "channels": 1, "threads": 512}
    assert wrong(plan_of(strategy, tree=tree, nccl=nccl, broadcasts=[{"bytes": 16}])) == []


def test_the_checker_finds_windows_that_do_not() -> None:
    plan = plan_of("exact")
    assert any("shows partial sums" in text for text in wrong(plan, low=-1))
    assert wrong(plan, low=1) == ["dp0/0: a chunk is shown 0 times, promised 1"]
    assert wrong(plan, high=-1) == ["dp0/0: a chunk is shown 0 times, promised 1"]
    assert "dp0/0/0 is seen and has none" in wrong(plan, qpn=1000)


def test_the_checker_says_nothing_of_whole_ports() -> None:
    assert list(windows_hold(plan_of("port", named=False))) == []
