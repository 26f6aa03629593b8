"""Generated fabrics against networkx and the arithmetic of their kinds."""

from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.importers.generate import KINDS, generate
from flowcheck_net.importers.generate_shape import Shape, ShapeError
from flowcheck_net.spec.load import specs_from_documents


def device(end):
    return end.partition(":")[0]


def graph(topology):
    """Switches, hosts and checkpoint nodes; parallel links stay apart."""
    found: nx.MultiGraph[str] = nx.MultiGraph()
    for kind in ("switches", "hosts", "checkpoint_nodes"):
        found.add_nodes_from((entry["name"] for entry in topology[kind]), kind=kind)
    found.add_edges_from((device(one), device(other)) for one, other in topology["links"])
    return found


def switches_of(topology):
    found = graph(topology)
    return nx.Graph(found.subgraph(name for name, kind in found.nodes(data="kind") if kind == "switches"))


def hosts_of(found):
    return [name for name, kind in found.nodes(data="kind") if kind == "hosts"]


@settings(max_examples=40)
@given(st.sampled_from(KINDS), st.integers(2, 40), st.integers(1, 8), st.integers(1, 5), st.integers(1, 4))
def test_every_port_and_nic_has_one_link(kind, hosts, gpus, per_leaf, spines):
    shape = Shape(hosts=hosts, gpus_per_host=gpus, tp=gpus, hosts_per_leaf=per_leaf, spines=spines)
    topology = generate(kind, shape).topology
    ports = [f"{s['name']}:{p['name']}" for s in topology["switches"] for p in s["ports"]]
    for group in ("hosts", "checkpoint_nodes"):
        ports += [f"{entry['name']}:{nic['name']}" for entry in topology[group] for nic in entry["nics"]]
    ends = [end for link in topology["links"] for end in link]
    assert Counter(ends) == Counter(dict.fromkeys(ports, 1))
    addresses = [a for host in topology["hosts"] for nic in host["nics"] for a in nic["addresses"]]
    assert len(set(addresses)) == hosts * gpus


@settings(max_examples=40)
@given(st.sampled_from([k for k in KINDS if k != "rail-optimised"]), st.integers(2, 40), st.integers(1, 8))
def test_hosts_reach_each_other(kind, hosts, gpus):
    topology = generate(kind, Shape(hosts=hosts, gpus_per_host=gpus, tp=1)).topology
    assert nx.is_connected(graph(topology))
    assert nx.is_connected(switches_of(topology)), "without hosts in between"


