"""A job in a lab of real switches: the verdicts are those that packet sockets on the cables give."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.audit.result import AuditReport
from flowcheck_net.lab.blueprint import End
from flowcheck_net.lab.build import Lab, missing
from flowcheck_net.lab.run import LabReport
from flowcheck_net.receive.records_read import read_records
from tests.dpdk.receiving import needs_receiver
from tests.netns.lab_oracle import Ears, Truth, sources
from tests.netns.lab_running import heard, made, needs_nft

ITERATIONS = 20
FOREIGN = "198.51.100.1"
HOST1 = End("leaf1", "host1")

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(missing()), reason=missing() or "not skipped")]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with made("lab-leaf-spine") as up:
        yield up


@pytest.fixture(scope="module")
def shared_lab() -> Iterator[Lab]:
    with made("lab-shared") as up:
        yield up


def run_heard(lab: Lab, output: Path, *faults: str, live: bool = False) -> tuple[LabReport, Ears]:
    return heard(lab, output, ITERATIONS, *faults, live=live)


def verdicts(report: AuditReport) -> list[str]:
    """Of the one ring, by iteration."""
    assert [ring.iteration for ring in report.rings] == list(range(ITERATIONS))
    return [ring.verdict.value for ring in report.rings]


def seen(report: AuditReport) -> dict[tuple[str, str, int], int]:
    """Distinct packets of each watched hop over all iterations, as the audit counted them."""
    found: dict[tuple[str, str, int], int] = {}
    for ring in report.rings:
        for hop in ring.hops:
            if hop.planned:
                key = hop.source, hop.destination, hop.qpns[0]
                found[key] = found.get(key, 0) + hop.seen.packets
    return found


def arrived(truth: Truth) -> dict[tuple[str, str, int], int]:
    return {flow: sum(p.flow == flow for p in truth.arrived) for flow in truth.watched}


@needs_receiver
def test_a_clean_run_is_covered_and_every_count_is_exact(lab: Lab, tmp_path: Path):
    spool = tmp_path / "ckpt1.fcr.spool"
    spool.mkdir()
    (spool / "life-1.spool").write_bytes(b"of a run that was killed")
    report, ears = run_heard(lab, tmp_path, live=True)
    truth = ears.truth(ITERATIONS)
    assert len(truth.watched) == 3
    assert verdicts(report.audit) == truth.verdicts() == ["COVERED"] * ITERATIONS
    # 128 KiB in 4 chunks of 32 packets and one that closes the send; a hop sends 6 of them an iteration.
    assert {truth.packets(flow) for flow in truth.watched} == {6 * 33}
    assert len(truth.reduced(truth.by_iteration()[0])) == 128  # 32 768 elements of 4 bytes in packets of 1 024
    assert seen(report.audit) == arrived(truth) == dict.fromkeys(truth.watched, ITERATIONS * 198)
    assert report.received == sum(len(ears.frames[place]) for place in ears.captures)
    assert all(capture.dropped == 0 for capture in read_records(tmp_path / "records.fcr").captures)


@needs_receiver
@needs_nft
def test_lost_copies_cost_exactly_the_iterations_that_the_cables_say(lab: Lab, tmp_path: Path):
    report, ears = run_heard(lab, tmp_path, "loss:rate=0.01", live=True)
    truth = ears.truth(ITERATIONS)
    assert 50 < len(truth.sent & {p for p in truth.sent if p.flow in truth.watched}) - len(truth.arrived) < 250
    assert verdicts(report.audit) == truth.verdicts()
    assert seen(report.audit) == arrived(truth)


def test_a_cut_mirror_link_is_never_covered(lab: Lab, tmp_path: Path):
    report, ears = run_heard(lab, tmp_path, "cut:capture=ckpt1:cap0,at=0.3")
    truth = ears.truth(ITERATIONS)
    damaged = [number for number, verdict in enumerate(truth.verdicts()) if verdict != "COVERED"]
    assert len(damaged) > ITERATIONS // 2
    assert verdicts(report.audit)[: damaged[0]] == ["COVERED"] * damaged[0]
    assert {verdicts(report.audit)[number] for number in damaged} <= {"GAP", "UNKNOWN", "RECOVERED"}


@needs_receiver
def test_a_killed_receiver_claims_nothing_that_did_not_come(lab: Lab, tmp_path: Path):
    report, ears = run_heard(lab, tmp_path, "kill:node=ckpt1,at=0.3", live=True)
    truth = ears.truth(ITERATIONS)
    assert truth.verdicts() == ["COVERED"] * ITERATIONS  # on the cables nothing was lost
    records = read_records(tmp_path / "records.fcr")
    assert any("killed" in warning for warning in records.warnings)
    came = {(*packet.flow, packet.psn) for packet in truth.arrived}
    claimed = {
        (flow.source, flow.destination, flow.dest_qp, position)
        for flow in records.flows
        if (flow.source, flow.destination, flow.dest_qp) in truth.watched
        for first, last in flow.seen
        for position in range(first, last + 1)
    }
    assert claimed < came
    gone = {psn // 198 for *_, psn in came - claimed}
    wrong = [r for r in report.audit.rings if r.iteration in gone and r.verdict.value == "COVERED"]
    assert not wrong


def test_a_foreign_tenant_at_a_port_without_filter_is_a_finding(lab: Lab, tmp_path: Path):
    report, ears = run_heard(lab, tmp_path, "tenant")
    copied = ears.copies(FOREIGN)
    assert copied == sources(ears.frames[HOST1])[FOREIGN] > 1000
    assert verdicts(report.audit) == ["COVERED"] * ITERATIONS
    assert report.audit.verdict.value == "UNPLANNED"
    (finding,) = (f for f in report.audit.findings if f.kind.value == "foreign")
    assert f"{copied} RDMA packets" in finding.text


def test_nothing_of_a_foreign_tenant_passes_the_filters(shared_lab: Lab, tmp_path: Path):
    report, ears = run_heard(shared_lab, tmp_path, "tenant")
    assert sources(ears.frames[HOST1])[FOREIGN] > 1000
    assert ears.copies(FOREIGN) == 0
    assert not any(flow.source == FOREIGN for flow in report.audit.flows)
    assert verdicts(report.audit) == ears.truth(ITERATIONS).verdicts() == ["COVERED"] * ITERATIONS
    assert report.audit.verdict.value == "COVERED"
