"""The lines that make and unmake monitor sessions on a Dell OS10 switch. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from flowcheck_net.drivers.dialects.base import Block, Line, Unfit
from flowcheck_net.drivers.dialects.labels import free_id
from flowcheck_net.drivers.dialects.os10_found import GROUPS, LISTS, NOWHERE, Found, Mark, find
from flowcheck_net.drivers.dialects.os10_text import Configuration, Rules, Session
from flowcheck_net.drivers.dialects.roce_rules import ROCE_PORT, version
from flowcheck_net.drivers.dialects.text import ERSPAN, by_port
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, Step, StepKind

_CONFIG, _BELOW = "config", "below"
_ACCESS = re.compile(r"switchport access vlan (?P<vlan>[0-9]+)")
_LAST_RULE = 65000
_WHOLE = {4: "permit ip any any", 6: "permit ipv6 any any"}


def render(steps: Sequence[Step], found: Found, ids: tuple[int, int], origin: str, most: int) -> list[Block]:
    """The blocks of all steps; ``most`` sessions can be there. Raises Unfit."""
    blocks = []
    for place, step in enumerate(steps):
        if step.kind is StepKind.CREATE:
            _refuse_unborn(step.session, found, most)
            lines, undo, found = _create(step.session, found, ids, origin)
        else:
            lines, undo, found = _delete(step.session, found, origin)
        forgiving = tuple(replace(line, may_fail=not line.then) for line in undo)
        blocks.append(Block(place, tuple(lines), forgiving, name=f"session {step.session.name}"))
    return blocks


@dataclass(frozen=True, slots=True)
class _Made:
    """One session as it is made."""

    session: MirrorSession
    number: int
    mark: Mark
    origin: str

    @property
    def head(self) -> str:
        """How its mode is entered."""
        return f"monitor session {self.number}{' type erspan-source' if self.remote else ''}"

    @property
    def remote(self) -> bool:
        """Are copies encapsulated?"""
        return self.session.destination.startswith(ERSPAN)

    @property
    def versions(self) -> list[int]:
        """IP versions of its pairs."""
        return sorted({version(pair) for pair in self.session.filters})


def _create(
    session: MirrorSession, found: Found, ids: tuple[int, int], origin: str
) -> tuple[list[Line], list[Line], Found]:
    _check(session, found, origin)
    number = free_id(*ids, found.configuration.sessions)
    if number is None:
        raise Unfit(f"no monitor session from {ids[0]} to {ids[1]} is free for {session.name}")
    local = not session.destination.startswith(ERSPAN)
    vlan = _access_vlan(session, found.configuration.ports[session.destination]) if local else ""
    prepared = session.destination if vlan else PortName("")
    made = _Made(session, number, Mark(session.name, vlan, prepared), origin)
    applied = tuple((v, port) for v in made.versions for port in dict.fromkeys(s.port for s in session.sources))
    there = _There(session.name, number, session.destination, vlan, prepared, tuple(made.versions), applied)
    return list(_making(made)), list(_unmaking(there)), _after_create(made, found)


def _refuse_unborn(session: MirrorSession, found: Found, most: int) -> None:
    """A session that says nothing may be what our own cut-off write left, or somebody's who is typing: not ours."""
    sessions = found.configuration.sessions
    unborn = [n for n, s in sessions.items() if not (s.description or s.sources or s.destination or s.up or s.others)]
    if unborn and len(sessions) >= most:
        text = f"monitor session {unborn[0]} is empty, has no description and takes the last place"
        cure = f"if nobody is working on it (a write of ours may have been cut off): `no monitor session {unborn[0]}`"
        raise Unfit(f"{session.name}: {text}; {cure}")


def _delete(session: MirrorSession, found: Found, origin: str) -> tuple[list[Line], list[Line], Found]:
    number = found.id_of(session.name)
    if number is None:
        raise Unfit(f"no monitor session has the description {session.name}: it is not ours to remove")
    mark = found.marks[number]
    whole = session.sources and session.destination != NOWHERE
    undo = list(_making(_Made(session, number, mark, origin))) if whole else []
    # As it stands, not as it should be: of a session cut in half there is less.
    lists = found.lists_of(session.name)
    applied = [(v, port) for v in lists for port in found.applied(session.name, v)]
    sessions = found.configuration.sessions
    # What somebody else's copies leave by now stays as it is.
    lent = any(s.destination == mark.port for n, s in sessions.items() if n != number)
    to, vlan = sessions[number].destination, "" if lent else mark.vlan
    there = _There(session.name, number, to, vlan, mark.port, tuple(lists), tuple(applied))
    return list(_unmaking(there)), undo, _after_delete(there, found)


def _check(session: MirrorSession, found: Found, origin: str) -> None:
    """Raise Unfit where the switch would refuse, or do something else than mirror."""
    name, to, c = session.name, session.destination, found.configuration
    remote = to.startswith(ERSPAN)
    if remote and not origin:
        raise Unfit(f"{name}: for copies to {to}, write their source address in management: origin=ADDRESS")
    if found.lists_of(name):
        raise Unfit(f"an access list {name} is there already, and is of no session of ours")
    for port in (*(() if remote else (to,)), *(source.port for source in session.sources)):
        if port not in c.ports:
            raise Unfit(f"{name}: the switch has no port {port} (names as in its configuration: ethernet1/1/1)")
    for other in c.sessions.values():
        watched = {source.port for source in other.sources}
        if clash := watched & {to, *(source.port for source in session.sources)}:
            raise Unfit(f"{name}: {min(clash)} is watched by monitor session {other.id} already")
        if other.destination == to:
            raise Unfit(f"{name}: {to} is the destination of monitor session {other.id} already")
    _check_lists(session, found)


