"""Ways in which traffic can mislead: copies, drops, other traffic, equal patterns, changed jobs."""

from dataclasses import replace

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import FlowUse
from flowcheck_net.audit.verdict import FindingKind, Verdict
from flowcheck_net.ids import Address, CapturePort
from flowcheck_net.model.expect import expect
from flowcheck_net.receive.records import Cause, Missing
from tests.doubles import audit_world as world
from tests.doubles.audit_world import run, verdicts


def test_declared_broadcasts_are_counted_and_others_are_findings() -> None:
    # 20 000 B of floats as a broadcast: LL doubles them to 40 000 B in one message
    expectation = world.planned(world.job(broadcasts=[20_000]), [0, 1])
    wires = world.lines(expectation)
    for line in wires.values():
        line.send(40_000, 0)
        line.send(16, 1)
    world.iterate(expectation, wires, world.SECOND)
    wires[0, 0].send(16, 2 * world.SECOND)
    world.iterate(expectation, wires, 3 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert [(f.broadcasts, f.unrecognised) for f in report.flows] == [(1, 2), (1, 1)]
    assert {f.kind for f in report.findings} == {FindingKind.UNRECOGNISED}


def test_a_lost_iteration_beside_a_lost_broadcast_has_no_place_and_is_unknown_or_worse() -> None:
    expectation, wires = run(1)
    wires[0, 0].send(16, world.SECOND)
    world.iterate(expectation, wires, 2 * world.SECOND)
    wires[0, 0].send(16, 3 * world.SECOND)
    world.iterate(expectation, wires, 4 * world.SECOND)
    wires[0, 0].lost = set(range(40, 82))  # 16 B, 40 packets, 16 B
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]
    assert FindingKind.UNPLACED in {f.kind for f in report.findings}


def test_an_iteration_that_contradicts_on_one_hop_only_takes_no_number_from_others() -> None:
    """Four iterations; another message stands inside the second one of hop 0->1, so that it is in no window.

    Were its first one called the second, two iterations would be mixed and called covered.
    """
    expectation = world.planned(world.job(), [0, 1])
    wires = world.lines(expectation)
    for number in range(4):
        if number == 1:
            for hop in expectation.hops:
                for at, message in enumerate(hop.messages):
                    time = world.SECOND + at * 10_000
                    wires[0, hop.index].send(message.wire_bytes, time)
                    if (hop.index, at) == (0, 0):
                        wires[0, 0].send(48, time + 5_000)
        else:
            world.iterate(expectation, wires, number * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.UNKNOWN] * 4
    assert "do not keep step" in report.rings[0].reason


def test_packets_mirrored_twice_are_duplicates() -> None:
    expectation, wires = run()
    wires[0, 0].doubled = {p: 1 for p in range(40)}
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.DUPLICATE, Verdict.COVERED]
    assert "40 on hop dp0/0/0 (0->1)" in report.rings[0].reason
    assert not report.iterations[0].publishable


def test_planned_double_mirroring_is_no_duplicate() -> None:
    expectation = world.planned(world.job(), [0, 1], copies=2)
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    other = [world.copy_at(line, CapturePort("ckpt1:cap1")) for line in wires.values()]
    assert verdicts(audit(expectation, world.records([*wires.values(), *other]))) == [Verdict.COVERED]
    single = world.planned(world.job(), [0, 1], copies=1)
    assert verdicts(audit(single, world.records([*wires.values(), *other]))) == [Verdict.DUPLICATE]


def test_what_one_capture_lost_another_capture_of_the_same_hop_fills() -> None:
    expectation = world.planned(world.job(), [0, 1], copies=2)
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    other = world.copy_at(wires[0, 0], CapturePort("ckpt1:cap1"))
    wires[0, 0].lost = {20}
    other.lost = {30}
    assert verdicts(audit(expectation, world.records([*wires.values(), other]))) == [Verdict.COVERED]
    other.lost = {20}
    assert verdicts(audit(expectation, world.records([*wires.values(), other]))) == [Verdict.GAP]


