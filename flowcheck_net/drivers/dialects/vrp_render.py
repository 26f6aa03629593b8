"""The lines that make and unmake mirror sessions on a CloudEngine. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects import roce_rules
from flowcheck_net.drivers.dialects.base import Block, Line, Unfit
from flowcheck_net.drivers.dialects.labels import Label, free_id
from flowcheck_net.drivers.dialects.text import ERSPAN
from flowcheck_net.drivers.dialects.vrp_found import Found
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource, Step, StepKind

_LONGEST = 31
"""Characters of a name of an ACL, class, behaviour or policy."""
_BELOW, _SYSTEM = "below", "system"
_WAY = {Direction.RX: "inbound", Direction.TX: "outbound"}


@dataclass(slots=True)
class _Desk:
    """What the steps before have freed and taken."""

    found: Found
    labels: dict[SessionName, Label]
    observers: dict[int, PortName]
    watched: dict[PortName, SessionName | str]
    """Source port -> who watches it whole, or by a policy."""
    policies: dict[MirrorSource, str]
    """A policy that is applied to a port in a direction; there can be one."""
    spanning: set[PortName]
    """Ports without spanning tree."""


def render(steps: Sequence[Step], found: Found, ids: tuple[int, int]) -> list[Block]:
    """The blocks of all steps; raises Unfit. All of them come into effect at once, so none has an undo."""
    desk = _desk(found)
    blocks = []
    for place, step in enumerate(steps):
        lines = _create(step.session, desk, ids) if step.kind is StepKind.CREATE else _delete(step.session, desk)
        blocks.append(Block(place, tuple(lines), name=f"session {step.session.name}"))
    return blocks


def _desk(found: Found) -> _Desk:
    interfaces = found.configuration.interfaces
    watched: dict[PortName, SessionName | str] = {}
    for number, sources in found.direct.items():
        for source in sources:
            watched[source.port] = found.ours.get(number, f"observing port {number}")
    for name, flow in found.flows.items():
        for source in flow.sources:
            watched[source.port] = name
    for port, section in interfaces.items():
        if any(line.startswith("port-mirroring observe-port group") for line in section.lines):
            watched[port] = "an observing port group"
    policies = {
        MirrorSource(port, direction): line.split()[1]
        for port, section in interfaces.items()
        for line in section.lines
        for direction, word in _WAY.items()
        if line.startswith("traffic-policy ") and line.endswith(f" {word}")
    }
    quiet = {port for port, section in interfaces.items() if {"stp disable", "undo portswitch"} & set(section.lines)}
    observers = {number: observer.port for number, observer in found.configuration.observers.items()}
    return _Desk(found, dict(found.labels), observers, watched, policies, quiet)


def _create(session: MirrorSession, desk: _Desk, ids: tuple[int, int]) -> list[Line]:
    _check(session, desk)
    number = free_id(*ids, desk.observers)
    if number is None:
        raise Unfit(f"no observing port from {ids[0]} to {ids[1]} is free for {session.name}")
    label = Label((number,), session.destination, session.destination not in desk.spanning)
    desk.labels[session.name] = label
    desk.observers[number] = session.destination
    desk.spanning.add(session.destination)
    for source in session.sources:
        desk.watched[source.port] = session.name
        if session.filters:
            desk.policies[source] = session.name
    return list(_making(session, label, number))


def _check(session: MirrorSession, desk: _Desk) -> None:
    """Raise Unfit where the switch would refuse, or do something else than mirror."""
    name, to, ports = session.name, session.destination, desk.found.configuration.interfaces
    if to.startswith(ERSPAN):
        raise Unfit(f"{name}: encapsulated copies are not known for this platform; use a port of the switch")
    if len(name) > _LONGEST:
        raise Unfit(f"{name} is longer than {_LONGEST} characters: nothing on this switch can have that name")
    c = desk.found.configuration
    if name in {*c.acls, *c.acls6, *c.classifiers, *c.behaviours, *c.policies} - set(desk.found.labels):
        raise Unfit(f"an ACL, class, behaviour or policy {name} is there already, and is no session of ours")
    for port in (to, *(source.port for source in session.sources)):
        if port not in ports:
            raise Unfit(f"{name}: the switch has no port {port} (names as in its configuration: 100GE1/0/1)")
    if part := next((line for line in ports[to].lines if line.startswith("eth-trunk ")), ""):
        raise Unfit(f"{name}: {to} is a member of a trunk ({part}): it cannot be an observing port")
    _check_ports(session, desk)


def _check_ports(session: MirrorSession, desk: _Desk) -> None:
    name, to = session.name, session.destination
    if taken := next((number for number, port in desk.observers.items() if port == to), None):
        raise Unfit(f"{name}: {to} is observing port {taken} already")
    if by := desk.watched.get(to):
        raise Unfit(f"{name}: {to} is watched by {by}")
    for source in session.sources:
        if by := desk.watched.get(source.port):
            raise Unfit(f"{name}: {source.port} is watched by {by} already")
        if session.filters and (policy := desk.policies.get(source)):
            raise Unfit(f"{name}: {source.port} has policy {policy} {_WAY[source.direction]}, and a port can have one")


def _making(session: MirrorSession, label: Label, number: int) -> Iterator[Line]:
    name = session.name
    yield Line(f"acl name {name} advance", _BELOW)
    yield Line(f"description {label}")
    yield from _rules(session, 4)
    yield Line("quit", _SYSTEM)
    if label.stp_was_on:
        yield from _on_port(session.destination, "stp disable")
    yield Line(f"observe-port {number} interface {session.destination}")
    if session.filters:
        yield from _policy(session, number)
        return
    for port in dict.fromkeys(source.port for source in session.sources):
        lines = [f"port-mirroring observe-port {number} {_WAY[s.direction]}" for s in session.sources if s.port == port]
        yield from _on_port(port, *lines)


def _policy(session: MirrorSession, number: int) -> Iterator[Line]:
    name = session.name
    versions = {roce_rules.version(pair) for pair in session.filters}
    if 6 in versions:
        yield Line(f"acl ipv6 name {name} advance", _BELOW)
        yield from _rules(session, 6)
        yield Line("quit", _SYSTEM)
    yield Line(f"traffic classifier {name} type or", _BELOW)
    if 4 in versions:
        yield Line(f"if-match acl {name}")
    if 6 in versions:
        yield Line(f"if-match ipv6 acl {name}")
    yield Line("quit", _SYSTEM)
    yield Line(f"traffic behavior {name}", _BELOW)
    yield Line(f"mirroring observe-port {number}")
    yield Line("quit", _SYSTEM)
    yield Line(f"traffic policy {name}", _BELOW)
    yield Line(f"classifier {name} behavior {name}")
    yield Line("quit", _SYSTEM)
    for source in session.sources:
        yield from _on_port(source.port, f"traffic-policy {name} {_WAY[source.direction]}")


def _rules(session: MirrorSession, version: int) -> Iterator[Line]:
    for number, pair in enumerate(p for p in session.filters if roce_rules.version(p) == version):
        yield Line(roce_rules.rule(5 * (number + 1), pair))


def _delete(session: MirrorSession, desk: _Desk) -> list[Line]:
    name = session.name
    if name not in desk.labels:
        raise Unfit(f"{name} has no label on the switch: it is not ours to remove")
    label = desk.labels.pop(name)
    lines = list(_unmaking(session, label, desk))
    for number in label.ids:
        if desk.observers.get(number) == label.destination:
            del desk.observers[number]
    desk.watched = {port: by for port, by in desk.watched.items() if by != name}
    desk.policies = {source: policy for source, policy in desk.policies.items() if policy != name}
    if label.stp_was_on:
        desk.spanning.discard(label.destination)
    return lines


def _unmaking(session: MirrorSession, label: Label, desk: _Desk) -> Iterator[Line]:
    """Takes away what there is of a session, its label last."""
    name, c = session.name, desk.found.configuration
    ours = [number for number in label.ids if desk.observers.get(number) == label.destination]
    for source, policy in desk.policies.items():
        if policy == name:
            yield from _on_port(source.port, f"undo traffic-policy {name} {_WAY[source.direction]}")
    # A session that this very write has made is not in the configuration that was read.
    made = name not in desk.found.labels
    for kind, there in (("policy", c.policies), ("behavior", c.behaviours), ("classifier", c.classifiers)):
        if name in there or (made and session.filters):
            yield Line(f"undo traffic {kind} {name}")
    if name in c.acls6 or (made and any(roce_rules.version(pair) == 6 for pair in session.filters)):
        yield Line(f"undo acl ipv6 name {name}")
    for number in ours:
        direct = session.sources if made and not session.filters else desk.found.direct.get(number, ())
        for port in dict.fromkeys(source.port for source in direct):
            words = [f"undo port-mirroring observe-port {number} {_WAY[s.direction]}" for s in direct if s.port == port]
            yield from _on_port(port, *words)
        yield Line(f"undo observe-port {number}")
    if label.stp_was_on:
        yield from _on_port(label.destination, "undo stp disable")
    yield Line(f"undo acl name {name}")


def _on_port(port: PortName, *lines: str) -> Iterator[Line]:
    yield Line(f"interface {port}", _BELOW)
    yield from (Line(line) for line in lines)
    yield Line("quit", _SYSTEM)
