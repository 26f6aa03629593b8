"""Each hard constraint by itself: it changes the plan where another choice is left, and forbids it where none is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.intent import Capabilities, Direction
from flowcheck_net.plan import candidates
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

HOSTS = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf1", "h4": "leaf1"}
WIDE = Capabilities("fake", 4, 8, frozenset(Direction), filters=True, source_in_many_sessions=False)

Planner = Callable[..., Plan]


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    """Plans four hosts in a ring on one leaf with one 800G capture port and one copy, if not told otherwise."""

    def run(
        *,
        topology: Raw | None = None,
        job: Raw | None = None,
        rules: Raw | None = None,
        tables: dict[str, Capabilities] | None = None,
        **changes: Any,
    ) -> Plan:
        given = {"fake": replace(WIDE, **changes), **(tables or {})}
        monkeypatch.setattr(candidates, "capabilities", given.__getitem__)
        return make_plan(to_specs(topology or fabric(), job or ring_job([list(HOSTS)]), rules or policy(copies=1)))

    return run


def fabric(captures: Sequence[tuple[str, str, str]] = (("n", "leaf1", "800G"),), **changes: Any) -> Raw:
    return leaf_fabric(HOSTS, captures, **changes)


def points(plan: Plan) -> list[str]:
    return [point.id for point in plan.points]


def test_without_limits_the_first_port_in_both_directions(planner: Planner) -> None:
    """Hop 3 arrives at h1 and hop 0 leaves it: two distinct hops at one port, one copy."""
    plan = planner()
    assert points(plan) == ["leaf1:P1:rx", "leaf1:P1:tx"]
    assert [(hop.index, hop.copies) for hop in plan.hops] == [(0, 1), (3, 1)]
    assert [(c.copies, c.wanted) for c in plan.coverage] == [(1, 1)]
    assert (plan.cost.sessions, plan.cost.duplicate_bytes) == (1, 0)


def test_copies_add_a_hop_each(planner: Planner) -> None:
    rules = policy(copies=2, rate_model="measured", measured={"leaf1:P1:rx": "1G"})
    plan = planner(topology=fabric([("n", "leaf1", "800G"), ("n", "leaf1", "800G")]), rules=rules)
    assert len({hop.index for hop in plan.hops}) == 3
    assert [(c.copies, c.wanted) for c in plan.coverage] == [(2, 2)]


def test_a_ring_of_two_gives_one_copy_and_says_so(planner: Planner) -> None:
    plan = planner(job=ring_job([["h1", "h2"]]), rules=policy(copies=2))
    assert [(c.copies, c.wanted) for c in plan.coverage] == [(1, 2)]


def test_one_site_a_hop(planner: Planner) -> None:
    """A hop seen where it enters and where it leaves the leaf would be two copies of it: never chosen."""
    plan = planner(rules=policy(copies=3), topology=fabric([("n", "leaf1", "800G"), ("n", "leaf1", "800G")]))
    assert len(plan.points) == 4
    assert plan.cost.duplicate_bytes == 0
    assert {hop.copies for hop in plan.hops} == {1}


class TestBandwidth:
    def test_line_rate_spreads_over_capture_ports(self, planner: Planner) -> None:
        plan = planner(topology=fabric([("n", "leaf1", "400G"), ("n", "leaf1", "400G")]))
        assert [point.capture for point in plan.points] == ["n:cap0", "n:cap1"]
        assert [(load.load, load.capacity) for load in plan.loads] == [(400_000, 400_000)] * 2

    def test_headroom_spreads_too(self, planner: Planner) -> None:
        captures = [("n", "leaf1", "800G"), ("n", "leaf1", "800G")]
        assert planner(topology=fabric(captures)).cost.sessions == 1
        plan = planner(topology=fabric(captures), rules=policy(copies=1, headroom=0.001))
        assert plan.cost.sessions == 2
        assert {load.capacity for load in plan.loads} == {799_200}

    def test_infeasible_names_the_numbers_and_the_port(self, planner: Planner) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(topology=fabric([("n", "leaf1", "100G")]))
        assert "ring dp0/0 cannot have 1 copy (2 hops)" in caught.value.message
        assert "capture bandwidth at leaf1: needs 800G, has 100G" in caught.value.message
        assert "one more 800G capture port on leaf1" in caught.value.hint

    def test_what_is_proposed_would_do(self, planner: Planner) -> None:
        planner(topology=fabric([("n", "leaf1", "100G"), ("n", "leaf1", "800G")]))

    def test_measured_rates_count_in_place_of_line_rates(self, planner: Planner) -> None:
        rates = {"leaf1:P2:rx": "60G", "leaf1:P2:tx": "40G"}
        rules = policy(copies=1, rate_model="measured", measured=rates)
        plan = planner(topology=fabric([("n", "leaf1", "100G")]), rules=rules)
        assert points(plan) == ["leaf1:P2:rx", "leaf1:P2:tx"]
        assert plan.loads[0].load == 100_000

    def test_a_tap_without_a_measurement_counts_with_its_line_rate(self, planner: Planner) -> None:
        rules = policy(copies=1, rate_model="measured", measured={"leaf1:P2:rx": "60G"})
        with pytest.raises(Infeasible, match="capture bandwidth"):
            planner(topology=fabric([("n", "leaf1", "100G")]), rules=rules)

    def test_average_is_the_bytes_of_a_step(self, planner: Planner) -> None:
        """98304 fp32 in a ring of 4: 6 chunks of 98304 bytes on a hop, each two slices of 49152 bytes = 12 packets.

        Beside the payload a packet has 62 bytes and 20 of IPv4, a message 20; the rate is rounded up to whole Mbit/s.
        """
        job = ring_job([list(HOSTS)], iteration_time=0.001)
        plan = planner(topology=fabric([("n", "leaf1", "10G")]), job=job, rules=policy(copies=1, rate_model="average"))
        bits = 8 * (6 * 98_304 + 6 * 2 * 12 * (62 + 20) + 6 * 2 * 20)
        assert plan.loads[0].load == 2 * -(-bits // 1000)

    def test_average_can_be_too_much_as_well(self, planner: Planner) -> None:
        job = ring_job([list(HOSTS)], iteration_time=0.0001)
        with pytest.raises(Infeasible, match="capture bandwidth at leaf1"):
            planner(topology=fabric([("n", "leaf1", "10G")]), job=job, rules=policy(copies=1, rate_model="average"))


class TestSessions:
    CAPTURES = (("n", "leaf1", "400G"), ("n", "leaf1", "400G"), ("n", "leaf1", "800G"))

    def test_one_session_takes_the_port_that_holds_both(self, planner: Planner) -> None:
        rules = policy(copies=1)
        plan = planner(topology=fabric(self.CAPTURES), rules=rules, max_sessions=1)
        assert {point.capture for point in plan.points} == {"n:cap2"}
        assert plan.sessions[0].session.name == "fcn-job-3"

    def test_infeasible_names_sessions(self, planner: Planner) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(topology=fabric(self.CAPTURES[:2]), max_sessions=1)
        assert "mirror sessions at leaf1: needs 2, has 1" in caught.value.message
        assert "mirror sessions: 1 more on leaf1" in caught.value.hint


class TestSources:
    def test_a_full_session_makes_a_second_one(self, planner: Planner) -> None:
        captures = [("n", "leaf1", "800G"), ("n", "leaf1", "800G")]
        assert planner(topology=fabric(captures)).cost.sessions == 1
        assert planner(topology=fabric(captures), max_sources_per_session=1).cost.sessions == 2

    def test_infeasible_names_sources(self, planner: Planner) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(max_sources_per_session=1)
        assert "sources per session at leaf1: has 1 a session, 1 too few" in caught.value.message
        assert "one more capture port" in caught.value.hint


class TestDirection:
    def test_one_direction_needs_two_ports(self, planner: Planner) -> None:
        plan = planner(directions=frozenset({Direction.TX}))
        assert points(plan) == ["leaf1:P1:tx", "leaf1:P2:tx"]

    def test_infeasible_names_what_cannot_be_mirrored(self, planner: Planner) -> None:
        rules = policy(copies=1, allowed=["leaf1:P1"])
        with pytest.raises(Infeasible) as caught:
            planner(rules=rules, directions=frozenset({Direction.RX}))
        assert "mirror direction: the platform cannot mirror leaf1:P1:tx" in caught.value.message
        assert "allow leaf1:P2:rx in allowed_ports" in caught.value.hint


class TestTenants:
    def test_a_shared_port_gets_the_jobs_address_pairs(self, planner: Planner) -> None:
        shared = [f"leaf1:P{n}" for n in range(1, 5)]
        plan = planner(topology=fabric(shared=shared))
        assert points(plan) == ["leaf1:P1:rx", "leaf1:P1:tx"]
        pairs = [("10.0.0.1", "10.0.0.2"), ("10.0.0.4", "10.0.0.1")]
        assert [(f.source, f.destination) for f in plan.sessions[0].session.filters] == pairs

    def test_a_port_of_our_own_needs_no_filter(self, planner: Planner) -> None:
        assert planner().sessions[0].session.filters == ()

    def test_a_platform_without_filters_goes_elsewhere(self, planner: Planner) -> None:
        plan = planner(topology=fabric(shared=["leaf1:P1"]), filters=False)
        assert points(plan) == ["leaf1:P2:rx", "leaf1:P2:tx"]

    def test_infeasible_names_isolation(self, planner: Planner) -> None:
        shared = [f"leaf1:P{n}" for n in range(1, 5)]
        with pytest.raises(Infeasible) as caught:
            planner(topology=fabric(shared=shared), filters=False)
        assert "tenant isolation: foreign traffic may cross leaf1:P1:rx, leaf1:P1:tx" in caught.value.message
        assert "a platform with filters there" in caught.value.hint

    def test_a_port_between_switches_is_always_foreign(self, planner: Planner) -> None:
        """The capture port hangs on the only spine: its ports are watched through a filter, or not at all."""
        topology = leaf_fabric({"h1": "leaf1", "h2": "leaf2"}, [("n", "spine1", "800G")], spines=1)
        plan = planner(topology=topology, job=ring_job([["h1", "h2"]]))
        assert points(plan) == ["spine1:down-leaf1:rx", "spine1:down-leaf1:tx"]
        assert len(plan.sessions[0].session.filters) == 2
        with pytest.raises(Infeasible, match="tenant isolation"):
            planner(topology=topology, job=ring_job([["h1", "h2"]]), filters=False)

    def test_a_port_that_is_not_certain_is_never_watched(self, planner: Planner) -> None:
        """Two spines: each packet takes one of them, so a spine's port proves nothing."""
        topology = leaf_fabric({"h1": "leaf1", "h2": "leaf2"}, [("n", "spine1", "800G")], spines=2)
        with pytest.raises(Infeasible) as caught:
            planner(topology=topology, job=ring_job([["h1", "h2"]]))
        assert "capture ports: leaf1 has none" in caught.value.message
        assert "a 800G capture port on leaf1" in caught.value.hint


