"""Did the copies of each hop arrive where the plan sends them?

Bytes that were seen are proven, but wrong cables are not what was planned: the next change of the fabric would be made
from a false picture.
"""

from collections import defaultdict
from collections.abc import Iterator

from flowcheck_net.audit.number import SlotKey
from flowcheck_net.audit.ranges import size
from flowcheck_net.audit.result import hop_label
from flowcheck_net.audit.survey import Survey
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.ids import CapturePort


def port_findings(sighted: Survey) -> Iterator[Finding]:
    """Planned hops that arrived at another capture port, and captures that are not named after one."""
    elsewhere: dict[tuple[SlotKey, CapturePort], int] = defaultdict(int)
    unnamed: dict[CapturePort, set[CapturePort]] = defaultdict(set)
    for key, sightings in sighted.sightings.items():
        allowed = _allowed(sighted, key)
        for flow in (sighting.track.flow for sighting in sightings):
            if not allowed or flow.capture in allowed:
                continue
            if is_port(flow.capture):
                elsewhere[(*key[:3], 0), flow.capture] += size(flow.seen)
            else:
                unnamed[flow.capture] |= allowed
    hops = {key[:3]: found[0].slot.hop for key, found in sighted.carriers.items()}
    for (key, port), packets in sorted(elsewhere.items()):
        hop = hops[key[:3]]
        yield Finding(
            FindingKind.OTHER_CAPTURE,
            Verdict.STALE,
            f"hop {hop_label(hop)}",
            f"{packets} packets arrived at {port}, the plan sends them to {', '.join(hop.captures)}: "
            "a cable or the destination of a mirror session differs from the plan; they count as seen",
        )
    for name, ports in sorted(unnamed.items()):
        wanted = ", ".join(sorted(ports))
        yield Finding(
            FindingKind.OTHER_CAPTURE,
            None,
            name,
            f"is not named after a capture port (planned: {wanted}), so it is not known whether packets arrived at the "
            f"right one; name it: `flowcheck-net replay --capture {min(ports)}=FILE`",
        )


def is_port(name: str) -> bool:
    """Is a capture named after a port, ``node:nic``, and not after a file or an interface of the receiving machine?"""
    node, colon, nic = name.partition(":")
    return bool(node and colon and nic)


def _allowed(sighted: Survey, key: SlotKey) -> set[CapturePort]:
    """Where the plan expects it; where it may be another queue pair's, also where that one is expected."""
    carriers = sighted.carriers[key]
    hop = carriers[0].slot.hop
    if not hop.captures:
        return set()
    others = [a.slot.hop for other in sighted.equal.get(key, ()) for a in sighted.carriers.get(other, ())]
    if any(a.doubt for a in carriers):
        every = (a.slot.hop for a in sighted.assigned)
        others += [h for h in every if (h.source, h.destination) == (hop.source, hop.destination)]
    return {port for each in (hop, *others) for port in each.captures}
