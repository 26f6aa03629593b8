"""The lines that make and unmake mirror sessions on a Comware switch. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from flowcheck_net.drivers.dialects import roce_rules
from flowcheck_net.drivers.dialects.base import Block, Line, Unfit
from flowcheck_net.drivers.dialects.comware_found import Flow, group_owners
from flowcheck_net.drivers.dialects.comware_text import Configuration, Group
from flowcheck_net.drivers.dialects.labels import Label, free_id
from flowcheck_net.drivers.dialects.text import ERSPAN
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource, Step, StepKind

_LONGEST = 31
"""Characters of the name of a class, behaviour or policy."""
_BELOW, _SYSTEM = "below", "system"
_WAY = {Direction.RX: "inbound", Direction.TX: "outbound"}


@dataclass(frozen=True, slots=True)
class Tunnel:
    """How encapsulated copies leave; empty words: not told by the site."""

    via: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """What the switch has, as far as it matters to what is written. Steps are tried on it one after another."""

    ports: Mapping[PortName, tuple[str, ...]] = field(default_factory=dict)
    """Configuration of each port."""
    groups: Mapping[int, Group] = field(default_factory=dict)
    flows: Mapping[str, Flow] = field(default_factory=dict)
    labels: Mapping[SessionName, Label] = field(default_factory=dict)
    objects: frozenset[str] = frozenset()
    """Names of ACLs, classes, behaviours and policies."""
    six: frozenset[str] = frozenset()
    """Names of IPv6 ACLs."""

    @classmethod
    def of(
        cls,
        groups: Mapping[int, Group],
        flows: Mapping[str, Flow],
        labels: Mapping[SessionName, Label],
        configuration: Configuration,
        cleared: frozenset[str] = frozenset(),
    ) -> "Board":
        """As it was read; ``cleared`` objects are taken away before anything is written."""
        c = configuration
        names = frozenset(chain(c.acls, c.acls6, c.classifiers, c.behaviours, c.policies)) - cleared
        ports = {port: section.lines for port, section in c.interfaces.items()}
        return cls(ports, groups, flows, labels, names, frozenset(c.acls6))

    def with_port(self, port: PortName, *, add: str = "", drop: str = "") -> "Board":
        """With one line more or less on a port."""
        lines = tuple(line for line in self.ports.get(port, ()) if line != drop)
        return replace(self, ports={**self.ports, port: (*lines, add) if add else lines})


def render(steps: Sequence[Step], board: Board, ids: tuple[int, int], tunnel: Tunnel) -> list[Block]:
    """The blocks of all steps; raises Unfit."""
    blocks = []
    for place, step in enumerate(steps):
        if step.kind is StepKind.CREATE:
            block, board = _create(place, step.session, board, ids, tunnel)
        else:
            block, board = _delete(place, step.session, board, tunnel)
        blocks.append(block)
    return blocks


def _create(
    place: int, session: MirrorSession, board: Board, ids: tuple[int, int], tunnel: Tunnel
) -> tuple[Block, Board]:
    _check(session, board, tunnel)
    number = None
    if not session.filters:
        number = free_id(*ids, board.groups)
        if number is None:
            raise Unfit(f"no mirroring group from {ids[0]} to {ids[1]} is free for {session.name}")
    local = not session.destination.startswith(ERSPAN)
    stp = local and _has_spanning_tree(board.ports[session.destination])
    label = Label((number,) if number else (), session.destination, stp)
    after = _after_create(session, board, label)
    lines = tuple(_making(session, label, tunnel))
    undo = tuple(_unmaking(session.name, after))
    return Block(place, lines, _forgiving(undo), name=f"session {session.name}"), after


def _delete(place: int, session: MirrorSession, board: Board, tunnel: Tunnel) -> tuple[Block, Board]:
    label = board.labels.get(session.name)
    if label is None:
        raise Unfit(f"{session.name} has no label on the switch: it is not ours to remove")
    lines = tuple(_unmaking(session.name, board))
    undo = tuple(_making(session, label, tunnel)) if session.sources else ()
    return Block(place, lines, _forgiving(undo), name=f"session {session.name}"), _after_delete(session.name, board)


def _forgiving(lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(replace(line, may_fail=not line.then) for line in lines)


def _check(session: MirrorSession, board: Board, tunnel: Tunnel) -> None:
    """Raise Unfit where the switch would refuse, or do something else than mirror."""
    name, to = session.name, session.destination
    if session.filters and len(name) > _LONGEST:
        raise Unfit(f"{name} is longer than {_LONGEST} characters: no policy can have that name")
    if name in board.objects:
        raise Unfit(f"an ACL, class, behaviour or policy {name} is there already, and is no session of ours")
    if to.startswith(ERSPAN) and not (tunnel.via and tunnel.origin):
        text = "write in management the port that they leave by and their source address: via=PORT&origin=ADDRESS"
        raise Unfit(f"{name}: for copies to {to}, {text}")
    for port in (*(() if to.startswith(ERSPAN) else (to,)), *(source.port for source in session.sources)):
        if port not in board.ports:
            raise Unfit(
                f"{name}: the switch has no port {port} (names as in its configuration: Ten-GigabitEthernet1/0/1)"
            )
    for line in board.ports.get(to, ()):
        if line.startswith("port link-aggregation group"):
            raise Unfit(f"{name}: {to} is a member of an aggregate ({line}): it cannot be a monitor port")
    _check_groups(session, board)
    _check_policies(session, board)


def _check_groups(session: MirrorSession, board: Board) -> None:
    for group in board.groups.values():
        watched = {source.port for source in group.sources}
        if session.destination in {*group.monitors, *watched}:
            raise Unfit(f"{session.name}: {session.destination} is in mirroring group {group.id} already")
        for source in session.sources:
            if source.port in {*watched, *group.monitors}:
                raise Unfit(f"{session.name}: {source.port} is in mirroring group {group.id} already")


def _check_policies(session: MirrorSession, board: Board) -> None:
    for source in session.sources:
        for line in board.ports[source.port]:
            words = line.split()
            if words[:3] != ["qos", "apply", "policy"]:
                continue
            if session.filters and words[4] == _WAY[source.direction]:
                text = f"{source.port} has QoS policy {words[3]} {words[4]}, and a port can have one"
                raise Unfit(f"{session.name}: {text}")
            if words[3] in board.flows:
                # Of both, a packet is copied by one only.
                text = f"{source.port} is watched by the flow mirroring of policy {words[3]} already"
                raise Unfit(f"{session.name}: {text}")


def _has_spanning_tree(lines: Sequence[str]) -> bool:
    """A routed port has none."""
    return not {"undo stp enable", "stp disable", "port link-mode route"} & set(lines)


def _making(session: MirrorSession, label: Label, tunnel: Tunnel) -> Iterator[Line]:
    name = session.name
    yield Line(f"acl advanced name {name}", _BELOW)
    yield Line(f"description {label}")
    yield from _rules(session, 4)
    yield Line("quit", _SYSTEM)
    if label.stp_was_on:
        yield from _on_port(label.destination, "undo stp enable")
    target = session.destination
    if target.startswith(ERSPAN):
        address = target.removeprefix(ERSPAN)
        target = PortName(f"{tunnel.via} destination-ip {address} source-ip {tunnel.origin}")
    if label.ids:
        yield Line(f"mirroring-group {label.ids[0]} local")
        # Before the sources: by where it sends the group is known as ours.
        yield Line(f"mirroring-group {label.ids[0]} monitor-port {target}")
        for port, way in _ways(session.sources):
            yield Line(f"mirroring-group {label.ids[0]} mirroring-port {port} {way}")
    else:
        yield from _policy(session, target)


def _policy(session: MirrorSession, target: str) -> Iterator[Line]:
    name = session.name
    versions = {roce_rules.version(pair) for pair in session.filters}
    if 6 in versions:
        yield Line(f"acl ipv6 advanced name {name}", _BELOW)
        yield from _rules(session, 6)
        yield Line("quit", _SYSTEM)
    yield Line(f"traffic classifier {name} operator or", _BELOW)
    if 4 in versions:
        yield Line(f"if-match acl name {name}")
    if 6 in versions:
        yield Line(f"if-match acl ipv6 name {name}")
    yield Line("quit", _SYSTEM)
    yield Line(f"traffic behavior {name}", _BELOW)
    yield Line(f"mirror-to interface {target}")
    yield Line("quit", _SYSTEM)
    yield Line(f"qos policy {name}", _BELOW)
    yield Line(f"classifier {name} behavior {name}")
    yield Line("quit", _SYSTEM)
    for source in session.sources:
        yield from _on_port(source.port, f"qos apply policy {name} {_WAY[source.direction]}")


def _rules(session: MirrorSession, version: int) -> Iterator[Line]:
    pairs = [pair for pair in session.filters if roce_rules.version(pair) == version]
    for number, pair in enumerate(pairs):
        yield Line(roce_rules.rule(5 * number, pair))


def _unmaking(name: SessionName, board: Board) -> Iterator[Line]:
    """Takes away what the board has of a session, its label last."""
    label = board.labels[name]
    ours = group_owners(board.groups, board.labels)
    for number, owner in ours.items():
        if owner == name:
            yield Line(f"undo mirroring-group {number}")
    if not label.ids:
        for source in board.flows[name].sources if name in board.flows else ():
            yield from _on_port(source.port, f"undo qos apply policy {name} {_WAY[source.direction]}")
        for kind in ("qos policy", "traffic behavior", "traffic classifier"):
            yield Line(f"undo {kind} {name}", may_fail=True)
        if name in board.six:
            yield Line(f"undo acl ipv6 name {name}")
    if label.stp_was_on:
        yield from _on_port(label.destination, "stp enable")
    yield Line(f"undo acl name {name}")


def _on_port(port: PortName, line: str) -> Iterator[Line]:
    yield Line(f"interface {port}", _BELOW)
    yield Line(line)
    yield Line("quit", _SYSTEM)


def _ways(sources: Sequence[MirrorSource]) -> Iterator[tuple[PortName, str]]:
    for port in dict.fromkeys(source.port for source in sources):
        ways = [_WAY[source.direction] for source in sources if source.port == port]
        yield port, ways[0] if len(ways) == 1 else "both"


def _after_create(session: MirrorSession, board: Board, label: Label) -> Board:
    name = session.name
    after = replace(board, labels={**board.labels, name: label}, objects=board.objects | {name})
    if label.stp_was_on:
        after = after.with_port(label.destination, add="undo stp enable")
    if label.ids:
        tunnel: dict[str, str] = {}
        monitors: tuple[PortName, ...] = (session.destination,)
        if session.destination.startswith(ERSPAN):
            tunnel, monitors = {"destination ip address": session.destination.removeprefix(ERSPAN)}, ()
        group = Group(label.ids[0], "local", "active", session.sources, monitors, tunnel)
        return replace(after, groups={**after.groups, group.id: group})
    flow = Flow(name, session.destination, session.sources, session.filters, ())
    for source in session.sources:
        after = after.with_port(source.port, add=f"qos apply policy {name} {_WAY[source.direction]}")
    six = after.six | {name} if any(roce_rules.version(pair) == 6 for pair in session.filters) else after.six
    return replace(after, flows={**after.flows, name: flow}, six=six)


def _after_delete(name: SessionName, board: Board) -> Board:
    label = board.labels[name]
    ours = group_owners(board.groups, board.labels)
    after = replace(
        board,
        groups={number: group for number, group in board.groups.items() if ours.get(number) != name},
        labels={other: has for other, has in board.labels.items() if other != name},
        objects=board.objects - {name},
        six=board.six - {name},
    )
    if label.stp_was_on:
        after = after.with_port(label.destination, drop="undo stp enable")
    if label.ids or name not in board.flows:
        return after
    for source in board.flows[name].sources:
        after = after.with_port(source.port, drop=f"qos apply policy {name} {_WAY[source.direction]}")
    return replace(after, flows={other: flow for other, flow in after.flows.items() if other != name})
