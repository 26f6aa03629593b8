"""Mirror sessions of a Dell OS10 switch, by their descriptions, with their access lists. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.os10_text import Configuration, Rules, Session
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, Remark, RemarkKind, is_owned

NOWHERE = PortName("(none)")
_NO_PORT = PortName("")
GROUPS = {4: "ip access-group", 6: "ipv6 access-group"}
LISTS = {4: "ip access-list", 6: "ipv6 access-list"}
_MARK = re.compile(r"(?P<name>fcn-\S+)(?: was access (?P<vlan>[0-9]+) at (?P<port>\S+))?")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a description of ours says."""

    name: SessionName
    vlan: str = ""
    """The access VLAN that a port had before we took it out of switching; empty: none was."""
    port: PortName = _NO_PORT
    """That port, which is not the destination any more where somebody has moved that."""

    def __str__(self) -> str:
        return f'"{self.name} was access {self.vlan} at {self.port}"' if self.vlan else self.name


@dataclass(frozen=True, slots=True)
class Found:
    """All that mirrors on a switch."""

    configuration: Configuration
    marks: Mapping[int, Mark]
    """Monitor session -> what its description says, where exactly one session says it."""

    def lists_of(self, name: str) -> dict[int, Rules]:
        """IP version -> access list of that name."""
        lists = self.configuration.lists
        return {version: lists[version, name] for version in (4, 6) if (version, name) in lists}

    def applied(self, name: str, version: int) -> list[PortName]:
        """Ports that have the access list."""
        line = f"{GROUPS[version]} {name} in"
        return [port for port, lines in self.configuration.ports.items() if line in lines]

    def id_of(self, name: SessionName) -> int | None:
        """The number of a session of ours."""
        return next((number for number, mark in self.marks.items() if mark.name == name), None)


def find(configuration: Configuration) -> Found:
    """A description that two sessions bear says of neither that it is ours."""
    marks = {}
    for number, session in configuration.sessions.items():
        if match := _MARK.fullmatch(session.description):
            marks[number] = Mark(SessionName(match["name"]), match["vlan"] or "", PortName(match["port"] or ""))
    claims = Counter(mark.name for mark in marks.values())
    return Found(configuration, {number: mark for number, mark in marks.items() if claims[mark.name] == 1})


def compose(found: Found) -> Iterator[MirrorSession]:
    """All sessions: ours by name, others by number. One without sources, destination and name is none yet."""
    for number, session in found.configuration.sessions.items():
        mark = found.marks.get(number)
        to = PortName(session.destination) if session.destination else NOWHERE
        if mark is None:
            if session.sources or session.destination:
                yield MirrorSession(SessionName(f"monitor-session-{number}"), session.sources, to)
            continue
        filters = tuple(pairs_of(found, mark.name, number)) if session.flow_based else ()
        # Without a pair the words would say that everything is copied.
        sources = session.sources if filters or not session.flow_based else ()
        yield MirrorSession(mark.name, sources, to, filters)


def pairs_of(found: Found, name: str, number: int) -> Iterator[FlowFilter]:
    """The pairs that are captured at every source."""
    ports = {source.port for source in found.configuration.sessions[number].sources}
    for version, rules in found.lists_of(name).items():
        if ports <= set(found.applied(name, version)):
            yield from (pair for pair, session in rules.pairs.items() if session == number)


def remarks_on(found: Found, states: Mapping[int, str], links: Mapping[PortName, str]) -> Iterator[Remark]:
    """What makes our sessions less than whole copies."""
    for number, mark in found.marks.items():
        session = found.configuration.sessions[number]
        yield from _on_session(found, session, mark.name, states)
        if (link := links.get(PortName(session.destination), "up")) != "up":
            port = PortName(session.destination)
            yield Remark(RemarkKind.DESTINATION_DOWN, f"{port} is {link}", mark.name, port)
        for port in sorted({source.port for source in session.sources}):
            if (link := links.get(port, "up")) != "up":
                yield Remark(RemarkKind.SOURCE_DOWN, f"{port} is {link}", mark.name, port)


def _on_session(found: Found, session: Session, name: SessionName, states: Mapping[int, str]) -> Iterator[Remark]:
    if not session.up:
        yield Remark(RemarkKind.INACTIVE, f"monitor session {session.id} is shut", name)
    elif reason := states.get(session.id, "the switch does not list it"):
        yield Remark(RemarkKind.INACTIVE, f"monitor session {session.id} does not work: {reason}", name)
    for line in session.others:
        yield Remark(RemarkKind.OTHER, f"not understood: {line}", name)
    if not session.flow_based:
        return
    for version, rules in found.lists_of(name).items():
        if rules.strange:
            yield Remark(RemarkKind.FILTER, f"its access list has {'; '.join(rules.strange)}", name)
        if missing := sorted({s.port for s in session.sources} - set(found.applied(name, version))):
            yield Remark(RemarkKind.FILTER, f"its access list is not applied to {', '.join(missing)}", name, missing[0])
    if not any(pairs_of(found, name, session.id)):
        yield Remark(RemarkKind.INACTIVE, "it is flow-based, and no access list captures for it", name)
    if any(source.direction is Direction.TX for source in session.sources):
        yield Remark(RemarkKind.FILTER, "it is flow-based: what leaves a port is not copied", name)


def watched(found: Found, job: str) -> list[MirrorSource]:
    """Sources of the job's sessions."""
    ours = [number for number, mark in found.marks.items() if is_owned(mark.name, job)]
    return sorted({source for number in ours for source in found.configuration.sessions[number].sources})
