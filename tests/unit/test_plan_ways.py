"""Copies over the fabric, cuts over equal paths, and losses: each alone changes the plan, and each alone forbids it."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from flowcheck_net.plan.plan import Plan
from tests.doubles import ring_plans
from tests.doubles.ring_plans import TWO, Planner, points, refusal
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job

planner = ring_plans.planner


class TestRemote:
    """leaf1 has the hosts, leaf2 the node: copies must cross the spine."""

    def topology(self, *, address: str | None = "10.9.0.1", captures: int = 1) -> Raw:
        made = leaf_fabric({"h1": "leaf1", "h2": "leaf1", "h9": "leaf2"}, [("n", "leaf2", "800G")] * captures, spines=1)
        if address is not None:
            made["checkpoint_nodes"][0]["nics"][0]["address"] = address
        return made

    def rules(self, *, share: float = 0.5, allowed: bool = True) -> Raw:
        rates = {f"leaf1:P{n}:{d}": "80G" for n in (1, 2) for d in ("rx", "tx")}
        rules = policy(copies=1, rate_model="measured", measured=rates)
        rules["remote"] = {"over_fabric": allowed, "uplink_share": share}
        return rules

    def plan(self, planner: Planner, topology: Raw, rules: Raw, overhead: int | None = 50) -> Plan:
        return planner(topology, job=ring_job([["h1", "h2"]]), rules=rules, encapsulation_bytes=overhead)

    def test_copies_cross_the_fabric_when_the_policy_allows_it(self, planner: Planner) -> None:
        plan = self.plan(planner, self.topology(), self.rules())
        assert {point.switch for point in plan.points} == {"leaf1"}
        assert plan.sessions[0].session.destination == "erspan:10.9.0.1"
        assert plan.sessions[0].capture == "n:cap0"

    @pytest.mark.parametrize("case", ["policy", "platform", "address"])
    def test_else_the_leaf_has_no_capture_port(self, planner: Planner, case: str) -> None:
        topology = self.topology(address=None if case == "address" else "10.9.0.1")
        rules = self.rules(allowed=case != "policy")
        overhead = None if case == "platform" else 50
        error = refusal(lambda: self.plan(planner, topology, rules, overhead))
        assert "capture ports: leaf1 has none" in str(error)

    def test_each_copy_is_longer_by_the_headers(self, planner: Planner) -> None:
        """A 4096-byte packet is 4178 bytes on the wire with all headers and the gap; 50 more are 1.2 %."""
        plain = sum(load.load for load in self.plan(planner, self.topology(), self.rules(), 0).loads)
        longer = sum(load.load for load in self.plan(planner, self.topology(), self.rules(), 50).loads)
        assert plain == 160_000
        assert 1.0119 < longer / plain < 1.0121

    def test_headers_alone_can_be_too_much(self, planner: Planner) -> None:
        """400G uplink, 0.4 of it: 160G, just the plain rate of the two sources."""
        self.plan(planner, self.topology(), self.rules(share=0.4), 0)
        error = refusal(lambda: self.plan(planner, self.topology(), self.rules(share=0.4), 50))
        assert "bandwidth for copies that cross the fabric at leaf1:up-spine1: needs 161.9G, has 160G" in str(error)
        assert "a larger uplink_share in the policy" in error.hint

    def test_a_local_capture_port_is_used_where_the_uplink_is_too_small(self, planner: Planner) -> None:
        made = leaf_fabric({"h1": "leaf1", "h2": "leaf2"}, [("n", "leaf2", "800G")], spines=1)
        made["checkpoint_nodes"][0]["nics"][0]["address"] = "10.9.0.1"
        rates = {f"{leaf}:{d}": "80G" for leaf in ("leaf1:P1", "leaf2:P2") for d in ("rx", "tx")}
        wide, narrow = ({**self.rules(share=share), "allowed_ports": ["leaf*:P*"]} for share in (0.5, 0.1))
        for rules in (wide, narrow):
            rules["monitor"]["measured"] = rates
        assert {point.switch for point in self.plan(planner, made, wide).points} == {"leaf1"}
        assert {point.switch for point in self.plan(planner, made, narrow).points} == {"leaf2"}

    def test_sessions_to_other_switches_are_numbered_after_the_local_ones(self, planner: Planner) -> None:
        """The local port holds one source of 80G, the other one goes over the fabric."""
        hosts = {"h1": "leaf1", "h2": "leaf1", "h9": "leaf2"}
        made = leaf_fabric(hosts, [("a", "leaf1", "100G"), ("b", "leaf2", "800G")], spines=1)
        made["checkpoint_nodes"][1]["nics"][0]["address"] = "10.9.0.1"
        plan = self.plan(planner, made, self.rules(share=0.25))
        assert [(s.session.name, s.capture) for s in plan.sessions] == [
            ("fcn-job-1", "a:cap0"),
            ("fcn-job-2", "b:cap0"),
        ]

    @pytest.mark.parametrize("nics", [1, 2])
    def test_a_mirror_port_takes_no_copies_of_other_switches(self, planner: Planner, nics: int) -> None:
        """Both leaves have a ring. One NIC on leaf2 serves leaf2 or leaf1; a second one makes both possible."""
        hosts = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}
        made = leaf_fabric(hosts, [("n", "leaf2", "800G")] * nics, spines=1)
        for number, nic in enumerate(made["checkpoint_nodes"][0]["nics"]):
            nic["address"] = f"10.9.0.{number}"
        rules = {**self.rules(), "allowed_ports": ["leaf*:P*"]}
        rules["monitor"]["measured"].update({f"leaf2:P{n}:{d}": "80G" for n in (3, 4) for d in ("rx", "tx")})
        job = ring_job([["h1", "h2"], ["h3", "h4"]])
        if nics == 2:
            plan = planner(made, job=job, rules=rules, encapsulation_bytes=50)
            assert len({point.capture for point in plan.points}) == 2
            return
        error = refusal(lambda: planner(made, job=job, rules=rules, encapsulation_bytes=50))
        assert "n:cap0 cannot take copies of its own switch and of others" in str(error)

    def test_a_port_that_copies_cross_is_not_watched(self, planner: Planner) -> None:
        """Only the uplink of leaf1 is allowed, and it carries the copies themselves."""
        made = leaf_fabric(TWO, [("n", "spine1", "800G")], spines=1)
        made["checkpoint_nodes"][0]["nics"][0]["address"] = "10.9.0.1"
        rules = policy(copies=1, allowed=["leaf1:up-spine1"], rate_model="measured")
        rules["monitor"]["measured"] = {f"leaf1:up-spine1:{d}": "1G" for d in ("rx", "tx")}
        rules["remote"] = {"over_fabric": True, "uplink_share": 0.5}
        error = refusal(lambda: self.plan(planner, made, rules))
        assert "no mirror of a mirror" in str(error)
        rules["allowed_ports"] = ["leaf1:*"]
        rules["monitor"]["measured"].update({f"leaf1:P1:{d}": "1G" for d in ("rx", "tx")})
        assert points(self.plan(planner, made, rules)) == ["leaf1:P1:rx", "leaf1:P1:tx"]


class TestCuts:
    """Two spines: the uplinks of leaf1 together see every hop between the leaves."""

    def rules(self, allowed: Sequence[str], *, cuts: bool = True) -> Raw:
        return {**policy(copies=1, allowed=allowed), "cuts": cuts}

    def test_all_uplinks_together_are_one_site(self, planner: Planner) -> None:
        topology = leaf_fabric(TWO, [("n", "leaf1", "800G")] * 2, spines=2, speed="200G")
        plan = planner(topology, job=ring_job([["h1", "h2"]]), rules=self.rules(["leaf1:up-*"]))
        assert points(plan) == [f"leaf1:up-spine{n}:{d}" for n in (1, 2) for d in ("rx", "tx")]
        assert [(hop.copies, len(hop.also)) for hop in plan.hops] == [(1, 1), (1, 1)]
        assert plan.cost.duplicate_bytes == 0
        assert sum(load.load for load in plan.loads) == 4 * 200_000
        assert plan.cost.mirrored_bytes == 2 * 393216

    def test_without_cuts_it_is_infeasible(self, planner: Planner) -> None:
        topology = leaf_fabric(TWO, [("n", "leaf1", "800G")] * 2, spines=2, speed="200G")
        rules = self.rules(["leaf1:up-*"], cuts=False)
        refusal(lambda: planner(topology, job=ring_job([["h1", "h2"]]), rules=rules))

    def test_a_cut_over_two_spines(self, planner: Planner) -> None:
        captures = [("n", "spine1", "800G"), ("n", "spine2", "800G")]
        topology = leaf_fabric(TWO, captures, spines=2)
        plan = planner(topology, job=ring_job([["h1", "h2"]]), rules=self.rules(["*:*"]))
        assert {point.switch for point in plan.points} == {"spine1", "spine2"}
        assert {hop.copies for hop in plan.hops} == {1}
        error = refusal(
            lambda: planner(
                leaf_fabric(TWO, captures[:1], spines=2), job=ring_job([["h1", "h2"]]), rules=self.rules(["*:*"])
            )
        )
        assert "capture ports" in str(error)

    def test_a_bond_is_a_cut_of_its_cables(self, planner: Planner) -> None:
        topology = bonded(leaf_fabric({"h1": "leaf1", "h2": "leaf1"}, [("n", "leaf1", "800G")] * 2), "leaf1")
        job = ring_job([["h1", "h2"]])
        assert points(planner(topology, job=job)) == ["leaf1:P2:rx", "leaf1:P2:tx"]
        rules = self.rules(["leaf1:P1*"])
        assert points(planner(topology, job=job, rules=rules)) == [
            f"leaf1:{p}:{d}" for p in ("P1", "P1b") for d in ("rx", "tx")
        ]

    def test_behind_a_bond_a_single_way_is_certain(self, planner: Planner) -> None:
        """h1 sends with either cable to leaf1, and from there one way leads on: both hops surely cross its end."""
        topology = bonded(leaf_fabric(TWO, [("n", "leaf2", "800G")], spines=1), "leaf1")
        rules = self.rules(["leaf2:up-*"], cuts=False)
        plan = planner(topology, job=ring_job([["h1", "h2"]]), rules=rules)
        assert points(plan) == ["leaf2:up-spine1:rx", "leaf2:up-spine1:tx"]

    @pytest.mark.parametrize("cuts", [False, True])
    def test_a_way_that_a_bond_over_two_leaves_may_take_is_left_alone(self, planner: Planner, cuts: bool) -> None:
        """h1 hangs on leaf1 and leaf3: how many of its packets cross the uplink that h3 surely uses is not known."""
        hosts = {"h1": "leaf3", "h2": "leaf2", "h3": "leaf1", "h4": "leaf4"}
        captures = [("n", "leaf1", "800G"), ("n", "leaf2", "800G")]
        rules = self.rules(["leaf1:up-*", "leaf2:P2"], cuts=cuts)
        uplink = ["leaf1:up-spine1:rx", "leaf1:up-spine1:tx"]
        plain = planner(leaf_fabric(hosts, captures, spines=1), job=ring_job([["h1", "h2"], ["h3", "h4"]]), rules=rules)
        assert points(plain)[:2] == uplink
        topology = bonded(leaf_fabric(hosts, captures, spines=1), "leaf1")
        refusal(lambda: planner(topology, job=ring_job([["h1", "h2"], ["h3", "h4"]]), rules=rules))


def bonded(topology: Raw, leaf: str) -> Raw:
    """h1 gets a second cable, to ``leaf``, in a bond with its first."""
    switch = next(switch for switch in topology["switches"] if switch["name"] == leaf)
    switch["ports"].append({"name": "P1b", "speed": "400G"})
    topology["hosts"][0]["nics"][0]["lag"] = "bond0"
    topology["hosts"][0]["nics"].append({"name": "nic1", "speed": "400G", "addresses": ["10.1.0.1"], "lag": "bond0"})
    topology["links"].append(["h1:nic1", f"{leaf}:P1b"])
    return topology


class TestSurvive:
    def rules(self, survive: int) -> Raw:
        return {**policy(copies=1), "survive": survive}

    CAPTURES: ClassVar = [("a", "leaf1", "800G"), ("b", "leaf2", "800G")]

    def test_a_second_switch_and_node_are_used(self, planner: Planner) -> None:
        topology = leaf_fabric(TWO, self.CAPTURES, spines=1)
        job = ring_job([["h1", "h2"]])
        assert {point.switch for point in planner(topology, job=job, rules=self.rules(0)).points} == {"leaf1"}
        plan = planner(topology, job=job, rules=self.rules(1))
        assert {point.switch for point in plan.points} == {"leaf1", "leaf2"}
        assert {point.capture for point in plan.points} == {"a:cap0", "b:cap0"}

    def test_copies_to_a_lost_switch_are_lost(self, planner: Planner) -> None:
        """Both NICs hang on leaf1: what leaf2 sends there does not outlive leaf1."""
        topology = leaf_fabric(TWO, [("a", "leaf1", "800G"), ("b", "leaf1", "800G")], spines=1)
        for number, node in enumerate(topology["checkpoint_nodes"]):
            node["nics"][0]["address"] = f"10.9.0.{number}"
        job = ring_job([["h1", "h2"]])
        remote = {"remote": {"over_fabric": True, "uplink_share": 1.0}}
        rates = {f"leaf{n}:P{n}:{d}": "40G" for n in (1, 2) for d in ("rx", "tx")}
        rules = {**self.rules(1), **remote, "monitor": {"rate_model": "measured", "measured": rates}}
        error = refusal(lambda: planner(topology, job=job, rules=rules, encapsulation_bytes=50))
        assert "survive: not complete any more: ring dp0/0 after the loss of switch leaf1" in str(error)
        planner(topology, job=job, rules={**rules, "survive": 0}, encapsulation_bytes=50)

    def test_infeasible_names_what_must_not_be_lost(self, planner: Planner) -> None:
        error = refusal(lambda: planner(rules=self.rules(1)))
        assert "survive: not complete any more: ring dp0/0 after the loss of capture port n:cap0" in str(error)
        assert error.hint.startswith(
            "first capture ports of two more checkpoint nodes, on switches that these rings cross"
        )
        assert "; this alone may not be enough" in error.hint

    def test_one_more_node_on_the_other_leaf_is_proposed_and_does(self, planner: Planner) -> None:
        job = ring_job([["h1", "h2"]])
        error = refusal(lambda: planner(leaf_fabric(TWO, self.CAPTURES[:1], spines=1), job=job, rules=self.rules(1)))
        assert error.hint.startswith("another checkpoint node with a 800G capture port on leaf2")
        planner(leaf_fabric(TWO, [self.CAPTURES[0], ("new", "leaf2", "800G")], spines=1), job=job, rules=self.rules(1))
