"""What Arista EOS answers, and what it means."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flowcheck_net.drivers.dialects.access_lists import AccessList, lists_in
from flowcheck_net.drivers.dialects.base import Answers, Line, ParseError, Picture, Site
from flowcheck_net.drivers.dialects.text import ERSPAN, directed, expand, lines_of, sources_at
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    Counters,
    Direction,
    MirrorSession,
    MirrorSource,
    Remark,
    RemarkKind,
    is_candidate,
    is_owned,
)

SESSIONS = "show running-config section monitor session"
LISTS = "show running-config section access-list"
PENDING = "show configuration sessions detail"
REBOOT = "show reload cause"
WORKING = "show monitor session"
STATUS = "show interfaces status"
COUNTERS = "show interfaces counters"

_SHOWN = re.compile(r"monitor session (?P<name>\S+) (?P<rest>.+)")
_SOURCE = re.compile(r"source (?P<ports>.+?)(?: (?P<way>rx|tx|both))?(?P<acl> (?:ip|ipv6|mac) access-group \S+.*)?")
_GROUP = re.compile(r"(?P<family>ip|ipv6) access-group (?P<name>\S+)(?: priority [0-9]+)?")
_TUNNEL = re.compile(r"tunnel mode gre source (?P<near>\S+) destination (?P<far>\S+)(?P<more>.*)")
_LESS = {
    "truncate": RemarkKind.TRUNCATION,
    "sample": RemarkKind.SAMPLING,
    "rate-limit": RemarkKind.POLICER,
    "header remove": RemarkKind.TRUNCATION,
    "mac access-group": RemarkKind.FILTER,
}
"""What a line of a session begins with that makes it less than a whole copy."""
_NO_PORT = PortName("")
_WAITING = re.compile(r"^Session with pending commit timer: (?P<name>\S+)", re.MULTILINE)
_ROW = re.compile(r"^[* ] (?P<name>\S+) +(?P<state>pending)\b", re.MULTILINE)
_LINK = re.compile(r"(?P<port>\S+) .*?\b(?P<state>connected|notconnect|disabled|errdisabled|inactive)\b")
_FAMILIES = {"Et": "Ethernet", "Po": "Port-Channel", "Ma": "Management"}
_DESTINATION = re.compile(r"(?P<port>[A-Za-z][A-Za-z-]*[0-9/]+)\s*:\s*(?P<state>(?:in)?active)\b(?P<why>.*)")


@dataclass(frozen=True, slots=True)
class EosPicture(Picture):
    """What ``render`` needs beside the sessions."""

    lists: tuple[tuple[int, str], ...] = ()
    """(family, name) of access lists that bear the name of a session of ours."""
    rival: str = ""
    """Somebody else's configuration session whose commit waits to be confirmed."""


@dataclass(slots=True)
class _Found:
    session: MirrorSession
    remarks: list[Remark] = field(default_factory=list)
    lists: list[tuple[int, str]] = field(default_factory=list)
    """Access lists of the whole session."""

    def remark(self, kind: RemarkKind, text: str, port: PortName = _NO_PORT) -> None:
        self.remarks.append(Remark(kind, text, self.session.name, port))


def picture_of(answers: Answers, site: Site) -> EosPicture:
    """All that the answers tell; raises ParseError."""
    lists = lists_in(answers[LISTS])
    found = _sessions(answers[SESSIONS])
    links = _links(answers[STATUS])
    working = _working(answers[WORKING])
    for one in found.values():
        _filter(one, lists)
        _health(one, links, working.get(one.session.name, {}))
    remarks = [r for f in found.values() for r in f.remarks]
    waiting = _WAITING.search(answers[PENDING])
    name = waiting["name"] if waiting else ""
    mine = is_candidate(name, site.job)
    if name:
        text = f"the commit of configuration session {name} waits for its confirmation, else the switch goes back"
        remarks.append(Remark(RemarkKind.OTHER, text))
    stale = [row["name"] for row in _ROW.finditer(answers[PENDING]) if is_candidate(row["name"], site.job)]
    sessions = tuple(f.session for f in found.values())
    return EosPicture(
        sessions=sessions,
        remarks=tuple(remarks),
        restart_mark=hashlib.sha256(answers[REBOOT].strip().encode()).hexdigest()[:16],
        counters=_counters(answers[COUNTERS], sessions, site) if COUNTERS in answers else Counters(),
        stale=tuple(Line(f"no configure session {name}") for name in stale),
        unconfirmed=(Line(f"configure session {name} commit"),) if mine else (),
        # Also a list whose session is gone, by whatever came between: the next delete of that name takes it along.
        lists=tuple(sorted(lists)),
        rival="" if mine else name,
    )


