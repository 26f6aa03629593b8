"""More than one ring in a lab: trees, groups, channels, IPv6, filters, tunnels; the cables are asked what came."""

from collections import Counter
from pathlib import Path

import pytest

from flowcheck_net.audit.result import AuditReport
from flowcheck_net.lab.build import missing
from tests.dpdk.receiving import needs_receiver
from tests.netns.lab_oracle import peeled, sources
from tests.netns.lab_running import heard, made

ITERATIONS = 8
FOREIGN = "2001:db8::1"
LANES = [("dp0", 0), ("dp0", 1), ("dp1", 0), ("dp1", 1)]

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(missing()), reason=missing() or "not skipped")]


def seen(report: AuditReport) -> Counter[tuple[str, str, int]]:
    """Distinct packets of each planned hop over all iterations, as the audit counted them."""
    found: Counter[tuple[str, str, int]] = Counter()
    for hop in (hop for ring in report.rings for hop in ring.hops if hop.planned):
        found[hop.source, hop.destination, hop.qpns[0]] += hop.seen.packets
    return found


def covered(report: AuditReport) -> bool:
    lanes = [(ring.group, ring.channel) for ring in report.rings if ring.verdict.value == "COVERED"]
    return sorted(lanes) == sorted(LANES * ITERATIONS)


@needs_receiver
def test_two_groups_on_trees_over_ipv6_through_filters(tmp_path: Path):
    with made("lab-tree") as lab:
        report, ears = heard(lab, tmp_path, ITERATIONS, "tenant", live=True)
    truth = ears.truth(ITERATIONS)
    assert truth.verdicts() == ["COVERED"] * ITERATIONS
    assert covered(report.audit)
    assert report.verdict.value == "COVERED"
    # Of each of four trees two edges that lead down from a watched port, and two that lead up from it.
    assert len(truth.watched) == 16
    assert {":" in source for source, _, _ in truth.watched} == {True}
    assert seen(report.audit) == Counter(packet.flow for packet in truth.arrived)
    assert sources(ears.frames[ears.hosts[0]])[FOREIGN] > 500
    assert ears.copies(FOREIGN) == 0
    assert not any(flow.source == FOREIGN for flow in report.audit.flows)


@needs_receiver
def test_two_groups_on_rings_whose_copies_cross_the_spine_in_tunnels(tmp_path: Path):
    with made("lab-remote") as lab:
        report, ears = heard(lab, tmp_path, ITERATIONS, live=True)
    truth = ears.truth(ITERATIONS)
    assert truth.verdicts() == ["COVERED"] * ITERATIONS
    assert covered(report.audit)
    assert len(truth.watched) == 4 * 3
    assert seen(report.audit) == Counter(packet.flow for packet in truth.arrived)
    copies = [frame for end in ears.captures for frame in ears.frames[end]]
    assert len(copies) == report.received
    assert all(len(frame) - len(peeled(frame)) == 50 for frame in copies)
