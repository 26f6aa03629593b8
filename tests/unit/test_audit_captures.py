"""The real captures of the FlowCheck project, packet for packet: two ranks, fp32, LL, NCCL up to 2.19, 512 threads."""

from pathlib import Path

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport, FlowUse
from flowcheck_net.audit.verdict import FindingKind, Verdict
from flowcheck_net.ids import Address
from flowcheck_net.model.expect import expect
from flowcheck_net.model.job import Job, RankPlace
from tests.doubles import audit_world as world

CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "captures"
pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"the sample captures are not at {CAPTURES}")

HOST1 = Address("fe80::e42:a1ff:fe9f:58f8")
HOST2_PORT1 = Address("fe80::ac0:ebff:fe8c:282c")
HOST2_PORT2 = Address("fe80::ac0:ebff:fe8c:282d")


def audited(file: str, other: Address, elements: int, channels: int = 1, **kwargs) -> AuditReport:
    replay = pytest.importorskip("flowcheck_net.receive.replay").replay
    job = world.job(2, [elements], channels, **kwargs)
    places = tuple(
        RankPlace(p.rank, p.host, p.nic, address) for p, address in zip(job.places, (HOST1, other), strict=True)
    )
    moved = Job(job.name, job.wire, places, job.rings, job.iteration_time)
    return audit(expect(moved, None), replay([CAPTURES / file]))


def hops(report: AuditReport, ring: int = 0):
    return report.rings[ring].hops


def test_one_direction_is_a_gap_that_names_the_chunk_of_the_other_hop() -> None:
    report = audited("iter_40000_p2p.pcapng", HOST2_PORT2, 5000, broadcasts=[20_000])
    (ring,) = report.rings
    assert ring.verdict is Verdict.GAP
    assert [(m.wire_bytes, m.packets) for m in _messages(5000)] == [(15_424, 16), (24_576, 24)]
    there, back = ring.hops
    assert there.seen == there.expected
    assert (there.expected.packets, there.expected.bytes) == (16 + 24, 15_424 + 24_576)
    assert not back.observed
    assert [(c.chunk, c.missing, c.unobserved) for c in ring.chunks_missing] == [(1, 16, ("dp0/0/1 (1->0)",))]
    assert (
        "chunk 1 of bucket0 (16 of 16 packets) is carried fully reduced only by hop dp0/0/1 (1->0), not observed"
        in ring.reason
    )
    # the broadcast of 40 000 B, two small messages before it, and the point-to-point connection beside it
    uses = {int(f.dest_qp): (f.use, f.broadcasts, f.unrecognised) for f in report.flows}
    assert uses[0x61A] == (FlowUse.RING, 1, 2)
    assert uses[0x61F] == (FlowUse.OTHER, 0, 0)
    assert uses[0x619] == (FlowUse.CONTROL, 0, 0)


def _messages(elements: int):
    return expect(world.job(2, [elements]), None).hops[0].messages


def test_iterations_between_other_messages_are_numbered() -> None:
    report = audited("iter_40000_p2p_iter2.pcapng", HOST2_PORT2, 5000)
    assert [r.iteration for r in report.rings] == [0, 1]
    assert all(hops(report, i)[0].seen == hops(report, i)[0].expected for i in (0, 1))


def test_lost_inside_and_cut_at_the_end_are_told_apart() -> None:
    report = audited("iter_80000.pcapng", HOST2_PORT2, 10_000)
    (ring,) = report.rings
    assert ring.verdict is Verdict.GAP
    there, back = ring.hops
    assert there.qpns == (0x514,)
    assert (there.seen.messages, there.seen.packets) == (1, 39 + 28)
    assert [(m.first_psn, m.last_psn, m.cause) for m in there.missing] == [(148, 159, "capture_end")]
    assert back.qpns == (0xC99,)
    assert (back.seen.messages, back.seen.packets) == (1, 40 + 22)
    assert [(m.first_psn, m.last_psn, m.cause) for m in back.missing] == [
        (62, 76, "lost"),
        (78, 79, "capture_end"),
    ]


def test_extra_step_every_hop_is_complete_by_itself_but_the_one_that_the_capture_cuts() -> None:
    """On channel 1 the capture ends 9 packets before hop 1->0 does (PSN 24-32); hop 0->1 alone has all of it."""
    report = audited("allreduce_addstep.pcapng", HOST2_PORT1, 5000, 2, extra=True)
    first, second = report.rings
    assert first.verdict is Verdict.COVERED
    assert all(h.complete for h in first.hops)
    assert [h.expected.messages for h in first.hops] == [3, 3]
    assert second.verdict is Verdict.RECOVERED
    assert second.hops[0].complete
    assert [(m.first_psn, m.last_psn, m.cause) for m in second.hops[1].missing] == [(24, 32, "capture_end")]


def test_extra_step_needs_one_hop_only() -> None:
    replay = pytest.importorskip("flowcheck_net.receive.replay").replay
    records = replay([CAPTURES / "allreduce_addstep.pcapng"])
    job = world.job(2, [5000], 2, extra=True)
    places = tuple(RankPlace(p.rank, p.host, p.nic, a) for p, a in zip(job.places, (HOST1, HOST2_PORT1), strict=True))
    moved = Job(job.name, job.wire, places, job.rings, job.iteration_time)
    (port,) = {f.capture for f in records.flows}
    one = world.planned(moved, [0], port=port)
    only = type(records)(
        records.sources, records.warnings, records.captures, tuple(f for f in records.flows if f.source == HOST1)
    )
    assert [r.verdict for r in audit(one, only).rings] == [Verdict.COVERED] * 2


def test_empty_chunks_are_messages_and_other_traffic_is_not_counted() -> None:
    report = audited("allreduce+p2p.pcapng", HOST2_PORT1, 5000, 2)
    assert [r.verdict for r in report.rings] == [Verdict.COVERED] * 2
    # channel 1: an empty chunk (one packet, 0 B) and 16 384 B in 16 packets
    for hop in hops(report, 1):
        assert (hop.seen.messages, hop.seen.packets, hop.seen.bytes) == (2, 17, 16_384)
    for hop in hops(report, 0):
        assert (hop.seen.messages, hop.seen.packets, hop.seen.bytes) == (2, 24, 7_232 + 16_384)
    other = {f.dest_qp for f in report.flows if f.use is FlowUse.OTHER}
    assert other == {0x83E, 0x366}
    assert {f.kind for f in report.findings} == {FindingKind.OTHER}


def test_another_wire_format_is_stale_and_says_what_is_there() -> None:
    report = audited("rdma32.pcapng", HOST2_PORT1, 5000, 2)
    assert report.verdict is Verdict.STALE
    assert any("7232, 1024, 1024" in f.text for f in report.findings)
