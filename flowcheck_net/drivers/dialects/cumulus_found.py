"""Mirror sessions of a Cumulus switch, composed of NVUE's sessions, access lists and labels. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.cumulus_text import Acl, Configuration, Session
from flowcheck_net.drivers.dialects.labels import NOWHERE, PREFIX, Label, owners, read_label
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import FlowFilter, MirrorSession, MirrorSource, Remark, RemarkKind

SIX = "-v6"
"""What the name of the IPv6 access list of a session ends with; an access list of NVUE has one IP version."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that mirrors on a switch."""

    configuration: Configuration
    labels: Mapping[SessionName, Label]

    @property
    def ours(self) -> dict[int, SessionName]:
        """Port-mirror session -> session of ours."""
        sessions = self.configuration.sessions
        # A revision comes into effect as a whole: one of ours always sends somewhere.
        return owners(self.labels, {n: PortName(s.destination) for n, s in sessions.items()})

    def acls_of(self, name: str) -> dict[str, Acl]:
        """The access lists that make a session with pairs."""
        acls = self.configuration.acls
        return {key: acls[key] for key in (name, name + SIX) if key in acls and (acls[key].pairs or acls[key].strange)}


def find(configuration: Configuration) -> Found:
    """All that mirrors."""
    labels = {}
    for name, acl in configuration.acls.items():
        found = [label for text in acl.remarks if (label := read_label(text))]
        if name.startswith(PREFIX) and not name.endswith(SIX) and found:
            labels[SessionName(name)] = found[0]
    return Found(configuration, labels)


def compose(found: Found) -> Iterator[MirrorSession]:
    """All sessions: ours by name, those of others by number or by the name of their access list."""
    ours, sessions = found.ours, found.configuration.sessions
    for number, session in sessions.items():
        if number not in ours:
            to = PortName(session.destination) if session.destination else NOWHERE
            yield MirrorSession(SessionName(f"port-mirror-{number}"), session.sources, to)
    for name, label in found.labels.items():
        numbers = [number for number, owner in ours.items() if owner == name]
        if numbers:
            sources = tuple(source for number in numbers for source in sessions[number].sources)
            yield MirrorSession(name, sources, label.destination)
        elif label.ids:
            yield MirrorSession(name, (), label.destination)
        else:
            pairs, sources = _of_acls(found, name)
            yield MirrorSession(name, sources if pairs else (), label.destination, pairs)
    for key, acl in found.configuration.acls.items():
        if acl.destination and SessionName(key.removesuffix(SIX)) not in found.labels:
            bound = found.configuration.bound.get(key, ())
            yield MirrorSession(SessionName(f"acl-{key}"), bound, PortName(acl.destination), acl.pairs)


def _of_acls(found: Found, name: SessionName) -> tuple[tuple[FlowFilter, ...], tuple[MirrorSource, ...]]:
    """Pairs, and sources at which all of the lists are bound."""
    acls = found.acls_of(name)
    bound = [set(found.configuration.bound.get(key, ())) for key in acls]
    sources = tuple(set.intersection(*bound)) if bound else ()
    return tuple(pair for acl in acls.values() for pair in acl.pairs), sources


def remarks_on(found: Found, working: Mapping[int, Session], links: Mapping[PortName, str]) -> Iterator[Remark]:
    """What makes our sessions less than whole copies.

    Args:
        found: by the configuration.
        working: ``nv show system port-mirror session``: what the switch really does.
        links: of the ports.
    """
    ours = found.ours
    for number, name in ours.items():
        yield from _on_session(found.configuration.sessions[number], working.get(number), name)
    for session in compose(found):
        label = found.labels.get(session.name)
        if label is None:
            continue
        if len([owner for owner in ours.values() if owner == session.name]) != len(label.ids):
            yield Remark(RemarkKind.INACTIVE, "not all of its port-mirror sessions are there", session.name)
        if not label.ids:
            yield from _on_acls(found, session)
        yield from _on_links(session, links)


def _on_session(session: Session, working: Session | None, name: SessionName) -> Iterator[Remark]:
    if not session.on:
        yield Remark(RemarkKind.INACTIVE, f"port-mirror session {session.id} is off", name)
    elif working is None or set(working.sources) != set(session.sources):
        text = f"port-mirror session {session.id} is configured, and the switch does not do it"
        yield Remark(RemarkKind.INACTIVE, text, name)
    if session.truncated:
        yield Remark(RemarkKind.TRUNCATION, f"copies are cut to {session.truncated} bytes", name)
    for text in session.strange:
        yield Remark(RemarkKind.OTHER, text, name)


def _on_acls(found: Found, session: MirrorSession) -> Iterator[Remark]:
    acls = found.acls_of(session.name)
    if not session.sources:
        yield Remark(RemarkKind.INACTIVE, "its access lists are bound to no port", session.name)
    for key, acl in acls.items():
        if acl.strange:
            yield Remark(RemarkKind.FILTER, f"access list {key} has {', '.join(acl.strange)}", session.name)
        if acl.destination != session.destination:
            yield Remark(
                RemarkKind.OTHER, f"access list {key} copies to {acl.destination or 'several ports'}", session.name
            )
        if extra := sorted(set(found.configuration.bound.get(key, ())) - set(session.sources)):
            text = f"access list {key} is bound to {extra[0].port} as well"
            yield Remark(RemarkKind.OTHER, text, session.name, extra[0].port)


def _on_links(session: MirrorSession, links: Mapping[PortName, str]) -> Iterator[Remark]:
    if (link := links.get(session.destination, "UP")) not in ("UP", "UNKNOWN"):
        yield Remark(RemarkKind.DESTINATION_DOWN, f"{session.destination} is {link}", session.name, session.destination)
    for port in sorted({source.port for source in session.sources}):
        if (link := links.get(port, "UP")) not in ("UP", "UNKNOWN"):
            yield Remark(RemarkKind.SOURCE_DOWN, f"{port} is {link}", session.name, port)
