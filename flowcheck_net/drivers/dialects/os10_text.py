"""What Dell OS10 prints: its configuration, the state of monitor sessions, links, counters. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.sections import Section, sections
from flowcheck_net.ids import Address, PortName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSource

_HEAD = re.compile(r"monitor session (?P<id>[0-9]+)(?: type (?P<type>\S+))?")
_SOURCE = re.compile(r"source interface (?P<port>\S+?(?: [0-9]+(?:/[0-9]+)*(?::[0-9]+)?)?)(?: (?P<way>rx|tx|both))?")
_TUNNEL = re.compile(r"source-ip (?P<near>\S+) destination-ip (?P<far>\S+)(?: gre-protocol [0-9]+)?")
_ROW = re.compile(r"(?P<id>[0-9]+)\s+.*\s(?P<state>true|false)\s+(?P<reason>\S.*)")
_ROCE = re.compile(
    r"seq [0-9]+ permit udp (?:host )?(?P<source>\S+?)(?:/32|/128)? (?:host )?(?P<destination>\S+?)(?:/32|/128)?"
    r" eq 4791 capture session (?P<id>[0-9]+)(?: count)?(?: \((?P<count>[0-9]+) packets\))?"
)
_REST = re.compile(r"seq [0-9]+ permit ip(?:v6)? any any(?: count.*)?")
_LINK = re.compile(r"Eth (?P<place>[0-9]+(?:/[0-9]+)+(?::[0-9]+)?)\s.*?\b(?P<link>up|down)\b.*")
_INPUT = re.compile(r"Input statistics:\s*(?P<count>[0-9]+) packets")
_OUTPUT = re.compile(r"Output statistics:\s*(?P<count>[0-9]+) packets")
_WAYS = {"rx": (Direction.RX,), "tx": (Direction.TX,), "both": tuple(Direction)}


@dataclass(frozen=True, slots=True)
class Session:
    """One monitor session as it is configured."""

    id: int
    type: str
    """``local`` or ``erspan-source``; others are foreign."""
    description: str
    sources: tuple[MirrorSource, ...]
    destination: str
    """A port, ``erspan:ADDRESS``, or empty."""
    flow_based: bool
    up: bool
    """``no shut`` stands there: without it a session is shut."""
    others: tuple[str, ...]
    """Lines that are not understood."""


@dataclass(frozen=True, slots=True)
class Rules:
    """One access list."""

    pairs: Mapping[FlowFilter, int]
    """Pair -> monitor session that captures it."""
    open: bool
    """All else is let through: a list without that would stop the port's traffic."""
    strange: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parts of ``show running-configuration`` that have to do with mirroring."""

    sessions: Mapping[int, Session]
    lists: Mapping[tuple[int, str], Rules]
    """(IP version, name) -> access list."""
    ports: Mapping[PortName, tuple[str, ...]]


def read_configuration(text: str) -> Configuration:
    """Raises ValueError where nothing of it looks like a configuration, or a session is not understood."""
    parts = tuple(sections(text, "!"))
    ports = {PortName(p.head.split(maxsplit=1)[1]): p.lines for p in parts if p.head.startswith("interface ")}
    if not ports:
        raise ValueError("no interface is found in the answer")
    found = {session.id: session for part in parts if (session := _session(part))}
    lists = {}
    for part in parts:
        words = part.head.split()
        if words[1:2] == ["access-list"] and words[0] in ("ip", "ipv6") and len(words) == 3:
            lists[(4 if words[0] == "ip" else 6, words[2])] = _rules(part)
    return Configuration(found, lists, ports)


def _session(part: Section) -> Session | None:
    match = _HEAD.fullmatch(part.head)
    if match is None:
        return None
    description, destination = "", ""
    sources: list[MirrorSource] = []
    flags = {"flow-based enable": False, "no shut": False}
    others = []
    for line in part.lines:
        if line.startswith("description "):
            description = line.removeprefix("description ").strip('"')
        elif source := _SOURCE.fullmatch(line):
            port = PortName(source["port"].replace(" ", ""))
            sources += [MirrorSource(port, way) for way in _WAYS[source["way"] or "both"]]
        elif line.startswith("destination interface "):
            destination = line.removeprefix("destination interface ").replace(" ", "")
        elif tunnel := _TUNNEL.fullmatch(line):
            destination = f"erspan:{tunnel['far']}"
        elif line in flags:
            flags[line] = True
        else:
            others.append(line)
    up, flow = flags["no shut"], flags["flow-based enable"]
    kind = match["type"] or "local"
    return Session(int(match["id"]), kind, description, tuple(sources), destination, flow, up, tuple(others))


def _rules(part: Section) -> Rules:
    pairs, strange, is_open = {}, [], False
    for line in part.lines:
        if match := _ROCE.fullmatch(line):
            pairs[FlowFilter(Address(match["source"]), Address(match["destination"]))] = int(match["id"])
        elif _REST.fullmatch(line):
            is_open = True
        elif line.startswith("seq "):
            strange.append(line)
    return Rules(pairs, is_open, tuple(strange))


def read_states(text: str) -> dict[int, str]:
    """``show monitor session all``: number -> empty where it works, else the switch's reason.

    Raises ValueError where a line is neither head nor session nor the further sources of one.
    """
    states: dict[int, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith(("S.Id", "---")):
            continue
        if match := _ROW.fullmatch(line.rstrip()):
            working = match["state"] == "true"
            states[int(match["id"])] = "" if working else match["reason"].strip()
        elif not (states and line.startswith(" ")):
            raise ValueError(f"{line!r} is not understood")
    return states


def read_links(text: str) -> dict[PortName, str]:
    """``show interface status``: port -> ``up`` or ``down``."""
    rows = (_LINK.fullmatch(line.strip()) for line in text.splitlines())
    return {PortName(f"ethernet{row['place']}"): row["link"] for row in rows if row}


def read_port_counts(text: str) -> Iterator[tuple[Direction, int]]:
    """``show interface ethernet1/1/1``: what passed in each direction; nothing where it is printed otherwise."""
    for direction, pattern in ((Direction.RX, _INPUT), (Direction.TX, _OUTPUT)):
        if match := pattern.search(text):
            yield direction, int(match["count"])


def read_captured(text: str) -> dict[int, int]:
    """``show ip access-lists in``: monitor session -> packets that its rules captured."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        match = _ROCE.fullmatch(line.strip())
        if match and match["count"]:
            found[int(match["id"])] = found.get(int(match["id"]), 0) + int(match["count"])
    return found
