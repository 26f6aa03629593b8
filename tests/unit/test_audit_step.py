"""Iterations that one capture shows late, beside iterations that have no number on one hop."""

from collections.abc import Collection

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.verdict import Verdict
from tests.doubles import audit_world as world
from tests.doubles.audit_world import SECOND, verdicts


def audited(
    iterations: int, late: Collection[int] = (), strange: Collection[tuple[int, int]] = (), by: int = SECOND
) -> AuditReport:
    """An iteration a second on a ring of two.

    Hop 1 shows those of ``late`` later than hop 0 does. In (iteration, hop) of ``strange`` a foreign message follows
    the first one, so that the iteration is in no window of that hop.
    """
    expectation = world.planned(world.job(), [0, 1])
    wires = world.lines(expectation)
    for number in range(iterations):
        for hop in expectation.hops:
            time = number * SECOND + (by if hop.index == 1 and number in late else 0)
            for at, message in enumerate(hop.messages):
                wires[0, hop.index].send(message.wire_bytes, time + at * 10_000)
                if at == 0 and (number, hop.index) in strange:
                    wires[0, hop.index].send(48, time + 5_000)
    return audit(expectation, world.records(wires.values()))


def test_one_that_is_a_whole_period_late_keeps_its_number() -> None:
    """Seen in the lab: a busy machine held packets of one hop for 0.298 s, iterations were 0.3 s apart."""
    assert verdicts(audited(8, late={4})) == [Verdict.COVERED] * 8


def test_several_late_ones_keep_their_numbers() -> None:
    assert verdicts(audited(12, late={3, 4, 7})) == [Verdict.COVERED] * 12


def test_early_ones_keep_their_numbers() -> None:
    assert verdicts(audited(8, late={4}, by=-SECOND * 9 // 10)) == [Verdict.COVERED] * 8


def test_late_until_the_end_may_be_another_shift() -> None:
    assert verdicts(audited(8, late=range(5, 8))) == [Verdict.UNKNOWN] * 8


def test_a_number_lost_on_one_hop_and_later_on_the_other_is_not_lateness() -> None:
    """The times come back as after a late one, but in between iterations of two numbers stand side by side."""
    report = audited(8, strange={(3, 0), (5, 1)})
    assert Verdict.UNKNOWN in verdicts(report)
    assert not any(each.publishable for each in report.iterations)


def test_a_late_one_does_not_hide_a_lost_number() -> None:
    report = audited(10, late={2}, strange={(5, 0), (7, 1)})
    assert not any(each.publishable for each in report.iterations)


def test_packets_lost_where_no_iteration_was_are_not_lateness() -> None:
    """Forty foreign packets are lost on each hop, as many as an iteration has, on the other hop two iterations later.

    An iteration is inferred there, so that positions follow without a gap, and the times come back: but in between
    iterations of two numbers stand side by side.
    """
    expectation = world.planned(world.job(), [0, 1])
    wires = world.lines(expectation)
    for number in range(8):
        for hop in (0, 1):
            if number == 3 + 2 * hop:
                wires[0, hop].lost.update(wires[0, hop].send(40 * 1024, number * SECOND - SECOND // 2))
        world.iterate(expectation, wires, number * SECOND)
    report = audit(expectation, world.records(wires.values()))
    assert not any(each.publishable for each in report.iterations)