def _check_lists(session: MirrorSession, found: Found) -> None:
    for source in session.sources if session.filters else ():
        if source.direction is Direction.TX:
            raise Unfit(f"{session.name}: address pairs are matched in what enters a port, not in {source.port} tx")
        for group in (GROUPS[v] for v in {version(pair) for pair in session.filters}):
            for line in found.configuration.ports[source.port]:
                if line.startswith(f"{group} ") and line.endswith(" in"):
                    raise Unfit(f"{session.name}: {source.port} has {line!r}, and a port can have one")


def _access_vlan(session: MirrorSession, lines: Sequence[str]) -> str:
    """The VLAN of a destination that is an access port; empty: it does not switch. Raises Unfit."""
    for line in lines:
        if line.startswith(
            ("channel-group", "ip address ", "ipv6 address ", "switchport mode trunk", "switchport trunk")
        ):
            text = f"{session.destination} is in use ({line}): a destination may have nothing else to do"
            raise Unfit(f"{session.name}: {text}")
    return next((match["vlan"] for line in lines if (match := _ACCESS.fullmatch(line))), "")


def _making(made: _Made) -> Iterator[Line]:
    session, to = made.session, made.session.destination
    yield from _inside(made.head, f"description {made.mark}")
    for v in made.versions:
        yield from _inside(f"{LISTS[v]} {session.name}", *_rules(made, v))
    if made.mark.vlan:
        yield from _inside(f"interface {made.mark.port}", "no switchport")
    target = f"source-ip {made.origin} destination-ip {to.removeprefix(ERSPAN)}"
    yield from _inside(
        made.head,
        *(f"source interface {port} {way}" for port, way in by_port(session.sources).items()),
        target if made.remote else f"destination interface {to}",
        *(["flow-based enable"] if session.filters else []),
    )
    for v in made.versions:
        for port in dict.fromkeys(source.port for source in session.sources):
            yield from _inside(f"interface {port}", f"{GROUPS[v]} {session.name} in")
    # A session is born shut.
    yield from _inside(made.head, "no shut")


def _rules(made: _Made, v: int) -> Iterator[str]:
    pairs = [pair for pair in made.session.filters if version(pair) == v]
    for number, pair in enumerate(pairs, 1):
        ends = f"host {pair.source} host {pair.destination} eq {ROCE_PORT}"
        yield f"seq {10 * number} permit udp {ends} capture session {made.number} count"
    # Without this line the list would stop all other traffic of the port.
    yield f"seq {_LAST_RULE} {_WHOLE[v]}"


@dataclass(frozen=True, slots=True)
class _There:
    """What there is of a session, or would be."""

    name: SessionName
    number: int
    destination: str
    vlan: str
    prepared: PortName
    """The port that had the VLAN."""
    lists: tuple[int, ...]
    applied: tuple[tuple[int, PortName], ...]


def _unmaking(there: _There) -> Iterator[Line]:
    """The session itself last: its description says what else is ours."""
    local = bool(there.destination) and not there.destination.startswith(ERSPAN)
    # A destination cannot switch again before it is none.
    words = ["shut", *([f"no destination interface {there.destination}"] if local and there.vlan else [])]
    head = f"monitor session {there.number}"
    yield from _inside(f"{head}{'' if local or not there.destination else ' type erspan-source'}", *words)
    for v, port in there.applied:
        yield from _inside(f"interface {port}", f"no {GROUPS[v]} {there.name} in")
    for v in there.lists:
        yield Line(f"no {LISTS[v]} {there.name}")
    if there.vlan:
        yield from _inside(
            f"interface {there.prepared}", "switchport mode access", f"switchport access vlan {there.vlan}"
        )
    yield Line(f"no {head}")


def _inside(head: str, *lines: str) -> Iterator[Line]:
    yield Line(head, _BELOW)
    yield from (Line(line) for line in lines)
    yield Line("exit", _CONFIG)


def _after_create(made: _Made, found: Found) -> Found:
    session, c = made.session, found.configuration
    text = str(made.mark).strip('"')
    to = "" if session.destination == NOWHERE else session.destination
    kind = "erspan-source" if made.remote else "local"
    there = Session(made.number, kind, text, session.sources, to, bool(session.filters), True, ())
    ports = dict(c.ports)
    if made.mark.vlan:
        ports[made.mark.port] = tuple(line for line in ports[made.mark.port] if not line.startswith("switchport"))
    lists = dict(c.lists)
    for v in made.versions:
        lists[v, session.name] = Rules({p: made.number for p in session.filters if version(p) == v}, True, ())
        for port in {source.port for source in session.sources}:
            ports[port] = (*ports[port], f"{GROUPS[v]} {session.name} in")
    return find(Configuration({**c.sessions, made.number: there}, lists, ports))


def _after_delete(there: _There, found: Found) -> Found:
    c = found.configuration
    gone = {f"{GROUPS[v]} {there.name} in" for v in GROUPS}
    ports = {port: tuple(line for line in lines if line not in gone) for port, lines in c.ports.items()}
    if there.vlan and there.prepared in ports:
        ports[there.prepared] = (*ports[there.prepared], f"switchport access vlan {there.vlan}")
    lists = {key: rules for key, rules in c.lists.items() if key[1] != there.name}
    sessions = {number: session for number, session in c.sessions.items() if number != there.number}
    return find(Configuration(sessions, lists, ports))
