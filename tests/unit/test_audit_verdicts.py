"""One hand-made case for each verdict; the comments work the numbers out."""

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Verdict, worst
from flowcheck_net.model.expect import expect
from flowcheck_net.model.job import Protocol
from tests.doubles import audit_world as world
from tests.doubles.audit_world import run, verdicts


def test_everything_seen_is_covered_with_the_arithmetic() -> None:
    expectation, wires = run()
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED] * 2
    assert report.verdict is Verdict.COVERED
    assert [i.publishable for i in report.iterations] == [True, True]
    ring = report.rings[0]
    assert (ring.reduced_packets, ring.reduced_seen) == (40, 40)
    for hop in ring.hops:
        assert (hop.expected.messages, hop.expected.packets, hop.expected.bytes) == (2, 40, 40_000)
        assert hop.seen == hop.expected
    assert ring.reason == "all 40 fully reduced packets seen; 80 of 80 packets on 2 hops, counts equal"
    assert not report.findings


def test_a_lost_fully_reduced_packet_is_a_gap_that_names_chunk_and_psn() -> None:
    expectation, wires = run()
    wires[0, 0].lost = {40 + 16 + 3}  # second iteration, chunk 0, fourth packet
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED, Verdict.GAP]
    ring = report.rings[1]
    assert [(c.bucket, c.chunk, c.packets, c.missing) for c in ring.chunks_missing] == [("bucket0", 0, 24, 1)]
    assert ring.chunks_missing[0].carriers == ("dp0/0/0 (0->1)",)
    assert (ring.hops[0].seen.packets, ring.hops[0].seen.bytes, ring.hops[0].seen.messages) == (39, 40_000 - 1024, 1)
    assert "chunk 0 of bucket0 (1 of 24 packets)" in ring.reason
    assert "PSN 59 lost inside the capture" in ring.reason
    assert [i.publishable for i in report.iterations] == [True, False]


def test_a_lost_last_packet_costs_its_own_bytes() -> None:
    expectation, wires = run()
    wires[0, 0].lost = {15}  # the last packet of 15 424 B holds 15 424 - 15 * 1 024 = 64 B
    report = audit(expectation, world.records(wires.values()))
    assert report.rings[0].hops[0].seen.bytes == 40_000 - 64


def test_only_partial_sums_missing_is_recovered_and_says_so() -> None:
    expectation, wires = run()
    wires[0, 0].lost = {5}
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.RECOVERED, Verdict.COVERED]
    assert report.rings[0].reason.startswith("only partial sums are missing")
    assert (report.rings[0].hops[0].missing_partial, report.rings[0].hops[0].missing_reduced) == (1, 0)
    assert report.iterations[0].publishable


def test_a_spare_copy_recovers_and_two_losses_of_the_same_packet_do_not() -> None:
    # 3 ranks, 10 000 floats: chunks of 4 096, 4 096 and 1 808 floats, 32, 32 and 15 packets;
    # hop i lacks chunk i + 1, so that each chunk has two copies
    expectation = world.planned(world.job(3, [10_000]), [0, 1, 2])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    first = {h.index: sum(m.packets for m in h.messages if not m.reduced) for h in expectation.hops}
    assert [(m.chunk, m.packets) for m in expectation.hops[0].messages if m.reduced] == [(0, 32), (2, 15)]
    wires[0, 0].lost = {first[0] + 4}
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.RECOVERED]
    assert "only thanks to another hop" in report.rings[0].reason
    # the other copy of chunk 0 is the second fully reduced message of hop 1 (it sends chunk 1, then chunk 0)
    wires[0, 1].lost = {first[1] + 32 + 4}
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.GAP]
    assert report.rings[0].chunks_missing[0].carriers == ("dp0/0/0 (0->1)", "dp0/0/1 (1->2)")


def test_one_direction_only_names_the_hop_that_was_not_observed() -> None:
    expectation = world.planned(world.job(), [0])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    report = audit(expectation, world.records([wires[0, 0]]))
    assert verdicts(report) == [Verdict.GAP]
    assert (
        "chunk 1 of bucket0 (16 of 16 packets) is carried fully reduced only by hop dp0/0/1 (1->0), not observed"
        in (report.rings[0].reason)
    )


def test_with_the_extra_step_one_hop_is_enough() -> None:
    expectation = world.planned(world.job(extra=True), [1])
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    assert verdicts(audit(expectation, world.records([wires[0, 1]]))) == [Verdict.COVERED]


