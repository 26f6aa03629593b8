"""A mirror session as rows of CONFIG_DB, and back. Pure.

Without address pairs a session is one row of MIRROR_SESSION with ``src_port``. With them it is a row without sources,
and for each IP version an ACL table of its own, with a table type of its own, whose rules mirror into the session. What
can stop orchagent (queue, policer, sample_rate, truncate_size) is never written.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from flowcheck_net.drivers.sonic_db import LISTED, Row, Snapshot, listed
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource

NOWHERE = PortName("(none)")
SESSIONS, TABLES, RULES, TYPES = "MIRROR_SESSION", "ACL_TABLE", "ACL_RULE", "ACL_TABLE_TYPE"
_WORDS = {frozenset({Direction.RX}): "RX", frozenset({Direction.TX}): "TX", frozenset(Direction): "BOTH"}
_SIDES = {"RX": (Direction.RX,), "TX": (Direction.TX,), "BOTH": tuple(Direction)}
_FAMILIES = {4: ("v4", "SRC_IP", "DST_IP", {"IP_PROTOCOL": "17"}), 6: ("v6", "SRC_IPV6", "DST_IPV6", {})}
"""IP version -> ending of the table's name, its words, and what says that it is UDP.

sonic-acl.yang has no NEXT_HEADER (086b03bd of 2026-08-23): a patch with it is refused; and IP_PROTOCOL becomes it in
tables of the built-in IPv6 types only (swss aclorch.cpp). So for IPv6 the port alone decides: TCP to port 4791 between
the two addresses, for which nobody is registered, would be copied too.
"""
_PORT = "L4_DST_PORT"
_ACTION = "MIRROR_INGRESS_ACTION"
_TOP_PRIORITY = 9999
MOST_RULES = 5000
_TABLE_NAME = re.compile(r"(?P<session>.+)-v[46]")
Key = tuple[str, str]
"""Table and key."""
Rows = dict[Key, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """One session with the rows that it is made of."""

    session: MirrorSession
    rows: tuple[Key, ...]
    untold: str = ""
    """What is there and does not fit into the words of a session."""


def rows_of(session: MirrorSession, origin: str) -> Rows:
    """The rows to add; raises ValueError where the words of SONiC do not have it.

    Args:
        session: with canonical addresses.
        origin: the switch's address that encapsulated copies come from; not looked at without encapsulation.
    """
    kind, colon, far = session.destination.partition(":")
    fields = {"type": "SPAN", "dst_port": str(session.destination)}
    if colon and kind == "erspan":
        fields = {"type": "ERSPAN", "src_ip": origin, "dst_ip": far}
    sides: dict[PortName, set[Direction]] = {}
    for source in session.sources:
        sides.setdefault(source.port, set()).add(source.direction)
    different = {frozenset(s) for s in sides.values()}
    if len(different) != 1:
        raise ValueError("a SONiC session has one direction for all its sources, and these differ")
    (side,) = different
    if not session.filters:
        fields |= {"src_port": ",".join(sorted(sides)), "direction": _WORDS[side]}
        return {(SESSIONS, session.name): fields}
    if side != {Direction.RX}:
        raise ValueError("filters are rules for what arrives (rx), not for what leaves (tx)")
    return {(SESSIONS, session.name): fields, **_filter_rows(session, sorted(sides))}


def _filter_rows(session: MirrorSession, ports: list[PortName]) -> Rows:
    rows: Rows = {}
    for version, (ending, source, destination, udp) in _FAMILIES.items():
        pairs = [p for p in session.filters if (6 if ":" in p.source else 4) == version]
        if not pairs:
            continue
        name, bits = f"{session.name}-{ending}", 128 if version == 6 else 32
        matches = ",".join((source, destination, *udp, _PORT))
        actions, points = f"{_ACTION},COUNTER", "PORT,PORTCHANNEL"
        rows[TYPES, name] = {f"MATCHES{LISTED}": matches, f"ACTIONS{LISTED}": actions, f"BIND_POINTS{LISTED}": points}
        bound = {f"ports{LISTED}": ",".join(ports), "stage": "ingress"}
        rows[TABLES, name] = {"policy_desc": f"flowcheck-net {session.name}", "type": name, **bound}
        for number, pair in enumerate(pairs):
            ends = {source: f"{pair.source}/{bits}", destination: f"{pair.destination}/{bits}"}
            what = {**udp, _PORT: "4791", _ACTION: str(session.name)}
            rows[RULES, f"{name}|r{number}"] = {"PRIORITY": str(_TOP_PRIORITY - number), **ends, **what}
    return rows


def find(snapshot: Snapshot) -> dict[SessionName, Found]:
    """Every mirror session of the configuration, by name."""
    config = snapshot.config
    names = {*config.get(SESSIONS, {}), *(m["session"] for n in config.get(TABLES, {}) if (m := _ours(n)))}
    names |= {m["session"] for n in config.get(TYPES, {}) if (m := _ours(n))}
    return {SessionName(n): _found(SessionName(n), snapshot) for n in sorted(names)}


def _found(name: SessionName, snapshot: Snapshot) -> Found:
    there = name in snapshot.config.get(SESSIONS, {})
    row = snapshot.row(SESSIONS, name)
    own = [f"{name}-{ending}" for ending, *_ in _FAMILIES.values()]
    rules = [k for k in snapshot.config.get(RULES, {}) if k.partition("|")[0] in own]
    keys: list[Key] = [(SESSIONS, name)] if there else []
    keys += [(table, n) for table in (TABLES, TYPES) for n in own if n in snapshot.config.get(table, {})]
    keys += [(RULES, k) for k in rules]
    direct = [MirrorSource(PortName(p), d) for p in listed(row.get("src_port", "")) for d in sides_of(row)]
    ruled = _rule_sources(name, snapshot)
    pairs = tuple(p for k in rules if (p := _pair(snapshot.row(RULES, k), name)) is not None)
    session = MirrorSession(name, (*direct, *ruled), destination_of(row), () if direct or not ruled else pairs)
    return Found(session, tuple(keys), _untold(session, snapshot, keys, rules, pairs, there=there))


def _untold(
    session: MirrorSession, snapshot: Snapshot, keys: list[Key], rules: list[str], pairs: tuple[FlowFilter, ...], *,
    there: bool,
) -> str:  # fmt: skip
    if not there:
        return "its ACL tables are there without the session"
    if len(pairs) < len(rules):
        return "its ACL tables have rules that are not ours"
    if not session.sources:
        return "it has no source"
    elsewhere = [k for k, r in snapshot.config.get(RULES, {}).items() if _refers(r, session.name)]
    if stray := [k for k in elsewhere if (RULES, k) not in keys]:
        return f"rule {stray[0]} of somebody else mirrors into it"
    if pairs and rows_differ(session, snapshot, keys):
        return "its ACL tables are not as we write them"
    return ""


def rows_differ(session: MirrorSession, snapshot: Snapshot, keys: Iterable[Key]) -> bool:
    """Are the ACL rows of a session other ones than it would be written with?"""
    try:
        wanted = rows_of(session, "")
    except ValueError:
        return True
    ours = {key: row for key, row in wanted.items() if key[0] != SESSIONS}
    return ours != {key: dict(snapshot.row(*key)) for key in keys if key[0] != SESSIONS}


def sides_of(row: Row) -> tuple[Direction, ...]:
    """Without a word both."""
    return _SIDES.get(row.get("direction", "BOTH").upper(), ())


def destination_of(row: Row) -> PortName:
    """Where the copies of a session go."""
    if row.get("dst_ip"):
        return PortName(f"erspan:{row['dst_ip']}")
    return PortName(row["dst_port"]) if row.get("dst_port") else NOWHERE


def _rule_sources(name: SessionName, snapshot: Snapshot) -> list[MirrorSource]:
    """Ports of the ACL tables that have a rule for the session."""
    found = set()
    for key, rule in snapshot.config.get(RULES, {}).items():
        if not _refers(rule, name):
            continue
        table = snapshot.row(TABLES, key.partition("|")[0])
        side = Direction.TX if table.get("stage", "").lower() == "egress" else Direction.RX
        ports = table.get(f"ports{LISTED}", table.get("ports", ""))
        found |= {MirrorSource(PortName(p), side) for p in listed(ports)}
    return sorted(found)


def _refers(rule: Row, name: SessionName) -> bool:
    words = ("MIRROR_ACTION", "MIRROR_INGRESS_ACTION", "MIRROR_EGRESS_ACTION")
    return any(rule.get(w) == name for w in words)


def _pair(rule: Row, name: SessionName) -> FlowFilter | None:
    """The address pair of a rule of ours; None: it is none."""
    for _, source, destination, udp in _FAMILIES.values():
        try:
            ends = [ipaddress.ip_interface(rule[w]) for w in (source, destination)]
        except (KeyError, ValueError):
            continue
        whole = all(e.network.num_addresses == 1 for e in ends)
        fixed = {**udp, _PORT: "4791", _ACTION: str(name)}
        known = set(rule) == {source, destination, "PRIORITY", *fixed}
        if whole and known and all(rule[word] == value for word, value in fixed.items()):
            return FlowFilter(*(Address(str(e.ip)) for e in ends))
    return None


def _ours(table: str) -> re.Match[str] | None:
    return _TABLE_NAME.fullmatch(table) if table.startswith("fcn-") else None
