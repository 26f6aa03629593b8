"""Processes told apart for good: a number is given out again, a number with its start is not."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 5.0
"""Seconds until a process that was asked to end is killed, and until a killed one must be gone."""
_STATE, _START = 0, 19
"""Fields of /proc/PID/stat behind the name (proc(5) counts them as the 3rd and the 22nd)."""


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process that was started."""

    pid: int
    started: int
    """Clock ticks since the boot."""

    @property
    def alive(self) -> bool:
        """Does it still run? A zombie does not."""
        fields = _fields(self.pid)
        return fields is not None and int(fields[_START]) == self.started and fields[_STATE] not in "ZX"

    @property
    def namespace(self) -> str:
        """Path of its network namespace."""
        return f"/proc/{self.pid}/ns/net"

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone. No other process can get it: the descriptor was opened before the look."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it: by this signal, and by SIGKILL where that does not help."""
        for each in (number, signal.SIGKILL):
            self.tell(each)
            if self.wait(_PATIENCE):
                return

    def wait(self, seconds: float) -> bool:
        """Is it gone within so many seconds?"""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True


def process_of(pid: int) -> Process:
    """The process that has this number now; ProcessLookupError if none has."""
    fields = _fields(pid)
    if fields is None:
        raise ProcessLookupError(pid)
    return Process(pid, int(fields[_START]))


def _fields(pid: int) -> list[str] | None:
    """What follows the name in /proc/PID/stat; the name may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
