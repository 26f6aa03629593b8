"""The planner against the simulator: on small random fabrics every stage of the objective is the true optimum."""

import os
import random
from typing import Any

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.intent import Capabilities, Direction
from flowcheck_net.plan import candidates
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from tests.oracle.plan_simulator import Assignment, Limits, Simulator
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

_RUNS = int(os.environ.get("FLOWCHECK_PLAN_RUNS", "80"))
"""Random fabrics; a campaign sets thousands."""
_BLOCKS = 4


def _limits(dice: random.Random) -> Limits:
    return Limits(
        sessions=dice.choice([1, 2, 4, 4]),
        sources=dice.choice([1, 2, 8, 8]),
        directions=dice.choice([("rx", "tx")] * 6 + [("rx",), ("tx",)]),
        filters=dice.random() < 0.7,
    )


def _orders(dice: random.Random, groups: list[list[str]], channels: int) -> list[Raw]:
    """Ring orders for channel 1 that differ from channel 0's."""
    rings: list[Raw] = []
    first = 0
    for number, group in enumerate(groups):
        order = list(range(first, first + len(group)))
        first += len(group)
        if channels > 1:
            dice.shuffle(order)
            rings.append({"group": f"dp{number}", "channel": 1, "order": order})
    return rings


def _instance(seed: int) -> tuple[Raw, Raw, Raw, Limits]:
    """A random small problem: at most four hosts, three leaves, two spines, three capture ports."""
    dice = random.Random(seed)
    hosts = [f"h{n}" for n in range(dice.choice([2, 3, 3, 4]))]
    leaves = [f"leaf{n}" for n in range(1, dice.choice([1, 1, 1, 2, 2, 3]) + 1)]
    spines = 0 if len(leaves) == 1 else dice.choice([1, 1, 2])
    placed = {host: dice.choice(leaves) for host in hosts}
    where = [*sorted(set(placed.values())), *([] if spines == 0 else ["spine1"])]
    captures = [
        (f"n{dice.randrange(2)}", dice.choice(where), dice.choice(["400G", "800G", "800G"]))
        for _ in range(dice.choice([2, 3, 3]))
    ]
    domains = {name: [f"rack-{dice.randrange(3)}"] for name in (*hosts, *leaves, "n0", "n1")}
    ports = [f"{leaf}:P{n}" for n, leaf in enumerate(placed.values(), start=1)]
    shared = [port for port in ports if dice.random() < 0.2]
    topology = leaf_fabric(placed, captures, spines=spines, shared=shared, domains=domains)
    groups = [hosts] if dice.random() < 0.6 else [hosts[:2], dice.sample(hosts, 2)]
    channels = dice.choice([1, 1, 2])
    job = ring_job(groups, channels=channels, extra_step=dice.random() < 0.2, rings=_orders(dice, groups, channels))
    kept = [port for port in ports if dice.random() < 0.7]
    rules = policy(copies=dice.choice([1, 1, 2, 3]), allowed=kept if kept and dice.random() < 0.2 else ("*:*",))
    if dice.random() < 0.5:
        rates = {
            f"{port}:{d}": dice.choice(["100G", "200G"]) for port in ports for d in ("rx", "tx") if dice.random() < 0.8
        }
        if rates:
            rules["monitor"] = {"rate_model": "measured", "measured": rates, "headroom": dice.choice([0.0, 0.25])}
    rules["failure_domains"]["checkpoint_apart"] = dice.random() < 0.15
    rules["failure_domains"]["copies_apart"] = ["rack-*"] if dice.random() < 0.15 else []
    return topology, job, rules, _limits(dice)


def _plan(monkeypatch: pytest.MonkeyPatch, topology: Raw, job: Raw, rules: Raw, limits: Limits) -> Plan | Infeasible:
    table = Capabilities(
        platform="fake",
        max_sessions=limits.sessions,
        max_sources_per_session=limits.sources,
        directions=frozenset(Direction(d) for d in limits.directions),
        filters=limits.filters,
        source_in_many_sessions=False,
    )
    monkeypatch.setattr(candidates, "capabilities", lambda _: table)
    try:
        return make_plan(to_specs(topology, job, rules))
    except Infeasible as error:
        return error


def _assignment(plan: Plan) -> Assignment:
    return {(p.switch, p.port, p.direction.value): p.capture for p in plan.points}


def _check_against(simulator: Simulator, plan: Plan) -> None:
    """The plan's own claims, replayed."""
    taps = _assignment(plan)
    assert set(taps) <= set(simulator.candidates())
    assert simulator.fits(taps)
    cost = (plan.cost.duplicate_bytes, plan.cost.mirrored_bytes, plan.cost.sessions, plan.cost.switches)
    assert cost == simulator.cost(taps)
    apart = bool(simulator._policy["failure_domains"]["copies_apart"])
    for ring, line in enumerate(plan.coverage):
        copies = simulator.copies(ring, taps)
        assert copies >= line.copies if apart else copies == line.copies
    seen = {
        (flow.ring, flow.hop): sum(tap in taps for tap in flow.certain)
        for flow in simulator.flows
        if flow.certain & set(taps)
    }
    number = {(line.group, line.channel): ring for ring, line in enumerate(plan.coverage)}
    assert {(number[h.group, h.channel], h.index): h.copies for h in plan.hops} == seen


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
            assert plan.message
            assert plan.hint, f"seed {seed}: {plan.message}"
            verdicts["infeasible"] += 1
            continue
        cost = (plan.cost.duplicate_bytes, plan.cost.mirrored_bytes, plan.cost.sessions, plan.cost.switches)
        assert cost == best, f"seed {seed}"
        assert plan.cost.unmet == 0
        assert (plan.proof.status, plan.proof.gap) == ("optimal", 0.0)
        _check_against(simulator, plan)
        verdicts["planned"] += 1
    assert min(verdicts.values()) >= 3, verdicts


def test_the_simulator_knows_what_one_port_shows() -> None:
    """Written out by hand: three hosts on one leaf, host 0's port in both directions."""
    topology = leaf_fabric({"h0": "leaf1", "h1": "leaf1", "h2": "leaf1"}, [("n0", "leaf1", "800G")])
    job = ring_job([["h0", "h1", "h2"]])
    simulator = Simulator(topology, job, policy(), Limits())
    assert [flow.reduced for flow in simulator.flows] == [(0, 2), (1, 0), (2, 1)]
    # 98304 fp32 elements are 393216 bytes, a third of them 131072; 2 * (3 - 1) messages
    assert [flow.size for flow in simulator.flows] == [524288] * 3
    rx: Any = {("leaf1", "P1", "rx"): "n0:cap0"}
    both: Any = {**rx, ("leaf1", "P1", "tx"): "n0:cap0"}
    assert simulator.copies(0, rx) == 0
    assert simulator.copies(0, both) == 1
    assert simulator.cost({**both, ("leaf1", "P2", "tx"): "n0:cap0"}) == (524288, 3 * 524288, 1, 1)