def test_drops_that_no_gap_explains_make_everything_unknown() -> None:
    expectation, wires = run()
    wires[0, 0].lost = {5}
    assert verdicts(audit(expectation, world.records(wires.values(), dropped=1)))[0] is Verdict.RECOVERED
    report = audit(expectation, world.records(wires.values(), dropped=2))
    assert verdicts(report) == [Verdict.UNKNOWN] * 2
    assert report.verdict is Verdict.UNKNOWN
    assert not any(i.publishable for i in report.iterations)


def test_foreign_traffic_is_unplanned_but_takes_nothing_from_the_proof() -> None:
    expectation, wires = run()
    foreign = world.Line(Address("10.9.9.1"), Address("10.9.9.2"), 0x77)
    foreign.send(4096, 0)
    report = audit(expectation, world.records([*wires.values(), foreign]))
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert report.verdict is Verdict.UNPLANNED
    assert [f.kind for f in report.findings] == [FindingKind.FOREIGN]


def test_point_to_point_between_the_same_hosts_is_told_apart() -> None:
    expectation, wires = run()
    p2p = world.Line(world.address(0), world.address(1), 0x999)
    for number in range(5):
        p2p.send(7712, number * world.SECOND)
    report = audit(expectation, world.records([*wires.values(), p2p]))
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert [(f.kind, f.verdict) for f in report.findings] == [(FindingKind.OTHER, None)]


def test_another_bucket_size_is_stale_and_says_what_was_found() -> None:
    expectation = world.planned(world.job(), [0, 1])
    changed = world.planned(world.job(elements=[6000]), [0, 1])
    wires = world.lines(changed)
    for number in range(3):
        world.iterate(changed, wires, number * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.STALE]
    assert "expected messages of 15424, 24576 B" in report.rings[0].reason
    # 6 000 floats: chunks of 3 072 and 2 928 floats, 24 576 and 23 424 B
    assert "23424, 24576" in report.rings[0].reason


def test_one_message_of_another_length_is_a_finding() -> None:
    expectation, wires = run(1)
    wires[0, 0].send(15_400, world.SECOND)  # 16 packets as expected, 24 B short
    wires[0, 0].send(24_576, world.SECOND)
    for size in (24_576, 15_424):
        wires[0, 1].send(size, world.SECOND)
    world.iterate(expectation, wires, 2 * world.SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert report.verdict is Verdict.STALE
    assert not report.iterations[1].publishable
    lengths = [f for f in report.findings if f.kind is FindingKind.LENGTH]
    assert [f.verdict for f in lengths] == [Verdict.STALE]
    assert "RETH says 15400 B, expected 15424 B" in lengths[0].text
    assert "1 on hop dp0/0/0 (0->1)" in report.rings[1].reason


def test_nothing_at_all_is_unknown() -> None:
    expectation = world.planned(world.job(), [0, 1])
    report = audit(expectation, world.records([]))
    assert verdicts(report) == [Verdict.UNKNOWN]
    assert report.iterations == ()


def test_a_hop_the_plan_does_not_watch_counts_and_is_reported() -> None:
    expectation = world.planned(world.job(), [0])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED]
    assert [f.kind for f in report.findings] == [FindingKind.EXTRA_HOP]


def test_equal_channels_are_told_apart_only_where_it_does_not_matter() -> None:
    # 16 384 floats on 2 channels and 2 ranks: every chunk has 4 096 floats = 65 536 B, all patterns equal
    job = world.job(elements=[16_384], channels=2)
    expectation = world.planned(job, [0, 1])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert {f.kind for f in report.findings} == {FindingKind.AMBIGUOUS}


def test_recovery_across_equal_channels_is_not_believed_without_queue_pair_numbers() -> None:
    # 3 ranks, 2 channels, equal chunks: two hops lose the same packet of a chunk, on different channels
    qpns = {0: [0x10, 0x11, 0x12], 1: [0x20, 0x21, 0x22]}
    named = world.job(3, [3 * 2 * 4096], channels=2, qpns=qpns)
    blind = world.job(3, [3 * 2 * 4096], channels=2)
    for job, wanted in ((named, Verdict.RECOVERED), (blind, Verdict.UNKNOWN)):
        expectation = world.planned(job, [0, 1, 2])
        assert len({tuple(m.wire_bytes for m in h.messages) for h in expectation.hops}) == 1
        wires = world.lines(expectation)
        world.iterate(expectation, wires, 0)
        half = sum(m.packets for m in expectation.hops[0].messages) // 2
        chunk = expectation.hops[0].messages[0].packets
        wires[0, 0].lost = {half + 1}  # chunk 0 on hop 0 of channel 0
        wires[1, 1].lost = {half + chunk + 1}  # chunk 0 on hop 1 of channel 1
        assert verdicts(audit(expectation, world.records(wires.values()))) == [wanted] * 2


