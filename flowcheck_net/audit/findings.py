"""What a person should know beside the verdicts: every finding with its numbers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from flowcheck_net.audit.assign import Assigned
from flowcheck_net.audit.content import content_findings
from flowcheck_net.audit.copies import Difference, copy_findings
from flowcheck_net.audit.number import part_keys
from flowcheck_net.audit.pattern import Track
from flowcheck_net.audit.ports import port_findings
from flowcheck_net.audit.ranges import clip, size
from flowcheck_net.audit.result import FlowResult, FlowUse, RingResult, hop_label
from flowcheck_net.audit.survey import Survey
from flowcheck_net.audit.unseen import changed, sizes
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.audit.window import window_findings
from flowcheck_net.ids import CapturePort
from flowcheck_net.model.job import Wire


def collect(
    wire: Wire,
    sighted: Survey,
    drops: Mapping[CapturePort, int],
    copies: tuple[Difference, ...],
    rings: Sequence[RingResult],
    flows: Sequence[FlowResult],
) -> tuple[Finding, ...]:
    """All findings, the serious ones first, then in a canonical order."""
    found = [
        *_foreign(flows),
        *_stale(sighted),
        *_drops(drops),
        *copy_findings(sighted, copies),
        *window_findings(sighted),
        *_ambiguous(sighted),
        *_placement(sighted),
        *_other(flows),
        *port_findings(sighted),
        *_extra_hops(rings),
        *_unobserved(rings),
    ]
    for assigned in sighted.assigned:
        found.extend(content_findings(assigned, wire))
    found.sort(key=lambda f: (f.verdict is None, list(FindingKind).index(f.kind), f.subject, f.text))
    return tuple(found)


def _flow_name(flow: FlowResult) -> str:
    return f"{flow.source} -> {flow.destination} queue pair {flow.dest_qp:#x} at {flow.capture}"


def _foreign(flows: Sequence[FlowResult]) -> Iterator[Finding]:
    pairs: dict[tuple[str, str, str], list[FlowResult]] = defaultdict(list)
    for flow in flows:
        if flow.use is FlowUse.FOREIGN:
            pairs[flow.source, flow.destination, flow.capture].append(flow)
    for (source, destination, capture), many in sorted(pairs.items()):
        packets = sum(flow.packets for flow in many)
        yield Finding(
            FindingKind.FOREIGN,
            Verdict.UNPLANNED,
            f"{source} -> {destination} at {capture}",
            f"{packets} RDMA packets on {len(many)} queue pair{'s' if len(many) != 1 else ''} "
            "between hosts that are not in the job: "
            "the mirror copies another job's traffic",
        )


def _stale(sighted: Survey) -> Iterator[Finding]:
    named = set()
    for slot in sighted.empty:
        hop = slot.hop
        track = changed(hop, sighted)
        if track is not None and id(track) not in named:
            named.add(id(track))
            yield Finding(
                FindingKind.STALE,
                Verdict.STALE,
                f"hop {hop_label(hop)}",
                f"no queue pair carries the expected messages of {sizes(m.wire_bytes for m in hop.messages)} B; "
                f"queue pair {track.flow.dest_qp:#x} carries {sizes(m.bytes or 0 for m in track.known)} B instead",
            )
    for track in sighted.surplus:
        flow = track.flow
        yield Finding(
            FindingKind.STALE,
            Verdict.STALE,
            f"{flow.source} -> {flow.destination} queue pair {flow.dest_qp:#x}",
            "carries whole iterations, but every connection of the job between these hosts has its queue pair already: "
            "the job was restarted, or there is another communicator",
        )


def _drops(drops: Mapping[CapturePort, int]) -> Iterator[Finding]:
    for port, count in sorted(drops.items()):
        yield Finding(
            FindingKind.DROPS,
            Verdict.UNKNOWN,
            port,
            f"the capture reports {count} dropped packets more than there are gaps in the sequence numbers",
        )


def _ambiguous(sighted: Survey) -> Iterator[Finding]:
    for group in sighted.classes:
        hop = group[0].hop
        names = ", ".join(f"{s.hop.group}/{s.hop.channel}" + (f" queue pair {s.qp}" if s.qp else "") for s in group)
        yield Finding(
            FindingKind.AMBIGUOUS,
            None,
            f"{hop.source} -> {hop.destination}",
            f"the message patterns of {names} are equal: queue pairs were given to them in ascending order, "
            "and a gap is filled from another hop only where this order does not matter",
        )


def _placement(sighted: Survey) -> Iterator[Finding]:
    for assigned in sighted.assigned:
        yield from _leftovers(assigned, sighted)
        if assigned.doubt:
            verdict = Verdict.UNKNOWN if assigned.matters else None
            yield Finding(FindingKind.AMBIGUOUS, verdict, assigned.name, assigned.doubt)


def _leftovers(assigned: Assigned, sighted: Survey) -> Iterator[Finding]:
    for track, placement in assigned.flows:
        count = size(placement.unplaced) + _outside(track, assigned, sighted)
        if placement.windows and count:
            yield Finding(
                FindingKind.UNPLACED,
                None,
                f"{assigned.name} at {track.flow.capture}",
                f"{count} packets belong to no iteration and to no message whose start was seen",
            )
        lost = sum(window.base is None for window in placement.windows)
        if lost:
            yield Finding(
                FindingKind.UNPLACED,
                Verdict.UNKNOWN,
                f"{assigned.name} at {track.flow.capture}",
                f"{lost} iterations were lost wholly together with other messages, so that their place is not known",
            )


def _outside(track: Track, assigned: Assigned, sighted: Survey) -> int:
    """Packets in windows that no iteration is made of: guesses at the ends, and what only empty messages show."""
    count = 0
    for key in dict.fromkeys(part_keys(assigned.slot)):
        for sighting in sighted.sightings.get(key, ()):
            if sighting.track is track:
                for number, window in enumerate(sighting.windows, sighting.start):
                    if window.qp == key[3] and window.base is not None and number not in range(sighted.iterations):
                        count += size(clip(track.flow.seen, window.base, window.base + window.span - 1))
    return count


def _other(flows: Sequence[FlowResult]) -> Iterator[Finding]:
    for flow in flows:
        if flow.use is FlowUse.OTHER:
            text = f"{flow.packets} packets of other RDMA of the job's hosts (such as point-to-point): not counted"
            yield Finding(FindingKind.OTHER, None, _flow_name(flow), text)
        if flow.unrecognised:
            many = "message is" if flow.unrecognised == 1 else "messages are"
            text = f"{flow.unrecognised} {many} neither an all-reduce nor a declared broadcast: not counted"
            yield Finding(FindingKind.UNRECOGNISED, None, _flow_name(flow), text)


def _extra_hops(rings: Sequence[RingResult]) -> Iterator[Finding]:
    found: dict[tuple[str, int, int, str], int] = defaultdict(int)
    for ring in rings:
        if any(hop.planned for hop in ring.hops):
            for hop in ring.hops:
                if hop.observed and not hop.planned:
                    found[ring.group, ring.channel, hop.index, hop.label] += hop.seen.packets
    for (*_, label), packets in sorted(found.items()):
        text = f"{packets} packets arrived although the plan does not watch this hop; they count as seen"
        yield Finding(FindingKind.EXTRA_HOP, None, f"hop {label}", text)


def _unobserved(rings: Sequence[RingResult]) -> Iterator[Finding]:
    for ring in rings:
        if ring.iteration is None:
            yield Finding(FindingKind.UNOBSERVED, None, f"{ring.group}/{ring.channel}", ring.reason)
