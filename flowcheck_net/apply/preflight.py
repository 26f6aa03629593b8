"""Will the switch take these sessions beside those of other owners? Asked before anything is written. Pure."""

from collections.abc import Sequence

from flowcheck_net.intent import Capabilities, MirrorSession


def obstacles(
    wanted: Sequence[MirrorSession], foreign: Sequence[MirrorSession], limits: Capabilities
) -> tuple[str, ...]:
    """Everything that forbids ``wanted``, naming the foreign sessions that stand in the way; empty: nothing does."""
    found = []
    total = len(wanted) + len(foreign)
    if wanted and total > limits.max_sessions:
        names = ", ".join(s.name for s in foreign) or "none"
        found.append(
            f"{len(wanted)} sessions are planned beside {len(foreign)} foreign ones ({names}), "
            f"and platform {limits.platform} has {limits.max_sessions} in all"
        )
    for session in wanted:
        found += _own_limits(session, limits)
        others = [*foreign, *(s for s in wanted if s.name < session.name)]
        found += [
            c + _remark(other, foreign) for other in others if (c := _clash(session, other, other in foreign, limits))
        ]
    return tuple(found)


def clashes(
    wanted: Sequence[MirrorSession], foreign: Sequence[MirrorSession], limits: Capabilities
) -> tuple[tuple[MirrorSession, str], ...]:
    """The foreign sessions that stand in the way of a wanted one, each with the reason."""
    return tuple(
        (other, text) for other in foreign for session in wanted if (text := _clash(session, other, True, limits))
    )


def _own_limits(session: MirrorSession, limits: Capabilities) -> list[str]:
    found = []
    if not session.sources:
        found.append(f"{session.name} has no source")
    if len(session.sources) > limits.max_sources_per_session:
        found.append(
            f"{session.name} has {len(session.sources)} sources, platform {limits.platform} takes "
            f"{limits.max_sources_per_session} a session"
        )
    found += [
        f"{session.name}: platform {limits.platform} cannot mirror {s.direction} ({s.port})"
        for s in session.sources
        if s.direction not in limits.directions
    ]
    if session.filters and not limits.filters:
        found.append(f"{session.name} has filters, platform {limits.platform} has none")
    if session.windows and not limits.message_window:
        found.append(f"{session.name} has message windows, platform {limits.platform} cannot follow queue pairs")
    if session.destination in {s.port for s in session.sources}:
        found.append(f"{session.name}: {session.destination} is source and destination")
    return found


def _remark(other: MirrorSession, foreign: Sequence[MirrorSession]) -> str:
    """A foreign session with our own mark is easily taken for ours."""
    return " (another flowcheck-net job)" if other in foreign and other.name.startswith("fcn-") else ""


def _clash(session: MirrorSession, other: MirrorSession, foreign: bool, limits: Capabilities) -> str:
    """Why both sessions cannot be on one switch; empty: they can."""
    whose = f"{'foreign ' if foreign else ''}session {other.name}"
    if foreign and session.destination == other.destination:
        return f"{session.name}: destination {session.destination} belongs to {whose}"
    if session.destination in {s.port for s in other.sources}:
        return f"{session.name}: destination {session.destination} is watched by {whose}"
    if other.destination in {s.port for s in session.sources}:
        return f"{session.name}: source {other.destination} is the destination of {whose}"
    shared = sorted(set(session.sources) & set(other.sources))
    if shared and not limits.source_in_many_sessions:
        return f"{session.name}: {shared[0].port} {shared[0].direction} is watched by {whose} already"
    known = {w.flow: w for w in other.windows}
    differing = [w for w in session.windows if known.get(w.flow, w) != w]
    if differing:
        at = f"queue pair {differing[0].qpn:#x} at {differing[0].destination}"
        return f"{session.name}: {at} has another window in {whose}"
    return ""
