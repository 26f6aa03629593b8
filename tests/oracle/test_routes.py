"""Routing against a path enumerator of its own: every path of every hop, cable by cable."""

import json
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from flowcheck_net.ids import Address, HostName, NicName, Rank
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.model.job import RankPlace
from flowcheck_net.model.routing import Site, hop_sites, hop_stages
from flowcheck_net.spec.topology import Topology
from tests.oracle.plan_specs import Raw

Path = tuple[str, ...]
"""``switch:port:direction`` of every port crossed, in order."""


def random_fabric(dice: random.Random) -> Raw:
    """Up to six switches with parallel cables; two hosts, each with one NIC or with a bond of two."""
    switches = [f"s{n}" for n in range(dice.randint(1, 6))]
    ports: dict[str, list[Raw]] = {name: [] for name in switches}
    links: list[list[str]] = []

    def port(switch: str) -> str:
        name = f"et-0/0/{len(ports[switch]) // 2}:{len(ports[switch]) % 2}"
        ports[switch].append({"name": name, "speed": "400G"})
        return f"{switch}:{name}"

    for near, far in pairwise(switches):
        links.append([port(near), port(far)])
    for _ in range(dice.randint(0, 8)):
        near, far = dice.choice(switches), dice.choice(switches)
        if near != far:
            links.append([port(near), port(far)])
    hosts = []
    for host in ("a", "b"):
        bond = dice.random() < 0.4
        nics = [
            {"name": f"m{n}", "speed": "400G", "addresses": [f"10.0.0.{host}{n}".replace("a", "1").replace("b", "2")]}
            for n in range(2 if bond else 1)
        ]
        where = dice.choice(switches)
        for number, nic in enumerate(nics):
            nic.update({"lag": "bond0"} if bond else {})
            leaf = where if number == 0 or dice.random() < 0.6 else dice.choice(switches)
            links.append([f"{host}:{nic['name']}", port(leaf)])
        hosts.append({"name": host, "nics": nics})
    links.append(["n:cap0", port(switches[0])])
    return {
        "version": 1,
        "name": "random",
        "switches": [{"name": n, "platform": "fake", "management": f"fake:{n}", "ports": p} for n, p in ports.items()],
        "hosts": hosts,
        "checkpoint_nodes": [{"name": "n", "nics": [{"name": "cap0", "speed": "400G"}]}],
        "links": links,
    }


def every_path(fabric: Raw, source: str, target: str) -> list[Path]:
    """All paths that are shortest between the two cable ends that they use: a bond may use any of its cables."""
    cable = {end: other for one, two in fabric["links"] for end, other in ((one, two), (two, one))}
    starts = [end for end in cable if end.startswith(f"{source}:")]
    goals = {cable[end] for end in cable if end.startswith(f"{target}:")}
    found: list[Path] = []
    for start in starts:
        for goal in goals:
            walks = list(_walks(cable, cable[start], goal, ()))
            least = min(map(len, walks))
            found += [walk for walk in walks if len(walk) == least]
    return found


def _walks(cable: dict[str, str], enters: str, goal: str, before: Path) -> Iterator[Path]:
    switch = enters.split(":")[0]
    if any(place.split(":")[0] == switch for place in before):
        return
    here = (*before, f"{enters}:rx")
    if switch == goal.split(":")[0]:
        yield (*here, f"{goal}:tx")
        return
    for end, other in cable.items():
        if end.split(":")[0] == switch and other.startswith("s"):
            yield from _walks(cable, other, goal, (*here, f"{end}:tx"))


def text(site: Site) -> str:
    return f"{site.switch}:{site.port}:{site.direction}"


@pytest.mark.parametrize("seed", range(150))
def test_stages_and_certain_places_are_those_of_all_paths(seed: int) -> None:
    dice = random.Random(seed)
    raw = random_fabric(dice)
    fabric = Fabric.from_spec(Topology.model_validate_json(json.dumps(raw)))
    ends = [RankPlace(Rank(n), HostName(h), NicName("m0"), Address(f"10.0.0.{n}")) for n, h in enumerate("ab")]
    paths = every_path(raw, "a", "b")
    stages = [{text(site) for site in stage} for stage in hop_stages(fabric, *ends)]
    for path in paths:
        assert all(len(stage & set(path)) == 1 for stage in stages), f"seed {seed}: {path} against {stages}"
    if len({len(path) for path in paths}) == 1 and len({p[0].split(":")[0] for p in paths}) == 1:
        one_leaf_each = len({path[-1].split(":")[0] for path in paths}) == 1
        if one_leaf_each:
            assert set().union(*stages) == set().union(*paths)
    certain = {text(site) for site in hop_sites(fabric, *ends)}
    assert certain == {next(iter(stage)) for stage in stages if len(stage) == 1}
    assert certain <= set.intersection(*(set(path) for path in paths))


def test_rails_and_a_cross_rail_hop() -> None:
    """Two rails, a NIC on each: the same rail stays on its leaf, across rails the hop climbs to the spine."""
    names = {"rail0": ["h1:m0", "h2:m0"], "rail1": ["h1:m1", "h2:m1"]}
    raw: Raw = {
        "version": 1,
        "name": "rails",
        "switches": [
            {
                "name": r,
                "platform": "fake",
                "management": f"fake:{r}",
                "ports": [{"name": p, "speed": "400G"} for p in ("P1", "P2", "up", "cap")],
            }
            for r in names
        ]
        + [
            {
                "name": "spine",
                "platform": "fake",
                "management": "fake:spine",
                "ports": [{"name": p, "speed": "400G"} for p in ("rail0", "rail1")],
            }
        ],
        "hosts": [
            {"name": h, "nics": [{"name": f"m{n}", "speed": "400G", "addresses": [f"10.{n}.0.{i}"]} for n in (0, 1)]}
            for i, h in enumerate(("h1", "h2"), start=1)
        ],
        "checkpoint_nodes": [{"name": "n", "nics": [{"name": "c", "speed": "400G"}]}],
        "links": [
            *([end, f"{r}:P{i}"] for r, ends in names.items() for i, end in enumerate(ends, start=1)),
            ["rail0:up", "spine:rail0"],
            ["rail1:up", "spine:rail1"],
            ["n:c", "rail0:cap"],
        ],
    }
    fabric = Fabric.from_spec(Topology.model_validate_json(json.dumps(raw)))

    def place(host: str, nic: str) -> RankPlace:
        return RankPlace(Rank(0), HostName(host), NicName(nic), Address("10.0.0.1"))

    same = hop_sites(fabric, place("h1", "m0"), place("h2", "m0"))
    assert [text(site) for site in same] == ["rail0:P1:rx", "rail0:P2:tx"]
    across = hop_sites(fabric, place("h1", "m0"), place("h2", "m1"))
    assert [text(site) for site in across] == [
        "rail0:P1:rx",
        "rail0:up:tx",
        "spine:rail0:rx",
        "spine:rail1:tx",
        "rail1:up:rx",
        "rail1:P2:tx",
    ]
