"""What the P4 programs read of a frame, found again by offsets into the bytes (nothing shared with p4/)."""

from dataclasses import dataclass

_NO_IMMEDIATE_END = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 8, 10})
_END = frozenset({9, 11})


@dataclass(frozen=True, slots=True)
class Facts:
    """Addresses are 128-bit numbers, IPv4 mapped into IPv6; all 0 where the frame has no such header."""

    ether_dst: int
    source: int = 0
    destination: int = 0
    udp_dst: int = 0
    qp: int = 0
    opcode: int = 0
    psn: int = 0
    roce: bool = False

    @property
    def ends_message(self) -> bool:
        """RDMA write with immediate of a reliable or unreliable connection: what NCCL counts."""
        return self.roce and self.opcode >> 5 in (0, 1) and self.opcode & 31 in _END

    @property
    def request(self) -> bool:
        """An RDMA write or send of a reliable or unreliable connection."""
        return self.roce and self.opcode >> 5 in (0, 1) and self.opcode & 31 in _NO_IMMEDIATE_END | _END


def read_frame(frame: bytes) -> Facts | None:
    """None for a frame without a whole Ethernet header."""
    if len(frame) < 14:
        return None
    ether_dst = int.from_bytes(frame[:6], "big")
    kind = frame[12:14]
    place = 14
    for tags in (("8100", "88a8"), ("8100",)):
        if kind.hex() in tags and len(frame) >= place + 4:
            kind = frame[place + 2 : place + 4]
            place += 4
        else:
            break
    if kind == b"\x08\x00" and len(frame) >= place + 20:
        mapped = 0xFFFF << 32
        source = mapped | int.from_bytes(frame[place + 12 : place + 16], "big")
        destination = mapped | int.from_bytes(frame[place + 16 : place + 20], "big")
        plain = frame[place] & 15 == 5 and int.from_bytes(frame[place + 6 : place + 8], "big") & 0x1FFF == 0
        udp = place + 20 if plain and frame[place + 9] == 17 else None
    elif kind == b"\x86\xdd" and len(frame) >= place + 40:
        source = int.from_bytes(frame[place + 8 : place + 24], "big")
        destination = int.from_bytes(frame[place + 24 : place + 40], "big")
        udp = place + 40 if frame[place + 6] == 17 else None
    else:
        return Facts(ether_dst)
    if udp is None or len(frame) < udp + 8:
        return Facts(ether_dst, source, destination)
    port = int.from_bytes(frame[udp + 2 : udp + 4], "big")
    bth = frame[udp + 8 : udp + 20]
    if port != 4791 or len(bth) < 12:
        return Facts(ether_dst, source, destination, port)
    qp, psn = int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big")
    return Facts(ether_dst, source, destination, port, qp, bth[0], psn, roce=True)