def test_a_planned_hop_of_which_nothing_came_is_a_gap() -> None:
    expectation, wires = run()
    report = audit(expectation, world.records([wires[0, 0]]))
    assert verdicts(report) == [Verdict.GAP] * 2
    gone = report.rings[0].hops[1].missing
    assert [(g.packets, g.first_psn) for g in gone] == [(40, None)]


def test_a_whole_iteration_lost_on_one_hop_does_not_shift_the_next() -> None:
    expectation, wires = run(3)
    wires[0, 0].lost = set(range(40, 80))
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]
    assert report.rings[1].hops[0].missing[0].first_psn == 40
    assert report.rings[1].hops[0].missing[0].last_psn == 79


def test_a_flow_that_missed_the_first_iterations_is_shifted_by_time() -> None:
    expectation, wires = run(4)
    wires[0, 1].lost = set(range(80))
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.GAP, Verdict.GAP, Verdict.COVERED, Verdict.COVERED]


def test_lost_first_packets_of_every_message_do_not_hide_the_iteration() -> None:
    expectation, wires = run(3)
    wires[0, 0].lost = {40, 56}
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]
    assert report.rings[1].hops[0].seen.packets == 38


def test_psn_wrap_is_invisible() -> None:
    expectation = world.planned(world.job(), [0, 1])
    wires = world.lines(expectation, start=(1 << 24) - 50)
    for number in range(3):
        world.iterate(expectation, wires, number * world.SECOND)
    wires[0, 0].lost = {(1 << 24) + 16}  # 66 packets after the start: chunk 0 of iteration 1
    report = audit(expectation, world.records(wires.values()))
    assert verdicts(report) == [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]
    assert report.rings[1].hops[0].missing[0].first_psn == 16


def test_hops_inside_hosts_are_never_assumed() -> None:
    """Ranks 0 and 1 share a host, so hop 0->1 is invisible; the other two show every chunk, one of them does not."""
    job = world.job(3, [10_000])
    places = tuple(p if p.rank != 1 else type(p)(p.rank, job.places[0].host, p.nic, p.address) for p in job.places)
    job = type(job)(job.name, job.wire, places, job.rings, job.iteration_time)
    expectation = world.planned(job, [1])
    assert [h.index for h in expectation.hops] == [1, 2]
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    assert verdicts(audit(expectation, world.records([wires[0, 1]]))) == [Verdict.GAP]
    both = world.planned(job, [1, 2])
    assert verdicts(audit(both, world.records(wires.values()))) == [Verdict.COVERED]


def test_without_a_plan_unobserved_hops_are_named() -> None:
    expectation = expect(world.job(), None)
    wires = world.lines(expectation)
    world.iterate(expectation, wires, 0)
    report = audit(expectation, world.records([wires[0, 1]]))
    assert verdicts(report) == [Verdict.GAP]
    assert (
        "chunk 0 of bucket0 (24 of 24 packets) is carried fully reduced only by hop dp0/0/0 (0->1), not observed"
        in (report.rings[0].reason)
    )
    assert not report.planned


@pytest.mark.parametrize("protocol", list(Protocol))
def test_every_protocol_is_covered_and_gapped(protocol: Protocol) -> None:
    expectation = world.planned(world.job(4, [300_001], protocol=protocol, version=(2, 22, 3), mtu=4096), [0, 2])
    wires = world.lines(expectation)
    for number in range(3):
        world.iterate(expectation, wires, number * world.SECOND)
    watched = [wires[0, 0], wires[0, 2]]
    assert verdicts(audit(expectation, world.records(watched))) == [Verdict.COVERED] * 3
    span = sum(m.packets for m in expectation.hops[0].messages)
    assert expectation.hops[2].messages[-1].reduced
    # chunk 1 is on hop 2 only, since hop 0 lacks it
    at = 0
    for m in expectation.hops[2].messages:
        if m.reduced and m.chunk == 1 and m.data_bytes:
            break
        at += m.packets
    wires[0, 2].lost = {span + at}
    assert verdicts(audit(expectation, world.records(watched))) == [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]


def test_worst_follows_the_exit_codes() -> None:
    assert worst([]) is Verdict.UNKNOWN
    assert worst([Verdict.COVERED, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert worst([Verdict.UNKNOWN, Verdict.DUPLICATE]) is Verdict.DUPLICATE
    assert worst([Verdict.GAP, Verdict.STALE, Verdict.UNPLANNED]) is Verdict.GAP
