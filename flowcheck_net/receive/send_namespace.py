"""Another network namespace, entered by the calling thread for as long as it takes to open sockets there."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.errors import SendError

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_NAMED = Path("/run/netns")
_OWN = Path("/proc/thread-self/ns/net")
_RIGHT_HINT = "entering a namespace needs root (CAP_SYS_ADMIN)"


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What is opened in this block belongs to the namespace, also after the block.

    Args:
        namespace: a name of ``ip netns``, or a path such as /proc/PID/ns/net; empty: where the thread is already.

    Raises:
        SendError: there is no such namespace, or it may not be entered.
    """
    if not namespace:
        yield
        return
    with _OWN.open("rb") as own:
        _go_into(namespace)
        try:
            yield
        finally:
            _enter(own.fileno())


def _go_into(namespace: str) -> None:
    path = Path(namespace) if namespace.startswith("/") else _NAMED / namespace
    try:
        with path.open("rb") as other:
            _enter(other.fileno())
    except OSError as error:
        hint = _RIGHT_HINT if error.errno in (errno.EPERM, errno.EACCES) else "ip netns shows those that have a name"
        raise SendError(
            f"{namespace}: no network namespace that can be entered: {error.strerror}", hint=hint
        ) from error


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
