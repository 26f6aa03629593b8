"""Forked processes that end with their parent, say nothing on the terminal, and leave the reason of their death."""

import ctypes
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from flowcheck_net.errors import FlowcheckError

_PR_SET_PDEATHSIG = 1
"""linux/prctl.h."""


def fork(name: str, place: Path, work: Callable[[], None]) -> int:
    """Run ``work`` in a child.

    Args:
        name: Of its files.
        place: ``NAME.log`` takes its output there, ``NAME.error`` the reason where it fails.
        work: Called there; its process ends with it.

    Returns:
        The process id.
    """
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            log = os.open(place / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            work()
            code = 0
    except BaseException:  # noqa: BLE001 - a child must never run its parent's code
        with suppress(OSError):
            (place / f"{name}.error").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(code)


def ended(children: Sequence[int]) -> bool:
    """Has one of them ended? It is not reaped."""
    ways = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return any(os.waitid(os.P_PID, child, ways) is not None for child in children)


def kill(children: Sequence[int]) -> None:
    """SIGKILL to each, then reap them."""
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)


def wait(children: Sequence[int], place: Path) -> None:
    """Until all have ended well.

    Raises:
        FlowcheckError: One failed; the others are killed.
    """
    left = list(children)
    try:
        while left:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if found is None or found.si_pid not in left:
                raise FlowcheckError("a process ended that is none of the comparison")
            os.waitpid(found.si_pid, 0)
            left.remove(found.si_pid)
            if found.si_status or found.si_code != os.CLD_EXITED:
                raise FlowcheckError(f"a process of the comparison failed: {reason(place)}")
    finally:
        kill(left)


def reason(place: Path) -> str:
    """The last line of what children left that failed."""
    errors = sorted(place.glob("*.error"), key=lambda path: path.stat().st_mtime_ns)
    told = [path.read_text(encoding="utf-8").strip().splitlines()[-1] for path in errors]
    return "; ".join(told) or f"killed from outside (its output is in {place})"
