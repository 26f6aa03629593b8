"""What goes wrong inside the node's process, armed there before it begins: no code of the product has a hook for it."""

import errno
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from flowcheck_net.checkpoint.accept.draw import Disk

MEMORY_FILES = ("/checkpoint/shard.py", "/checkpoint/arithmetic.py", "/checkpoint/state.py")
"""Where the replica's memory is changed."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an undisturbed life of the node does."""

    calls: int
    """Of functions, of Python or C."""
    memory: int
    """Those from the code that changes the replica's memory."""
    syncs: int
    """Calls of fsync."""


def kill_after(calls: int, *, memory: bool) -> None:
    """End this process by SIGKILL when it has called so many functions; ``memory``: from ``MEMORY_FILES`` alone."""
    left = calls

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event in ("call", "c_call") and (not memory or frame.f_code.co_filename.endswith(MEMORY_FILES)):
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def count(report: Path) -> Callable[[], None]:
    """Arm a life that writes again and again what it has done (``Work``)."""

    def arm() -> None:
        calls = memory = syncs = 0
        genuine = os.fsync

        def fsync(descriptor: int) -> None:
            nonlocal syncs
            syncs += 1
            genuine(descriptor)

        def counted(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls, memory
            if event in ("call", "c_call"):
                calls += 1
                memory += frame.f_code.co_filename.endswith(MEMORY_FILES)
            if event == "c_call" and calls % 256 == 0:
                sys.setprofile(None)
                report.write_text(f"{calls} {memory} {syncs}", encoding="utf-8")
                sys.setprofile(counted)

        os.fsync = fsync  # type: ignore[assignment]
        sys.setprofile(counted)

    return arm


def fail_fsync(after: int, tell: Callable[[], None]) -> None:
    """Every fsync after the first ``after`` ones fails, as on a disk that went away; ``tell`` is called first."""
    genuine, left = os.fsync, after

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            tell()
        if left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        genuine(descriptor)

    os.fsync = fsync  # type: ignore[assignment]


def fill_disk(size: int) -> None:
    """No file of this process can become larger than ``size`` bytes: the kernel refuses the write (EFBIG)."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def damage(files: tuple[Path, ...], how: Disk, own: random.Random) -> str:
    """Damage one file of a published checkpoint; says which."""
    path = own.choice([file for file in files if file.stat().st_size])
    data = path.read_bytes()
    if how is Disk.REMOVED:
        path.unlink()
    elif how is Disk.TORN:
        path.write_bytes(data[: own.randrange(len(data))])
    else:
        at = own.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << own.randrange(8)]) + data[at + 1 :])
    return path.name