class TestCertainty:
    """leaf2 hangs on spine1 alone: leaf1 to leaf2 surely crosses it, leaf1 to leaf3 may cross it or spine2."""

    HOSTS: ClassVar = {"h1": "leaf1", "h2": "leaf2", "h3": "leaf3"}

    def topology(self) -> Raw:
        made = leaf_fabric(self.HOSTS, [("n", "spine1", "800G")], spines=2)
        return {**made, "links": [link for link in made["links"] if "leaf2:up-spine2" not in link]}

    def test_a_spine_port_serves_while_every_hop_is_certain(self, planner: Planner) -> None:
        plan = planner(topology=self.topology(), job=ring_job([["h1", "h2"]]))
        assert points(plan) == ["spine1:down-leaf1:rx", "spine1:down-leaf1:tx"]

    def test_infeasible_when_another_hop_may_or_may_not_cross_it(self, planner: Planner) -> None:
        """Watched, spine1's port to leaf1 would give an unforeseen number of copies of the hops between h1 and h3."""
        near = policy(copies=1, allowed=["spine1:down-leaf1"])
        planner(topology=self.topology(), job=ring_job([["h1", "h2"]]), rules=near)
        with pytest.raises(Infeasible) as caught:
            planner(topology=self.topology(), job=ring_job([["h1", "h2"], ["h1", "h3"]]), rules=near)
        assert "ring dp0/0, ring dp1/0" in caught.value.message

    def test_a_port_that_the_other_hop_never_crosses_still_serves(self, planner: Planner) -> None:
        """No packet between h1 and h3 crosses spine1's port to leaf2: only their own ring has no place."""
        with pytest.raises(Infeasible) as caught:
            planner(topology=self.topology(), job=ring_job([["h1", "h2"], ["h1", "h3"]]))
        assert caught.value.message.startswith("ring dp1/0 cannot")

    def test_the_plan_moves_to_the_leaf(self, planner: Planner) -> None:
        made = leaf_fabric(
            self.HOSTS, [("n", "spine1", "800G"), ("n", "leaf2", "800G"), ("n", "leaf3", "800G")], spines=2
        )
        topology = {**made, "links": [link for link in made["links"] if "leaf2:up-spine2" not in link]}
        alone = planner(topology=topology, job=ring_job([["h1", "h2"]]), rules=policy(copies=1, allowed=["spine1:*"]))
        assert {point.switch for point in alone.points} == {"spine1"}
        both = planner(topology=topology, job=ring_job([["h1", "h2"], ["h1", "h3"]]), rules=policy(copies=1))
        assert {point.switch for point in both.points} == {"leaf2", "leaf3"}


