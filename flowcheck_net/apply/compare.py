"""Mirror sessions side by side: what differs, in words, and who owns it. Pure."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.ids import SessionName, SwitchName
from flowcheck_net.intent import MirrorSession, SwitchState, is_owned


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One session that is not as it should be."""

    switch: SwitchName
    session: SessionName
    owner: str
    """``job NAME``, ``another flowcheck-net job`` or ``foreign``."""
    text: str


def owner(name: SessionName, job: str) -> str:
    """Whose session this is, as far as its name tells."""
    if is_owned(name, job):
        return f"job {job}"
    return "another flowcheck-net job" if name.startswith("fcn-") else "foreign"


def differences(
    switch: SwitchName, job: str, wanted: Sequence[MirrorSession], actual: Sequence[MirrorSession]
) -> tuple[Difference, ...]:
    """How ``actual`` differs from ``wanted``, sorted by session name."""
    want, have = {s.name: s for s in wanted}, {s.name: s for s in actual}
    return tuple(
        Difference(switch, name, owner(name, job), _words(want.get(name), have.get(name)))
        for name in sorted(want.keys() | have.keys())
        if want.get(name) != have.get(name)
    )


def sentence(found: Sequence[Difference]) -> str:
    """Differences of one switch in one line."""
    return "; ".join(f"{d.session} ({d.owner}) {d.text}" for d in found)


def session_lines(session: MirrorSession) -> list[str]:
    """A session as text, one fact a line."""
    return [
        f"session {session.name}",
        *(f"  source {s.port} {s.direction}" for s in session.sources),
        f"  destination {session.destination}",
        *(f"  filter {f.source} -> {f.destination}" for f in session.filters),
        *(
            f"  window {w.destination} queue pair {w.qpn:#x}: messages {w.low} to {w.high} of {w.period}"
            for w in session.windows
        ),
    ]


def unified(switch: SwitchName, wanted: Sequence[MirrorSession], actual: SwitchState) -> tuple[str, ...]:
    """A unified diff from the switch's own-session state to the wanted one; empty where they are equal."""
    now = [line for s in sorted(actual.owned) for line in session_lines(s)]
    then = [line for s in sorted(wanted) for line in session_lines(s)]
    return tuple(difflib.unified_diff(now, then, f"{switch} (now)", f"{switch} (planned)", lineterm="", n=100))


def _words(want: MirrorSession | None, have: MirrorSession | None) -> str:
    if have is None:
        return "is missing"
    if want is None:
        return "is there, and should not be"
    lines = [d for d in difflib.ndiff(session_lines(want), session_lines(have)) if d[0] in "+-"]
    return "differs: " + ", ".join(f"{'has' if d[0] == '+' else 'lacks'} {d[2:].strip()}" for d in lines)
