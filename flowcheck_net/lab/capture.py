"""A small capture process, ``python -m flowcheck_net.lab.capture FILE NAME=INTERFACE ...``: packet sockets to pcapng.

When it is killed, what it has written are whole packets, but for the last one perhaps. On SIGTERM it takes what still
waits, and writes how many packets the kernel dropped, as the last word of each interface.
"""

import errno
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from flowcheck_net.receive.pcapng_write import interface_block, packet_block, section_block, statistics_block

_ETH_P_ALL, _SOL_PACKET, _PACKET_STATISTICS, _PACKET_IGNORE_OUTGOING, _SO_RCVBUFFORCE = 3, 263, 6, 23, 33
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("qq")
_BUFFER = 64 << 20
_FLUSH = 1 << 18
_IDLE = 0.05


class _Port:
    """One interface."""

    def __init__(self, number: int, interface: str) -> None:
        self.number = number
        self.first = self.last = self.received = 0
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self.socket.setblocking(False)
        self.socket.bind((interface, _ETH_P_ALL))

    def take(self, most: int = 256) -> bytes:
        """What waits, as blocks of the file; at most so many packets."""
        blocks: list[bytes] = []
        while len(blocks) < most:
            try:
                frame, ancillary, _, _ = self.socket.recvmsg(1 << 16, 64)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENETDOWN:
                    raise
                continue  # said once when the link goes down; it is heard again when it is up
            seconds, nanoseconds = _STAMP.unpack(ancillary[0][2][: _STAMP.size])
            self.last = seconds * 10**9 + nanoseconds
            self.first = self.first or self.last
            self.received += 1
            blocks.append(packet_block(self.number, self.last, frame))
        return b"".join(blocks)

    def statistics(self) -> bytes:
        """The last word: what the kernel dropped counts as received too."""
        _, dropped = struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        return statistics_block(self.number, self.first, self.last, self.received + dropped, dropped)


def main(words: Sequence[str]) -> None:
    """Capture until SIGTERM. The file appears when all interfaces are open."""
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = Path(words[0])
    named = [word.rpartition("=") for word in words[1:]]
    ports = [_Port(number, interface) for number, (_, _, interface) in enumerate(named)]
    part = path.with_name(path.name + ".part")
    with part.open("wb", buffering=0) as file, selectors.DefaultSelector() as waiting:
        file.write(b"".join([section_block("flowcheck-net lab"), *(interface_block(name) for name, _, _ in named)]))
        part.rename(path)
        for port in ports:
            waiting.register(port.socket, selectors.EVENT_READ, port)
        pending, flushed = bytearray(), time.monotonic()
        while True:
            taken = b"".join(key.data.take() for key, _ in waiting.select(_IDLE))
            pending += taken
            if pending and (not taken or len(pending) > _FLUSH or time.monotonic() - flushed > _IDLE):
                file.write(pending)
                pending, flushed = bytearray(), time.monotonic()
            if ending and not taken:
                break
        file.write(b"".join(port.statistics() for port in ports))


if __name__ == "__main__":
    main(sys.argv[1:])
