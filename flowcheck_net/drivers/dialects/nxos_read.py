"""What Cisco NX-OS answers, and what it means."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flowcheck_net.drivers.dialects.access_lists import AccessList, lists_in
from flowcheck_net.drivers.dialects.base import Answers, ParseError, Picture, Site
from flowcheck_net.drivers.dialects.text import ERSPAN, directed, expand, lines_of, sources_at
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Counters, Direction, MirrorSession, MirrorSource, Remark, RemarkKind, is_owned

CONFIG = "show running-config monitor"
LISTS = "show running-config aclmgr"
WORKING = "show monitor session all"
STATUS = "show interface status"
REBOOT = "show system uptime"
COUNTERS = "show interface counters"

_NO_PORT = PortName("")
_ENTER = re.compile(r"monitor session (?P<number>[0-9]+)(?: type (?P<type>\S+))?")
_SOURCE = re.compile(r"source interface (?P<ports>.+?)(?: (?P<way>rx|tx|both))?")
_TO_PORT = re.compile(r"destination interface (?P<ports>.+?)(?: (?:rx|tx|both))?")
_GROUP = re.compile(r"filter access-group (?P<name>\S+)")
_ORIGIN = re.compile(r"monitor erspan origin ip-address (?P<address>\S+)(?: global)?")
_TITLE = re.compile(r"(?P<name>fcn-[a-z0-9-]+-[0-9]+)(?: \+(?P<flags>[smu]+)(?P<port>\S+))?")
_LESS = {
    "mtu": RemarkKind.TRUNCATION,
    "sampling": RemarkKind.SAMPLING,
    "rate-limit": RemarkKind.POLICER,
    "filter": RemarkKind.FILTER,
}
_PLAIN = ("erspan-id", "vrf", "ip ttl", "ip dscp", "description", "header-type", "shut", "no shut", "destination ip")
"""Lines of a session that say nothing about which packets are copied, or are read elsewhere."""
_STARTED = re.compile(r"^System start time:\s*(?P<time>.+)$", re.MULTILINE)
_HEAD = re.compile(r"\s*session (?P<number>[0-9]+)\s*")
_STATE = re.compile(r"\s*state\s*: (?P<state>.+)")
_FEATURE = re.compile(r"(?P<name>MTU-Trunc|rate-limit-rx|rate-limit-tx|Sampling)\s+Yes\s+(?P<value>\S+)")
_FEATURES = {"MTU-Trunc": RemarkKind.TRUNCATION, "Sampling": RemarkKind.SAMPLING}
_SHORT = {"Eth": "Ethernet", "Po": "port-channel"}


@dataclass(frozen=True, slots=True)
class NxosPicture(Picture):
    """What ``render`` needs beside the sessions."""

    numbers: Mapping[SessionName, int] = field(default_factory=dict)
    flags: Mapping[SessionName, str] = field(default_factory=dict)
    """What was done to the destination of a session of ours; see ``nxos``."""
    prepared: Mapping[SessionName, PortName] = field(default_factory=dict)
    """The port to which it was done, which may not be the destination yet."""
    others: tuple[int, ...] = ()
    """Numbers that are taken, though only the session table shows them."""
    erspan: frozenset[int] = frozenset()
    lists: Mapping[SessionName, tuple[int, ...]] = field(default_factory=dict)
    """Session -> families of the access lists that bear its name."""
    ports: Mapping[PortName, tuple[str, ...]] = field(default_factory=dict)
    """Configuration lines of the ports that were asked for."""
    origin: str = ""
    """Address that encapsulated copies come from."""


@dataclass(slots=True)
class _Found:
    number: int
    session: MirrorSession
    flags: str = ""
    prepared: PortName = _NO_PORT
    kind: str = "local"
    shut: bool = True
    remarks: list[tuple[RemarkKind, str, PortName]] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)

    def remark(self, kind: RemarkKind, text: str, port: PortName = _NO_PORT) -> None:
        self.remarks.append((kind, text, port))


def interface_question(port: str) -> str:
    """How a port is configured."""
    return f"show running-config interface {port}"


def picture_of(answers: Answers, site: Site) -> NxosPicture:
    """All that the answers tell; raises ParseError."""
    lists = lists_in(answers[LISTS])
    found = _configured(answers[CONFIG])
    states = states_in(answers[WORKING])
    links = _links(answers[STATUS])
    for one in found.values():
        _filter(one, lists)
        _health(one, states.get(one.number, ()), links)
    sessions = tuple(f.session for f in found.values())
    origin = next((m["address"] for line in lines_of(answers[CONFIG]) if (m := _ORIGIN.fullmatch(line))), "")
    started = _STARTED.search(answers[REBOOT])
    return NxosPicture(
        sessions=sessions,
        remarks=tuple(Remark(k, t, f.session.name, p) for f in found.values() for k, t, p in f.remarks),
        restart_mark=started["time"].strip() if started else "",
        counters=_counters(answers[COUNTERS], sessions, site) if COUNTERS in answers else Counters(),
        numbers={f.session.name: f.number for f in found.values()},
        flags={f.session.name: f.flags for f in found.values()},
        prepared={f.session.name: f.prepared for f in found.values() if f.flags},
        others=tuple(states),
        erspan=frozenset(f.number for f in found.values() if f.kind == "erspan-source"),
        lists={SessionName(n): tuple(family for family, name in lists if name == n) for _, n in lists},
        ports=_ports(answers),
        origin=origin,
    )


def _configured(text: str) -> dict[int, _Found]:
    found: dict[int, _Found] = {}
    current: _Found | None = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("!"):
            continue
        if line.startswith("monitor session"):
            current = _entered(line.strip(), found)
        elif not line.startswith(" "):
            current = None
        elif current is not None:
            _add(current, line.strip())
    if not found and text.strip() and not re.search(r"^(version |!Command)", text, re.MULTILINE):
        raise ParseError(f"{CONFIG}: no configuration in {text[:60]!r}")
    names: set[str] = set()
    for one in found.values():
        if one.session.name in names:
            one.remark(RemarkKind.OTHER, f"a second session bears the name {one.session.name}")
            one.session = replace(one.session, name=SessionName(f"session-{one.number}"))
        names.add(one.session.name)
    return found


def _entered(line: str, found: dict[int, _Found]) -> _Found:
    match = _ENTER.fullmatch(line)
    if match is None:
        raise ParseError(f"{CONFIG}: {line!r}")
    number = int(match["number"])
    name = SessionName(f"session-{number}")
    one = found.setdefault(number, _Found(number, MirrorSession(name, (), _NO_PORT)))
    one.kind = match["type"] or one.kind
    return one


def _add(found: _Found, line: str) -> None:
    session = found.session
    if source := _SOURCE.fullmatch(line):
        ways = directed(source["way"] or "", CONFIG, line)
        more = sources_at(expand(source["ports"], CONFIG), ways)
        found.session = replace(session, sources=(*session.sources, *more))
    elif target := _TO_PORT.fullmatch(line):
        for port in expand(target["ports"], CONFIG):
            _add_destination(found, port)
    elif line.startswith("destination ip "):
        _add_destination(found, PortName(f"{ERSPAN}{line.split()[2]}"))
    elif line.startswith("description "):
        title = _TITLE.fullmatch(line.removeprefix("description ").strip())
        if title is not None:
            found.session = replace(session, name=SessionName(title["name"]))
            found.flags = title["flags"] or ""
            found.prepared = _full(title["port"] or "")
    elif line in ("no shut", "shut"):
        found.shut = line == "shut"
    elif group := _GROUP.fullmatch(line):
        found.lists.append(group["name"])
    elif not line.startswith(_PLAIN):
        kind = next((k for word, k in _LESS.items() if line.startswith(word)), RemarkKind.OTHER)
        found.remark(kind, line)


def _add_destination(found: _Found, port: PortName) -> None:
    if found.session.destination:
        found.remark(RemarkKind.OTHER, f"it has a second destination, {port}")
    else:
        found.session = replace(found.session, destination=port)


def _filter(found: _Found, lists: Mapping[tuple[int, str], AccessList]) -> None:
    for name in found.lists:
        there = [lists[family, name] for family in (4, 6) if (family, name) in lists]
        pairs = there[0].pairs() if len(there) == 1 else None
        if pairs is None:
            found.remark(RemarkKind.FILTER, f"only what access list {name} permits is copied")
        elif not pairs:
            found.remark(RemarkKind.FILTER, f"access list {name} is empty: nothing is copied")
        else:
            found.session = replace(found.session, filters=pairs)


def states_in(text: str) -> dict[int, tuple[str, ...]]:
    """Number of a session -> the lines that the session table has of it. Raises ParseError."""
    found: dict[int, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        if match := _HEAD.fullmatch(line):
            current = found.setdefault(int(match["number"]), [])
        elif line.startswith("Legend"):
            current = None
        elif current is not None and line.strip():
            current.append(line)
    if not found and text.strip() and not re.search(r"[Nn]o (?:sessions?|SPAN)|does not exist|not configured", text):
        raise ParseError(f"{WORKING}: no session in {text[:60]!r}")
    return {number: tuple(lines) for number, lines in found.items()}


def state_of(lines: Sequence[str]) -> str:
    """``up``, or ``down (reason)``; empty: it is not said."""
    return next((m["state"].strip() for line in lines if (m := _STATE.fullmatch(line))), "")


def _health(found: _Found, shown: Sequence[str], links: Mapping[PortName, str]) -> None:
    session = found.session
    state = state_of(shown)
    if state and not state.startswith("up"):
        found.remark(RemarkKind.INACTIVE, state)
    elif found.shut:
        found.remark(RemarkKind.INACTIVE, "it is shut")
    elif not state:
        found.remark(RemarkKind.OTHER, "the switch does not say whether it works")
    for line in shown:
        if feature := _FEATURE.match(line.strip()):
            kind = _FEATURES.get(feature["name"], RemarkKind.POLICER)
            found.remark(kind, f"{feature['name']} {feature['value']}")
    target = links.get(session.destination, "connected")
    if target != "connected":
        found.remark(RemarkKind.DESTINATION_DOWN, f"{session.destination} is {target}", session.destination)
    for port in sorted({s.port for s in session.sources}):
        if (link := links.get(port, "connected")) != "connected":
            found.remark(RemarkKind.SOURCE_DOWN, f"{port} is {link}", port)


def _links(text: str) -> dict[PortName, str]:
    """Port -> state, by the columns of the table; raises ParseError where there is no table."""
    lines = text.splitlines()
    head = next((line for line in lines if line.startswith("Port") and "Status" in line), "")
    if not head:
        raise ParseError(f"{STATUS}: no table in {text[:60]!r}")
    start, end = head.index("Status"), head.index("Vlan")
    rows = (line for line in lines[lines.index(head) + 1 :] if len(line) > start and not line.startswith("---"))
    return {_long(row.split()[0]): row[start:end].strip() for row in rows}


def _ports(answers: Answers) -> dict[PortName, tuple[str, ...]]:
    beginning = interface_question("")
    found = {}
    for command, text in answers.items():
        if command.startswith(beginning):
            lines = [line for line in lines_of(text) if not line.startswith(("version ", "interface "))]
            found[PortName(command.removeprefix(beginning))] = tuple(lines)
    return found


def _counters(text: str, sessions: Sequence[MirrorSession], site: Site) -> Counters:
    """Packets of the ports that our sessions watch. NX-OS does not count by session."""
    watched = {s for one in sessions if is_owned(one.name, site.job) for s in one.sources}
    counts: dict[MirrorSource, int] = {}
    for port, column, value in _cells(text):
        if column.endswith("Pkts"):
            direction = Direction.RX if column.startswith("In") else Direction.TX
            place = MirrorSource(port, direction)
            counts[place] = counts.get(place, 0) + value
    if not counts and text.strip():
        raise ParseError(f"{COUNTERS}: no port in {text[:60]!r}")
    return Counters(ports={source: counts[source] for source in watched if source in counts})


def _cells(text: str) -> Iterator[tuple[PortName, str, int]]:
    columns: list[str] = []
    for line in lines_of(text):
        words = line.split()
        if words[0] == "Port":
            columns = words[1:]
        elif len(words) == len(columns) + 1:
            yield from (
                (_long(words[0]), column, int(word))
                for column, word in zip(columns, words[1:], strict=True)
                if word.isdigit()
            )


def _full(port: str) -> PortName:
    """As the name of a session bears it: ``1/31`` is Ethernet1/31."""
    return PortName(f"Ethernet{port}" if port[:1].isdigit() else port)


def _long(port: str) -> PortName:
    """``Eth1/1`` -> ``Ethernet1/1``."""
    match = re.fullmatch(r"([A-Za-z]+)([0-9].*)", port)
    return PortName(f"{_SHORT.get(match[1], match[1])}{match[2]}" if match else port)
