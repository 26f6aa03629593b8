"""RoCEv2 frames byte by byte, invariant CRC included.

Layout: IBTA 1.x Annex A17 (RoCEv2): Ethernet, IPv4 or IPv6, UDP to port 4791, BTH, extension headers, payload, ICRC.
The ICRC is the CRC-32 of Ethernet over 8 bytes of ones and the packet from the IP header on, with the fields that may
change on the way set to ones: IPv4 type of service, time to live and checksum; IPv6 traffic class, flow label and hop
limit; UDP checksum; BTH byte 4, where ECN marks stand. It is written least significant byte first.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from flowcheck_net.ids import Address

UDP_PORT = 4791
PARTITION_KEY = 0xFFFF
TRAFFIC_CLASS = 0x02
"""ECT(0), as in the real captures: the fabric may mark congestion."""
PSN_MASK = 0xFFFFFF

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM = 6, 7, 8, 9
WRITE_ONLY, WRITE_ONLY_IMM = 10, 11
ACKNOWLEDGE = 17
ACK_SYNDROME = 0x1F
"""ACK without a credit limit."""
NAK_SYNDROME = 0x60
"""NAK, PSN sequence error."""

_MIGRATED = 0x40
"""MigReq, which network cards set on every packet."""
_ACK_REQUEST = 0x80000000


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where one direction of a queue pair goes."""

    source: Address
    destination: Address
    source_port: int
    """UDP source port: the entropy of ECMP."""
    dest_qp: int
    hop_limit: int = 64
    """Time to live when the packet was seen."""

    def __post_init__(self) -> None:
        if ip_address(self.source).version != ip_address(self.destination).version:
            raise ValueError(f"addresses of two families: {self.source} and {self.destination}")


def mac_of(address: Address) -> bytes:
    """A locally administered MAC address that belongs to an IP address: 6 bytes, always the same ones."""
    return b"\x02\xfc" + hashlib.sha256(address.encode()).digest()[:4]


def ipv4_checksum(header: bytes) -> int:
    """Internet checksum (RFC 1071) of a header of even length whose checksum field is 0."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _ipv4(ends: Endpoints, payload: int) -> tuple[bytes, bytes]:
    """The IPv4 header before ``payload`` bytes, and the same with the changing fields masked."""
    source, destination = IPv4Address(ends.source).packed, IPv4Address(ends.destination).packed

    def header(tos: int, ttl: int, checksum: int) -> bytes:
        fixed = struct.pack(">BBHHHBBH", 0x45, tos, 20 + payload, 0, 0x4000, ttl, 17, checksum)
        return fixed + source + destination

    checksum = ipv4_checksum(header(TRAFFIC_CLASS, ends.hop_limit, 0))
    return header(TRAFFIC_CLASS, ends.hop_limit, checksum), header(0xFF, 0xFF, 0xFFFF)


def _ipv6(ends: Endpoints, payload: int) -> tuple[bytes, bytes]:
    """The IPv6 header before ``payload`` bytes, and the same with the changing fields masked."""
    addresses = IPv6Address(ends.source).packed + IPv6Address(ends.destination).packed
    real = struct.pack(">IHBB", 0x60000000 | TRAFFIC_CLASS << 20, payload, 17, ends.hop_limit)
    masked = struct.pack(">IHBB", 0x6FFFFFFF, payload, 17, 0xFF)
    return real + addresses, masked + addresses


class FrameMaker:
    """Makes the frames of one direction of one queue pair.

    Everything before the PSN depends on opcode and length only: bytes and CRC state of it are kept, so that a packet
    costs one CRC over its own bytes.
    """

    def __init__(self, ends: Endpoints) -> None:
        self.ends = ends
        self._heads: dict[tuple[int, int], tuple[bytes, int, bytes]] = {}

    def frame(self, opcode: int, psn: int, extension: bytes, payload: bytes, *, ack: bool) -> bytes:
        """A whole frame without the Ethernet check sequence.

        Args:
            opcode: BTH opcode.
            psn: 24-bit packet sequence number.
            extension: RETH, AETH, immediate: what stands between BTH and payload (a multiple of 4 bytes).
            payload: is padded to a multiple of 4 bytes, and the pad count says so.
            ack: ask the receiver for an acknowledgement.
        """
        key = (opcode, len(extension) + len(payload))
        found = self._heads.get(key)
        if found is None:
            found = self._heads[key] = self._head(opcode, len(extension), len(payload))
        head, crc, padding = found
        number = (_ACK_REQUEST | psn) if ack else psn
        tail = b"".join((number.to_bytes(4, "big"), extension, payload, padding))
        return b"".join((head, tail, zlib.crc32(tail, crc).to_bytes(4, "little")))

    def _head(self, opcode: int, extension: int, payload: int) -> tuple[bytes, int, bytes]:
        """Frame up to the PSN, CRC state there, and the padding after the payload."""
        padding = bytes(-payload % 4)
        udp_length = 8 + 12 + extension + payload + len(padding) + 4
        address = ip_address(self.ends.source)
        ip, masked_ip = (_ipv4 if address.version == 4 else _ipv6)(self.ends, udp_length)
        ethernet = mac_of(self.ends.destination) + mac_of(self.ends.source)
        ethernet += (0x0800 if address.version == 4 else 0x86DD).to_bytes(2, "big")
        ports = struct.pack(">HHH", self.ends.source_port, UDP_PORT, udp_length)
        flags = _MIGRATED | len(padding) << 4
        bth = struct.pack(">BBH", opcode, flags, PARTITION_KEY)
        qp = self.ends.dest_qp.to_bytes(3, "big")
        # The UDP checksum is 0 ("none") for both families, as network cards send RoCEv2.
        head = ethernet + ip + ports + b"\x00\x00" + bth + b"\x00" + qp
        masked = b"\xff" * 8 + masked_ip + ports + b"\xff\xff" + bth + b"\xff" + qp
        return head, zlib.crc32(masked), padding


def reth(address: int, key: int, length: int) -> bytes:
    """RDMA extended transport header: virtual address, remote key, length of the whole message."""
    return struct.pack(">QII", address, key, length)


def aeth(syndrome: int, messages: int) -> bytes:
    """Acknowledge extended transport header: syndrome and message sequence number (24 bits)."""
    return (syndrome << 24 | messages & PSN_MASK).to_bytes(4, "big")


def immediate(length: int, version: tuple[int, int, int]) -> bytes:
    """NCCL's immediate data: the size of the send, little-endian up to 2.28, big-endian from 2.29.2."""
    return length.to_bytes(4, "big" if version >= (2, 29, 2) else "little")