@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(1, 8), st.integers(1, 9), st.integers(1, 4))
def test_rails_are_separate(hosts, gpus, per_leaf, spines):
    shape = Shape(hosts=hosts, gpus_per_host=gpus, tp=gpus, hosts_per_leaf=per_leaf, spines=spines)
    topology = generate("rail-optimised", shape).topology
    pods = -(-hosts // per_leaf)
    fabric = switches_of(topology)
    parts = list(nx.connected_components(fabric))
    assert len(parts) == gpus, "one part a rail, joined inside the hosts only"
    rail_of = {name: n for n, part in enumerate(parts) for name in part}
    rails = Counter((link[0].partition(":")[2], rail_of[device(link[1])]) for link in topology["links"][: hosts * gpus])
    assert sorted(rails.values()) == [hosts] * gpus, "NIC n of every host is on one rail"
    if pods > 1:
        leaves = [name for name in fabric if name.startswith("leaf")]
        assert len(leaves) == pods * gpus
        assert {fabric.degree(leaf) for leaf in leaves} == {spines}
        assert {fabric.degree(name) for name in fabric if name.startswith("spine")} == {pods}


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_full_fat_tree(k):
    """k^3/4 hosts, 5k^2/4 switches, every switch with k ports, k/2 x k/2 shortest paths between pods."""
    topology = generate("fat-tree", Shape(hosts=k**3 // 4, gpus_per_host=1, tp=1, k=k)).topology
    assert len(topology["switches"]) == 5 * k * k // 4
    found = graph(topology)
    captures = {device(link[0]) for link in topology["links"] if link[0].startswith("ckpt")}
    found.remove_nodes_from(captures)
    assert {degree for name, degree in found.degree() if not name.startswith("host")} == {k}
    first, last = "host0", f"host{k**3 // 4 - 1}"
    paths = list(nx.all_shortest_paths(nx.Graph(found), first, last))
    assert (len(paths), len(paths[0])) == (k * k // 4, 7)


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(1, 8))
def test_a_fat_tree_is_the_smallest_that_holds_all_nics(hosts, gpus):
    topology = generate("fat-tree", Shape(hosts=hosts, gpus_per_host=gpus, tp=1)).topology
    halves = sum(name["name"].startswith("agg-p0") for name in topology["switches"])
    nics = hosts * gpus
    assert 2 * halves**3 >= nics  # k = 2 halves: k^3 / 4
    assert halves == 1 or 2 * (halves - 1) ** 3 < nics


@pytest.mark.parametrize("h", [1, 2, 3])
def test_a_full_dragonfly(h):
    """a = 2h routers a group, g = 2h^2 + 1 groups: every router has 2h - 1 local and h global links and h NICs."""
    nics = 2 * h * h * (2 * h * h + 1)
    topology = generate("dragonfly", Shape(hosts=nics, gpus_per_host=1, tp=1)).topology
    fabric = switches_of(topology)
    group = {name: name.split("-")[1] for name in fabric}
    assert len(set(group.values())) == 2 * h * h + 1
    for name in fabric:
        near = [n for n in fabric[name] if group[n] == group[name]]
        assert (len(near), fabric.degree(name) - len(near)) == (2 * h - 1, h)
    assert nx.diameter(fabric) <= 3, "local, global, local"
    pairs = Counter(frozenset((group[a], group[b])) for a, b in fabric.edges if group[a] != group[b])
    assert set(pairs.values()) == {1}


@settings(max_examples=30)
@given(st.integers(2, 60), st.integers(1, 8))
def test_a_part_of_a_dragonfly(hosts, gpus):
    topology = generate("dragonfly", Shape(hosts=hosts, gpus_per_host=gpus, tp=1)).topology
    fabric = switches_of(topology)
    group = {name: name.split("-")[1] for name in fabric}
    groups = set(group.values())
    pairs = Counter(frozenset((group[a], group[b])) for a, b in fabric.edges if group[a] != group[b])
    assert pairs == {frozenset((a, b)): 1 for a in groups for b in groups if a < b}
    routers = len(fabric) // len(groups)
    far = Counter(a for edge in fabric.edges if group[edge[0]] != group[edge[1]] for a in edge)
    assert max(far.values(), default=0) <= routers // 2, "h global links a router at the most"


def test_leaf_spine():
    topology = generate("leaf-spine", Shape(hosts=10, hosts_per_leaf=4, spines=3)).topology
    fabric = switches_of(topology)
    assert nx.is_isomorphic(fabric, nx.complete_bipartite_graph(3, 3))
    found = graph(topology)
    assert {len(set(found[host])) for host in hosts_of(found)} == {1}, "all NICs of a host on one leaf"


@settings(max_examples=30)
@given(st.sampled_from(KINDS), st.integers(1, 5), st.integers(2, 20))
def test_capture_ports_on_each_leaf(kind, count, hosts):
    topology = generate(kind, Shape(hosts=hosts, gpus_per_host=2, tp=2, capture_ports=count)).topology
    leaves = {device(link[1]) for link in topology["links"] if link[0].startswith("host")}
    captures = Counter(device(link[1]) for link in topology["links"] if link[0].startswith("ckpt"))
    assert captures == dict.fromkeys(leaves, count)
    domains = {d for node in topology["checkpoint_nodes"] for d in node["failure_domains"]}
    others = {d for kind in ("hosts", "switches") for entry in topology[kind] for d in entry["failure_domains"]}
    assert not domains & others


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        ("ring", Shape(hosts=2), "no fabric is called 'ring'"),
        ("leaf-spine", Shape(hosts=0), "hosts must be 1 or more"),
        ("leaf-spine", Shape(hosts=3, pp=2), "does not divide the 24 GPUs"),
        ("leaf-spine", Shape(hosts=2, pp=2), "takes all 16 GPUs"),
        ("leaf-spine", Shape(hosts=2, capture_ports=0), "capture ports must be 1 or more"),
        ("leaf-spine", Shape(hosts=2, hosts_per_leaf=0), "hosts per leaf must be 1 or more"),
        ("leaf-spine", Shape(hosts=2, channels=65), "64 channels at most"),
        ("leaf-spine", Shape(hosts=2, iteration_time=float("nan")), "iteration time"),
        ("leaf-spine", Shape(hosts=2, platform="magic"), "platform 'magic' is not known"),
        ("leaf-spine", Shape(hosts=2**21), "10.0.0.0/8"),
        ("fat-tree", Shape(hosts=2, k=2), "holds 2 NICs"),
        ("fat-tree", Shape(hosts=2, k=7), "k being even"),
    ],
)
def test_what_cannot_be(kind, shape, words):
    with pytest.raises(ShapeError, match=words):
        generate(kind, shape)


@settings(max_examples=25)
@given(st.sampled_from(KINDS), st.integers(2, 24), st.sampled_from([1, 2, 4]), st.booleans(), st.integers(0, 3))
def test_generated_documents_are_valid(kind, hosts, pp, shuffle, seed):
    if hosts * 4 % pp or hosts == pp:
        return
    shape = Shape(hosts=hosts, gpus_per_host=4, tp=4, pp=pp, shuffle=shuffle, seed=seed)
    if hosts % pp:
        return
    made = generate(kind, shape)
    specs_from_documents(made.topology, made.job, made.policy)
