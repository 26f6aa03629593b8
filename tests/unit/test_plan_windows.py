"""Message windows: against a simulated all-reduce, against the messages of the wire model, and by hand."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.intent import Capabilities, Direction
from flowcheck_net.plan import candidates
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_from_json, plan_to_json
from flowcheck_net.plan.strategy import bound, strategies
from tests.oracle.plan_simulator import all_reduce
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

TABLE = Capabilities("tofino", 64, 64, frozenset(Direction), filters=True, source_in_many_sessions=False)


def make(
    monkeypatch: pytest.MonkeyPatch, strategy: str, *, size: int = 4, copies: int = 1, extra: bool = False, **job: Any
) -> Plan:
    """A ring on one leaf of switches that can follow messages."""
    monkeypatch.setattr(candidates, "capabilities", lambda _: replace(TABLE, message_window=True))
    hosts = {f"h{n}": "leaf1" for n in range(size)}
    topology = leaf_fabric(hosts, [("n", "leaf1", "800G")] * (copies + 1))
    rules = {**policy(copies=copies), "strategy": strategy}
    made = {**ring_job([list(hosts)], extra_step=extra, rings=[named_ring(size)]), **job}
    return make_plan(to_specs(topology, made, rules))


def named_ring(size: int) -> Raw:
    """The ring of group 0, with its queue pairs."""
    return {"group": "dp0", "channel": 0, "order": list(range(size)), "qpns": [[0x100 + n] for n in range(size)]}


def shown(plan: Plan, size: int, extra: bool) -> Counter[int]:
    """How often each chunk is seen fully reduced inside the windows, by an all-reduce that is run step by step."""
    sent = all_reduce(size, extra)
    seen: Counter[int] = Counter()
    for window in plan.windows:
        assert window.period == len(sent[window.index]) * window.slices
        messages = [message for message in sent[window.index] for _ in range(window.slices)]
        for chunk, ranks in messages[window.low : window.high : window.slices]:
            assert len(ranks) == size, f"a partial sum is inside the window of hop {window.index}"
            seen[chunk] += 1
    return seen


@pytest.mark.parametrize("strategy", ["reduced", "exact"])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize(("size", "copies"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 2), (6, 3)])
def test_every_chunk_is_seen_reduced_as_often_as_promised(
    monkeypatch: pytest.MonkeyPatch, strategy: str, extra: bool, size: int, copies: int
) -> None:
    plan = make(monkeypatch, strategy, size=size, copies=copies, extra=extra)
    seen = shown(plan, size, extra)
    assert set(seen) == set(range(size))
    assert min(seen.values()) >= plan.coverage[0].copies == min(copies, size if extra else size - 1)


def test_one_copy_is_covered_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hop's reduced half is 3 of 4 chunks, the second hop adds the fourth: each gradient byte once."""
    plan = make(monkeypatch, "exact")
    assert set(shown(plan, 4, False).values()) == {1}
    assert plan.cost.mirrored_bytes == plan.cost.gradient_bytes == 393216
    widths = sorted(window.high - window.low for window in plan.windows)
    assert widths == [2, 6]
    assert {window.period for window in plan.windows} == {12}


def test_reduced_is_half_of_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    port, reduced = make(monkeypatch, "port"), make(monkeypatch, "reduced")
    assert port.windows == ()
    assert reduced.cost.mirrored_bytes * 2 == port.cost.mirrored_bytes
    assert {(window.low, window.high) for window in reduced.windows} == {(6, 12)}


def test_the_ratios_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ring of 4, two hops: 2 * 2 * 3/4 = 3, half of it 1.5, and 1; with two copies 3 hops: 4.5, 2.25 and 2."""
    assert [way.ratio for way in strategies(make(monkeypatch, "port"))] == [3.0, 1.5, 1.0]
    assert [way.ratio for way in strategies(make(monkeypatch, "port", copies=2))] == [4.5, 2.25, 2.0]
    assert [way.ratio for way in strategies(make(monkeypatch, "port", extra=True))] == [1.75, 1.0, 1.0]
    assert bound(make(monkeypatch, "port").job) == 1.0


def test_the_figures_of_all_strategies_do_not_depend_on_the_chosen_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = [strategies(make(monkeypatch, strategy)) for strategy in ("port", "reduced", "exact")]
    assert ways[0] == ways[1] == ways[2]


@pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
@pytest.mark.parametrize("strategy", ["port", "reduced", "exact"])
def test_what_is_expected_is_what_the_cost_says(monkeypatch: pytest.MonkeyPatch, strategy: str, protocol: str) -> None:
    """Odd sizes: chunks differ, some are empty."""
    nccl = {"version": "2.19.3", "protocol": protocol, "channels": 1, "threads": 512}
    plan = make(monkeypatch, strategy, nccl=nccl, buckets=[{"name": "odd", "elements": 70001, "dtype": "bf16"}])
    expected = sum(m.wire_bytes for hop in expectation(plan).hops if hop.copies for m in hop.mirrored)
    assert expected == plan.cost.mirrored_bytes
    cost = {way.name: way.bytes for way in strategies(plan)}
    assert (
        plan.cost.mirrored_bytes
        == cost[{"port": "whole port", "reduced": "reduced half", "exact": "exact cover"}[strategy]]
    )
    assert cost["exact cover"] <= cost["reduced half"] <= cost["whole port"]


def test_a_plan_with_windows_survives_the_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    text = plan_to_json(make(monkeypatch, "exact"))
    assert plan_to_json(plan_from_json(text, "plan.json")) == text


class TestPlatform:
    def plan(self, monkeypatch: pytest.MonkeyPatch, strategy: str, able: tuple[str, ...], **nccl: Any) -> Plan:
        tables = {name: replace(TABLE, message_window=name in able) for name in ("fake", "tofino")}
        monkeypatch.setattr(candidates, "capabilities", tables.__getitem__)
        topology = leaf_fabric(
            {"h1": "leaf1", "h2": "leaf2"}, [("n", "leaf1", "800G"), ("n", "leaf2", "800G")], spines=1
        )
        topology["switches"][1]["platform"] = "tofino"
        job: Raw = ring_job([["h1", "h2"]], rings=[named_ring(2)] if nccl.get("qps_per_connection", 1) == 1 else [])
        job["nccl"].update(nccl)
        return make_plan(to_specs(topology, job, {**policy(copies=1), "strategy": strategy}))

    def test_the_plan_goes_where_messages_can_be_followed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert {p.switch for p in self.plan(monkeypatch, "port", ("tofino",)).points} == {"leaf1"}
        assert {p.switch for p in self.plan(monkeypatch, "reduced", ("tofino",)).points} == {"leaf2"}

    def test_infeasible_where_none_can(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Infeasible) as caught:
            self.plan(monkeypatch, "reduced", ())
        assert "cannot follow the messages of a queue pair" in caught.value.message
        assert "strategy: port in the policy" in caught.value.hint

    def test_nor_on_several_queue_pairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Infeasible, match="message windows"):
            self.plan(monkeypatch, "exact", ("fake", "tofino"), qps_per_connection=2)
