"""Whole iterations that a queue pair carried twice: a connection that began anew on the same positions."""

from dataclasses import replace

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Verdict
from tests.doubles import audit_world as world
from tests.doubles.audit_world import SECOND, verdicts


@pytest.mark.parametrize(("again", "verdict"), [(1, Verdict.COVERED), (2, Verdict.UNKNOWN)])
def test_two_whole_iterations_sent_again_are_another_connection_and_one_is_the_sender(
    again: int, verdict: Verdict
) -> None:
    """An iteration has two messages and 40 packets a hop, fewer messages than may be under way at once."""
    expectation = world.planned(world.job(), [0, 1])
    wires = world.lines(expectation)
    for number in range(4):
        world.iterate(expectation, wires, number * SECOND)
    records = world.records(wires.values())
    repeats = tuple((position, 1) for position in range(40 * again))
    flows = [replace(f, repeats=repeats, retransmitted=len(repeats)) for f in records.flows]
    report = audit(expectation, replace(records, flows=tuple(flows)))
    assert set(verdicts(report)) == {verdict}
    assert ("came again, whole" in report.rings[0].reason) is (verdict is Verdict.UNKNOWN)
