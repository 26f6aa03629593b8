"""A pcapng writer: Ethernet interfaces, nanosecond stamps, interface statistics at the end.

Format: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet, interface statistics blocks).
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_FLUSH_BYTES = 1 << 20
_PACKET_HEAD = struct.Struct("<7I")
_TRAILERS = tuple(bytes(pad) for pad in range(4))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def section_block(application: str) -> bytes:
    """The section header block that opens a file."""
    fixed = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    return _block(0x0A0D0D0A, fixed + _option(4, application.encode()) + _option(0, b""))


def interface_block(name: str) -> bytes:
    """An interface description: Ethernet, no snapshot limit, nanoseconds."""
    fixed = struct.pack("<HHI", 1, 0, 0)
    return _block(1, fixed + _option(2, name.encode()) + _option(9, b"\x09") + _option(0, b""))


def packet_block(interface: int, time_ns: int, frame: bytes) -> bytes:
    """An enhanced packet block of an uncut frame."""
    size = len(frame)
    padding = -size & 3
    total = size + padding + 32
    head = _PACKET_HEAD.pack(6, total, interface, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size)
    return b"".join((head, frame, _TRAILERS[padding], total.to_bytes(4, "little")))


def statistics_block(interface: int, first_ns: int, last_ns: int, received: int, dropped: int) -> bytes:
    """An interface statistics block: start, end, packets received and dropped."""

    def stamp(time_ns: int) -> bytes:
        return struct.pack("<II", time_ns >> 32, time_ns & 0xFFFFFFFF)

    options = _option(2, stamp(first_ns)) + _option(3, stamp(last_ns))
    options += _option(4, struct.pack("<Q", received)) + _option(5, struct.pack("<Q", dropped)) + _option(0, b"")
    return _block(5, struct.pack("<I", interface) + stamp(last_ns) + options)


class PcapngWriter:
    """Streams packets into a file that gets its name only when it is whole.

    Use as a context manager; after an exception the unfinished file is removed and a former one is left as it was.
    Memory: about 1 MiB.
    """

    def __init__(self, path: Path, interfaces: Sequence[str], application: str) -> None:
        """Open ``path`` for writing, with one interface for each name; raises OSError."""
        self._path = path
        self._partial = path.with_name(path.name + ".part")
        self._pending = [section_block(application), *(interface_block(name) for name in interfaces)]
        self._pending_bytes = 0
        self._first = [0] * len(interfaces)
        self._last = [0] * len(interfaces)
        self.written = [0] * len(interfaces)
        """Packets written to each interface."""

    def __enter__(self) -> Self:
        self._file = self._partial.open("wb", buffering=0)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._file.close()
            if kind is None:
                self._partial.replace(self._path)
            else:
                self._partial.unlink()

    def write(self, interface: int, time_ns: int, frame: bytes) -> None:
        """Add one packet; stamps of one interface should not go back."""
        if not self.written[interface]:
            self._first[interface] = time_ns
        self._last[interface] = time_ns
        self.written[interface] += 1
        self._pending.append(packet_block(interface, time_ns, frame))
        self._pending_bytes += len(frame)
        if self._pending_bytes > _FLUSH_BYTES:
            self._flush()

    def statistics(self, interface: int, dropped: int) -> None:
        """Say how many packets the interface received and dropped: the last word of an interface."""
        received = self.written[interface] + dropped
        block = statistics_block(interface, self._first[interface], self._last[interface], received, dropped)
        self._pending.append(block)

    def _flush(self) -> None:
        data = memoryview(b"".join(self._pending))
        while data:
            data = data[self._file.write(data) :]
        self._pending = []
        self._pending_bytes = 0
