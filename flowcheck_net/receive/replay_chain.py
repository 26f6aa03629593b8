"""Reads capture files one after another into one core: what is found, file by file, and what was counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from flowcheck_net.errors import CaptureError
from flowcheck_net.receive.capture_file import Stream, is_regular, legible, link_type_name, open_content, stem
from flowcheck_net.receive.native import Core, FileReport, FileState, Interface, Settings
from flowcheck_net.receive.records import Capture, Flow

_NO_NAMES = frozenset({"", "-"})
"""A capture that came through a pipe calls its interface "-"."""
_FOREIGN_HINT = (
    "give a pcap or pcapng file, plain, gzip or zstd; others can be converted with `editcap -F pcapng IN OUT`"
)
_FIRST_PIECE = 1 << 16


class Keeper(Protocol):
    """Where finished messages of a chain go."""

    def add(self, flow: int, rows: bytes) -> None:
        """Rows (``records_rows``) of the flow of this number."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all files of a replay have in common."""

    captures: Mapping[str, str]
    """Capture ports by file or interface name, to be used instead of what the files say."""
    settings: Settings | None
    watch: Callable[[int], None]
    """Called with the number of bytes of capture files that were read since the last call."""
    stop: Event = field(default_factory=Event)
    """Set when another chain failed: nothing more is wanted."""


class Stopped(Exception):
    """Another chain failed."""


@dataclass(slots=True)
class FileFindings:
    """What is known of one file."""

    path: Path
    fatal: str = ""
    """Why nothing of it can be used."""
    hint: str = ""
    incomplete: str = ""
    """Why only a part of it is used."""
    warnings: list[str] = field(default_factory=list)
    interfaces: tuple[Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """Files that were counted together."""

    files: tuple[FileFindings, ...]
    captures: tuple[Capture, ...]
    flows: tuple[Flow, ...]
    """By number. Their messages are with the keeper."""


def count(number: int, what: str) -> str:
    """Such as ``1 packet``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def read_chain(paths: Sequence[Path], job: Job, keeper: Keeper) -> Chain:
    """Count the packets of files in this order; what is wrong with them is in the findings."""
    with Core(job.settings) as core:
        files = tuple(read_into(core, path, job, keeper) for path in paths)
        if len(files) > 1:
            _tell_order(files, job)
        if any(found.fatal for found in files):
            return Chain(files, (), ())
        return Chain(files, core.captures(), core.flows(keeper.add))


def _glance(path: Path, job: Job) -> dict[str, int]:
    """The capture ports that a file names before its first packet, and the time of that; 0: of another port, or none.

    Empty where the file cannot be read.
    """
    found: dict[str, int] = {}

    def note(interface: str) -> str:
        name = _port_name(path, interface, job.captures)
        found[name] = 0
        return name

    def enough(_: int) -> None:
        raise Stopped

    with Core(packets_a_call=1) as core:
        try:
            with open_content(path, _FIRST_PIECE) as content:
                core.read(content, note, enough)
        except (CaptureError, Stopped):
            pass
        return found | {capture.name: capture.first_time for capture in core.captures()}


def _tell_order(files: Sequence[FileFindings], job: Job) -> None:
    """Warn of files that should have come before others of the same port."""
    latest: dict[str, tuple[int, Path]] = {}
    for file in files:
        for port, time in _glance(file.path, job).items() if is_regular(file.path) else ():
            begun, other = latest.setdefault(port, (time, file.path))
            if time and time < begun:
                file.warnings.append(
                    f"{file.path} begins before {other}, which was given first: files of one port ({port}) are counted "
                    "in the order given, which should be that of time"
                )
            elif time:
                latest[port] = time, file.path


def chains_of(paths: Sequence[Path], job: Job) -> list[list[int]]:
    """The files, by number, in groups that share no capture port, so that each can be counted apart. Order is kept.

    A pipe can be opened only once, so that nobody can look into it beforehand: then all is one chain.
    """
    if len(paths) < 2 or not all(map(is_regular, paths)):
        return [list(range(len(paths)))]
    chains: list[tuple[set[str], list[int]]] = []
    for number, path in enumerate(paths):
        ports, numbers = set(_glance(path, job)), [number]
        for known in [chain for chain in chains if chain[0] & ports]:
            chains.remove(known)
            ports |= known[0]
            numbers += known[1]
        chains.append((ports, sorted(numbers)))
    return sorted(numbers for _, numbers in chains)


def _port_name(path: Path, interface: str, captures: Mapping[str, str]) -> str:
    """The capture port of an interface: as asked for by file or interface name, else its own name, else the file's."""
    own = stem(path) if interface in _NO_NAMES else interface
    return legible(captures.get(str(path)) or captures.get(own) or own)


def read_into(core: Core, path: Path, job: Job, keeper: Keeper) -> FileFindings:
    """Count the packets of one file."""
    findings = FileFindings(path)
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        job.watch(done - told)
        told = done

    def pause(done: int) -> None:
        if job.stop.is_set():
            raise Stopped
        core.take(keeper.add)
        tell(content.taken() if isinstance(content, Stream) else done)

    try:
        with open_content(path) as content:
            report = core.read(content, lambda interface: _port_name(path, interface, job.captures), pause)
            core.take(keeper.add)
            tell(content.taken() if isinstance(content, Stream) else report.offset)
    except CaptureError as error:
        findings.fatal, findings.hint = error.message, error.hint
        return findings
    _judge(findings, content, report)
    _note_interfaces(findings, report)
    if report.packets == 0 and report.state is FileState.WHOLE:
        findings.warnings.append(f"{path}: a capture file without any packet")
    return findings


def _judge(findings: FileFindings, content: Path | Stream, report: FileReport) -> None:
    """Sort what a report says into fatal faults, partial files and nothing."""
    compressed = isinstance(content, Stream) and content.compression
    fault = content.fault if isinstance(content, Stream) else ""
    inside = " (offset in the uncompressed data)" if compressed else ""
    if report.state is FileState.EMPTY and not fault:
        findings.fatal = f"{findings.path}: the file is empty (0 bytes)"
    elif report.state is FileState.FOREIGN:
        findings.fatal = f"{findings.path}: not a capture file: it begins like neither pcap nor pcapng"
        records = Path(findings.path).suffix == ".fcr"
        findings.hint = f"`flowcheck-net records show {findings.path}` shows records" if records else _FOREIGN_HINT
    elif report.state in (FileState.TRUNCATED, FileState.CORRUPT):
        word = "truncated" if report.state is FileState.TRUNCATED else "corrupt"
        _partial(findings, f"{word} at byte {report.offset:,} of {report.size:,}{inside}: {report.reason}", report)
    elif fault:
        _partial(findings, f"truncated: {fault}, after {count(report.size, 'byte')} of data", report)


def _partial(findings: FileFindings, place: str, report: FileReport) -> None:
    if report.packets == 0:
        findings.fatal = f"{findings.path}: {place}; no whole packet before it"
    else:
        packets = count(report.packets, "whole packet")
        findings.incomplete = f"{findings.path}: {place}; {packets} before it used"


def _note_interfaces(findings: FileFindings, report: FileReport) -> None:
    findings.interfaces = report.interfaces
    for interface in report.interfaces:
        if interface.link_type != 1 and interface.packets:
            packets, kind = count(interface.packets, "packet"), link_type_name(interface.link_type)
            findings.warnings.append(
                f"{findings.path}: {packets} of link type {kind} counted, not parsed: not Ethernet"
            )
