"""What Cumulus Linux prints: NVUE's configuration, its mirror sessions, links, routes; all of it JSON. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcheck_net.ids import Address, PortName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSource

_RANGE = re.compile(r"(?P<stem>.*?[A-Za-z_-])?(?P<first>[0-9]+)-(?P<last>[0-9]+)")
WAYS: Mapping[str, Direction] = {"ingress": Direction.RX, "egress": Direction.TX}
BOUND: Mapping[str, Direction] = {"inbound": Direction.RX, "outbound": Direction.TX}


@dataclass(frozen=True, slots=True)
class Session:
    """One port-mirror session; it watches in one direction."""

    id: int
    sources: tuple[MirrorSource, ...]
    destination: str
    """A port, ``erspan:ADDRESS``, or empty."""
    truncated: str
    """Bytes that copies are cut to; empty: they are whole."""
    on: bool
    strange: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Acl:
    """One access list."""

    type: str
    pairs: tuple[FlowFilter, ...]
    destination: str
    """Where its rules copy to, if all of them copy to one place."""
    remarks: tuple[str, ...]
    strange: tuple[str, ...]
    """Rules that are not of our form."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parts of ``nv config show`` that have to do with mirroring."""

    sessions: Mapping[int, Session]
    acls: Mapping[str, Acl]
    bound: Mapping[str, tuple[MirrorSource, ...]]
    """Access list -> where it is bound."""
    ports: frozenset[PortName]


def expand(text: str) -> tuple[PortName, ...]:
    """``swp1-3,swp7``, ``swp1s0-1``: every port by its own name, as NVUE gathers them in keys; raises ValueError."""
    found = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            found.append(PortName(piece.strip()))
            continue
        first, last = int(match["first"]), int(match["last"])
        if not match["stem"] or not first <= last <= first + 1024:
            raise ValueError(f"{piece!r} is no range of ports")
        found += [PortName(f"{match['stem']}{number}") for number in range(first, last + 1)]
    return tuple(found)


def read_configuration(text: str) -> Configuration:
    """``nv config show -r applied -o json``; raises ValueError where it is not whole."""
    settings: dict[str, Any] = {}
    raw = json.loads(text)
    for part in raw if isinstance(raw, list) else [raw]:
        if "set" in part:
            settings = part["set"]
    interfaces = _object(settings, "interface")
    ports = frozenset(port for key in interfaces for port in expand(key))
    acls = {name: _acl(value) for name, value in _object(settings, "acl").items()}
    sessions = read_sessions(_object(_object(_object(settings, "system"), "port-mirror"), "session"))
    return Configuration(sessions, acls, dict(_bound(interfaces)), ports)


def read_sessions(raw: Mapping[str, Any]) -> dict[int, Session]:
    """Sessions as NVUE has them in its configuration and in ``nv show system port-mirror session``."""
    found = {}
    for key, value in raw.items():
        kinds = [kind for kind in ("span", "erspan") if _object(value, kind).get("enable", "on") != "off"]
        kinds = [kind for kind in kinds if _object(value, kind)] or [k for k in ("span", "erspan") if k in value]
        for number in _numbers(key):
            found[number] = _session(
                number, kinds[0] if kinds else "span", _object(value, kinds[0] if kinds else "span")
            )
    return found


def _numbers(key: str) -> list[int]:
    """``3`` and ``3-4``: NVUE gathers like sessions in one key."""
    found: list[int] = []
    for piece in key.split(","):
        first, _, last = piece.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _session(number: int, kind: str, raw: Mapping[str, Any]) -> Session:
    direction = WAYS[raw.get("direction", "ingress")]
    ports = [port for key in _object(raw, "source-port") for port in expand(key)]
    where = _object(raw, "destination")
    destination = next(iter(where), "") if kind == "span" else ""
    strange = [f"copies to {', '.join(list(where)[1:])} as well"] if kind == "span" and len(where) > 1 else []
    if kind == "erspan":
        far = next(iter(_object(where, "dest-ip")), "")
        destination = f"erspan:{far}" if far else ""
    cut = _object(raw, "truncate")
    size = str(cut.get("size", "some")) if cut and cut.get("enable", "on") == "on" else ""
    sources = tuple(MirrorSource(port, direction) for port in ports)
    return Session(number, sources, destination, size, raw.get("enable", "on") == "on", tuple(strange))


