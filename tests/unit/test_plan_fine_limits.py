"""Limits by slice, direction, filter and owner: each alone changes the plan, and each alone forbids it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from flowcheck_net.errors import Infeasible, PlanError
from flowcheck_net.intent import Counted, Direction, SessionLimit
from flowcheck_net.model.platforms import capabilities as table_of
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation
from tests.doubles import ring_plans
from tests.doubles.ring_plans import HOSTS, NARROW, Planner, points, refusal
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

planner = ring_plans.planner


def sliced(topology: Raw, **slices: str) -> Raw:
    for switch in topology["switches"]:
        for port in switch["ports"]:
            port["slice"] = slices.get(port["name"], "other")
    return topology


def foreign(topology: Raw, *sessions: tuple[Sequence[str], str], switch: str = "leaf1") -> Raw:
    for one in topology["switches"]:
        if one["name"] == switch:
            one["foreign_sessions"] = [
                {"name": f"ids{n}", "sources": list(sources), "destination": destination}
                for n, (sources, destination) in enumerate(sessions)
            ]
    return topology


class TestSlices:
    """Two capture ports of 400G, so that two sources are two sessions."""

    ONE_A_SLICE: ClassVar = (SessionLimit(Counted.SESSIONS, 1, per_slice=True),)

    def test_one_session_a_slice_takes_ports_of_two_slices(self, planner: Planner) -> None:
        def topology() -> Raw:
            return sliced(leaf_fabric(HOSTS, NARROW), P1="a", P2="a", P3="b", P4="b")

        assert points(planner(topology())) == ["leaf1:P1:rx", "leaf1:P1:tx"]
        plan = planner(topology(), session_limits=self.ONE_A_SLICE)
        assert {point.port for point in plan.points} & {"P1", "P2"}
        assert {point.port for point in plan.points} & {"P3", "P4"}

    def test_infeasible_in_one_slice(self, planner: Planner) -> None:
        error = refusal(lambda: planner(leaf_fabric(HOSTS, NARROW), session_limits=self.ONE_A_SLICE))
        assert "mirror sessions by slice and direction at leaf1 (sessions in slice (unnamed)): needs 2, has 1" in str(
            error
        )
        assert "room for mirror sessions: 1 more at leaf1" in error.hint
        planner(leaf_fabric(HOSTS, NARROW), session_limits=(SessionLimit(Counted.SESSIONS, 2, per_slice=True),))


class TestDirectionsOfSessions:
    def test_one_tx_session_puts_rx_beside_it(self, planner: Planner) -> None:
        rules = policy(copies=1, rate_model="measured", measured={f"leaf1:P{n}:rx": "1G" for n in range(1, 5)})
        assert points(planner(leaf_fabric(HOSTS, NARROW), rules=rules)) == ["leaf1:P1:rx", "leaf1:P2:rx"]
        plan = planner(leaf_fabric(HOSTS, NARROW), rules=rules, session_limits=(SessionLimit(Counted.RX, 0),))
        assert points(plan) == ["leaf1:P1:tx", "leaf1:P2:tx"]

    def test_both_counts_twice(self, planner: Planner) -> None:
        """One session may watch one direction only: then two ports in one direction, not one in both."""
        plan = planner(session_limits=(SessionLimit(Counted.DIRECTIONS, 1),))
        assert points(plan) == ["leaf1:P1:rx", "leaf1:P2:rx"]

    def test_infeasible(self, planner: Planner) -> None:
        rules = policy(copies=1, allowed=["leaf1:P1"])
        error = refusal(lambda: planner(rules=rules, session_limits=(SessionLimit(Counted.DIRECTIONS, 1),)))
        assert "(directions): needs 2, has 1" in str(error)
        error = refusal(lambda: planner(rules=rules, session_limits=(SessionLimit(Counted.TX, 0),)))
        assert "(tx): needs 1, has 0" in str(error)

    def test_others_beyond_a_limit_leave_the_other_direction_free(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), (["P4:tx"], "Ethernet99"))
        plan = planner(topology, session_limits=(SessionLimit(Counted.TX, 0),))
        assert [point.direction for point in plan.points] == [Direction.RX, Direction.RX]

    def test_when_others_leave_no_more_is_free_than_the_limit(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), (["P4:tx"], "Ethernet99"))
        rules = policy(copies=1, allowed=["leaf1:P1"])
        error = refusal(lambda: planner(topology, rules=rules, session_limits=(SessionLimit(Counted.TX, 0),)))
        assert "ask the owners" not in error.hint

    def test_qfx_allows_two_sessions_in_each_direction(self, planner: Planner) -> None:
        """Three capture ports that hold one source each: the third rx session is one too many, a tx session is not."""
        hosts = {f"h{n}": "leaf1" for n in range(1, 4)}
        topology = leaf_fabric(hosts, [("n", "leaf1", "400G")] * 3)
        table = table_of("junos-qfx")
        limits = {"session_limits": table.session_limits, "max_sessions": table.max_sessions}
        plan = planner(topology, job=ring_job([list(hosts)]), rules=policy(copies=2), **limits)
        assert sorted(point.direction.value for point in plan.points) in (["rx", "rx", "tx"], ["rx", "tx", "tx"])
        only_rx = {**limits, "directions": frozenset({Direction.RX})}
        error = refusal(lambda: planner(topology, job=ring_job([list(hosts)]), rules=policy(copies=2), **only_rx))
        assert "(rx): needs 3, has 2" in str(error)


class TestOneSessionAPort:
    """Capture ports of 400G hold one source each: the two directions of one port would be two sessions."""

    def test_two_ports_are_used(self, planner: Planner) -> None:
        assert points(planner(leaf_fabric(HOSTS, NARROW))) == ["leaf1:P1:rx", "leaf1:P1:tx"]
        plan = planner(leaf_fabric(HOSTS, NARROW), split_directions=False)
        assert len({point.port for point in plan.points}) == 2

    def test_infeasible(self, planner: Planner) -> None:
        rules = policy(copies=1, allowed=["leaf1:P1"])
        planner(leaf_fabric(HOSTS, NARROW), rules=rules)
        error = refusal(lambda: planner(leaf_fabric(HOSTS, NARROW), rules=rules, split_directions=False))
        assert "one session a source" in str(error)


class TestSourceInManySessions:
    """Two rings over the same hosts, each with a node that only it may use: both must watch the same ports."""

    HOSTS: ClassVar = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}
    DOMAINS: ClassVar = {"a": ["rack-1"], "b": ["rack-2"], "h3": ["rack-1"], "h4": ["rack-2"]}

    def plan(self, planner: Planner, **changes: Any) -> Plan:
        captures = [("a", "leaf1", "800G"), ("b", "leaf1", "800G")]
        topology = leaf_fabric(self.HOSTS, captures, spines=1, domains=self.DOMAINS)
        rules = policy(copies=1, allowed=["leaf1:P1"])
        rules["failure_domains"]["checkpoint_apart"] = True
        return planner(topology, job=ring_job([["h1", "h2", "h3"], ["h1", "h2", "h4"]]), rules=rules, **changes)

    def test_the_ports_are_watched_twice(self, planner: Planner) -> None:
        plan = self.plan(planner, source_in_many_sessions=True)
        assert [(p.id, p.capture) for p in plan.points] == [
            ("leaf1:P1:rx", "a:cap0"),
            ("leaf1:P1:rx", "b:cap0"),
            ("leaf1:P1:tx", "a:cap0"),
            ("leaf1:P1:tx", "b:cap0"),
        ]
        assert {hop.copies for hop in plan.hops} == {2}
        assert {hop.captures for hop in expectation(plan).hops if hop.copies} == {("a:cap0", "b:cap0")}

    def test_infeasible_where_a_source_has_one_session(self, planner: Planner) -> None:
        assert "one session a source" in str(refusal(lambda: self.plan(planner)))


class TestForeignSessions:
    def test_what_others_watch_is_left_to_them(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), (["P1:rx"], "Ethernet99"))
        assert "leaf1:P1:rx" not in points(planner(topology))
        assert points(planner(topology, source_in_many_sessions=True)) == ["leaf1:P1:rx", "leaf1:P1:tx"]

    def test_with_one_session_a_port_both_directions_are_theirs(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), (["P1:rx"], "Ethernet99"))
        assert "P1" not in {point.port for point in planner(topology, split_directions=False).points}

    def test_their_destination_is_theirs(self, planner: Planner) -> None:
        captures = [("n", "leaf1", "800G"), ("n", "leaf1", "800G")]
        topology = foreign(leaf_fabric(HOSTS, captures), ([], "Mn1"))
        assert {point.capture for point in planner(leaf_fabric(HOSTS, captures)).points} == {"n:cap0"}
        assert {point.capture for point in planner(topology).points} == {"n:cap1"}

    def test_a_destination_may_be_shared_where_the_platform_can(self, planner: Planner) -> None:
        """What is left: 800G less the line rate of the port that the other session watches."""
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), (["P4:rx"], "Mn1"))
        assert "other owners' sessions" in str(refusal(lambda: planner(topology)))
        rules = policy(copies=1, rate_model="measured", measured={"leaf1:P1:rx": "200G", "leaf1:P1:tx": "200G"})
        plan = planner(topology, rules=rules, shared_destinations=True)
        assert [(load.load, load.capacity) for load in plan.loads] == [(400_000, 400_000)]

    def test_their_sessions_use_up_the_limit(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, NARROW), ([], "Ethernet98"), ([], "Ethernet99"))
        assert planner(topology, max_sessions=4).cost.sessions == 2
        error = refusal(lambda: planner(topology, max_sessions=3))
        assert "sessions of others on leaf1 take what is needed" in str(error)
        assert "ask the owners of the other mirror sessions on leaf1" in error.hint

    def test_their_directions_use_up_the_limit_of_a_slice(self, planner: Planner) -> None:
        topology = foreign(sliced(leaf_fabric(HOSTS, NARROW), P1="a", P2="b"), (["P2:both"], "Ethernet99"))
        rules = policy(copies=1, allowed=["leaf1:P2", "leaf1:P1"])
        limits = {
            "session_limits": (SessionLimit(Counted.DIRECTIONS, 2, per_slice=True),),
            "source_in_many_sessions": True,
        }
        assert {point.port for point in planner(topology, rules=rules, **limits).points} == {"P1"}
        rules = policy(copies=1, allowed=["leaf1:P2"])
        assert "other owners' sessions" in str(refusal(lambda: planner(topology, rules=rules, **limits)))


class TestMirrorOfAMirror:
    def test_a_port_that_carries_copies_is_never_watched(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), ([], "P1"))
        assert points(planner(topology)) == ["leaf1:P2:rx", "leaf1:P2:tx"]

    def test_infeasible(self, planner: Planner) -> None:
        topology = foreign(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), ([], "P1"))
        error = refusal(lambda: planner(topology, rules=policy(copies=1, allowed=["leaf1:P1"])))
        assert "no mirror of a mirror: leaf1:P1:rx, leaf1:P1:tx" in str(error)


class TestFilters:
    """All ports shared: every session needs a filter with the address pairs that cross it."""

    SHARED: ClassVar = [f"leaf1:P{n}" for n in range(1, 5)]

    def test_entries_of_the_switch(self, planner: Planner) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=self.SHARED)
        assert len(planner(topology, max_filter_entries=2).sessions[0].session.filters) == 2
        error = refusal(lambda: planner(topology, max_filter_entries=1))
        assert "filter entries at leaf1: needs 2, has 1" in str(error)
        assert "room for 2 address pairs on leaf1" in error.hint

    def test_entries_move_the_plan_to_a_port_of_our_own(self, planner: Planner) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=self.SHARED[:3])
        assert points(planner(topology)) == ["leaf1:P1:rx", "leaf1:P1:tx"]
        assert points(planner(topology, max_filter_entries=1)) == ["leaf1:P4:rx", "leaf1:P4:tx"]

    def test_a_filter_of_one_direction(self, planner: Planner) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=self.SHARED)
        plan = planner(topology, filter_directions=frozenset({Direction.RX}))
        assert points(plan) == ["leaf1:P1:rx", "leaf1:P2:rx"]
        rules = policy(copies=1, allowed=["leaf1:P1"])
        error = refusal(lambda: planner(topology, rules=rules, filter_directions=frozenset({Direction.RX})))
        assert "tenant isolation" in str(error)

    def test_a_filtered_session_has_no_source_that_takes_none(self, planner: Planner) -> None:
        """P1 is shared. With filters for rx only, P1:rx and any tx cannot be in one session."""
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=["leaf1:P1"])
        rules = policy(copies=1, allowed=["leaf1:P1", "leaf1:P3"])
        plan = planner(topology, rules=rules, filter_directions=frozenset({Direction.RX}))
        assert points(plan) in (["leaf1:P1:rx", "leaf1:P3:rx"], ["leaf1:P3:rx", "leaf1:P3:tx"])

    def test_a_filter_of_one_ip_version(self, planner: Planner) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=self.SHARED[:3])
        assert points(planner(topology, filter_families=frozenset({6}))) == ["leaf1:P4:rx", "leaf1:P4:tx"]
        everywhere = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], shared=self.SHARED)
        assert "tenant isolation" in str(refusal(lambda: planner(everywhere, filter_families=frozenset({6}))))


class TestOneCopyPerOutput:
    def test_open_vswitch_sends_a_packet_once_others_twice(self, planner: Planner) -> None:
        """Two rings of two share both ports; three copies of a ring of three force a hop to be seen twice."""
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")] * 2)
        job = ring_job([["h1", "h2"], ["h3", "h4"], ["h1", "h3"]])
        rules = policy(
            copies=1, allowed=["leaf1:P1", "leaf1:P3"], rate_model="measured", measured={"leaf1:P1:rx": "1G"}
        )
        once, twice = (
            planner(topology, job=job, rules=rules, one_copy_per_output=once, max_sources_per_session=8)
            for once in (True, False)
        )
        seen = {(hop.group, hop.index): (hop.copies, len(hop.also)) for hop in twice.hops}
        assert (2, 1) in seen.values()
        assert twice.cost.duplicate_bytes > 0
        assert once.cost.duplicate_bytes < twice.cost.duplicate_bytes
        assert all(hop.copies <= 1 + len(hop.also) for hop in once.hops)
        assert any(hop.copies == 1 and hop.also for hop in once.hops)
        assert {h.copies for h in expectation(once).hops if h.captures} == {hop.copies for hop in once.hops}


class TestPlatforms:
    def test_an_unknown_platform_is_refused_and_told_what_to_write(self) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], platform="catos")
        with pytest.raises(PlanError) as caught:
            make_plan(to_specs(topology, ring_job([list(HOSTS)]), policy(copies=1)))
        assert "limits: {max_sessions" in caught.value.hint

    def test_its_own_limits_make_it_known(self) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")], platform="catos")
        limits = {"max_sessions": 1, "max_sources_per_session": 2, "directions": ["rx"], "filters": False}
        topology["switches"][0]["limits"] = limits
        plan = make_plan(to_specs(topology, ring_job([list(HOSTS)]), policy(copies=1)))
        assert points(plan) == ["leaf1:P1:rx", "leaf1:P2:rx"]

    def test_a_site_overrules_a_number(self) -> None:
        topology = leaf_fabric(HOSTS, [("n", "leaf1", "800G")])
        topology["switches"][0]["limits"] = {"max_sources_per_session": 1}
        with pytest.raises(Infeasible, match="sources per session at leaf1: has 1"):
            make_plan(to_specs(topology, ring_job([list(HOSTS)]), policy(copies=1)))
