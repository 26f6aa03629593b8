"""What a Comware switch prints: mirroring groups, the parts of its configuration that mirror, links. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flowcheck_net.drivers.dialects.sections import Section, sections, split_port
from flowcheck_net.ids import PortName
from flowcheck_net.intent import Direction, MirrorSource

_GROUP = re.compile(r"Mirroring group (?P<id>[0-9]+):?", re.IGNORECASE)
_FIELD = re.compile(r"(?P<key>[A-Za-z][A-Za-z /()-]*?)\s*:\s*(?P<value>.*)")
_SOURCE = re.compile(r"(?P<port>\S+)\s+(?P<way>Inbound|Outbound|Both)", re.IGNORECASE)
_TUNNEL = re.compile(
    r"(?P<key>Destination IP address|Source IP address|DSCP|VLAN|VRF Instance)\s+(?P<value>\S+)", re.IGNORECASE
)
_BRIEF = re.compile(r"(?P<port>[A-Za-z][A-Za-z-]*[0-9]+(?:/[0-9]+)+(?::[0-9]+)?)\s+(?P<link>UP|DOWN|ADM|Stby)\b.*")
WAYS: Mapping[str, tuple[Direction, ...]] = {
    "inbound": (Direction.RX,),
    "outbound": (Direction.TX,),
    "both": (Direction.RX, Direction.TX),
}


@dataclass(frozen=True, slots=True)
class Group:
    """One mirroring group, as ``display mirroring-group all`` has it."""

    id: int
    kind: str = ""
    status: str = ""
    sources: tuple[MirrorSource, ...] = ()
    monitors: tuple[PortName, ...] = ()
    tunnel: Mapping[str, str] = field(default_factory=dict)
    """What copies are wrapped in: ``destination ip address``, ``source ip address``, ``dscp``, ...; empty: nothing."""
    others: tuple[str, ...] = ()
    """Lines that are not understood, or that a local group of ours does not have."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parts of ``display current-configuration`` that have to do with mirroring."""

    acls: Mapping[str, Section]
    """By name. Rules and description."""
    acls6: Mapping[str, Section]
    classifiers: Mapping[str, Section]
    behaviours: Mapping[str, Section]
    policies: Mapping[str, Section]
    interfaces: Mapping[PortName, Section]
    globals: tuple[str, ...]
    """Lines of the system view that speak of mirroring."""


def read_groups(text: str) -> tuple[Group, ...]:
    """The groups; raises ValueError where something was printed that is no group."""
    found: list[Group] = []
    key = ""
    for line in (raw.strip() for raw in text.splitlines()):
        if not line:
            continue
        if match := _GROUP.fullmatch(line):
            found.append(Group(int(match["id"])))
            key = ""
            continue
        if not found:
            raise ValueError(f"{line!r} is no mirroring group")
        if (match := _FIELD.fullmatch(line)) and match["key"].lower() != "encapsulation":
            key, line = match["key"].lower(), match["value"].strip()
        else:
            line = re.sub("^encapsulation:", "", line, flags=re.IGNORECASE).strip()
        if line:
            found[-1] = _with(found[-1], key, line)
    return tuple(found)


def _with(group: Group, key: str, value: str) -> Group:
    if key == "type":
        return replace(group, kind=value.lower())
    if key == "status":
        return replace(group, status=value.lower())
    if value.lower() == "none":
        return group
    if key == "mirroring port" and (match := _SOURCE.fullmatch(value)):
        more = tuple(MirrorSource(PortName(match["port"]), way) for way in WAYS[match["way"].lower()])
        return replace(group, sources=group.sources + more)
    if key == "monitor port":
        if match := _TUNNEL.fullmatch(value):
            return replace(group, tunnel={**group.tunnel, match["key"].lower(): match["value"]})
        if " " not in value:
            return replace(group, monitors=(*group.monitors, PortName(value)))
    return replace(group, others=(*group.others, f"{key}: {value}"))


def read_configuration(text: str) -> Configuration:
    """Raises ValueError where it does not end with ``return``: what was cut off is not missing."""
    lines = text.rstrip().splitlines()
    if not lines or lines[-1].strip() != "return":
        raise ValueError("the configuration does not end with 'return': it was cut off")
    parts = tuple(sections("\n".join(lines[:-1]), "#"))
    return Configuration(
        acls=_named(parts, "acl advanced name "),
        acls6=_named(parts, "acl ipv6 advanced name "),
        classifiers=_named(parts, "traffic classifier "),
        behaviours=_named(parts, "traffic behavior "),
        policies=_named(parts, "qos policy "),
        interfaces={PortName(name): part for name, part in _named(parts, "interface ").items()},
        globals=tuple(
            part.head for part in parts if part.head.startswith(("mirroring-group ", "undo stp", "stp global"))
        ),
    )


def _named(parts: Iterable[Section], head: str) -> dict[str, Section]:
    return {part.head.removeprefix(head).split()[0]: part for part in parts if part.head.startswith(head)}


def read_links(text: str) -> dict[str, str]:
    """``display interface brief``: place of a port (``1/0/1``) -> ``UP``, ``DOWN``, ``ADM``.

    Names are abbreviated there (XGE, HGE, FGE, ...), differently by release; the place of a front port is not.
    """
    found = {}
    for line in text.splitlines():
        # The management port counts its places for itself.
        if (match := _BRIEF.fullmatch(line.strip())) and not match["port"].startswith("M"):
            found[split_port(match["port"])[1]] = match["link"]
    return found
