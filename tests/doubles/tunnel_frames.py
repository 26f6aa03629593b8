"""Frames in every form of outer header, byte for byte from the descriptions of the formats."""

import struct

from tests.doubles.capture_images import write_only

OUTER_MACS = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2])


def ipv4(protocol: int, payload: bytes, options: bytes = b"") -> bytes:
    """From 192.0.2.1 to 192.0.2.99."""
    words = 5 + len(options) // 4
    total = 20 + len(options) + len(payload)
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, total, 0, 0, 64, protocol, 0)
    return head + bytes([192, 0, 2, 1]) + bytes([192, 0, 2, 99]) + options + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    """From 2001:db8::1 to 2001:db8::2."""
    prefix = bytes([0x20, 1, 0xD, 0xB8]) + bytes(11)
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + prefix + b"\x01" + prefix + b"\x02" + payload


def ethernet(ethertype: int, payload: bytes, *tags: tuple[int, int]) -> bytes:
    """``tags``: tag protocol and VLAN."""
    stacked = b"".join(struct.pack(">HH", protocol, vlan) for protocol, vlan in tags)
    return OUTER_MACS + stacked + struct.pack(">H", ethertype) + payload


def udp(port: int, payload: bytes) -> bytes:
    return struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload


def gre(
    kind: int, payload: bytes, *, checksum: bool = False, key: int | None = None, sequence: int | None = None
) -> bytes:
    flags = 0x8000 * checksum | 0x2000 * (key is not None) | 0x1000 * (sequence is not None)
    words = bytes(4) * checksum
    words += b"".join(struct.pack(">I", word) for word in (key, sequence) if word is not None)
    return struct.pack(">HH", flags, kind) + words + payload


def vxlan(network: int, payload: bytes) -> bytes:
    return udp(4789, struct.pack(">II", 8 << 24, network << 8) + payload)


def erspan2(session: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x1000, session, 0) + payload


def erspan3(session: int, payload: bytes, *, subheader: bool = False) -> bytes:
    head = struct.pack(">HHIHH", 0x2000, session, 7, 0, int(subheader))
    return head + bytes(8) * subheader + payload


_PADDED = bytearray(write_only(0x123456, dest_qp=0x7FF, payload=b"p" * 36))
_PADDED[14 + 20 + 8 + 1] |= 3 << 4  # three of the 36 bytes are padding
ROCE = bytes(_PADDED)
ROCE_PACKET = ROCE[14:]

FORMS: dict[str, bytes] = {
    "plain": ROCE,
    "padded": ROCE + bytes(9),
    "vlan": ethernet(0x0800, ROCE_PACKET, (0x8100, 7)),
    "stacked vlans": ethernet(0x0800, ROCE_PACKET, (0x88A8, 7), (0x8100, 8)),
    "ipv4 options": ethernet(0x0800, ipv4(17, ROCE_PACKET[20:], options=bytes([1, 1, 1, 0]))),
    "ipv6": ethernet(0x86DD, ipv6(17, ROCE_PACKET[20:])),
    "ipv6 hop by hop": ethernet(0x86DD, ipv6(0, bytes([17, 0, 1, 4, 0, 0, 0, 0]) + ROCE_PACKET[20:])),
    "gre": ethernet(0x0800, ipv4(47, gre(0x6558, ROCE))),
    "gre with every word": ethernet(0x0800, ipv4(47, gre(0x6558, ROCE, checksum=True, key=9, sequence=5))),
    "erspan 1": ethernet(0x0800, ipv4(47, gre(0x88BE, ROCE))),
    "erspan 2": ethernet(0x0800, ipv4(47, gre(0x88BE, erspan2(77, ROCE), sequence=5))),
    "erspan 2 over ipv6": ethernet(0x86DD, ipv6(47, gre(0x88BE, erspan2(77, ROCE), sequence=5))),
    "erspan 3": ethernet(0x0800, ipv4(47, gre(0x22EB, erspan3(1023, ROCE), sequence=5))),
    "erspan 3 with a subheader": ethernet(0x0800, ipv4(47, gre(0x22EB, erspan3(1, ROCE, subheader=True), sequence=5))),
    "erspan 3 of a tagged frame": ethernet(
        0x0800, ipv4(47, gre(0x22EB, erspan3(1, ethernet(0x0800, ROCE_PACKET, (0x8100, 9)))))
    ),
    "vxlan": ethernet(0x0800, ipv4(17, vxlan(4242, ROCE))),
    "vxlan over ipv6 in a vlan": ethernet(0x86DD, ipv6(17, vxlan(4242, ROCE)), (0x8100, 5)),
    "vxlan in gre": ethernet(0x0800, ipv4(47, gre(0x6558, ethernet(0x0800, ipv4(17, vxlan(4242, ROCE))), key=3))),
}
