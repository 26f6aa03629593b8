"""What a switch says that it is -> host name, model, version, serial number."""

import re

from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.intent import DeviceFacts


def eos(text: str) -> DeviceFacts:
    """``show version`` and ``show hostname`` of EOS."""
    return _facts(
        text,
        "Arista",
        hostname=r"^Hostname: *(\S+)",
        model=r"^Arista (\S+)",
        version=r"^Software image version: *(\S+)",
        serial=r"^Serial number: *(\S+)",
    )


def nxos(text: str) -> DeviceFacts:
    """``show version`` of NX-OS."""
    return _facts(
        text,
        "Nexus",
        hostname=r"^ *Device name: *(\S+)",
        model=r"^ *cisco (.+?) *(?:[Cc]hassis|\(\"|$)",
        version=r"^ *(?:NXOS|system): +version (\S+)",
        serial=r"^ *Processor Board ID (\S+)",
    )


def junos(text: str) -> DeviceFacts:
    """``show version`` of Junos; of a virtual chassis or a cluster the first member."""
    return _facts(
        text,
        "JUNOS",
        hostname=r"^Hostname: *(\S+)",
        model=r"^Model: *(\S+)",
        version=r"^Junos: *(\S+)|^JUNOS .*Software Suite \[(\S+)\]|^JUNOS OS libs \[(\S+)\]",
    )


def comware(text: str) -> DeviceFacts:
    """``display version`` and the ``sysname`` of Comware."""
    return _facts(
        text,
        "Comware",
        hostname=r"^ *sysname (\S+)",
        model=r"^(?:H3C|HPE?) (?!Comware)(.+?) +(?:Switch )?uptime is",
        version=r"Comware Software, +Version ([^\n]+)",
    )


def vrp(text: str) -> DeviceFacts:
    """``display version`` and the ``sysname`` of VRP."""
    return _facts(
        text,
        "VRP",
        hostname=r"^ *sysname (\S+)",
        model=r"^(?:HUAWEI|Huawei|Quidway) (.+?) (?:(?:Terabit )?Routing Switch |Router )?uptime is",
        version=r"^VRP \(R\) software, +Version (.+)$",
    )


def cumulus(text: str) -> DeviceFacts:
    """``hostname`` and ``/etc/os-release`` of Cumulus Linux."""
    return _facts(text, "Cumulus", hostname=r"\A\s*(\S+)", version=r'^VERSION="?([^"\n]+)')


def os10(text: str) -> DeviceFacts:
    """``show version`` and ``system hostname`` of OS10."""
    return _facts(
        text,
        "OS10",
        hostname=r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*\Z",
        model=r"^System Type: *(\S+)",
        version=r"^OS Version: *(\S+)",
    )


def _facts(text: str, maker: str, **patterns: str) -> DeviceFacts:
    """One of the first matches of each pattern; an answer without the maker's word is another maker's."""
    if maker not in text:
        raise ParseError(f"this is no {maker}: {text.strip()[:60]!r}")
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in patterns.items()}
    return DeviceFacts(**{name: next(g for g in match.groups() if g).strip() for name, match in found.items() if match})
