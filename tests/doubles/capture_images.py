"""Capture files built by hand, byte for byte, from the format descriptions; shares no code with the reader in C."""

import struct
from collections.abc import Iterable, Sequence

ARP = bytes(12) + b"\x08\x06" + bytes(46)
ETHERNET = 1
MICROSECONDS, NANOSECONDS, MODIFIED = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34


def write_only(psn: int, dest_qp: int = 0x11, payload: bytes = b"x" * 8) -> bytes:
    """An Ethernet frame with an RDMA WRITE ONLY from 10.0.0.1 to 10.0.0.2 (ICRC left zero)."""
    return write(10, psn, payload, len(payload), dest_qp)


def write(opcode: int, psn: int, payload: bytes, length: int, dest_qp: int = 0x11) -> bytes:
    """One packet of an RDMA WRITE of ``length`` bytes: First 6, Middle 7, Last 8, Only 10."""
    bth = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, dest_qp, psn)
    reth = struct.pack(">QII", 0x1000, 1, length) if opcode in (6, 10) else b""
    rdma = bth + reth + payload + bytes(4)
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(rdma), 0) + rdma
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    )
    return bytes(12) + b"\x08\x00" + ip + udp


def pcap(
    frames: Iterable[bytes],
    *,
    order: str = "<",
    magic: int = MICROSECONDS,
    link: int = ETHERNET,
    start: int = 1_700_000_000,
    fraction: int = 123,
) -> bytes:
    """A classic file; frame n has the time ``start + n`` seconds and ``fraction`` of the magic's unit."""
    image = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for number, frame in enumerate(frames):
        image += struct.pack(order + "IIII", start + number, fraction, len(frame), len(frame))
        image += bytes(8) if magic == MODIFIED else b""
        image += frame
    return image


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    length = 12 + len(body)
    assert length % 4 == 0
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def options(pairs: Sequence[tuple[int, bytes]], order: str = "<") -> bytes:
    coded = b"".join(struct.pack(order + "HH", code, len(value)) + _padded(value) for code, value in pairs)
    return coded + bytes(4) if pairs else b""


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    pairs: Sequence[tuple[int, bytes]] = (), *, order: str = "<", link: int = ETHERNET, snaplen: int = 0
) -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options(pairs, order), order)


def enhanced(
    frame: bytes, ticks: int, *, number: int = 0, order: str = "<", pairs: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(6, head + _padded(frame) + options(pairs, order), order)


def simple(frame: bytes, original: int, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", original) + _padded(frame), order)


def obsolete(frame: bytes, ticks: int, drops: int, order: str = "<") -> bytes:
    head = struct.pack(order + "HHIIII", 0, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(2, head + _padded(frame), order)


def statistics(pairs: Sequence[tuple[int, int]], *, number: int = 0, order: str = "<") -> bytes:
    coded = options([(code, struct.pack(order + "Q", value)) for code, value in pairs], order)
    return block(5, struct.pack(order + "III", number, 0, 0) + coded, order)
