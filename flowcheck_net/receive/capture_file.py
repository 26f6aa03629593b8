"""Where capture bytes come from: a mapped file, gzip, standard input. The C core does the parsing."""

import os
import stat
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import CaptureError

STDIN = Path("-")
_GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20
_SUFFIXES = frozenset({".gz", ".pcap", ".pcapng", ".cap", ".ntar"})

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


@dataclass(frozen=True, slots=True)
class Content:
    """What is to be parsed."""

    source: Path | bytes
    """A regular file that can be mapped, or the bytes themselves."""
    compressed: bool = False
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


def _gunzip(data: bytes) -> Content:
    """All members of a gzip file, as far as they are whole."""
    pieces: list[bytes] = []
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            pieces.append(member.decompress(data))
        except zlib.error:
            return Content(b"".join(pieces), compressed=True, cut=True)
        if not member.eof:
            return Content(b"".join(pieces), compressed=True, cut=True)
        data = member.unused_data.lstrip(b"\0")  # padding to a block size is allowed
    return Content(b"".join(pieces), compressed=True)


def open_content(path: Path) -> Content:
    """Find out how a file is to be read.

    Args:
        path: a file, plain or gzip; ``-`` is standard input. A pipe is read to its end.

    Raises:
        CaptureError: it does not exist or cannot be read.
    """
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read()
        else:
            with path.open("rb") as file:
                regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                if regular and file.read(2) != _GZIP_MAGIC:
                    return Content(path)
                if regular:
                    file.seek(0)
                data = file.read()
    except OSError as error:
        raise CaptureError(
            f"{path}: {error.strerror}", hint="check the name of the file and who may read it"
        ) from error
    return _gunzip(data) if data.startswith(_GZIP_MAGIC) else Content(data)
