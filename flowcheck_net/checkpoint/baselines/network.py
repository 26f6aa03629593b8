"""Bytes that came over this process's TCP connections, by the kernel's own count."""

import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

_RECEIVED_AT = 128
"""``tcpi_bytes_received`` in ``struct tcp_info`` (linux/tcp.h): 8 bytes, 24 u32, 3 u64 stand before it."""


def received() -> int:
    """Sum over all connections that are open now."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            with socket.fromfd(int(entry.name), socket.AF_INET, socket.SOCK_STREAM) as link:
                # AF_INET6 and AF_UNIX refuse or answer alike: the protocol level decides
                told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + 8)
            total += struct.unpack_from("=Q", told, _RECEIVED_AT)[0]
    return total
