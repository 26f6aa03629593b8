"""Gradients in shared memory, placed by the receiver while packets come, beside what the synthesizer says it sent."""

import json
from pathlib import Path

import pytest

from flowcheck_net.plan.plan import Plan as JobPlan
from tests.doubles import payload_world as world
from tests.dpdk.placing import check_partial, check_whole, place
from tests.dpdk.receiving import needs_receiver

pytestmark = needs_receiver


@pytest.mark.parametrize("example", ["two-host", "four-host"])
def test_examples(tmp_path: Path, example: str) -> None:
    """Two observation points on one node: two workers fill the same boards."""
    plan = world.plan_of(example)
    placed = place(plan, tmp_path)
    check_whole(plan, placed.folder, 3)
    closed = [json.loads(line) for line in placed.log]
    assert {(each["iteration"], each["event"]) for each in closed} == {(n, "complete") for n in range(3)}
    assert all(each["units"] == each["of"] for each in closed)
    assert [group["complete"] for group in placed.said["groups"]] == [2] * len(placed.said["groups"])
    assert not set(placed.counts("lays")) & {"no_memory", "differs", "short", "unconfirmed"}


PROTOCOLS = ("Simple", "LL", "LL128")
FORMS = (
    "version: 2.19.3",
    "version: 2.21.5, qps_per_connection: 4, split_data_on_qps: true",
    "version: 2.29.2, qps_per_connection: 3, adaptive_routing: true",
)


def plan_with(
    tmp_path: Path, protocol: str, form: str, *, mtu: int = 1024, elements: tuple[int, ...] = (20_011, 700, 3)
) -> JobPlan:
    nccl = f"protocol: {protocol}, channels: 2, threads: 512, {form}"
    return world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, elements, mtu=mtu))


@pytest.mark.parametrize(
    ("protocol", "form"), [*zip(PROTOCOLS, FORMS, strict=True), *zip(PROTOCOLS[::-1], FORMS, strict=True)][:5]
)
def test_protocols_and_forms(tmp_path: Path, protocol: str, form: str) -> None:
    plan = plan_with(tmp_path, protocol, form)
    check_whole(plan, place(plan, tmp_path, iterations=4).folder, 4)


LOSSES = (
    "loss:hop=dp0/0/0,iteration=1,packet=2-5",
    "loss:hop=dp0/0/1,rate=0.3",
    "reorder:hop=dp0/0/0,rate=0.05,distance=4",
    "duplicate:hop=dp0/0/1,rate=0.05,distance=2",
    "retransmit:hop=dp0/0/0,iteration=0,packet=4",
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("copiers", [(), ("dma_skeleton0", "dma_skeleton1")])
def test_loss_disorder_and_repeats(tmp_path: Path, protocol: str, copiers: tuple[str, ...]) -> None:
    """What can be read is true, and what is missing is never called complete."""
    plan = plan_with(tmp_path, protocol, "version: 2.20.5", mtu=512, elements=(9_001, 700))
    placed = place(plan, tmp_path, faults=LOSSES, copiers=copiers)
    unread = check_partial(plan, placed.folder, "dp0")
    assert sorted(unread) == [0, 1, 2]
    assert unread[2]
    closed = {each["iteration"]: each for each in map(json.loads, placed.log)}
    assert len(closed) == len(placed.log)
    assert {n: each["event"] == "complete" for n, each in closed.items()} == {n: not lost for n, lost in unread.items()}
    assert all((each["units"] == each["of"]) == (each["event"] == "complete") for each in closed.values())
    assert placed.said["groups"][0]["complete"] == max((n for n, lost in unread.items() if not lost), default=-1)
    assert placed.counts("places")["repeated"] > 0
    assert placed.counts("lays")["present"] > 0
    assert bool(placed.total("device_copies")) == (bool(copiers) and protocol == "Simple")


def test_a_dma_device_copies_and_where_its_queue_is_full_the_worker_does(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, "Simple", "version: 2.19.3", elements=(400_000,))
    placed = place(plan, tmp_path, copiers=("dma_skeleton0", "dma_skeleton1"), iterations=2)
    check_whole(plan, placed.folder, 2)
    laid = placed.counts("lays")["laid"]
    assert placed.total("device_copies") > laid // 10
    assert placed.total("device_copies") + placed.total("device_full") == laid
    assert placed.total("device_failed") == 0


def test_foreign_traffic_is_counted_and_never_stored(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, "Simple", "version: 2.19.3")
    placed = place(plan, tmp_path, faults=("foreign:packets=200",))
    check_whole(plan, placed.folder, 3)
    assert placed.total("unfollowed") >= 200


def test_several_workers_a_port(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, "LL128", "version: 2.21.5, qps_per_connection: 4, split_data_on_qps: true")
    check_whole(plan, place(plan, tmp_path, workers=2).folder, 3)
