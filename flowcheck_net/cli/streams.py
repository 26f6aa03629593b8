"""Standard output and error that may fail: the command still does its work to the end, and the fault is told once.

A pipe that its reader closed (``| head -1``) is no fault: what is left to say is dropped, and the exit code stays that
of the command. So a cut pager never leaves an apply half done. Any other fault, such as a full disk, is one line of
error.
"""

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO


class Tolerant(io.RawIOBase):
    """Writes to a file descriptor; after the first fault it drops everything and remembers why."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.fault: OSError | None = None

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The descriptor, so that a terminal is known as one."""
        return self._descriptor

    def isatty(self) -> bool:
        """Is it a terminal?"""
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        """Write what can be written."""
        if self.fault is None:
            try:
                return os.write(self._descriptor, data)
            except OSError as fault:
                self.fault = fault
        return len(data)

    @property
    def lost(self) -> str:
        """Why output is lost that somebody wanted; empty: none is."""
        if self.fault is None or self.fault.errno == errno.EPIPE:
            return ""
        return self.fault.strerror or str(self.fault)


def make_tolerant() -> Tolerant | None:
    """Replace ``sys.stdout`` and ``sys.stderr``; returns what stands under standard output.

    None where the shell has closed it (then nothing is printed), or a caller in Python has put another in its place.
    """
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr = _over(Tolerant(sys.stderr.fileno()), sys.stderr)
    if sys.stdout is None:  # closed by the shell (``>&-``); mypy does not know that it may be
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if not isinstance(sys.stdout, io.TextIOWrapper) or sys.stdout is not sys.__stdout__:
        return None
    raw = Tolerant(sys.stdout.fileno())
    sys.stdout = _over(raw, sys.stdout)
    return raw


def _over(raw: Tolerant, stream: io.TextIOWrapper) -> TextIO:
    """Text over ``raw``, in the manner of ``stream``."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
