"""Work, and packet sockets, in another network namespace."""

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000
Result = TypeVar("Result")


def within(namespace: str, work: Callable[[], Result]) -> Result:
    """Do ``work`` in the namespace at this path: a thread moves there, and a socket stays where it was made."""
    found: list[Result] = []
    faults: list[BaseException] = []

    def body() -> None:
        try:
            with Path(namespace).open("rb") as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            faults.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return found[0]


def packet_socket(namespace: str, interface: str, *, receiving: bool = True) -> socket.socket:
    """A raw socket on an interface there, with room for a burst."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3) if receiving else 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        made.bind((interface, 0))
        return made

    return within(namespace, make)