def test_self_similar_iterations_are_found_by_the_pauses_between_them() -> None:
    # 8 192 floats, 2 ranks: both messages of an iteration have 32 768 B; the capture begins with the second one
    expectation = world.planned(world.job(elements=[8192]), [0, 1])
    wires = world.lines(expectation, start=1000)
    for number in range(4):
        world.iterate(expectation, wires, number * world.SECOND)
    for line in wires.values():
        line.lost = set(range(1000, 1032))
    report = audit(expectation, world.records(wires.values()))
    # the fully reduced message of the first iteration is there, only its partial sums are not
    assert verdicts(report) == [Verdict.RECOVERED] + [Verdict.COVERED] * 3
    assert [hop.missing[0].cause for hop in report.rings[0].hops] == ["capture_start"] * 2


def test_self_similar_iterations_without_pauses_are_unknown() -> None:
    expectation = world.planned(world.job(elements=[8192]), [0, 1])
    wires = world.lines(expectation, start=1000)
    for number in range(8):
        for line in wires.values():
            line.send(32_768, number * 10_000)
    for line in wires.values():
        line.lost = set(range(1000, 1032))
    report = audit(expectation, world.records(wires.values()))
    assert Verdict.COVERED not in verdicts(report)
    assert report.verdict in (Verdict.UNKNOWN, Verdict.GAP)


def test_what_a_flow_misses_at_its_ends_explains_no_drops() -> None:
    expectation, wires = run()
    found = world.records(wires.values(), dropped=1)
    end = Missing(80, 80, 80, 1, Cause.CAPTURE_END)
    flows = (replace(found.flows[0], missing=(end,)), *found.flows[1:])
    report = audit(expectation, replace(found, flows=flows))
    assert verdicts(report) == [Verdict.UNKNOWN] * 2


def test_an_immediate_that_is_not_the_length_is_no_iteration_of_ours() -> None:
    """Up to NCCL 2.28 it is the length; from 2.29 on it may be a request number and is not looked at."""
    for version, wanted in (((2, 18, 3), Verdict.STALE), ((2, 29, 2), Verdict.COVERED)):
        expectation = world.planned(world.job(version=version), [0, 1])
        wires = world.lines(expectation)
        for number in range(2):
            for h in expectation.hops:
                for m in h.messages:
                    wires[0, h.index].send(m.wire_bytes, number * world.SECOND, immediate=7)
        report = audit(expectation, world.records(wires.values()))
        assert report.verdict is wanted
        assert len(report.iterations) == (2 if wanted is Verdict.COVERED else 0)


def test_a_host_outside_talking_to_ours_is_other_traffic_and_not_foreign() -> None:
    expectation, wires = run()
    storage = world.Line(Address("10.9.9.1"), world.address(0), 0x77)
    storage.send(4096, 0)
    report = audit(expectation, world.records([*wires.values(), storage]))
    assert report.verdict is Verdict.COVERED
    assert [f.use for f in report.flows if f.dest_qp == 0x77] == [FlowUse.OTHER]


def test_an_iteration_is_not_publishable_while_a_ring_was_never_seen() -> None:
    # 5 000 floats on 2 channels: chunks of 16 384 and 7 232 B on channel 0, 16 384 and 0 B on channel 1
    expectation = expect(world.job(channels=2), None)
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    report = audit(expectation, world.records([wires[0, 0], wires[0, 1]]))
    assert [(r.channel, r.iteration, r.verdict) for r in report.rings] == [
        (0, 0, Verdict.COVERED),
        (1, None, Verdict.UNKNOWN),
    ]
    assert [i.publishable for i in report.iterations] == [False]
