"""May a session be written to this SONiC switch, with those that are there? Asked before anything is sent. Pure."""

from collections.abc import Iterable

from flowcheck_net.drivers.sonic_db import Snapshot
from flowcheck_net.drivers.sonic_rows import MOST_RULES, SESSIONS, rows_of
from flowcheck_net.drivers.sonic_yang import RISKY, problems_of
from flowcheck_net.intent import MirrorSession, is_owned


def complaint_about(
    session: MirrorSession, now: Iterable[MirrorSession], snapshot: Snapshot, *, origin: str, job: str
) -> str:
    """Why it may not; empty: it may.

    Args:
        session: to be written.
        now: all sessions that will be there.
        snapshot: of the switch.
        job: whose sessions may share a destination.
        origin: where its encapsulated copies would come from; empty: no address known.
    """
    for pair in session.filters:
        if (":" in pair.source) != (":" in pair.destination):
            return f"{pair.source} and {pair.destination} are of two IP versions"
    if len(session.filters) > MOST_RULES:
        return f"it has {len(session.filters)} address pairs, and {MOST_RULES} have a priority each"
    if session.destination.startswith("erspan:") and not origin:
        return "no address of the switch is known for encapsulated copies: give Loopback0 one, or write origin=ADDRESS"
    try:
        rows = rows_of(session, origin)
    except ValueError as error:
        return str(error)
    row = rows[SESSIONS, session.name]
    if wrong := problems_of(session.name, row, snapshot):
        return "; ".join(wrong)
    if risky := sorted(set(RISKY) & row.keys()):
        return f"{risky[0]} may stop orchagent"
    return _port_complaint(session, snapshot) or _sharing_complaint(session, now, job)


def _port_complaint(session: MirrorSession, snapshot: Snapshot) -> str:
    sources = {s.port for s in session.sources}
    for port in sorted(sources):
        members = snapshot.members(port)
        if not snapshot.is_port(port) and port not in snapshot.config.get("PORTCHANNEL", {}):
            return f"there is no port {port}"
        if not snapshot.is_port(port) and not members:
            return f"port channel {port} has no members"
        if inside := sorted(sources & set(members)):
            return f"{inside[0]} is a member of {port}, and both are sources"
    if session.destination == "CPU":
        return "the switch's CPU is no place for copies: it takes few, and drops the others"
    channels = [key.partition("|")[0] for key in snapshot.config.get("PORTCHANNEL_MEMBER", {})]
    if taken := [c for c in channels if session.destination in snapshot.members(c)]:
        return f"{session.destination} is a member of {taken[0]}"
    return ""


def _sharing_complaint(session: MirrorSession, now: Iterable[MirrorSession], job: str) -> str:
    """As ``config mirror_session`` has it, which patches go past: no source twice, no port source and destination."""
    for other in now:
        if shared := sorted(set(session.sources) & set(other.sources)):
            return f"{other.name} watches {shared[0].port} {shared[0].direction} already"
        local = not session.destination.startswith("erspan:")
        if local and session.destination == other.destination and not is_owned(other.name, job):
            return f"{other.name} sends to {session.destination} already"
        if session.destination in {s.port for s in other.sources}:
            return f"{other.name} watches {session.destination}"
        if inside := [s.port for s in session.sources if s.port == other.destination]:
            return f"{other.name} sends to {inside[0]}"
    return ""