def _sessions(text: str) -> dict[str, _Found]:
    """Of the running configuration, which may show other sections that mention the words."""
    found: dict[str, _Found] = {}
    shown = [line for line in lines_of(text) if line.startswith("monitor session ")]
    if not shown and any(lines_of(text)):
        raise ParseError(f"{SESSIONS}: no session in {next(lines_of(text))!r}")
    for line in shown:
        match = _SHOWN.fullmatch(line)
        if match is None:
            raise ParseError(f"{SESSIONS}: {line!r}")
        # Defaults of all sessions stand here under a name of their own.
        if match["name"] != "default":
            name = SessionName(match["name"])
            _add(found.setdefault(name, _Found(MirrorSession(name, (), PortName("")))), match["rest"], line)
    return found


def _add(found: _Found, rest: str, line: str) -> None:
    session = found.session
    if source := _SOURCE.fullmatch(rest):
        ports = expand(source["ports"], SESSIONS)
        ways = directed(source["way"] or "", SESSIONS, line)
        found.session = replace(session, sources=(*session.sources, *sources_at(ports, ways)))
        if source["acl"]:
            found.remark(RemarkKind.FILTER, f"of {source['ports']} only what {source['acl'].strip()} permits is copied")
    elif acl := _GROUP.fullmatch(rest):
        found.lists.append((6 if acl["family"] == "ipv6" else 4, acl["name"]))
    elif rest.startswith("destination "):
        _add_destination(found, rest.removeprefix("destination "))
    else:
        kind = next((k for word, k in _LESS.items() if rest.startswith(word)), RemarkKind.OTHER)
        found.remark(kind, rest)


def _add_destination(found: _Found, rest: str) -> None:
    tunnel = _TUNNEL.fullmatch(rest)
    destination = PortName(f"{ERSPAN}{tunnel['far']}" if tunnel else rest)
    if found.session.destination:
        found.remark(RemarkKind.OTHER, f"it has a second destination, {destination}")
        return
    found.session = replace(found.session, destination=destination)


def _filter(found: _Found, lists: Mapping[tuple[int, str], AccessList]) -> None:
    for key in found.lists:
        pairs = lists[key].pairs() if key in lists else None
        if pairs is None or len(found.lists) > 1:
            found.remark(RemarkKind.FILTER, f"only what access list {key[1]} permits is copied")
        elif not pairs:
            found.remark(RemarkKind.FILTER, f"access list {key[1]} is empty: nothing is copied")
        else:
            found.session = replace(found.session, filters=pairs)


def _links(text: str) -> dict[PortName, str]:
    """Port -> state; raises ParseError where there is not one."""
    found = {}
    for line in lines_of(text):
        match = _LINK.match(line)
        if match is not None:
            found[_long(match["port"])] = match["state"]
    if not found:
        raise ParseError(f"{STATUS}: no port in {text[:60]!r}")
    return found


def _working(text: str) -> dict[str, dict[PortName, str]]:
    """Session -> destination -> what keeps it from working; empty text: it works."""
    found: dict[str, dict[PortName, str]] = {}
    name = ""
    for line in lines_of(text):
        if line.startswith("Session "):
            name = line.split()[1]
        elif (match := _DESTINATION.search(line)) is not None and name:
            bad = match["state"] == "inactive"
            found.setdefault(name, {})[_long(match["port"])] = (
                (match["why"].strip(" ,()-") or "inactive") if bad else ""
            )
    return found


def _health(found: _Found, links: Mapping[PortName, str], working: Mapping[PortName, str]) -> None:
    session = found.session
    if not session.destination or not session.sources:
        found.remark(RemarkKind.INACTIVE, "it has no " + ("source" if session.destination else "destination"))
    for port, why in working.items():
        if why:
            found.remark(RemarkKind.INACTIVE, f"destination {port}: {why}", port)
    state = links.get(session.destination, "connected")
    if state != "connected":
        found.remark(RemarkKind.DESTINATION_DOWN, f"{session.destination} is {state}", session.destination)
    for port in sorted({s.port for s in session.sources}):
        if (state := links.get(port, "connected")) != "connected":
            found.remark(RemarkKind.SOURCE_DOWN, f"{port} is {state}", port)


def _counters(text: str, sessions: tuple[MirrorSession, ...], site: Site) -> Counters:
    """Packets of the ports that our sessions watch. EOS does not count by session."""
    watched = {s for one in sessions if is_owned(one.name, site.job) for s in one.sources}
    counts: dict[MirrorSource, int] = {}
    direction: Direction | None = None
    for line in lines_of(text):
        words = line.split()
        if words[0] == "Port":
            direction = Direction.RX if words[1].startswith("In") else Direction.TX
        elif direction is not None and len(words) >= 5 and all(w.isdigit() for w in words[1:5]):
            counts[MirrorSource(_long(words[0]), direction)] = sum(int(w) for w in words[2:5])
    if not counts and text.strip():
        raise ParseError(f"{COUNTERS}: no port in {text[:60]!r}")
    return Counters(ports={source: counts[source] for source in watched if source in counts})


def _long(port: str) -> PortName:
    """``Et1/1`` -> ``Ethernet1/1``."""
    match = re.fullmatch(r"([A-Z][a-z])([0-9].*)", port)
    return PortName(f"{_FAMILIES.get(match[1], match[1])}{match[2]}" if match else port)
