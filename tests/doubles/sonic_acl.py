"""What sonic-acl.yang allows rows of access lists to be, written down by hand: the module is not among the samples.

Read in sonic-buildimage, src/sonic-yang-models/yang-templates/sonic-acl.yang.j2, commit 086b03bd of 2026-08-23. Only
what rows of ours can meet is here: fields that are there, their ranges, choices, and what refers to what.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Set

Row = Mapping[str, object]
Config = Mapping[str, Mapping[str, Row]]
TABLES = ("ACL_TABLE_TYPE", "ACL_TABLE", "ACL_RULE")
_BUILT_IN = {"L2", "L3", "L3V6", "L3V4V6", "MIRROR", "MIRRORV6", "MIRROR_DSCP", "CTRLPLANE"}
"""acl_table_type of sonic-types.yang."""
_RULE = {
    *("PACKET_ACTION", "MIRROR_INGRESS_ACTION", "MIRROR_EGRESS_ACTION", "INNER_SRC_MAC_REWRITE_ACTION"),
    *("PRIORITY", "IP_TYPE", "SRC_MAC", "DST_MAC", "SRC_IP", "DST_IP", "INNER_SRC_IP"),
    *("SRC_IPV6", "DST_IPV6", "INNER_SRC_IPV6", "IN_PORTS", "OUT_PORTS"),
    *("L4_SRC_PORT", "L4_SRC_PORT_RANGE", "L4_DST_PORT", "L4_DST_PORT_RANGE", "ETHER_TYPE", "IP_PROTOCOL"),
    *("TCP_FLAGS", "DSCP", "TC", "ICMP_TYPE", "ICMP_CODE", "ICMPV6_TYPE", "ICMPV6_CODE"),
    *("INNER_ETHER_TYPE", "INNER_IP_PROTOCOL", "INNER_L4_SRC_PORT", "INNER_L4_DST_PORT", "VLAN_ID", "TUNNEL_VNI"),
    *("PCP", "DEI", "BTH_OPCODE", "AETH_SYNDROME", "TUNNEL_TERM"),
}
"""No NEXT_HEADER."""
_TABLE = {"policy_desc", "type", "stage", "services", "ports"}
_TYPE = {"MATCHES", "ACTIONS", "BIND_POINTS"}
_RANGES = {"PRIORITY": (0, 999_999), "IP_PROTOCOL": (1, 143), "L4_DST_PORT": (0, 65_535)}
_FOUR, _SIX = ("SRC_IP", "DST_IP", "INNER_SRC_IP"), ("SRC_IPV6", "DST_IPV6", "INNER_SRC_IPV6")


def complaint(config: Config, sessions: Set[str], ports: Set[str]) -> str:
    """Why these rows are not valid; empty: they are.

    Args:
        config: the three tables; a rule's key is ``TABLE|RULE``.
        sessions: mirror sessions that there are.
        ports: ports and port channels that there are.
    """
    types, tables, rules = (config.get(name, {}) for name in TABLES)
    faults = {f"ACL_TABLE_TYPE {name}": _type_faults(row) for name, row in types.items()}
    faults |= {f"ACL_TABLE {name}": _table_faults(row, set(types), ports) for name, row in tables.items()}
    faults |= {f"ACL_RULE {name}": _rule_faults(name, row, tables, sessions) for name, row in rules.items()}
    return "; ".join(f"{place}: {text}" for place, found in faults.items() for text in found)


def _type_faults(row: Row) -> Iterator[str]:
    yield from (f"no field {field}" for field in row.keys() - _TYPE)
    if not row.get("MATCHES"):
        yield "MATCHES needs one"
    points = row.get("BIND_POINTS")
    if not isinstance(points, list) or not points or set(points) - {"PORT", "PORTCHANNEL"}:
        yield f"BIND_POINTS {points}"


def _table_faults(row: Row, types: Set[str], ports: Set[str]) -> Iterator[str]:
    yield from (f"no field {field}" for field in row.keys() - _TABLE)
    if row.get("type") not in types | _BUILT_IN:
        yield f"type {row.get('type')} is not there"
    if row.get("stage", "INGRESS") not in ("ingress", "egress", "INGRESS", "EGRESS"):
        yield f"stage {row['stage']}"
    bound = row.get("ports", [])
    if not isinstance(bound, list) or set(bound) - ports - {""}:
        yield f"ports {bound}"
    if not 1 <= len(str(row.get("policy_desc", "x"))) <= 255:
        yield "policy_desc is too long"


def _rule_faults(name: str, row: Row, tables: Mapping[str, Row], sessions: Set[str]) -> Iterator[str]:
    table, _, rule = name.partition("|")
    if table not in tables or not 1 <= len(rule) <= 255:
        yield f"no table {table}"
    yield from (f"no field {field}" for field in row.keys() - _RULE)
    if "PRIORITY" not in row:
        yield "PRIORITY is mandatory"
    for field, (low, high) in _RANGES.items():
        value = str(row.get(field, low))
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            yield f"{field} {value}"
    if set(_FOUR) & row.keys() and set(_SIX) & row.keys():
        yield "addresses of both versions"
    for field in (*_FOUR, *_SIX):
        if field in row and not _is_prefix(str(row[field]), 6 if field in _SIX else 4):
            yield f"{field} {row[field]}"
    for field in ("MIRROR_INGRESS_ACTION", "MIRROR_EGRESS_ACTION"):
        if field in row and row[field] not in sessions:
            yield f"{field} {row[field]} is no session"


def _is_prefix(text: str, version: int) -> bool:
    try:
        return "/" in text and ipaddress.ip_interface(text).version == version
    except ValueError:
        return False
