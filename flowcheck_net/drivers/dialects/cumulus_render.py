"""The lines that make and unmake mirror sessions on a Cumulus switch. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.base import Block, Line, Unfit
from flowcheck_net.drivers.dialects.cumulus_found import SIX, Found
from flowcheck_net.drivers.dialects.labels import Label, free_id
from flowcheck_net.drivers.dialects.roce_rules import ROCE_PORT, version
from flowcheck_net.drivers.dialects.text import ERSPAN
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, Step, StepKind

_WAY = {Direction.RX: "ingress", Direction.TX: "egress"}
_BOUND = {Direction.RX: "inbound", Direction.TX: "outbound"}
_LABEL_RULE = 1


@dataclass(slots=True)
class _Desk:
    """What the steps before have freed and taken."""

    taken: set[int]
    made: dict[SessionName, tuple[MirrorSession, Label]]
    """Sessions that the steps before have made."""
    watched: dict[PortName, str]
    """Source port -> by what it is watched."""


def render(steps: Sequence[Step], found: Found, ids: tuple[int, int], origin: str) -> list[Block]:
    """The blocks of all steps; raises Unfit. All of them come into effect at once, so none has an undo."""
    c, ours = found.configuration, found.ours
    watched = {
        s.port: ours.get(n, f"port-mirror session {n}") for n, session in c.sessions.items() for s in session.sources
    }
    for name, acl in c.acls.items():
        if acl.destination:
            watched |= {source.port: name.removesuffix(SIX) for source in c.bound.get(name, ())}
    desk = _Desk(set(c.sessions), {}, watched)
    blocks = []
    for place, step in enumerate(steps):
        if step.kind is StepKind.CREATE:
            lines = _create(step.session, found, desk, ids, origin)
        else:
            lines = _delete(step.session.name, found, desk)
        blocks.append(Block(place, tuple(Line(text) for text in lines), name=f"session {step.session.name}"))
    return blocks


def _create(session: MirrorSession, found: Found, desk: _Desk, ids: tuple[int, int], origin: str) -> list[str]:
    _check(session, found, desk, origin)
    numbers: list[int] = []
    directions = sorted({source.direction for source in session.sources})
    for direction in directions if not session.filters else []:
        number = free_id(*ids, desk.taken)
        if number is None:
            raise Unfit(f"no port-mirror session from {ids[0]} to {ids[1]} is free for {session.name} {direction}")
        numbers.append(number)
        desk.taken.add(number)
    label = Label(tuple(numbers), session.destination)
    desk.made[session.name] = (session, label)
    desk.watched |= {source.port: session.name for source in session.sources}
    if session.filters:
        return list(_making_acls(session, label, origin))
    return [*_making_label(session, label), *_making(session, label, origin)]


def _check(session: MirrorSession, found: Found, desk: _Desk, origin: str) -> None:
    name, to = session.name, session.destination
    remote = to.startswith(ERSPAN)
    if remote and not origin:
        raise Unfit(f"{name}: for copies to {to}, write their source address in management: origin=ADDRESS")
    if remote and ":" in to.removeprefix(ERSPAN):
        raise Unfit(f"{name}: the switch sends encapsulated copies to IPv4 addresses only")
    if to == "eth0":
        raise Unfit(f"{name}: eth0 is for management, and cannot be a destination")
    for key in (name, name + SIX):
        if key in found.configuration.acls and key.removesuffix(SIX) not in found.labels:
            raise Unfit(f"an access list {key} is there already, and is of no session of ours")
    for port in (*(() if remote else (to,)), *(source.port for source in session.sources)):
        if port not in found.configuration.ports:
            raise Unfit(f"{name}: the switch has no port {port} in its configuration (`nv set interface {port}`)")
    _check_ports(session, desk)


def _check_ports(session: MirrorSession, desk: _Desk) -> None:
    name, to = session.name, session.destination
    for source in session.sources:
        if by := desk.watched.get(source.port):
            raise Unfit(f"{name}: {source.port} is watched by {by} already, and can have one destination")
    if by := desk.watched.get(to):
        raise Unfit(f"{name}: {to} is watched by {by}: copies of copies would flood it")


def _making_label(session: MirrorSession, label: Label) -> Iterator[str]:
    yield f"nv set acl {session.name} type ipv4"
    yield f"nv set acl {session.name} rule {_LABEL_RULE} match ip protocol udp"
    yield f"nv set acl {session.name} rule {_LABEL_RULE} action permit"
    yield f'nv set acl {session.name} rule {_LABEL_RULE} remark "{label}"'


def _making(session: MirrorSession, label: Label, origin: str) -> Iterator[str]:
    directions = sorted({source.direction for source in session.sources})
    for number, direction in zip(label.ids, directions, strict=True):
        remote = session.destination.startswith(ERSPAN)
        head = f"nv set system port-mirror session {number} {'erspan' if remote else 'span'}"
        yield f"{head} direction {_WAY[direction]}"
        ports = [source.port for source in session.sources if source.direction is direction]
        yield f"{head} source-port {','.join(ports)}"
        if remote:
            yield f"{head} destination source-ip {origin}"
            yield f"{head} destination dest-ip {session.destination.removeprefix(ERSPAN)}"
        else:
            yield f"{head} destination {session.destination}"
        yield f"{head} enable on"


def _making_acls(session: MirrorSession, label: Label, origin: str) -> Iterator[str]:
    to = session.destination
    for v, suffix in ((4, ""), (6, SIX)):
        pairs = [pair for pair in session.filters if version(pair) == v]
        if not pairs and v == 6:
            continue
        acl = f"{session.name}{suffix}"
        yield f"nv set acl {acl} type ipv{v}"
        if not pairs:
            # Bound nowhere: it bears the label alone.
            yield from list(_making_label(session, label))[1:]
            continue
        for place, pair in enumerate(pairs):
            rule = f"nv set acl {acl} rule {10 * (place + 1)}"
            host = 32 if v == 4 else 128
            yield f"{rule} match ip protocol udp"
            yield f"{rule} match ip source-ip {pair.source}/{host}"
            yield f"{rule} match ip dest-ip {pair.destination}/{host}"
            yield f"{rule} match ip udp dest-port {ROCE_PORT}"
            if to.startswith(ERSPAN):
                yield f"{rule} action erspan source-ip {origin}"
                yield f"{rule} action erspan dest-ip {to.removeprefix(ERSPAN)}"
            else:
                yield f"{rule} action span {to}"
            if place == 0 and v == 4:
                yield f'{rule} remark "{label}"'
        for source in session.sources:
            yield f"nv set interface {source.port} acl {acl} {_BOUND[source.direction]}"


def _delete(name: SessionName, found: Found, desk: _Desk) -> list[str]:
    made = desk.made.pop(name, None)
    label = made[1] if made else found.labels.get(name)
    if label is None:
        raise Unfit(f"{name} has no label on the switch: it is not ours to remove")
    numbers = label.ids if made else [number for number, owner in found.ours.items() if owner == name]
    lines = []
    for number in numbers:
        lines.append(f"nv unset system port-mirror session {number}")
        desk.taken.discard(number)
    for acl in (name, name + SIX):
        if made and made[0].filters:
            bound = {s.port for s in made[0].sources} if _has(made[0], acl) else set()
        else:
            bound = {s.port for s in found.configuration.bound.get(acl, ())}
        lines += [f"nv unset interface {port} acl {acl}" for port in sorted(bound)]
        if acl in found.configuration.acls if made is None else (acl == name or _has(made[0], acl)):
            lines.append(f"nv unset acl {acl}")
    desk.watched = {port: by for port, by in desk.watched.items() if by != name}
    return lines


def _has(session: MirrorSession, acl: str) -> bool:
    """Has the session pairs of the IP version of this list of its?"""
    return any(version(pair) == (6 if acl.endswith(SIX) else 4) for pair in session.filters)
