"""Slices, filters, other owners, cuts and losses: the planner against the brute force of the simulator."""

import os
import random

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.intent import Capabilities, Counted, Direction, SessionLimit
from flowcheck_net.plan import candidates
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from tests.oracle.plan_simulator import Assignment, Limits, Simulator
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

_RUNS = int(os.environ.get("FLOWCHECK_PLAN_RUNS", "72"))
"""Random fabrics; a campaign sets thousands."""
_BLOCKS = 4


def _limits(dice: random.Random) -> Limits:
    rooms = [
        (counts, dice.choice([1, 1, 2, 3]), dice.random() < 0.5)
        for counts in ("sessions", "rx", "tx", "directions")
        if dice.random() < 0.3
    ]
    return Limits(
        sessions=dice.choice([2, 3, 4]),
        sources=8,
        directions=dice.choice([("rx", "tx")] * 5 + [("rx",)]),
        filters=dice.random() < 0.9,
        rooms=tuple(rooms),
        split=dice.random() < 0.6,
        once=dice.random() < 0.3,
        filter_directions=dice.choice([("rx", "tx"), ("rx", "tx"), ("rx",)]),
        entries=dice.choice([None, None, 1, 2, 3]),
        by_source=dice.random() < 0.5,
    )


def _instance(seed: int) -> tuple[Raw, Raw, Raw, Limits]:
    dice = random.Random(seed)
    cuts = dice.random() < 0.35
    hosts = ["h0", "h1"] if cuts else ["h0", "h1", "h2"][: dice.choice([2, 3, 3])]
    leaves = ["leaf1", "leaf2"] if cuts else ["leaf1", "leaf2"][: dice.choice([1, 1, 2])]
    placed = {host: leaves[n % len(leaves)] for n, host in enumerate(hosts)}
    spines = 0 if len(leaves) == 1 else dice.choice([1, 2]) if not cuts else 2
    where = sorted(set(placed.values())) + (["spine1", "spine2"] if cuts and dice.random() < 0.4 else [])
    captures = [(f"n{dice.randrange(2)}", switch, dice.choice(["400G", "800G"])) for switch in where]
    captures += [] if cuts else [(f"n{dice.randrange(2)}", dice.choice(where), "800G")]
    ports = [f"{leaf}:P{n}" for n, leaf in enumerate(placed.values(), start=1)]
    shared = [port for port in ports if dice.random() < 0.3]
    topology = leaf_fabric(placed, captures, spines=spines, shared=shared)
    for switch in topology["switches"]:
        for port in switch["ports"]:
            port["slice"] = dice.choice(["a", "b"])
        if dice.random() < 0.35:
            named = [port["name"] for port in switch["ports"]]
            source = f"{dice.choice(named)}:{dice.choice(['rx', 'tx', 'both'])}"
            session = {"name": "ids", "sources": [source], "destination": dice.choice([*named, "Ethernet99"])}
            switch["foreign_sessions"] = [session]
    kept = (
        ["*:*"] if not cuts else dice.choice([["*:*"], ["*:up-*"], ["leaf*:up-*", "leaf1:P1"], ["spine*:*", "leaf2:*"]])
    )
    rules = policy(copies=dice.choice([1, 1, 2]), allowed=kept)
    rates = {f"{port}:{d}": dice.choice(["100G", "200G", "400G"]) for port in ports for d in ("rx", "tx")}
    ups = [
        f"{s['name']}:{p['name']}" for s in topology["switches"] for p in s["ports"] if p["name"][:2] in ("up", "do")
    ]
    rates.update({f"{port}:{d}": "100G" for port in ups for d in ("rx", "tx")})
    rules["monitor"] = {"rate_model": "measured", "measured": rates}
    rules["cuts"] = cuts
    rules["survive"] = int(dice.random() < 0.25)
    return topology, ring_job([hosts]), rules, _limits(dice)


def _plan(monkeypatch: pytest.MonkeyPatch, topology: Raw, job: Raw, rules: Raw, limits: Limits) -> Plan | Infeasible:
    table = Capabilities(
        platform="fake",
        max_sessions=limits.sessions,
        max_sources_per_session=limits.sources,
        directions=frozenset(Direction(d) for d in limits.directions),
        filters=limits.filters,
        source_in_many_sessions=False,
        split_directions=limits.split,
        session_limits=tuple(SessionLimit(Counted(c), most, per_slice) for c, most, per_slice in limits.rooms),
        filter_directions=frozenset(Direction(d) for d in limits.filter_directions),
        max_filter_entries=limits.entries,
        filter_entries_by_source=limits.by_source,
        one_copy_per_output=limits.once,
    )
    monkeypatch.setattr(candidates, "capabilities", lambda _: table)
    try:
        return make_plan(to_specs(topology, job, rules))
    except Infeasible as error:
        return error


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_every_stage_is_the_true_optimum(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    verdicts = {"planned": 0, "infeasible": 0}
    for seed in range(block, _RUNS, _BLOCKS):
        topology, job, rules, limits = _instance(seed)
        simulator = Simulator(topology, job, rules, limits)
        best = simulator.best()
        plan = _plan(monkeypatch, topology, job, rules, limits)
        if isinstance(plan, Infeasible):
            assert best is None, f"seed {seed}: {plan.message}"
            assert plan.hint, f"seed {seed}: {plan.message}"
            verdicts["infeasible"] += 1
            continue
        cost = (plan.cost.duplicate_bytes, plan.cost.mirrored_bytes, plan.cost.sessions, plan.cost.switches)
        assert cost == best, f"seed {seed}"
        taps: Assignment = {(p.switch, p.port, p.direction.value): p.capture for p in plan.points}
        assert simulator.fits(taps)
        assert simulator.foreseeable(taps)
        assert simulator.covers(taps)
        arrived = {flow.hop: simulator.arrived(flow, taps) for flow in simulator.flows}
        assert {hop.index: hop.copies for hop in plan.hops} == {hop: n for hop, n in arrived.items() if n}
        verdicts["planned"] += 1
    assert min(verdicts.values()) >= 3, verdicts
