"""Where capture bytes come from: a mapped file, or pieces of gzip, zstd or a pipe. The C core does the parsing."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from flowcheck_net.errors import CaptureError

STDIN = Path("-")
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""Behind a first byte of 0x50 to 0x5f: a frame to be skipped, with which files of ``pzstd`` begin (RFC 8878, 3.1.2)."""
_PIECE = 1 << 22
"""Bytes handed to the parser at once."""
_GULP = 1 << 13
"""Compressed bytes unpacked at once: zstd makes up to 32,000 times as many of them."""
_ZSTD_WINDOW = 1 << 27
"""The largest memory that a zstd file may ask for; `zstd --long=27` and below."""
_SUFFIXES = frozenset({".gz", ".zst", ".pcap", ".pcapng", ".cap", ".ntar"})

# LINKTYPE registry of tcpdump.org, the ones that are met on servers and switches.
_LINK_TYPES = {
    0: "NULL",
    1: "ETHERNET",
    101: "RAW",
    105: "IEEE802_11",
    113: "LINUX_SLL",
    220: "USB_LINUX_MMAPPED",
    228: "IPV4",
    229: "IPV6",
    239: "NFLOG",
    247: "INFINIBAND",
    249: "USBPCAP",
    253: "NETLINK",
    276: "LINUX_SLL2",
}


@dataclass(slots=True)
class Stream:
    """A file that comes in pieces."""

    pieces: Iterator[bytes]
    compression: str = ""
    """``gzip`` or ``zstd``; empty: none."""
    fault: str = ""
    """After the last piece: why a compressed stream ends early. Empty: it does not."""
    taken: Callable[[], int] = field(default=lambda: 0)
    """Bytes of the file used so far."""


@dataclass(frozen=True, slots=True)
class Content:
    """All of a file, for whoever reads it more than once."""

    source: Path | bytes
    """A regular file that can be mapped, or the bytes themselves."""
    cut: bool = False
    """The compressed stream ends early or is damaged: ``source`` is what came before."""


def link_type_name(number: int) -> str:
    """Such as ``LINUX_SLL (113)``."""
    return f"{_LINK_TYPES[number]} ({number})" if number in _LINK_TYPES else str(number)


def stem(path: Path) -> str:
    """The file's name without directory, ``.gz`` and ``.pcap`` or ``.pcapng``: the name of a port that has none."""
    if path == STDIN:
        return "stdin"
    while path.suffix.lower() in _SUFFIXES and path.stem:
        path = path.with_suffix("")
    return path.name or "capture"


def legible(text: str) -> str:
    """``text`` without what could steer a terminal: names of files and interfaces come from strangers."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _unpacked(stream: Stream, file: "_Source", opened: Callable[[], "_Member"], least: int) -> Iterator[bytes]:
    """All members of a compressed file, as far as they are whole, in pieces of a bounded size."""
    held: list[bytes] = []
    size = 0
    member, rest = opened(), file.read(_GULP)
    while rest and not member.fault:
        if member.ended:
            rest = rest.lstrip(b"\0")  # padding to a block size is allowed
            member = opened() if rest else member
        if rest:
            made, rest = member.unpack(rest)
            held.append(made)
            size += len(made)
        if size >= least:
            yield b"".join(held)
            held, size = [], 0
        rest = rest or file.read(_GULP)
    yield b"".join(held)
    if member.fault or not member.ended:
        stream.fault = member.fault or f"the {stream.compression} stream ends early"


class _Member:
    """One gzip member."""

    def __init__(self) -> None:
        import zlib

        self._inflate = zlib.decompressobj(wbits=31)
        self._error: type[Exception] = zlib.error
        self.fault = ""
        self.ended = False

    def unpack(self, data: bytes) -> tuple[bytes, bytes]:
        """What is in ``data``, and what of it is left to be unpacked."""
        try:
            made = self._inflate.decompress(data)
        except self._error as error:
            self.fault = f"the gzip stream is damaged ({error})"
            return b"", b""
        self.ended = self._inflate.eof
        return made, self._inflate.unused_data


class _ZstdFrame(_Member):
    """One zstd frame."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        self._error = zstandard.ZstdError
        self.fault = ""
        self.ended = False

    def unpack(self, data: bytes) -> tuple[bytes, bytes]:
        """What is in ``data``, and what of it is left to be unpacked."""
        try:
            made = self._frame.decompress(data)
        except self._error as error:
            self.fault = f"the zstd stream cannot be unpacked any further ({error})"
            return b"", b""
        self.ended = self._frame.eof
        return made, self._frame.unused_data


class _Source:
    """A file whose first bytes were looked at, and which counts what is taken."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._again = b""
        self.taken = 0
        self.first = self._again = self.read(4)
        self.taken = 0

    def read(self, size: int) -> bytes:
        """``size`` bytes; fewer only at the end."""
        parts = [self._again]
        got, self._again = len(self._again), b""
        try:
            while got < size and (part := self._file.read(size - got)):
                parts.append(part)
                got += len(part)
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self.taken += got
        return b"".join(parts)


def _unreadable(path: Path, error: OSError) -> CaptureError:
    return CaptureError(f"{path}: {error.strerror}", hint="check the name of the file and who may read it")


def _plain(source: _Source, size: int) -> Iterator[bytes]:
    while piece := source.read(size):
        yield piece


def _is_zstd(first: bytes) -> bool:
    return first == _ZSTD_MAGIC or (first[1:] == _ZSTD_SKIPPABLE and first[0] >> 4 == 5)


def _stream(source: _Source, piece: int) -> Stream:
    stream = Stream(iter(()), taken=lambda: source.taken)
    if source.first[:2] == _GZIP_MAGIC:
        stream.compression = "gzip"
        stream.pieces = _unpacked(stream, source, _Member, piece)
    elif _is_zstd(source.first):
        stream.compression = "zstd"
        stream.pieces = _unpacked(stream, source, _ZstdFrame, piece)
    else:
        stream.pieces = _plain(source, piece)
    return stream


def is_regular(path: Path) -> bool:
    """Is it a file that may be opened more than once?"""
    try:
        return path != STDIN and path.is_file()
    except OSError:  # a directory on the way may not be entered: whoever opens it tells
        return False


@contextmanager
def open_content(path: Path, piece: int = _PIECE) -> Iterator[Path | Stream]:
    """How a file is to be read: as the path of one that can be mapped, or as a stream.

    Args:
        path: a file, plain, gzip or zstd; ``-`` is standard input.
        piece: bytes of a stream to be handed out at once, about.

    Raises:
        CaptureError: it does not exist or cannot be read.
    """
    if path == STDIN:
        yield _stream(_Source(path, sys.stdin.buffer), piece)
        return
    try:
        file = path.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        source = _Source(path, cast(BinaryIO, file))
        stream = _stream(source, piece)
        yield stream if stream.compression or not stat.S_ISREG(os.fstat(file.fileno()).st_mode) else path


def whole_content(path: Path) -> Content:
    """All of a file, in memory where it cannot be mapped; raises CaptureError."""
    with open_content(path) as opened:
        if isinstance(opened, Path):
            return Content(opened)
        data = b"".join(opened.pieces)
        return Content(data, cut=bool(opened.fault))