class TestAllowedPorts:
    def test_globs_move_the_plan(self, planner: Planner) -> None:
        plan = planner(rules=policy(copies=1, allowed=["leaf1:P[34]"]))
        assert points(plan) == ["leaf1:P3:rx", "leaf1:P3:tx"]

    def test_infeasible_names_what_to_allow(self, planner: Planner) -> None:
        topology = fabric([("n", "leaf1", "800G")])
        with pytest.raises(Infeasible) as caught:
            planner(topology=topology, rules=policy(copies=1, allowed=["leaf1:Mn1"]))
        assert "allowed_ports: the policy leaves out leaf1:P1:rx, leaf1:P1:tx" in caught.value.message
        assert "allow leaf1:P1:rx, leaf1:P1:tx in allowed_ports" in caught.value.hint


class TestCapturePorts:
    SPLIT: ClassVar = {"h1": "leaf1", "h2": "leaf2"}

    def test_only_the_leaf_with_a_capture_port_is_used(self, planner: Planner) -> None:
        topology = leaf_fabric(self.SPLIT, [("n", "leaf2", "800G")], spines=1)
        plan = planner(topology=topology, job=ring_job([["h1", "h2"]]))
        assert {point.switch for point in plan.points} == {"leaf2"}

    def test_infeasible_names_the_switch(self, planner: Planner) -> None:
        topology = leaf_fabric({"h1": "leaf1", "h2": "leaf1"}, [("n", "leaf2", "800G")], spines=1)
        with pytest.raises(Infeasible) as caught:
            planner(topology=topology, job=ring_job([["h1", "h2"]]))
        assert "capture ports: leaf1 has none" in caught.value.message
        assert "a 800G capture port on leaf1" in caught.value.hint


