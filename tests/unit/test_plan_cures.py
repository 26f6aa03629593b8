"""Advice that joins several changes: made by hand as it is written, there is a plan; if not, the advice says so."""

from typing import ClassVar

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

HOSTS = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf1", "h4": "leaf1"}
TWO = {"h1": "leaf1", "h2": "leaf2"}


def advice(topology: Raw, hosts: dict[str, str], rules: Raw) -> str:
    with pytest.raises(Infeasible) as caught:
        plan(topology, hosts, rules)
    return caught.value.hint.split("; or ")[0]


def plan(topology: Raw, hosts: dict[str, str], rules: Raw) -> Plan:
    return make_plan(to_specs(topology, ring_job([list(hosts)]), rules))


def busy(ports: int, sessions: int) -> Raw:
    """Ports of 400G for copies; others have one of the sessions."""
    topology = leaf_fabric(HOSTS, [("n", "leaf1", "400G")] * ports)
    topology["switches"][0]["limits"] = {"max_sessions": sessions}
    topology["switches"][0]["foreign_sessions"] = [{"name": "ids", "sources": ["P4:rx"], "destination": "X9"}]
    return topology


class TestNewPortsNeedSessions:
    """Two sources of 400G, one port of 400G and no session left: one port more, and two sessions, one for each."""

    def test_the_sessions_of_the_new_ports_are_counted(self) -> None:
        wanted = "mirror sessions: 2 more on leaf1 and one more 400G capture port on leaf1"
        assert advice(busy(1, 1), HOSTS, policy(copies=1)) == wanted

    def test_it_does_and_a_session_less_does_not(self) -> None:
        assert plan(busy(2, 3), HOSTS, policy(copies=1)).cost.unmet == 0
        with pytest.raises(Infeasible):
            plan(busy(2, 2), HOSTS, policy(copies=1))


class TestPortsToAllow:
    """No port may be watched and leaf1 has no port for copies: which ports to allow depends on the port to buy."""

    def test_it_does(self) -> None:
        rules = policy(copies=1, allowed=["none:*"])
        topology = leaf_fabric({**TWO, "h9": "leaf3"}, [("n", "leaf3", "800G")], spines=2)
        hint = advice(topology, TWO, rules)
        assert hint == "allow leaf1:P1:rx, leaf1:P1:tx in allowed_ports and a 800G capture port on leaf1"
        bought = leaf_fabric({**TWO, "h9": "leaf3"}, [("n", "leaf3", "800G"), ("n", "leaf1", "800G")], spines=2)
        assert plan(bought, TWO, policy(copies=1, allowed=["leaf1:P1"])).cost.unmet == 0


class TestAnotherNode:
    """Nothing may be watched, and the ring must outlive each leaf and each node: leaf2 needs a port of another node."""

    RULES: ClassVar = {**policy(copies=1, allowed=["none:*"]), "survive": 1}
    ALLOWED: ClassVar = {**policy(copies=1, allowed=["leaf1:P1", "leaf2:P2"]), "survive": 1}

    def test_the_node_of_the_new_port_is_named(self) -> None:
        hint = advice(leaf_fabric(TWO, [("n", "leaf1", "800G")], spines=1), TWO, self.RULES)
        ports = "leaf1:P1:rx, leaf1:P1:tx, leaf2:P2:rx, leaf2:P2:tx"
        assert hint == f"allow {ports} in allowed_ports and a 800G capture port of a new checkpoint node on leaf2"

    def test_it_does_and_the_old_node_does_not(self) -> None:
        new = leaf_fabric(TWO, [("n", "leaf1", "800G"), ("new", "leaf2", "800G")], spines=1)
        assert plan(new, TWO, self.ALLOWED).cost.unmet == 0
        old = leaf_fabric(TWO, [("n", "leaf1", "800G"), ("n", "leaf2", "800G")], spines=1)
        with pytest.raises(Infeasible):
            plan(old, TWO, self.ALLOWED)


def test_what_nobody_can_prove_is_a_first_step() -> None:
    """The only leaf must not be lost, and no port of it may be watched: no purchase helps, so none is promised."""
    rules = {**policy(copies=1, allowed=["none:*"]), "survive": 1}
    hint = advice(leaf_fabric(HOSTS, [("n", "leaf1", "800G")]), HOSTS, rules)
    assert hint.startswith("first capture ports of two more checkpoint nodes, on switches that these rings cross and ")
    assert hint.endswith("; this alone may not be enough")
