"""A ring of which no iteration was found: is it silent, or is its traffic not what the job says?"""

from collections.abc import Iterable, Sequence

from flowcheck_net.audit.pattern import Track
from flowcheck_net.audit.result import hop_label
from flowcheck_net.audit.survey import Survey
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.model.expect import ExpectedHop

_SHOWN = 6


def unseen(hops: Sequence[ExpectedHop], sighted: Survey, planned: bool) -> tuple[Verdict, str]:
    """STALE where its addresses exchange other messages of like number, else UNKNOWN."""
    for hop in hops:
        track = changed(hop, sighted)
        if track is not None:
            return Verdict.STALE, (
                f"hop {hop_label(hop)}: expected messages of {sizes(m.wire_bytes for m in hop.messages)} B, "
                f"but queue pair {track.flow.dest_qp:#x} carries {sizes(m.bytes or 0 for m in track.known)} B"
            )
    watched = [hop for hop in hops if hop.captures] if planned else list(hops)
    named = ", ".join(map(hop_label, watched))
    return Verdict.UNKNOWN, f"no iteration was seen on any hop ({named or 'none is planned'})"


def changed(hop: ExpectedHop, sighted: Survey) -> Track | None:
    """A flow between the hop's addresses with at least as many messages as an iteration has, that is no ring's."""
    for track in sighted.left.get((hop.source, hop.destination), ()):
        writes = [m for m in track.known if m.immediate is not None]
        if len(writes) >= len(hop.messages) > 0:
            return track
    return None


def sizes(values: Iterable[int]) -> str:
    """The first few message sizes."""
    every = [str(value) for value in values]
    return ", ".join(every[:_SHOWN]) + (", ..." if len(every) > _SHOWN else "")
