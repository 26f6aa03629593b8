"""NCCL debug logs as lines: whose they are and what they say, whatever stands before them.

NCCL writes ``host:pid:tid [cudaDev] NCCL INFO text`` (``src/debug.cc``; from 2.28 with an optional time before it).
Launchers put their own marks before that (``[1,0]<stdout>:``, ``0: ``), and lines of many ranks may be interleaved.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import Problem, SpecError

_MARK = "NCCL INFO "
_WRITER = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,254}):([0-9]{1,10}):([0-9]{1,10}) (?:\[-?[0-9]{1,4}\] )?")
_WRITER_LENGTH = 320
_LONGEST = 4096
"""NCCL's own lines are at most 1 KiB, a list of devices 2 KiB; what is longer is not a line of NCCL's."""
_VERSION = re.compile(r"\b(NCCL|RCCL) version ?:? ?([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process of the job: the logs of one host may hold several."""

    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of NCCL's."""

    source: str
    """File name, for messages."""
    number: int
    """Line in the file, from 1."""
    process: Process
    tid: int
    text: str
    """What follows ``NCCL INFO``."""


@dataclass(frozen=True, slots=True)
class VersionLine:
    """``NCCL version 2.19.3+cuda12.3``; most versions write it on rank 0 only, some without the usual prefix."""

    source: str
    number: int
    library: str
    """``NCCL``, or ``RCCL`` for AMD's."""
    version: Version


@dataclass(frozen=True, slots=True)
class LogText:
    """All lines of all files, in file order."""

    lines: tuple[Line, ...]
    versions: tuple[VersionLine, ...]


def read_logs(paths: Sequence[Path]) -> LogText:
    """Read the files; lines that are not NCCL's are passed over.

    Raises:
        SpecError: A file cannot be read, or no file holds a line of NCCL's.
    """
    lines: list[Line] = []
    versions: list[VersionLine] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                found = parse_lines(file, str(path))
        except OSError as error:
            problems.append(Problem(str(path), 0, 0, "", f"cannot be read: {error.strerror or error}"))
            continue
        lines += found.lines
        versions += found.versions
    if not problems and not lines:
        names = ", ".join(str(path) for path in paths)
        problems.append(Problem(names, 0, 0, "", "holds no line of an NCCL log", "run the job with NCCL_DEBUG=INFO"))
    if problems:
        raise SpecError(problems)
    return LogText(tuple(lines), tuple(versions))


def parse_lines(text: Iterable[str], source: str) -> LogText:
    """The lines of one file, given as its lines of text."""
    numbered = [(number, raw.rstrip("\r\n")) for number, raw in enumerate(text, start=1)]
    return LogText(tuple(_lines(numbered, source)), tuple(_versions(numbered, source)))


def _lines(numbered: Iterable[tuple[int, str]], source: str) -> Iterator[Line]:
    for number, raw in numbered:
        at = raw.find(_MARK)
        if at < 0:
            continue
        writer = _writer(raw[max(0, at - _WRITER_LENGTH) : at])
        if writer is not None:
            process, tid = writer
            yield Line(source, number, process, tid, raw[at + len(_MARK) :][:_LONGEST].strip())


def _writer(head: str) -> tuple[Process, int] | None:
    """The last ``host:pid:tid [dev] `` of what stands before the mark, if it ends there."""
    found = None
    for match in _WRITER.finditer(head):
        if match.end() == len(head):
            found = match
    return None if found is None else (Process(found[1], int(found[2])), int(found[3]))


def _versions(numbered: Iterable[tuple[int, str]], source: str) -> Iterator[VersionLine]:
    for number, raw in numbered:
        match = _VERSION.search(raw) if "CCL version" in raw else None
        if match is not None:
            yield VersionLine(source, number, match[1], (int(match[2]), int(match[3]), int(match[4])))
