"""RoCEv2 frames for tests, laid out by hand."""

import ipaddress
import struct

HOST_A, HOST_B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM, ACK = 6, 7, 8, 9, 10, 11, 17


def roce(
    psn: int,
    opcode: int = MIDDLE,
    *,
    source: str = "10.0.0.1",
    destination: str = "10.0.0.2",
    qp: int = 0x11,
    payload: bytes = b"gradient",
    tags: tuple[tuple[int, int], ...] = (),
    udp_dst: int = 4791,
    acknowledge: bool = False,
) -> bytes:
    """One frame; RETH and immediate follow the opcode, the ICRC is 0. ``tags``: (type, control), outermost first."""
    rest = b""
    if opcode & 31 in (6, 10, 11):
        rest += struct.pack("!QII", 0x1000, 7, len(payload))
    if opcode & 31 in (9, 11):
        rest += struct.pack("!I", len(payload))
    bth = struct.pack("!BBHII", opcode, 0, 0xFFFF, qp, acknowledge << 31 | psn)
    transport = bth + rest + payload + bytes(4)
    udp = struct.pack("!HHHH", 49152, udp_dst, 8 + len(transport), 0) + transport
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if a.version == 4:
        kind = 0x0800
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + a.packed + b.packed
    else:
        kind = 0x86DD
        ip = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + a.packed + b.packed
    ether = HOST_B + HOST_A
    for ethertype, control in tags:
        ether += struct.pack("!HH", ethertype, control)
    return ether + struct.pack("!H", kind) + ip + udp


def mapped(address: str) -> int:
    """An address as the tables hold it."""
    found = ipaddress.ip_address(address)
    return int(found) if found.version == 6 else 0xFFFF << 32 | int(found)
