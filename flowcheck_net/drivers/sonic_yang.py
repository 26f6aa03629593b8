"""What sonic-mirror-session.yang (2026-04-14) allows a row to be: asked before anything is sent. Pure."""

import ipaddress
import re
from collections.abc import Callable, Mapping

from flowcheck_net.drivers.sonic_db import Row, Snapshot

_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}")
_GRE = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]|[1-5]?[0-9]{2,4}|6[1-4][0-9]{3}|65[1-4][0-9]{2}|655[12][0-9]|6553[0-5]")
_GRE_LENGTH = 6
_MOST_SOURCES = 2048
"""Characters of src_port."""
_TUNNELLED = {"src_ip", "dst_ip", "gre_type", "dscp", "ttl", "sample_rate", "truncate_size"}
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "dscp": (0, 63),
    "ttl": (0, 255),
    "queue": (0, 255),
    "sample_rate": (2, 2**32 - 1),
    "truncate_size": (64, 9216),
}
RISKY = ("queue", "policer", "sample_rate", "truncate_size")
"""Never written: on some chips they stop orchagent, and all but ``queue`` cost copies."""


def problems_of(name: str, row: Row, snapshot: Snapshot) -> list[str]:
    """Everything that is wrong with a row; empty: it is valid."""
    kind = row.get("type", "ERSPAN")
    found = [] if _NAME.fullmatch(name) else [f"{name!r} is no name of a session (32 characters at the most)"]
    if kind not in ("SPAN", "ERSPAN"):
        return [*found, f"type {kind!r} is neither SPAN nor ERSPAN"]
    wrong_kind = _TUNNELLED if kind == "SPAN" else {"dst_port"}
    found += [f"{field} does not belong to a {kind} session" for field in sorted(wrong_kind & row.keys())]
    for field, value in sorted(row.items()):
        check = _CHECKS.get(field)
        if check is None:
            found.append(f"unknown field {field}")
        elif text := check(field, value, snapshot):
            found.append(text)
    ends = [row.get("src_ip"), row.get("dst_ip")]
    if any(ends) and (None in ends or (":" in str(ends[0])) != (":" in str(ends[1]))):
        found.append("src_ip and dst_ip are not of one IP version")
    return found


def _number(field: str, value: str, _: Snapshot) -> str:
    low, high = _NUMBERS[field]
    fits = value.isascii() and value.isdigit() and low <= int(value) <= high
    return "" if fits else f"{field} {value!r} is not a number from {low} to {high}"


def _address(field: str, value: str, _: Snapshot) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"{field} {value!r} is not an address"
    return ""


def _gre(field: str, value: str, _: Snapshot) -> str:
    fits = _GRE.fullmatch(value) and len(value) <= _GRE_LENGTH
    return "" if fits else f"{field} {value!r} is not a 16-bit number"


def _target(field: str, value: str, snapshot: Snapshot) -> str:
    return "" if value == "CPU" or snapshot.is_port(value) else f"{field} {value!r} is not a port of the switch"


def _sources(field: str, value: str, _: Snapshot) -> str:
    return "" if 0 < len(value) <= _MOST_SOURCES else f"{field} has {len(value)} characters, 1 to {_MOST_SOURCES} fit"


def _direction(field: str, value: str, _: Snapshot) -> str:
    return "" if value in ("RX", "TX", "BOTH") else f"{field} {value!r} is not RX, TX or BOTH"


def _policer(field: str, value: str, snapshot: Snapshot) -> str:
    return "" if value in snapshot.config.get("POLICER", {}) else f"{field} {value!r} is not there"


def _fine(field: str, value: str, snapshot: Snapshot) -> str:
    del field, value, snapshot
    return ""


_CHECKS: Mapping[str, Callable[[str, str, Snapshot], str]] = {
    "type": _fine,
    "src_ip": _address,
    "dst_ip": _address,
    "gre_type": _gre,
    "dst_port": _target,
    "src_port": _sources,
    "direction": _direction,
    "policer": _policer,
    **dict.fromkeys(_NUMBERS, _number),
}