def _acl(raw: Mapping[str, Any]) -> Acl:
    pairs, remarks, strange, targets = [], [], [], set()
    for key, rule in _object(raw, "rule").items():
        if remark := rule.get("remark"):
            remarks.append(str(remark))
        action = _object(rule, "action")
        if "permit" in action:
            continue
        pair = _pair(_object(_object(rule, "match"), "ip"))
        target = next(iter(_object(action, "span")), "")
        if tunnel := _object(action, "erspan"):
            target = f"erspan:{tunnel.get('dest-ip', '')}"
        if pair is None or not target:
            strange.append(f"rule {key}")
            continue
        pairs.append(pair)
        targets.add(target)
    destination = targets.pop() if len(targets) == 1 else ""
    return Acl(str(raw.get("type", "")), tuple(pairs), destination, tuple(remarks), tuple(strange))


def _pair(match: Mapping[str, Any]) -> FlowFilter | None:
    """None: matches something else than RoCEv2 between two hosts."""
    ports = _object(_object(match, "udp"), "dest-port") or _object(match, "dest-port")
    ends = [str(match.get(key, "")).removesuffix("/32").removesuffix("/128") for key in ("source-ip", "dest-ip")]
    known = set(match) <= {"udp", "dest-port", "source-ip", "dest-ip", "protocol"}
    if not known or match.get("protocol") != "udp" or list(ports) != ["4791"] or not all(ends) or "/" in "".join(ends):
        return None
    return FlowFilter(Address(ends[0]), Address(ends[1]))


def _bound(interfaces: Mapping[str, Any]) -> Iterator[tuple[str, tuple[MirrorSource, ...]]]:
    found: dict[str, list[MirrorSource]] = {}
    for key, settings in interfaces.items():
        for name, ways in _object(settings, "acl").items():
            for word, direction in BOUND.items():
                if word in (ways or {}):
                    found.setdefault(name, []).extend(MirrorSource(port, direction) for port in expand(key))
    return iter((name, tuple(sources)) for name, sources in found.items())


def _object(raw: object, key: str) -> dict[str, Any]:
    """``raw[key]`` as a mapping; a value alone is one key without anything below it."""
    value = raw.get(key) if isinstance(raw, dict) else None
    if isinstance(value, dict):
        return value
    return {} if value is None else {str(value): {}}


def read_links(text: str) -> dict[PortName, str]:
    """``ip -j link show``: port -> ``UP``, ``DOWN``, ...; raises ValueError."""
    return {PortName(link["ifname"]): str(link.get("operstate", "")) for link in _list(text)}


def read_counts(text: str) -> dict[MirrorSource, int]:
    """``ip -j -s link show``: what passed the ports (the switch chip's counts); raises ValueError."""
    found = {}
    for link in _list(text):
        stats = _object(link, "stats64")
        for direction in Direction:
            packets = _object(stats, direction.value).get("packets")
            if isinstance(packets, int):
                found[MirrorSource(PortName(link["ifname"]), direction)] = packets
    return found


def next_hop(route: str) -> tuple[str, str] | None:
    """``ip -j route get ADDRESS``: next hop and port; None where there is no way."""
    try:
        first = _list(route)[0]
        return str(first.get("gateway", first["dst"])), str(first["dev"])
    except (ValueError, KeyError, IndexError):
        return None


def is_resolved(neighbours: str, address: str) -> bool:
    """``ip -j neigh show``: has the address a hardware address?"""
    return any(
        n.get("dst") == address and n.get("lladdr") and "FAILED" not in n.get("state", []) for n in _list(neighbours)
    )


def _list(text: str) -> Sequence[dict[str, Any]]:
    raw = json.loads(text)
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise ValueError("a list is needed")
    # iproute2 leaves empty objects for what a filter took away.
    return [entry for entry in raw if entry]
