"""Queue pairs that take turns: every iteration begins on another one, and all is counted all the same."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport, FlowUse
from flowcheck_net.audit.survey import survey
from flowcheck_net.audit.verdict import FindingKind, Verdict
from flowcheck_net.model.job import Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import hop_messages
from flowcheck_net.model.wire_turns import rounds
from tests.doubles import audit_world as world
from tests.doubles.audit_synth import audited, seen, verdicts

FOUR = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 4"


def wire(qps: int, elements: int = 5000) -> Wire:
    nccl = Nccl((2, 20, 5), Protocol.LL, 1, 512, False, qps, False, False, 8192)
    return Wire(nccl, 1024, (Bucket("b", elements, Dtype.FP32),), ())


@pytest.mark.parametrize("qps", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_rounds_are_those_of_dealing_messages_out_one_by_one(qps: int, before: int) -> None:
    messages = hop_messages(wire(qps), 4, 0, 1)
    turn = before
    for iteration in range(2 * qps):
        on: dict[int, list[object]] = {}
        for message in messages:
            on.setdefault(turn % qps, []).append(message)
            turn += 1
        for qp in range(qps):
            order = rounds(wire(qps), messages, qp, before)
            part = order[iteration % len(order)]
            assert [m for m in messages if m.qp == part] == on.get(qp, [])


def packets(report: AuditReport) -> list[tuple[int, int]]:
    return [(hop.seen.packets, hop.expected.packets) for ring in report.rings for hop in ring.hops]


@pytest.mark.parametrize("qps", [3, 4, 5, 8])
def test_turns_that_carry_over_into_the_next_iteration_are_covered(tmp_path: Path, qps: int) -> None:
    # Two ranks send 2 messages an iteration: the second iteration begins on queue pair 2, and so on.
    report = audited(tmp_path, FOUR.replace("connection: 4", f"connection: {qps}"), iterations=6)
    assert verdicts(report) == [Verdict.COVERED] * 6
    assert packets(report) == [(40, 40)] * 12
    assert report.verdict is Verdict.COVERED
    assert {flow.use for flow in report.flows} == {FlowUse.RING, FlowUse.CONTROL}


def test_a_loss_is_a_gap_of_its_own_iteration_and_names_queue_pair_and_packet(tmp_path: Path) -> None:
    # Hop 0->1 sends chunk 1 (16 packets, partial), then chunk 0 (24 packets). Iteration 3 begins on queue pair 2, so
    # that chunk 0 is on queue pair 3, as in iteration 1: its 24 packets have the PSNs 24-47, the 4th of them is 27.
    report = audited(tmp_path, FOUR, iterations=6, faults=["loss:hop=dp0/0/0,iteration=3,packet=19"])
    assert verdicts(report) == [*[Verdict.COVERED] * 3, Verdict.GAP, *[Verdict.COVERED] * 2]
    (gone,) = report.rings[3].hops[0].missing
    assert (gone.qpn, gone.first_psn, gone.last_psn) == (0x103, 27, 27)


def test_lost_iterations_and_a_late_start_shift_nothing(tmp_path: Path) -> None:
    lost = [f"loss:hop=dp0/0/{hop},iteration=4,packet=0-39" for hop in (0, 1)]
    report = audited(tmp_path, FOUR, iterations=9, faults=["late:iteration=1,at=0.6", *lost], start_psn=100)
    found = {r.iteration: r.verdict for r in report.rings}
    assert Counter(found.values()) == {Verdict.COVERED: 6, Verdict.GAP: 1, Verdict.RECOVERED: 1}
    assert (found[0], found[3]) == (Verdict.RECOVERED, Verdict.GAP)  # only partial sums came before the start


@pytest.mark.parametrize("broadcasts", ["", "broadcasts:\n  - {bytes: 20000}\n"])
def test_broadcasts_before_shift_the_turns(tmp_path: Path, broadcasts: str) -> None:
    report = audited(tmp_path, FOUR, iterations=5, extra=broadcasts, elements=[5000, 700, 9000])
    assert verdicts(report) == [Verdict.COVERED] * 5


def test_equal_messages_are_told_apart_from_the_start_of_the_connection(tmp_path: Path) -> None:
    # 2 x 2 equal chunks of 8 192 floats and 6 messages on 4 queue pairs: nothing but order and pauses tells them apart.
    elements = [16_384, 16_384, 16_384]
    report = audited(tmp_path, FOUR, iterations=6, elements=elements)
    assert verdicts(report) == [Verdict.COVERED] * 6


def test_equal_messages_in_the_middle_of_a_connection_are_told_by_their_pauses_or_unknown(tmp_path: Path) -> None:
    elements = [16_384, 16_384, 16_384]
    report = audited(tmp_path, FOUR, iterations=6, elements=elements, start_psn=77)
    assert set(verdicts(report)) <= {Verdict.COVERED, Verdict.UNKNOWN}


@pytest.mark.parametrize("protocol", ["LL128", "Simple"])
def test_the_adaptive_routing_form_in_turns(tmp_path: Path, protocol: str) -> None:
    nccl = f"version: 2.24.3, protocol: {protocol}, channels: 1, threads: 512, qps_per_connection: 3"
    report = audited(tmp_path, f"{nccl}, adaptive_routing: true", iterations=5, elements=[30_000, 700])
    assert verdicts(report) == [Verdict.COVERED] * 5


def test_two_channels_of_equal_shares(tmp_path: Path) -> None:
    nccl = FOUR.replace("channels: 1", "channels: 2")
    report = audited(tmp_path, nccl, iterations=4, elements=[131_072, 5000])
    assert set(verdicts(report)) == {Verdict.COVERED}


BIG = "version: 2.29.2, protocol: LL, channels: 1, threads: 512"


def test_big_endian_immediates_are_checked(tmp_path: Path) -> None:
    expectation, records = seen(tmp_path, BIG)
    assert {f.kind for f in audit(expectation, records).findings} == set()
    flow = next(f for f in records.flows if f.bytes > 10_000)
    assert flow.messages[0].immediate == int.from_bytes((flow.messages[0].bytes or 0).to_bytes(4, "little"), "big")
    wrong = replace(flow, messages=(replace(flow.messages[0], immediate=1), *flow.messages[1:]))
    changed = replace(records, flows=tuple(wrong if f is flow else f for f in records.flows))
    report = audit(expectation, changed)
    assert FindingKind.IMMEDIATE in {f.kind for f in report.findings}


def test_request_numbers_as_immediates_are_not_checked(tmp_path: Path) -> None:
    expectation, records = seen(tmp_path, BIG)
    flows = tuple(
        replace(f, messages=tuple(replace(m, immediate=n << 24) for n, m in enumerate(f.messages)))
        for f in records.flows
    )
    report = audit(expectation, replace(records, flows=flows))
    assert verdicts(report) == [Verdict.COVERED] * 3
    assert not report.findings


@pytest.mark.parametrize("start", [40_000, -3000])
def test_a_connection_that_begins_anew_on_its_queue_pair_loses_nothing(start: int) -> None:
    """A restart a second after the last iteration: the positions jump (or go back), but time allows no lost ones."""
    expectation, wires = world.run(3)
    for line in wires.values():
        line.position = start
    for number in range(3, 6):
        world.iterate(expectation, wires, number * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert [r.iteration for r in report.rings] == list(range(6))
    assert verdicts(report) == [Verdict.COVERED] * 6


def test_lost_iterations_are_no_restart() -> None:
    expectation, wires = world.run(3)
    for line in wires.values():
        line.position += 2 * 40
    world.iterate(expectation, wires, 5 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [*[Verdict.COVERED] * 3, *[Verdict.GAP] * 2, Verdict.COVERED]


@pytest.mark.parametrize("far", [40_000, 4_000_000])
def test_iterations_that_time_forbids_are_not_made_up_where_no_neighbours_were_seen(far: int) -> None:
    """Two iterations without a neighbour, one of half a second by the job each, and 3 s between them.

    40 packets an iteration: 1 000 or 100 000 would fit in by their positions, at the pace of the messages (10 us).
    """
    expectation, wires = world.run(1)
    for line in wires.values():
        line.position = far
    world.iterate(expectation, wires, 3 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert [r.iteration for r in report.rings] == [0, 1]
    assert verdicts(report) == [Verdict.UNKNOWN] * 2
    assert f"holds {far // 40 - 1} iterations" in report.rings[0].reason


def test_packets_far_behind_the_last_iteration_are_no_iterations() -> None:
    expectation, wires = world.run(2)
    for line in wires.values():
        line.position = 4_000_000
        line.lost = {line.position}
        line.send(24_576, 2 * world.SECOND)
    found = world.records(wires.values())
    report = audit(expectation, found)
    assert [len(shown.windows) for shown in survey(expectation, found).shown] == [2, 2]
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert FindingKind.UNPLACED in {f.kind for f in report.findings}


def test_torn_iterations_of_a_connection_begun_anew_leave_no_number_certain() -> None:
    """The first iteration behind the jump lost every packet with a length, on both hops: the next is 4, not 3."""
    expectation, wires = world.run(3)
    for line in wires.values():
        line.position = 40_000
    world.iterate(expectation, wires, 3 * world.SECOND)
    for line in wires.values():
        line.lost = {sent.position for sent in line.sent[-2:]}
    world.iterate(expectation, wires, 4 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert set(verdicts(report)) == {Verdict.UNKNOWN}
    assert "a connection began anew" in report.rings[0].reason


def test_a_connection_that_begins_anew_amidst_an_iteration_makes_no_two_of_it() -> None:
    """The second of two messages comes at another place, on both hops: one iteration, not two with losses."""
    expectation, wires = world.run(3)
    for hop in expectation.hops:
        line = wires[hop.channel, hop.index]
        for number, message in enumerate(hop.messages):
            line.position += 40_000 * number
            line.send(message.wire_bytes, 3 * world.SECOND + number * 10_000)
    world.iterate(expectation, wires, 4 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert set(verdicts(report)) == {Verdict.UNKNOWN}
    assert "one iteration lies in two places" in report.rings[0].reason


def test_packets_of_two_iterations_in_one_place_are_not_taken_for_one() -> None:
    """The second message of iteration 0 is lost; a connection begun anew in iteration 1 puts its own at that place."""
    expectation, wires = world.run(1)
    for hop in expectation.hops:
        line = wires[hop.channel, hop.index]
        line.position -= line.sent.pop().packets
        line.send(hop.messages[1].wire_bytes, world.SECOND)
        line.position += 7
    for number in (2, 3):
        world.iterate(expectation, wires, number * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert set(verdicts(report)) == {Verdict.UNKNOWN}
    assert "two iterations lie in one place" in report.rings[0].reason
