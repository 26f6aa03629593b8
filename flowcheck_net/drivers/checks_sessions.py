"""May these steps be taken, by the sessions that are there and the platform's table? Asked before anything is sent."""

import ipaddress
import re
from collections.abc import Sequence

from flowcheck_net.errors import Rejected
from flowcheck_net.ids import SessionName, SwitchName
from flowcheck_net.intent import Capabilities, Counted, Direction, MirrorSession, SessionLimit, Step, StepKind

_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*")
_NOWHERE = ("", "(none)")
"""Destinations of sessions that have none."""


def refuse_impossible(
    switch: SwitchName, steps: Sequence[Step], there: Sequence[MirrorSession], limits: Capabilities, *, first: int = 1
) -> None:
    """Raise Rejected where a step cannot be taken once those before it are.

    Args:
        switch: for the message.
        steps: in their order.
        there: every session of the switch, foreign ones included, as they were read.
        limits: of the platform.
        first: number of the first step, for the message.
    """
    now = list(there)
    made: set[SessionName] = set()
    for number, step in enumerate(steps, first):
        if step.kind is StepKind.CREATE:
            problem = _created(step.session, now, limits)
            made.add(step.session.name)
        elif step.session.name in made:
            # What goes with a session (access lists, labels) is known from reading it.
            problem = "an earlier step of the same write creates it: delete it in a write of its own"
        else:
            problem = _deleted(step.session, now)
        if problem:
            raise Rejected(switch, f"step {number} ({step.kind} {step.session.name}): {problem}; nothing was sent")
        if step.kind is StepKind.CREATE:
            now.append(step.session)
        else:
            now.remove(step.session)


def meddling(ours: MirrorSession, before: Sequence[MirrorSession], now: Sequence[MirrorSession]) -> str:
    """What others did while a step of ours was carried out by half, so that undoing it might hit them; empty: nothing.

    Args:
        ours: the step's session.
        before: every session of the switch before the step.
        now: every session of the switch as it is.
    """
    others = {s for s in before if s.name != ours.name}
    # An empty one without a name is what our own first line leaves where the name is rejected.
    fresh = (s for s in now if s.name != ours.name and s not in others)
    if strange := sorted({s.name for s in fresh if s.sources or s.destination not in _NOWHERE}):
        return f"{strange[0]} came or changed meanwhile, and may be what was written to"
    half = next((s for s in now if s.name == ours.name), None)
    if half is None:
        return ""
    if more := sorted(set(half.sources) - set(ours.sources)):
        return f"{ours.name} watches {more[0].port} {more[0].direction} as well, which is not of our making"
    if half.destination not in (ours.destination, *_NOWHERE):
        return f"{ours.name} sends to {half.destination}, which is not of our making"
    return ""


def _deleted(session: MirrorSession, now: Sequence[MirrorSession]) -> str:
    if session in now:
        return ""
    changed = any(s.name == session.name for s in now)
    return "it is not as it was read, somebody has changed it" if changed else "it is not there"


def _created(session: MirrorSession, now: Sequence[MirrorSession], limits: Capabilities) -> str:
    if any(s.name == session.name for s in now):
        return "it is there already"
    if (strange := _unspeakable(session)) is not None:
        return f"{strange!r} is no name of a port, or no address"
    if session.windows:
        return f"platform {limits.platform} cannot mirror message windows"
    if session.filters and not limits.filters:
        return f"platform {limits.platform} has no filters"
    if session.filters and any(s.direction not in limits.filter_directions for s in session.sources):
        return f"platform {limits.platform} filters {' and '.join(sorted(limits.filter_directions))} only"
    if not 0 < len(session.sources) <= limits.max_sources_per_session:
        return f"it has {len(session.sources)} sources, and 1 to {limits.max_sources_per_session} are possible"
    if wrong := [s for s in session.sources if s.direction not in limits.directions]:
        return f"platform {limits.platform} cannot mirror {wrong[0].direction} ({wrong[0].port})"
    if session.destination in {s.port for s in session.sources}:
        return f"{session.destination} is source and destination"
    return _crowded(session, now, limits)


def _unspeakable(session: MirrorSession) -> str | None:
    """What cannot stand in a line of ours as one word of it; None: everything can."""
    kind, colon, far = session.destination.partition(":")
    remote = bool(colon) and kind == "erspan"
    ports = [*(s.port for s in session.sources), *([] if remote else [session.destination])]
    addresses = [*([far] if remote else []), *(a for f in session.filters for a in (f.source, f.destination))]
    wrong = (*(p for p in ports if not _PORT.fullmatch(p)), *(a for a in addresses if not _is_address(a)))
    return next(iter(wrong), None)


def _is_address(text: str) -> bool:
    try:
        # A zone of IPv6 (``fe80::1%eth0``) is free text.
        return "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _crowded(session: MirrorSession, now: Sequence[MirrorSession], limits: Capabilities) -> str:
    if len(now) >= limits.max_sessions:
        names = ", ".join(sorted(s.name for s in now))
        return f"the switch has {len(now)} sessions ({names}), which is all that platform {limits.platform} takes"
    for limit in limits.session_limits:
        # Which ports share a slice is the plan's to know.
        if not limit.per_slice and _used([*now, session], limit) > limit.most:
            return f"platform {limits.platform} takes {limit.most} counted by {limit.counts}"
    return ""


def _used(sessions: Sequence[MirrorSession], limit: SessionLimit) -> int:
    if limit.counts is Counted.SESSIONS:
        return len(sessions)
    watched = [{s.direction for s in session.sources} for session in sessions]
    if limit.counts is Counted.DIRECTIONS:
        return sum(len(directions) for directions in watched)
    wanted = Direction.RX if limit.counts is Counted.RX else Direction.TX
    return sum(wanted in directions for directions in watched)
