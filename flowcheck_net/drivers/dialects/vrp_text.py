"""What a CloudEngine (VRP 8) prints: the parts of its configuration that mirror, what is in effect, links. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.sections import Section, sections
from flowcheck_net.ids import PortName
from flowcheck_net.intent import Direction, MirrorSource

WAYS: Mapping[str, Direction] = {"inbound": Direction.RX, "outbound": Direction.TX}
_TITLE = re.compile(r"(?:MirroringPort|TrafficBehavior|VLAN) .*Observe.*")
_RULE_LINE = re.compile(r"-{20,}")
_OBSERVER = re.compile(r"observe-port (?P<id>[0-9]+) interface (?P<port>\S+(?: [0-9]+(?:/[0-9]+)+)?)(?P<rest>.*)")
_IN_EFFECT = re.compile(r"(?:(?P<what>\S+(?: [0-9]+)?)\s+)?(?P<way>Inbound|Outbound)\s+(?P<to>[0-9]+)(?:\s*:\s*\S+)?")
_BRIEF = re.compile(
    r"(?P<port>[0-9A-Z][A-Za-z0-9-]*[0-9]+(?:/[0-9]+)+(?::[0-9]+)?)(?:\([^)]*\))?\s+(?P<link>\*?\^?[a-z]+)(?:\([a-z]+\))?\s.*"
)


@dataclass(frozen=True, slots=True)
class Observer:
    """One observing port."""

    id: int
    port: PortName
    rest: str = ""
    """``cir 20000 kbps``, ``truncate packet 64``: what keeps copies from being whole."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parts of ``display current-configuration`` that have to do with mirroring."""

    observers: Mapping[int, Observer]
    groups: Mapping[int, tuple[PortName, ...]]
    """Observing port groups and their members."""
    truncation: str
    """The line that cuts all copies short; empty: none."""
    acls: Mapping[str, Section]
    acls6: Mapping[str, Section]
    classifiers: Mapping[str, Section]
    behaviours: Mapping[str, Section]
    policies: Mapping[str, Section]
    interfaces: Mapping[PortName, Section]


def read_configuration(text: str) -> Configuration:
    """Raises ValueError where it does not end with ``return``: what was cut off is not missing."""
    lines = text.rstrip().splitlines()
    if not lines or lines[-1].strip() != "return":
        raise ValueError("the configuration does not end with 'return': it was cut off")
    parts = tuple(sections("\n".join(lines[:-1]), "#"))
    return Configuration(
        observers={observer.id: observer for observer in _observers(parts)},
        groups={int(name): _members(part) for name, part in _named(parts, "observe-port group ").items()},
        truncation=next((part.head for part in parts if part.head.startswith("observe-port packet-length")), ""),
        acls=_named(parts, "acl name "),
        acls6=_named(parts, "acl ipv6 name "),
        classifiers=_named(parts, "traffic classifier "),
        behaviours=_named(parts, "traffic behavior "),
        policies=_named(parts, "traffic policy "),
        interfaces={PortName(name): part for name, part in _named(parts, "interface ").items()},
    )


def _observers(parts: Iterable[Section]) -> Iterator[Observer]:
    for part in parts:
        if not part.head.startswith("observe-port ") or part.head.split()[1] in ("group", "packet-length"):
            continue
        match = _OBSERVER.fullmatch(part.head)
        if match is None:
            raise ValueError(f"{part.head!r} is not understood")
        yield Observer(int(match["id"]), PortName(match["port"].replace(" ", "")), match["rest"].strip())


def _members(part: Section) -> tuple[PortName, ...]:
    return tuple(PortName(line.split()[1]) for line in part.lines if line.startswith("group-member "))


def _named(parts: Iterable[Section], head: str) -> dict[str, Section]:
    return {part.head.removeprefix(head).split()[0]: part for part in parts if part.head.startswith(head)}


@dataclass(frozen=True, slots=True)
class InEffect:
    """``display port-mirroring``: which observing ports really get copies."""

    ports: frozenset[tuple[MirrorSource, int]]
    """Source and index of the observing port."""
    behaviours: frozenset[tuple[str, int]]


def read_in_effect(text: str) -> InEffect:
    """Raises ValueError where a line is of no table that is known."""
    ports, behaviours = set(), set()
    table, what = "", ""
    for line in (raw.strip() for raw in text.splitlines()):
        if not line or _RULE_LINE.fullmatch(line) or _TITLE.fullmatch(line):
            continue
        if line.endswith(" mirroring:"):
            table, what = line.removesuffix(" mirroring:"), ""
        elif table == "Traffic" and (words := line.split()) and len(words) >= 2 and words[1].isdigit():
            behaviours.add((words[0], int(words[1])))
        elif table in ("Observe port", "Observe port group", "VLAN") and (match := _IN_EFFECT.fullmatch(line)):
            what = match["what"] or what
            if table == "Observe port":
                source = MirrorSource(PortName(what), WAYS[match["way"].lower()])
                ports.add((source, int(match["to"])))
        else:
            raise ValueError(f"{line!r} is not understood")
    return InEffect(frozenset(ports), frozenset(behaviours))


def read_links(text: str) -> dict[PortName, str]:
    """``display interface brief``: port -> ``up``, ``down``, ``*down`` (by an operator)."""
    found = {}
    for line in text.splitlines():
        if match := _BRIEF.fullmatch(line.rstrip()):
            found[PortName(match["port"])] = match["link"]
    return found