class TestCheckpointApart:
    CAPTURES = (("a", "leaf1", "800G"), ("b", "leaf1", "800G"))

    def rules(self) -> Raw:
        rules = policy(copies=1)
        rules["failure_domains"]["checkpoint_apart"] = True
        return rules

    def test_the_node_in_another_rack_is_used(self, planner: Planner) -> None:
        topology = fabric(self.CAPTURES, domains={"a": ["rack-1"], "h3": ["rack-1"]})
        assert {point.capture for point in planner(topology=topology).points} == {"a:cap0"}
        plan = planner(topology=topology, rules=self.rules())
        assert {point.capture for point in plan.points} == {"b:cap0"}

    def test_infeasible_names_the_nodes(self, planner: Planner) -> None:
        topology = fabric(self.CAPTURES, domains={"a": ["rack-1"], "b": ["rack-1"], "h3": ["rack-1"]})
        with pytest.raises(Infeasible) as caught:
            planner(topology=topology, rules=self.rules())
        assert "checkpoint_apart: a, b shares a failure domain" in caught.value.message
        assert "checkpoint_apart: false" in caught.value.hint

    def test_a_hop_seen_only_in_danger_does_not_count(self, planner: Planner) -> None:
        """Two rings on the same hosts' ports; the node is in the rack of the first ring's third host only."""
        hosts = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2"}
        topology = leaf_fabric(
            hosts,
            [("a", "leaf1", "800G"), ("b", "leaf2", "800G")],
            spines=1,
            domains={"a": ["rack-1"], "h3": ["rack-1"]},
        )
        job = ring_job([["h1", "h2", "h3"], ["h1", "h2"]])
        plan = planner(topology=topology, job=job, rules=self.rules())
        counted = {(str(hop.group), hop.index): hop.counted for hop in plan.hops}
        assert counted["dp1", 0]
        assert not any(hop.counted for hop in plan.hops if hop.group == "dp0" and hop.point.startswith("leaf1"))
        assert [line.copies for line in plan.coverage] == [1, 1]


