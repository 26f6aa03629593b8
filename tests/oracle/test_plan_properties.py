"""What must hold between plans: more room never makes one worse, names never change what it costs."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import plan_from_json, plan_to_json
from flowcheck_net.plan.solve import solve
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

_NEVER = (10**18,) * 4
"""Worse than any plan: there is none."""
_SEEDS = range(16)


def _instance(dice: random.Random) -> tuple[Raw, Raw, Raw]:
    """At most five hosts on three leaves with two spines; every new rule may be there."""
    hosts = {f"h{n}": f"leaf{dice.randint(1, 3)}" for n in range(dice.choice([2, 3, 4, 5]))}
    leaves = sorted(set(hosts.values()))
    captures = [(f"n{dice.randrange(2)}", dice.choice(leaves), dice.choice(["400G", "800G"])) for _ in range(4)]
    spines = 0 if len(leaves) == 1 else dice.choice([1, 2])
    topology = leaf_fabric(hosts, captures, spines=spines, shared=[f"{hosts['h0']}:P1"] if dice.random() < 0.3 else [])
    for node in topology["checkpoint_nodes"]:
        for number, nic in enumerate(node["nics"]):
            if dice.random() < 0.5:
                nic["address"] = f"10.9.{node['name'][1:]}.{number}"
    for switch in topology["switches"]:
        limits: Raw = {"max_sessions": dice.choice([1, 2, 3]), "encapsulation_bytes": 50}
        if dice.random() < 0.5:
            limits["session_limits"] = [{"counts": "directions", "most": dice.choice([1, 2, 3]), "per_slice": True}]
        limits["split_directions"] = dice.random() < 0.7
        limits["one_copy_per_output"] = dice.random() < 0.3
        switch["limits"] = limits
    names = list(hosts)
    groups = [names] if dice.random() < 0.6 else [names[:2], dice.sample(names, 2)]
    rates = {
        f"{leaf}:P{n}:{d}": dice.choice(["40G", "200G"])
        for n, leaf in enumerate(hosts.values(), 1)
        for d in ("rx", "tx")
    }
    rules = policy(copies=dice.choice([1, 1, 2]), rate_model="measured", measured=rates)
    rules.update(survive=int(dice.random() < 0.2), cuts=dice.random() < 0.3)
    rules["remote"] = {"over_fabric": dice.random() < 0.4, "uplink_share": dice.choice([0.1, 0.5])}
    return topology, ring_job(groups), rules


def _cost(topology: Raw, job: Raw, rules: Raw) -> tuple[int, ...]:
    """Duplicate bytes, mirrored bytes, sessions, switches. Asks the solver, as a refusal is not to be explained."""
    specs = to_specs(topology, job, rules)
    problem = build_problem(Fabric.from_spec(specs.topology), build_job(specs.job, specs.topology), specs.policy)
    solved = solve(problem)
    return _NEVER if solved is None else tuple(stage.value for stage in solved.proof.stages[:4])


def _more_sessions(topology: Raw, rules: Raw) -> None:
    for switch in topology["switches"]:
        switch["limits"]["max_sessions"] += 1


def _no_fine_limits(topology: Raw, rules: Raw) -> None:
    for switch in topology["switches"]:
        switch["limits"].pop("session_limits", None)


def _split(topology: Raw, rules: Raw) -> None:
    for switch in topology["switches"]:
        switch["limits"]["split_directions"] = True


def _another_port(topology: Raw, rules: Raw) -> None:
    """A capture port of a new node on the first leaf."""
    leaf = topology["switches"][0]
    leaf["ports"].append({"name": "zz", "speed": "800G"})
    topology["checkpoint_nodes"].append({"name": "zz", "nics": [{"name": "cap0", "speed": "800G"}]})
    topology["links"].append(["zz:cap0", f"{leaf['name']}:zz"])


def _wider_uplinks(topology: Raw, rules: Raw) -> None:
    rules["remote"]["uplink_share"] = 1.0


def _over_the_fabric(topology: Raw, rules: Raw) -> None:
    rules["remote"]["over_fabric"] = True


def _cuts_too(topology: Raw, rules: Raw) -> None:
    rules["cuts"] = True


@pytest.mark.parametrize(
    "more", [_more_sessions, _no_fine_limits, _split, _another_port, _wider_uplinks, _over_the_fabric, _cuts_too]
)
def test_more_room_never_makes_a_plan_worse(more: Callable[[Raw, Raw], None]) -> None:
    planned = 0
    for seed in _SEEDS:
        topology, job, rules = _instance(random.Random(seed))
        before = _cost(topology, job, rules)
        more(topology, rules)
        after = _cost(topology, job, rules)
        assert after <= before, f"seed {seed}"
        planned += before != _NEVER
    assert planned > 3


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_renamed(k, names): _renamed(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        device, colon, rest = value.partition(":")
        return names.get(device, device) + colon + rest
    return value


def test_names_never_change_what_a_plan_costs() -> None:
    planned = 0
    for seed in _SEEDS:
        dice = random.Random(seed)
        topology, job, rules = _instance(dice)
        devices = [d["name"] for kind in ("switches", "hosts", "checkpoint_nodes") for d in topology[kind]]
        fresh = [f"x{n}" for n in range(len(devices))]
        dice.shuffle(fresh)
        names = dict(zip(devices, fresh, strict=True))
        again = [_renamed(json.loads(json.dumps(raw)), names) for raw in (topology, job, rules)]
        cost = _cost(topology, job, rules)
        assert _cost(*again) == cost, f"seed {seed}"
        planned += cost != _NEVER
    assert planned > 3


def test_plans_survive_a_round_trip_and_come_out_the_same_again() -> None:
    for seed in range(8):
        specs = to_specs(*_instance(random.Random(seed)))
        try:
            text = plan_to_json(make_plan(specs))
        except Infeasible:
            continue
        assert plan_to_json(plan_from_json(text, "plan.json")) == text
        assert plan_to_json(make_plan(specs)) == text
