"""Fabric and routing: look-ups, and certain places against all shortest paths listed one by one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import Address, HostName, NicName, PortName, Rank, SwitchName
from flowcheck_net.model.fabric import Fabric, SwitchPort
from flowcheck_net.model.job import RankPlace
from flowcheck_net.model.routing import hop_sites
from flowcheck_net.spec.topology import Topology

Cable = tuple[str, str]


def a_topology(
    hosts: dict[str, str], core: Sequence[Cable] = (), switches: Sequence[str] = (), **extra: dict[str, Any]
) -> Topology:
    """Hosts (name -> leaf) with one NIC ``m0`` each, cables between switches, two capture NICs on the first leaf.

    Port ``to-X-n`` of a switch is its n-th cable to X. ``extra`` are keys added to a device by name.
    """
    ports: dict[str, list[str]] = {name: [] for name in [*switches, *hosts.values()]}
    links = []

    def plug(switch: str, other: str) -> str:
        port = f"to-{other}-{sum(p.startswith(f'to-{other}-') for p in ports[switch])}"
        ports[switch].append(port)
        return f"{switch}:{port}"

    for near, far in core:
        ports.setdefault(near, [])
        ports.setdefault(far, [])
        links.append((plug(near, far), plug(far, near)))
    links += [(f"{host}:m0", plug(leaf, host)) for host, leaf in hosts.items()]
    first = next(iter(hosts.values()))
    links += [(plug(first, "ckpt"), f"ckpt:cap{i}") for i in (0, 1)]

    def device(name: str, **fields: object) -> dict[str, object]:
        return {"name": name, **fields, **extra.get(name, {})}

    return Topology.model_validate(
        {
            "version": 1,
            "name": "test",
            "switches": tuple(
                device(
                    name,
                    platform="fake",
                    management=f"fake:{name}",
                    ports=tuple({"name": p, "speed": "100G" if "ckpt" in p else "400G"} for p in names),
                )
                for name, names in ports.items()
            ),
            "hosts": tuple(
                device(name, nics=({"name": "m0", "speed": "400G", "addresses": (f"10.0.{i}.1",)},))
                for i, name in enumerate(hosts)
            ),
            "checkpoint_nodes": (device("ckpt", nics=tuple({"name": f"cap{i}", "speed": "100G"} for i in (0, 1))),),
            "links": tuple(links),
        }
    )


def on(host: str, rank: int = 0) -> RankPlace:
    return RankPlace(Rank(rank), HostName(host), NicName("m0"), Address("10.0.0.1"))


def port(switch: str, name: str) -> SwitchPort:
    return SwitchPort(SwitchName(switch), PortName(name))


def sites(topology: Topology, source: str, target: str) -> list[str]:
    return [f"{s.switch}:{s.port}:{s.direction}" for s in hop_sites(Fabric.from_spec(topology), on(source), on(target))]


class TestFabric:
    topology = a_topology(
        {"h1": "leaf1", "h2": "leaf1"},
        h2={"shared": True, "failure_domains": ("rack-2", "power-a")},
        leaf1={"failure_domains": ("rack-1",)},
    )
    fabric = Fabric.from_spec(topology)

    def test_attachment_speed_and_peer(self) -> None:
        assert self.fabric.attachments(HostName("h1"), NicName("m0")) == (port("leaf1", "to-h1-0"),)
        assert self.fabric.gbps(port("leaf1", "to-h1-0")) == 400
        assert self.fabric.peer(port("leaf1", "to-h1-0")) == ("h1", "m0")
        assert self.fabric.peer(port("leaf1", "nowhere")) is None

    def test_a_port_is_shared_when_its_host_is(self) -> None:
        assert not self.fabric.is_shared(port("leaf1", "to-h1-0"))
        assert self.fabric.is_shared(port("leaf1", "to-h2-0"))

    def test_a_port_is_shared_when_the_file_says_so(self) -> None:
        ports = ({"name": "to-h1-0", "speed": "400G", "shared": True}, {"name": "to-ckpt-0", "speed": "100G"})
        topology = a_topology({"h1": "leaf1"}, leaf1={"ports": ports})
        assert Fabric.from_spec(topology).is_shared(port("leaf1", "to-h1-0"))

    def test_captures_of_a_switch(self) -> None:
        first, second = self.fabric.captures(SwitchName("leaf1"))
        assert (first.at, first.node, first.nic, first.gbps) == (port("leaf1", "to-ckpt-0"), "ckpt", "cap0", 100)
        assert [first.name, second.name] == ["ckpt:cap0", "ckpt:cap1"]

    def test_a_switch_without_capture_nic(self) -> None:
        fabric = Fabric.from_spec(a_topology({"h1": "leaf1", "h2": "leaf2"}, [("leaf1", "leaf2")]))
        assert fabric.captures(SwitchName("leaf2")) == ()
        assert fabric.switches == ("leaf1", "leaf2")
        assert fabric.address(SwitchName("leaf2")).management == "fake:leaf2"

    def test_failure_domains_of_all_kinds(self) -> None:
        assert self.fabric.failure_domains("h2") == {"rack-2", "power-a"}
        assert self.fabric.failure_domains("leaf1") == {"rack-1"}
        assert self.fabric.failure_domains("ckpt") == frozenset()


class TestHopSites:
    def test_one_switch_sees_the_hop_twice(self) -> None:
        topology = a_topology({"h1": "leaf1", "h2": "leaf1"})
        assert sites(topology, "h1", "h2") == ["leaf1:to-h1-0:rx", "leaf1:to-h2-0:tx"]
        assert sites(topology, "h2", "h1") == ["leaf1:to-h2-0:rx", "leaf1:to-h1-0:tx"]

    def test_inside_a_host_nothing_is_seen(self) -> None:
        assert hop_sites(Fabric.from_spec(a_topology({"h1": "leaf1"})), on("h1", 0), on("h1", 1)) == ()

    def test_one_spine_is_certain(self) -> None:
        topology = a_topology({"h1": "l1", "h2": "l2"}, [("l1", "s1"), ("l2", "s1")])
        assert sites(topology, "h1", "h2") == [
            "l1:to-h1-0:rx",
            "l1:to-s1-0:tx",
            "s1:to-l1-0:rx",
            "s1:to-l2-0:tx",
            "l2:to-s1-0:rx",
            "l2:to-h2-0:tx",
        ]

    def test_two_spines_are_not(self) -> None:
        topology = a_topology({"h1": "l1", "h2": "l2"}, [("l1", "s1"), ("l2", "s1"), ("l1", "s2"), ("l2", "s2")])
        assert sites(topology, "h1", "h2") == ["l1:to-h1-0:rx", "l2:to-h2-0:tx"]

    def test_of_two_parallel_cables_none_is_certain(self) -> None:
        topology = a_topology({"h1": "l1", "h2": "l2"}, [("l1", "l2"), ("l1", "l2")])
        assert sites(topology, "h1", "h2") == ["l1:to-h1-0:rx", "l2:to-h2-0:tx"]

    def test_a_longer_way_round_does_not_count(self) -> None:
        topology = a_topology({"h1": "l1", "h2": "l2"}, [("l1", "l2"), ("l1", "s1"), ("l2", "s1")])
        assert sites(topology, "h1", "h2")[1:3] == ["l1:to-l2-0:tx", "l2:to-l1-0:rx"]

    def test_a_pod_with_one_uplink_between_many_paths(self) -> None:
        core = [("l1", "a1"), ("l1", "a2"), ("a1", "c"), ("a2", "c"), ("c", "b"), ("b", "l2")]
        found = sites(a_topology({"h1": "l1", "h2": "l2"}, core), "h1", "h2")
        assert found[1:-1] == ["c:to-b-0:tx", "b:to-c-0:rx", "b:to-l2-0:tx", "l2:to-b-0:rx"]

    def test_no_path_is_an_error_that_names_both_ends(self) -> None:
        topology = a_topology({"h1": "l1", "h2": "l2"})
        with pytest.raises(PlanError, match="no path from switch l1 to switch l2"):
            sites(topology, "h1", "h2")


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=14)
)
def test_certain_crossings_are_the_links_of_all_shortest_paths(pairs: list[tuple[int, int]]) -> None:
    core = [(f"s{a}", f"s{b}") for a, b in pairs]
    fabric = Fabric.from_spec(a_topology({"h0": "s0", "h1": "s1"}, core))
    graph = nx.Graph(core)
    if not (graph.has_node("s0") and graph.has_node("s1") and nx.has_path(graph, "s0", "s1")):
        with pytest.raises(PlanError):
            fabric.certain_crossings(SwitchName("s0"), SwitchName("s1"))
        return
    paths = [set(pairwise(path)) for path in nx.all_shortest_paths(graph, "s0", "s1")]
    always = set.intersection(*paths)
    single = {(a, b) for a, b in always if core.count((a, b)) + core.count((b, a)) == 1}
    found = fabric.certain_crossings(SwitchName("s0"), SwitchName("s1"))
    assert {(c.leaves.switch, c.enters.switch) for c in found} == single
    assert [(c.leaves.port, c.enters.port) for c in found] == [
        (f"to-{c.enters.switch}-0", f"to-{c.leaves.switch}-0") for c in found
    ]
