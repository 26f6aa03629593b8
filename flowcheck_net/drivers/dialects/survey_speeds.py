"""Tables and details of interfaces -> port and speed in Mbit/s. Only ports that have a link and say their speed."""

import re
from collections.abc import Mapping

from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.ids import PortName

_PHYSICAL = re.compile(r"[A-Za-z-]*[0-9]*(?:GE|GigE|Ethernet|Eth|Et)[0-9].*")
_ROW = re.compile(
    r"(?P<port>[A-Z][A-Za-z]*[0-9][0-9/:.]*) .*\b(?:full|half)\s+(?:a-)?(?P<count>[0-9.]+)(?P<unit>[GMT]?)\b"
)
"""A description may hold the same words: the last ones of the line count, which are the table's."""
_TABLE = re.compile(r"Port\s+Name\s+Status\s+Vlan\s+Duplex\s+Speed\s+Type")
_LONG = {"Et": "Ethernet", "Eth": "Ethernet", "Ma": "Management", "Po": "Port-Channel"}
_MBIT = {"M": 1, "": 1, "G": 1000, "T": 1_000_000}

_JUNOS_PORT = re.compile(r"Physical interface: (?P<port>[a-z]+-[0-9/:]+), .*Physical link is (?P<link>\S+)")
_JUNOS_SPEED = re.compile(r"\bSpeed: (?P<count>[0-9.]+)(?P<unit>[Gm])bps\b")
_COMWARE_STATE = re.compile(r"Current state: (?P<link>\S+)|(?P<port>\S+) current state: (?P<old>\S+)", re.IGNORECASE)
_COMWARE_SPEED = re.compile(r"(?P<count>[0-9]+)(?P<unit>[GM])bps-speed mode")
_VRP_STATE = re.compile(r"(?P<port>\S+?)(?:\([^)]*\))? current state\s*:\s*(?P<link>\S+)")
_VRP_SPEED = re.compile(r"Speed\s*:\s*(?P<count>[0-9]+)\b")
_SYSFS = re.compile(r"/sys/class/net/(?P<port>[^/]+)/speed:(?P<count>-?[0-9]+)")


def status_table(text: str) -> Mapping[PortName, int]:
    """``show interfaces status`` of EOS, ``show interface status`` of NX-OS: ``full 10G``, ``a-full a-40G``."""
    if text.strip() and not _TABLE.search(text):
        raise ParseError(f"no table of ports in {text.strip()[:60]!r}")
    found: dict[PortName, int] = {}
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is not None and re.search(r"\bconnected\b", line):
            found[_long(row["port"])] = int(float(row["count"]) * _MBIT[row["unit"]])
    return found


def junos(text: str) -> Mapping[PortName, int]:
    """``show interfaces`` of Junos, at least its lines with ``Physical interface`` and ``Speed``."""
    found: dict[PortName, int] = {}
    port, seen = "", False
    for line in text.splitlines():
        if line.startswith("Physical interface:"):
            head, seen = _JUNOS_PORT.match(line), True
            port = head["port"] if head is not None and head["link"] == "Up" else ""
        elif port and (speed := _JUNOS_SPEED.search(line)) is not None:
            found.setdefault(PortName(port), int(float(speed["count"]) * (1000 if speed["unit"] == "G" else 1)))
    return _read(found, text, seen=seen)


def comware(text: str) -> Mapping[PortName, int]:
    """``display interface`` of Comware: the name on a line of its own, or before ``current state``."""
    found: dict[PortName, int] = {}
    port, before, seen = "", "", False
    for line in map(str.strip, text.splitlines()):
        if (state := _COMWARE_STATE.match(line)) is not None:
            name, link, seen = state["port"] or before, state["link"] or state["old"], True
            port = name if link == "UP" and _PHYSICAL.fullmatch(name) else ""
        elif port and (speed := _COMWARE_SPEED.match(line)) is not None:
            found[PortName(port)] = int(speed["count"]) * _MBIT[speed["unit"]]
        before = line
    return _read(found, text, seen=seen)


def vrp(text: str) -> Mapping[PortName, int]:
    """``display interface`` of VRP: speeds are in Mbit/s."""
    found: dict[PortName, int] = {}
    port, seen = "", False
    for line in map(str.strip, text.splitlines()):
        if not line.startswith("Line protocol") and (state := _VRP_STATE.match(line)) is not None:
            seen = True
            port = state["port"] if state["link"].upper() == "UP" and _PHYSICAL.fullmatch(state["port"]) else ""
        elif port and (speed := _VRP_SPEED.match(line)) is not None:
            found[PortName(port)] = int(speed["count"])
    return _read(found, text, seen=seen)


def sysfs(text: str) -> Mapping[PortName, int]:
    """``/sys/class/net/PORT/speed`` of many ports; -1 and nothing say that there is no link."""
    rows = [row for line in text.splitlines() if (row := _SYSFS.fullmatch(line.strip())) is not None]
    found = {PortName(row["port"]): int(row["count"]) for row in rows if int(row["count"]) > 0}
    return _read(found, text, seen=bool(rows))


def _read(found: dict[PortName, int], text: str, *, seen: bool) -> dict[PortName, int]:
    if text.strip() and not seen:
        raise ParseError(f"no port in {text.strip()[:60]!r}")
    return found


def _long(port: str) -> PortName:
    family = re.match(r"[A-Za-z]+", port)
    word = family[0] if family else ""
    return PortName(_LONG.get(word, word) + port[len(word) :])
