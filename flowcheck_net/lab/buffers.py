"""The receive buffers of a switch's ports, where Open vSwitch loses packets that it counts nowhere.

Its userspace datapath reads each port through a packet socket of the kernel's default size, which holds a few hundred
frames. Every such socket is borrowed (pidfd_getfd) and made larger, so that nothing of the machine need be changed; the
same way the kernel tells how many frames did not fit.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from flowcheck_net.errors import LabError
from flowcheck_net.lab.processes import Process

_PIDFD_GETFD = 438  # asm-generic/unistd.h
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_BYTES = 32 << 20
"""Lossless to 100 000 packets/s with 32 MiB (``domain/parts.md`` 3.7)."""


def enlarge(process: Process) -> int:
    """Make the buffers of all packet sockets of a process large; how many there were."""
    count = 0
    for port in _packet_sockets(process):
        port.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BYTES)
        count += 1
    return count


def dropped(process: Process) -> int:
    """Frames that did not fit into the packet sockets of a process since this was asked last."""
    total = 0
    for port in _packet_sockets(process):
        _, drops = struct.unpack("II", port.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        total += drops
    return total


def _packet_sockets(process: Process) -> Iterator[socket.socket]:
    libc = ctypes.CDLL(None, use_errno=True)
    owner = os.pidfd_open(process.pid)
    try:
        for entry in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                number = libc.syscall(_PIDFD_GETFD, owner, int(entry.name), 0)
                if number < 0:
                    reason = os.strerror(ctypes.get_errno())
                    raise LabError(
                        f"the sockets of process {process.pid} cannot be borrowed: {reason}",
                        hint="a lab needs root with CAP_SYS_PTRACE and Linux 5.6",
                    )
                with closing(socket.socket(fileno=number)) as borrowed:
                    if borrowed.family == socket.AF_PACKET:
                        yield borrowed
    finally:
        os.close(owner)
