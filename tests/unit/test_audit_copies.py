"""Copies of one packet at several capture ports: the sums of their ICRCs, and the counts of what came how often."""

from collections.abc import Collection
from dataclasses import replace

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.verdict import FindingKind, Verdict
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.records import Flow, Records
from tests.doubles import audit_world as world

OTHER = CapturePort("ckpt1:cap1")


def summed(flow: Flow, wrong: Collection[int] = ()) -> Flow:
    """Sums as two honest ports would give them; those of the messages at ``wrong`` are others."""
    messages = tuple(
        replace(m, icrc_sum=1_000_003 * (m.position + 1) + 7 * (m.position in wrong)) for m in flow.messages
    )
    return replace(flow, messages=messages)


def audited(wrong: Collection[int] = (), lost: Collection[int] = ()) -> AuditReport:
    """Hop 0->1 at two ports; the second one shows other sums at ``wrong`` and lost the packets ``lost``."""
    expectation, wires = world.run(3)
    there, back = wires[0, 0], wires[0, 1]
    twin = world.copy_at(there, OTHER)
    twin.lost |= set(lost)
    made = world.records([there, back, twin])
    flows = tuple(summed(f, wrong if f.capture == OTHER else ()) for f in made.flows)
    job = world.job(2, [5000])
    both = world.planned(job, [0, 1])
    two = replace(both, hops=tuple(replace(h, captures=(world.PORT, OTHER), copies=2 - h.index) for h in both.hops))
    assert expectation.hops[0].messages == two.hops[0].messages
    return audit(two, Records(made.sources, (), made.captures, flows))


def test_equal_sums_are_one_packet_seen_twice() -> None:
    report = audited()
    assert world.verdicts(report) == [Verdict.COVERED] * 3
    there = report.rings[0].hops[0]
    assert (there.raw, there.seen.packets, there.repeats, there.retransmitted) == (80, 40, 0, 0)


def test_other_sums_are_a_finding_with_psn_and_both_sums() -> None:
    # an iteration takes 40 packets; the message at 56 is the second one of iteration 1: PSN 56-79
    report = audited(wrong=[56])
    assert world.verdicts(report) == [Verdict.COVERED, Verdict.UNKNOWN, Verdict.COVERED]
    (finding,) = (f for f in report.findings if f.kind is FindingKind.COPIES_DIFFER)
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.subject == "dp0/0/0 (0->1), queue pair 0x100"
    assert f"PSN 56-79: ICRC sum {57 * 1_000_003:#x} at {world.PORT}" in finding.text
    assert f"{57 * 1_000_003 + 7:#x} at {OTHER}" in finding.text


def test_sums_of_torn_messages_say_nothing() -> None:
    report = audited(wrong=[56], lost=[60])
    assert not [f for f in report.findings if f.kind is FindingKind.COPIES_DIFFER]
    assert world.verdicts(report) == [Verdict.COVERED] * 3


def test_repeats_are_counted_apart_by_flow_and_hop() -> None:
    expectation, wires = world.run(1)
    wires[0, 0].doubled = {3: 2}
    (twice, once) = (line.flow() for line in wires.values())
    made = world.records(wires.values())
    resent = replace(twice, duplicated=0, retransmitted=2)
    report = audit(expectation, replace(made, flows=(resent, once)))
    flow, hop = report.flows[0], report.rings[0].hops[0]
    assert (flow.raw, flow.unique, flow.repeated, flow.retransmitted) == (42, 40, 2, 2)
    assert (hop.raw, hop.seen.packets, hop.repeats, hop.retransmitted, hop.surplus) == (42, 40, 2, 2, 0)
    report = audit(expectation, made)
    hop = report.rings[0].hops[0]
    assert (hop.raw, hop.seen.packets, hop.repeats, hop.retransmitted, hop.surplus) == (42, 40, 2, 0, 2)
