"""Capture files to records: every packet counted, every fault of a file named with its place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flowcheck_net.errors import CaptureError
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.capture_file import Content, legible, link_type_name, open_content, stem
from flowcheck_net.receive.native import Core, FileReport, FileState, Settings
from flowcheck_net.receive.records import Records

_NO_NAMES = frozenset({"", "-"})
"""A capture that came through a pipe calls its interface "-"."""
_FOREIGN_HINT = "give a pcap or pcapng file, plain or gzip; others can be converted with `editcap -F pcapng IN OUT`"


class CaptureIncomplete(CaptureError):
    """A file is cut off or damaged. What was read before that point is in ``records``."""

    def __init__(self, message: str, records: Records, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.records = records


@dataclass(slots=True)
class _Findings:
    """What is known about the files read so far."""

    fatal: list[str] = field(default_factory=list)
    """Files of which nothing can be used."""
    incomplete: list[str] = field(default_factory=list)
    """Files of which a part is used."""
    warnings: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    drops: dict[CapturePort, int | None] = field(default_factory=dict)
    origins: dict[CapturePort, list[str]] = field(default_factory=dict)
    """By capture port: the files it comes from."""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _judge(path: Path, content: Content, report: FileReport, findings: _Findings) -> None:
    """Sort what a report says into fatal faults, partial files and nothing."""
    inside = " (offset in the uncompressed data)" if content.compressed else ""
    if report.state is FileState.EMPTY and not content.cut:
        findings.fatal.append(f"{path}: the file is empty (0 bytes)")
    elif report.state is FileState.FOREIGN:
        findings.fatal.append(f"{path}: not a capture file: it begins like neither pcap nor pcapng")
        findings.hints.append(_FOREIGN_HINT)
    elif report.state in (FileState.TRUNCATED, FileState.CORRUPT):
        word = "truncated" if report.state is FileState.TRUNCATED else "corrupt"
        place = f"{word} at byte {report.offset:,} of {report.size:,}{inside}: {report.reason}"
        _partial(path, place, report, findings)
    elif content.cut:
        place = f"truncated: the gzip stream ends early, after {_count(report.size, 'byte')} of data"
        _partial(path, place, report, findings)


def _partial(path: Path, place: str, report: FileReport, findings: _Findings) -> None:
    if report.packets == 0:
        findings.fatal.append(f"{path}: {place}; no whole packet before it")
    else:
        findings.incomplete.append(f"{path}: {place}; {_count(report.packets, 'whole packet')} before it used")


def _note_interfaces(path: Path, report: FileReport, findings: _Findings) -> None:
    for interface in report.interfaces:
        name = interface.capture
        if interface.link_type != 1 and interface.packets:
            kind = link_type_name(interface.link_type)
            findings.warnings.append(
                f"{path}: {_count(interface.packets, 'packet')} of link type {kind} counted, not parsed: not Ethernet"
            )
        before = findings.drops.get(name, 0)
        findings.drops[name] = None if before is None or interface.drops is None else before + interface.drops
        origins = findings.origins.setdefault(name, [])
        if str(path) not in origins:
            origins.append(str(path))


def _port_name(path: Path, interface: str, captures: Mapping[str, str]) -> str:
    """The capture port of an interface: as asked for by file or interface name, else its own name, else the file's."""
    own = stem(path) if interface in _NO_NAMES else interface
    return legible(captures.get(str(path)) or captures.get(own) or own)


def _read(core: Core, path: Path, captures: Mapping[str, str], findings: _Findings) -> None:
    try:
        content = open_content(path)
        report = core.read(content.source, lambda interface: _port_name(path, interface, captures))
    except CaptureError as error:
        findings.fatal.append(error.message)
        findings.hints.append(error.hint)
        return
    _judge(path, content, report, findings)
    _note_interfaces(path, report, findings)
    if report.packets == 0 and report.state is FileState.WHOLE:
        findings.warnings.append(f"{path}: a capture file without any packet")


def _merged_ports(findings: _Findings) -> list[str]:
    return [
        f"capture port {name} comes from {len(files)} files ({', '.join(files)}) and is counted as one: "
        "if they were taken at different places, name them with --capture NAME=FILE"
        for name, files in findings.origins.items()
        if len(files) > 1
    ]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(map(legible, texts))


def replay(
    paths: Sequence[Path], *, captures: Mapping[str, str] | None = None, settings: Settings | None = None
) -> Records:
    """Count the packets of capture files as a receiver would have.

    A capture port is called as the file calls its interface (pcapng), else as the file without its suffixes.

    Args:
        paths: pcap or pcapng files in order of time, plain or gzip; ``-`` is standard input.
        captures: capture ports by file (as in ``paths``) or interface name, to be used instead.
        settings: how to read packets; None: as usual.

    Raises:
        CaptureIncomplete: a file is cut off or damaged; the records of all that is whole are in the error.
        CaptureError: a file is missing, empty or no capture file, or no file holds a packet. Names every such file.
    """
    findings = _Findings()
    with Core(settings) as core:
        for path in paths:
            _read(core, path, captures or {}, findings)
        if findings.fatal:
            raise CaptureError(_lines(findings.fatal), hint=next(filter(None, findings.hints), ""))
        ports = core.captures()
        if not any(port.packets for port in ports):
            raise CaptureError(
                _lines(findings.warnings) or "no capture file given",
                hint="was the mirror session up, and was the capture running on the right interface?",
            )
        records = Records(
            sources=tuple(legible(str(path)) for path in paths),
            warnings=tuple(map(legible, (*findings.incomplete, *findings.warnings, *_merged_ports(findings)))),
            captures=tuple(replace(port, dropped=findings.drops.get(port.name)) for port in ports),
            flows=core.flows(),
        )
    if findings.incomplete:
        raise CaptureIncomplete(
            _lines(findings.incomplete),
            records,
            hint="the records hold what is whole; copy the file again",
        )
    return records