class TestCopiesApart:
    HOSTS: ClassVar = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}
    CAPTURES = (("n", "leaf1", "800G"), ("n", "leaf2", "800G"))

    def rules(self, glob: str) -> Raw:
        rules = policy(copies=1)
        rules["failure_domains"]["copies_apart"] = [glob]
        return rules

    def topology(self, second: str) -> Raw:
        domains = {"leaf1": ["rack-1", "room-1"], "leaf2": [second, "room-1"]}
        return leaf_fabric(self.HOSTS, self.CAPTURES, spines=1, domains=domains)

    def test_hops_come_from_two_racks(self, planner: Planner) -> None:
        topology = self.topology("rack-2")
        assert {point.switch for point in planner(topology=topology).points} == {"leaf1"}
        plan = planner(topology=topology, rules=self.rules("rack-*"))
        assert {point.switch for point in plan.points} == {"leaf1", "leaf2"}
        assert [hop.counted for hop in plan.hops] == [True, True]

    @pytest.mark.parametrize(("second", "glob"), [("rack-1", "rack-*"), ("rack-2", "room-*"), ("rack-2", "*")])
    def test_infeasible_names_the_domains(self, planner: Planner, second: str, glob: str) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(topology=self.topology(second), rules=self.rules(glob))
        assert "copies_apart: the hops of a ring can be watched in too few" in caught.value.message
        assert "fewer globs under copies_apart" in caught.value.hint


class TestHops:
    def test_extra_step_makes_one_hop_enough(self, planner: Planner) -> None:
        plan = planner(job=ring_job([list(HOSTS)], extra_step=True))
        assert len(plan.points) == 1
        assert plan.coverage[0].copies == 1

    def test_a_ring_with_one_host_twice_counts_only_what_leaves_it(self, planner: Planner) -> None:
        """h1, h1, h2: the hop inside h1 is invisible, two hops are left: one copy, though two are wanted."""
        plan = planner(job=ring_job([["h1", "h1", "h2"]]), rules=policy(copies=2))
        assert [(hop.index) for hop in plan.hops] == [1, 2]
        assert [(c.copies, c.wanted) for c in plan.coverage] == [(1, 2)]

    def test_fewer_copies_are_offered_when_they_would_do(self, planner: Planner) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(rules=policy(copies=3))
        assert "copies: 1 in the policy" in caught.value.hint
        planner(rules=policy(copies=1))

    def test_two_limits_together_are_both_named(self, planner: Planner) -> None:
        with pytest.raises(Infeasible) as caught:
            planner(topology=fabric([("n", "leaf1", "100G")]), max_sources_per_session=1)
        assert "limits: " in caught.value.message
        assert "sources per session" in caught.value.message
        assert "capture bandwidth" in caught.value.message
