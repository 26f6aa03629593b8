"""Drops that a capture reports, against the packets that are known to be missing there."""

from collections import Counter
from collections.abc import Mapping

from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.records import Cause, Records


def unexplained_drops(records: Records, known: Mapping[int, int]) -> dict[CapturePort, int]:
    """Captures that report more drops than the gaps in their flows, and by how many packets.

    A gap may have other causes than this capture's drops, so that gaps explain drops at best: what is left over fell
    where no sequence number tells, such as behind the last packet of a flow. A capture that cannot count drops is not
    listed.

    Args:
        records: What was seen.
        known: ``id`` of a flow of which the switch leaves messages out -> the packets that are missing nevertheless.
    """
    gaps: Counter[CapturePort] = Counter()
    for flow in records.flows:
        missing = sum(m.packets for m in flow.missing if m.cause is Cause.LOST)
        gaps[flow.capture] += known.get(id(flow), missing)
    return {
        capture.name: capture.dropped - gaps[capture.name]
        for capture in records.captures
        if capture.dropped is not None and capture.dropped > gaps[capture.name]
    }
