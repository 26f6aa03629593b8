"""Capture files cut between two records, as tcpdump -C and editcap cut them; shares no code with the reader in C."""

import gzip
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_SECTION, _PACKETS = 0x0A0D0D0A, (2, 3, 6)


@dataclass(frozen=True)
class Sliced:
    """A little-endian capture file in parts."""

    head: bytes
    """What every file of a series begins with."""
    records: tuple[bytes, ...]
    """Packet records or blocks, and in pcapng what stands between them."""
    suffix: str

    def packets(self, first: int, last: int) -> int:
        """How many packets there are among these records."""
        return sum(
            self.suffix == ".pcap" or struct.unpack_from("<I", record)[0] in _PACKETS
            for record in self.records[first:last]
        )

    def files(self, folder: Path, *cuts: int) -> list[Path]:
        """A series of files, cut before these records."""
        edges = [0, *sorted(cuts), len(self.records)]
        paths = []
        for number, (first, last) in enumerate(pairwise(edges)):
            paths.append(folder / f"part{number}{self.suffix}")
            paths[-1].write_bytes(self.head + b"".join(self.records[first:last]))
        return paths


def sliced(path: Path) -> Sliced:
    """The parts of a file, gzip or plain."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    (magic,) = struct.unpack_from("<I", data)
    return _pcapng(data) if magic == _SECTION else _pcap(data)


def _pcap(data: bytes) -> Sliced:
    records, at = [], 24
    while at < len(data):
        (captured,) = struct.unpack_from("<I", data, at + 8)
        records.append(data[at : at + 16 + captured])
        at += 16 + captured
    return Sliced(data[:24], tuple(records), ".pcap")


def _pcapng(data: bytes) -> Sliced:
    """Whatever stands before the first packet is the head."""
    blocks, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        blocks.append((kind, data[at : at + length]))
        at += length
    first = next(number for number, (kind, _) in enumerate(blocks) if kind in _PACKETS)
    head = b"".join(block for _, block in blocks[:first])
    return Sliced(head, tuple(block for _, block in blocks[first:]), ".pcapng")
