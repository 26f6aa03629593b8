"""Synthesized captures of windowed plans: packet by packet what the twin of the P4 program copies of all traffic."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.plan.plan import Plan, PlannedSession, expectation
from tests.doubles.p4_twin import Twin
from tests.doubles.p4_twin_tables import Entry, exact
from tests.doubles.synth_reading import read
from tests.doubles.window_world import LL, SIMPLE, World, turned, windowed_plan

IN, MONITOR, SESSION = 1, 2, 5


def twin_of(planned: PlannedSession) -> Twin:
    """A switch that mirrors what enters at IN by the session's windows, programmed as p4/README.md says."""
    twin = Twin()
    mirror = {"session": SESSION, "point": 0, "windowed": 1}
    twin.tables["fc.ingress_acl"].entries.append(Entry(exact(port=IN), "fc.ingress_mirror", mirror, 1))
    twin.clone_sessions[SESSION] = [(MONITOR, 1)]
    for index, rule in enumerate(planned.session.windows):
        follow = {"index": index, "epoch": 1, "anchored": 1, "anchor": 0}
        follow |= {"period": rule.period, "low": rule.low, "high": rule.high}
        match = exact(dst=0xFFFF << 32 | int(IPv4Address(rule.destination)), qp=rule.qpn)
        twin.tables["fc.flows"].entries.append(Entry(match, "fc.follow", follow))
    return twin


def unmirrored(plan: Plan) -> Plan:
    """The same points on switches that mirror whole ports."""
    sessions = tuple(replace(p, session=replace(p.session, windows=())) for p in plan.sessions)
    return replace(plan, sessions=sessions)


def copied(plan: Plan, world: World, **options: Any) -> dict[str, list[bytes]]:
    """By capture port, what twins copy of the traffic that passes its points."""
    twins = {str(planned.capture): twin_of(planned) for planned in plan.sessions}
    found: dict[str, list[bytes]] = {name: [] for name in twins}
    for packet in read(world.capture(unmirrored(plan), **options))[0]:
        found[packet.interface] += [s.frame for s in twins[packet.interface].receive(IN, packet.frame)]
    return found


def written(plan: Plan, world: World, **options: Any) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {str(planned.capture): [] for planned in plan.sessions}
    for packet in read(world.capture(plan, **options))[0]:
        found[packet.interface].append(packet.frame)
    return found


def one_hop_each(plan: Plan) -> bool:
    return all(not hop.also for hop in plan.hops)


LOSS = "retransmit:hop={{}},iteration=1,packet={},window=9,seen={}"
FAULTS = [(), (LOSS.format(17, "yes"),), (LOSS.format(17, "no"),), (LOSS.format(7, "no"), LOSS.format(8, "yes"))]
JOBS: list[dict[str, Any]] = [
    {},
    {"strategy": "exact"},
    {"strategy": "exact", "copies": 2, "size": 5},
    {"nccl": LL, "mtu": 1024, "buckets": [{"name": "b", "elements": 40001, "dtype": "fp32"}]},
    {"nccl": SIMPLE, "mtu": 1024, "buckets": [{"name": "b", "elements": 70001, "dtype": "bf16"}]},
    {"nccl": SIMPLE, "broadcasts": [{"bytes": 5000}], "mtu": 1024},
    {"tree": True, "mtu": 1024},
    {"tree": True, "mtu": 1024, "nccl": LL},
]


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("job", JOBS)
def test_the_copies_are_those_of_the_p4_program(tmp_path: Path, job: dict[str, Any], faults: Sequence[str]) -> None:
    plan, world = windowed_plan(**job), World(tmp_path)
    assert one_hop_each(plan)
    for hop in (plan.hops[0], plan.hops[-1])[: 2 if faults else 1]:
        named = [fault.format(f"{hop.group}/{hop.channel}/{hop.index}") for fault in faults]
        assert written(plan, world, faults=named) == copied(plan, world, faults=named)


@pytest.mark.parametrize("start_psn", [5, 16_000_000, (1 << 24) - 9])
def test_an_anchor_that_is_not_the_start(tmp_path: Path, start_psn: int) -> None:
    plan, world = windowed_plan(), World(tmp_path)
    assert written(plan, world, start_psn=start_psn) == copied(plan, world, start_psn=start_psn)


@pytest.mark.parametrize("count", [1, 5, 11])
def test_a_count_that_is_off(tmp_path: Path, count: int) -> None:
    plan, world = turned(windowed_plan(), count), World(tmp_path)
    assert written(plan, world) == copied(plan, world)


@pytest.mark.parametrize("strategy", ["reduced", "exact"])
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("nccl", [LL, SIMPLE])
def test_bytes_are_those_that_the_plan_prices(tmp_path: Path, strategy: str, tree: bool, nccl: dict[str, Any]) -> None:
    """Payload of all data packets written in three iterations, against ``cost.mirrored_bytes`` a step."""
    plan = windowed_plan(strategy, tree=tree, nccl=nccl, buckets=[{"name": "b", "elements": 70001, "dtype": "fp32"}])
    data = {(rule.destination, rule.qpn) for planned in plan.sessions for rule in planned.session.windows}
    packets = [p for p in read(World(tmp_path).capture(plan))[0] if (p.destination, p.dest_qp) in data]
    assert sum(len(p.payload) for p in packets) == 3 * plan.cost.mirrored_bytes
    by_opcode = Counter(p.opcode for p in read(World(tmp_path).capture(plan))[0])
    assert by_opcode[17] == 0, "acknowledgements are no writes: never copied"


def test_what_is_written_is_what_is_expected(tmp_path: Path) -> None:
    plan = windowed_plan("exact")
    data = {(rule.destination, rule.qpn) for planned in plan.sessions for rule in planned.session.windows}
    packets = [p for p in read(World(tmp_path).capture(plan, iterations=1))[0] if (p.destination, p.dest_qp) in data]
    assert len(packets) == sum(m.packets for hop in expectation(plan).hops if hop.captures for m in hop.mirrored)


@pytest.mark.parametrize("kind", ["loss", "duplicate", "reorder", "cut", "late"])
def test_a_fault_of_a_copy_that_is_not_made_is_refused(tmp_path: Path, kind: str) -> None:
    """Packet 0 is a partial sum, of 6 messages of 49152 B, 12 packets each. What is sent again is copied always."""
    plan, world = windowed_plan(), World(tmp_path)
    name = f"dp0/0/{plan.hops[0].index}"
    fault = f"{kind}:hop={name},iteration=1,packet=0"
    with pytest.raises(SpecError, match="outside its message window") as caught:
        world.capture(plan, faults=[fault])
    assert "the first that is copied is 72" in str(caught.value)
    world.capture(plan, faults=[fault, f"retransmit:hop={name},iteration=1,packet=0"])
    world.capture(unmirrored(plan), faults=[fault])
