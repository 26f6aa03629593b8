"""``ibnetdiscover`` output (infiniband-diags): one section a switch or channel adapter, one line a cabled port.

The tool walks the fabric from both ends of every link, so each cable is in two sections and both must agree. An
InfiniBand fabric is no RoCE fabric: the graph is given, and the finding ``infiniband`` says that nothing can be
planned.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.importers.cables import (
    Cable,
    Device,
    End,
    Finding,
    FindingKind,
    PortIdKind,
    Role,
    Source,
    Survey,
)
from flowcheck_net.importers.names import is_host_word
from flowcheck_net.spec.yamlpos import read_text

_SECTION = re.compile(r'(?P<kind>Switch|Ca|Rt)\s+(?P<ports>\d+)\s+"(?P<id>[^"]+)"\s*#\s*"(?P<label>[^"]*)"')
_PORT = re.compile(
    r'\[(?P<port>\d+)\](?:\([0-9a-fA-F]+\))?\s+"(?P<id>[^"]+)"\[(?P<far>\d+)\](?:\([0-9a-fA-F]+\))?(?P<rest>.*)'
)
_RATE = re.compile(r"\b(?P<lanes>[0-9]+)x(?P<rate>[SDQFEHNX]DR(?:10)?)\s*$")
_LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Nominal Gbit/s a lane, InfiniBand Architecture Specification 1.7, table of link rates."""
_UNNAMED = "hca"
"""NIC name of an adapter whose label is no name."""
_QUIET = re.compile(r"\s*(#.*)?|(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=\S+.*")
_AGGREGATION = "Aggregation Node"
_NO_NAMES = frozenset({"localhost", "ubuntu"})
"""Host names of images that were never given one of their own."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The node that the following port lines belong to."""

    kind: str
    ports: int
    guid: str
    label: str
    source: Source


def read_ibnetdiscover(paths: tuple[Path, ...]) -> Survey:
    """Read discovered fabrics. Raises SpecError where a file cannot be read as text."""
    findings: list[Finding] = []
    sections: dict[str, _Section] = {}
    lines: list[tuple[_Section, re.Match[str], Source]] = []
    for path in paths:
        strange: list[Finding] = []
        known = len(sections)
        for section, match, source in _scan(path, strange):
            sections.setdefault(section.guid, section)
            if match is not None:
                lines.append((section, match, source))
        findings += strange if len(sections) > known else []  # a file of another kind is one problem, not one a line
    placed = _places(sections)
    skipped = {guid for guid, section in sections.items() if _AGGREGATION in section.label}
    cables = [
        Cable(
            _end(placed, sections, section.guid, match["port"]),
            _end(placed, sections, match["id"], match["far"]),
            _speed(match["rest"]),
            source,
            reported_by_a=True,
        )
        for section, match, source in lines
        if section.guid not in skipped and match["id"] not in skipped
    ]
    devices = [_device(section, placed[guid]) for guid, section in sections.items() if guid not in skipped]
    findings += _remarks(sections, placed, skipped)
    files = tuple(map(str, paths))
    return Survey(
        "ibnetdiscover", "infiniband", tuple(devices), tuple(cables), files, tuple(findings), platform="infiniband"
    )


def _scan(path: Path, findings: list[Finding]) -> Iterator[tuple[_Section, re.Match[str] | None, Source]]:
    """Every section once with None, then each of its port lines."""
    section: _Section | None = None
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        source = Source(str(path), number)
        begin, port = _SECTION.match(line), _PORT.match(line)
        if begin is not None:
            section = _Section(begin["kind"], int(begin["ports"]), begin["id"], begin["label"], source)
            yield section, None, source
        elif port is not None and section is not None:
            yield section, port, source
        elif not _QUIET.fullmatch(line):
            shown = line if len(line) <= 60 else line[:57] + "..."
            findings.append(Finding(source, FindingKind.UNREADABLE, f"not a line of ibnetdiscover: {shown}"))


def _places(sections: dict[str, _Section]) -> dict[str, tuple[str, str]]:
    """GUID -> device name, and for a channel adapter its NIC name; a name that is not unique gives way to the GUID."""
    named = {guid: _by_label(section) for guid, section in sections.items()}
    count = Counter(place for place in named.values() if place is not None)
    shared = {place[0] for place, times in count.items() if times > 1}
    return {
        guid: place if place is not None and place[0] not in shared else _by_guid(sections[guid])
        for guid, place in named.items()
    }


def _by_label(section: _Section) -> tuple[str, str] | None:
    """Labels of adapters are ``host nic`` by custom of the Linux driver."""
    if section.kind == "Switch":
        return (section.label, "") if section.label else None
    words = section.label.split()
    named = len(words) == 2 and is_host_word(words[0]) and words[0].casefold() not in _NO_NAMES
    return (words[0], words[1]) if named else None


def _by_guid(section: _Section) -> tuple[str, str]:
    guid = section.guid.partition("-")[2] or section.guid
    return (f"switch-{guid}", "") if section.kind == "Switch" else (f"ca-{guid}", _UNNAMED)


def _end(placed: dict[str, tuple[str, str]], sections: dict[str, _Section], guid: str, port: str) -> End:
    if guid not in placed:
        return End(guid, port, PortIdKind.NAME)
    device, nic = placed[guid]
    if not nic:
        return End(device, port, PortIdKind.NAME)
    return End(device, nic if sections[guid].ports == 1 else f"{nic}-{port}", PortIdKind.NAME)


def _device(section: _Section, place: tuple[str, str]) -> Device:
    role = Role.SWITCH if section.kind == "Switch" else Role.HOST
    return Device(place[0], section.source, role, platform=section.label, reports=True)


def _speed(rest: str) -> str | None:
    rate = _RATE.search(rest)
    return f"{int(rate['lanes']) * _LANE_GBPS[rate['rate']]:g}G" if rate is not None else None


def _remarks(sections: dict[str, _Section], placed: dict[str, tuple[str, str]], skipped: set[str]) -> Iterator[Finding]:
    if not sections:
        return
    whole = Source(min(section.source.file for section in sections.values()))
    message = "an InfiniBand fabric: RoCE planning does not apply to it"
    yield Finding(whole, FindingKind.INFINIBAND, message, "take the graph with --json, or write it with --partial")
    if skipped:
        message = f"{len(skipped)} SHARP aggregation nodes inside the switches"
        yield Finding(whole, FindingKind.IGNORED, message)
    unnamed = [sections[guid] for guid, place in placed.items() if place[1] == _UNNAMED and guid not in skipped]
    if unnamed:
        message = f"{len(unnamed)} adapters have no host name of their own ({unnamed[0].label}): named by their GUID"
        yield Finding(unnamed[0].source, FindingKind.RENAMED, message, "give the hosts names, and discover again")
