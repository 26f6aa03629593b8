"""Frames: packets of real network cards made again byte for byte, and the ICRC of some hundred real packets."""

import gzip
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from flowcheck_net.ids import Address
from flowcheck_net.receive import synth_frames as frames
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
SENDER, RECEIVER = Address("fe80::e42:a1ff:fe9f:58f8"), Address("fe80::ac0:ebff:fe8c:282d")

# Packets 4 and 3 of samples/captures/iter_40000_p2p.pcapng from the IPv6 header on, as a ConnectX card sent them:
# an ACK of PSN 0 with MSN 1, and a write-only with immediate of 16 bytes (LL flag 1) with an acknowledge request.
REAL_ACK = bytes.fromhex(
    "60200000001c1140 fe800000000000000e42a1fffe9f58f8 fe800000000000000ac0ebfffe8c282d e44012b7001c0000"
    "1140ffff00000619 00000000 00000001 7719d0d8"
)
REAL_WRITE = bytes.fromhex(
    "60200000003c1140 fe800000000000000e42a1fffe9f58f8 fe800000000000000ac0ebfffe8c282d ecb012b7003c0000"
    "0b40ffff0000061a 80000000 00007f0551400000 0023e109 00000010 10000000"
    "01000000010000000000000001000000 9d7d782c"
)


def test_acknowledgement_equals_the_real_one() -> None:
    maker = FrameMaker(Endpoints(SENDER, RECEIVER, 0xE440, 0x619))
    made = maker.frame(frames.ACKNOWLEDGE, 0, frames.aeth(0, 1), b"", ack=False)
    assert made[12:14] == b"\x86\xdd"
    assert made[14:] == REAL_ACK


def test_write_equals_the_real_one() -> None:
    maker = FrameMaker(Endpoints(SENDER, RECEIVER, 0xECB0, 0x61A))
    extension = frames.reth(0x7F0551400000, 0x23E109, 16) + frames.immediate(16, (2, 19, 3))
    payload = bytes.fromhex("01000000010000000000000001000000")
    assert maker.frame(frames.WRITE_ONLY_IMM, 0, extension, payload, ack=True)[14:] == REAL_WRITE


def test_ipv4_frame_written_by_hand() -> None:
    """Source 10.0.0.1 port 49152, to 10.0.0.2 QP 5, one write-only of 5 bytes: 3 bytes of padding, PSN ffffff.

    Checksum: 4502+0038+0000+4000+3f11+0a00+0001+0a00+0002 = d84e, so 27b1; time to live 63 = 3f.
    UDP length 8+12+16+5+3+4 = 48 = 30 hex, IP length 68 = 44 hex: 4502+0044+4000+3f11+0a00+1+0a00+2 = d85a -> 27a5.
    """
    maker = FrameMaker(Endpoints(Address("10.0.0.1"), Address("10.0.0.2"), 49152, 5, hop_limit=63))
    made = maker.frame(frames.WRITE_ONLY, 0xFFFFFF, frames.reth(0x1000, 0xAB, 5), b"hello", ack=False)
    by_hand = bytes.fromhex(
        "0800 45020044000040003f1127a5 0a000001 0a000002 c00012b700300000"
        "0a70ffff00000005 00ffffff 0000000000001000 000000ab 00000005 68656c6c6f000000"
    )
    assert made[12:-4] == by_hand
    assert int.from_bytes(made[-4:], "little") == icrc_bit_by_bit(made[:-4])


def test_immediate_changes_order_with_the_version() -> None:
    assert frames.immediate(15424, (2, 28, 9)) == bytes.fromhex("403c0000")
    assert frames.immediate(15424, (2, 29, 1)) == bytes.fromhex("403c0000")
    assert frames.immediate(15424, (2, 29, 2)) == bytes.fromhex("00003c40")


def test_addresses_of_two_families_are_refused() -> None:
    with pytest.raises(ValueError, match="two families"):
        Endpoints(Address("10.0.0.1"), Address("fd00::1"), 49152, 5)


def icrc_bit_by_bit(frame: bytes) -> int:
    """The ICRC of an untagged frame without its ICRC, by polynomial division bit by bit: shares no code with ours."""
    packet = bytearray(frame[14:])
    if packet[0] >> 4 == 4:
        for place in (1, 8, 10, 11, 26, 27, 32):
            packet[place] = 0xFF
    else:
        packet[0] |= 0x0F
        for place in (1, 2, 3, 7, 46, 47, 52):
            packet[place] = 0xFF
    register = 0xFFFFFFFF
    for byte in b"\xff" * 8 + packet:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def pcap_frames(data: bytes) -> Iterator[bytes]:
    """Frames of a little-endian classic pcap file."""
    place = 24
    while place + 16 <= len(data):
        size = struct.unpack_from("<I", data, place + 8)[0]
        yield data[place + 16 : place + 16 + size]
        place += 16 + size


def pcapng_frames(data: bytes) -> Iterator[bytes]:
    """Frames of the enhanced packet blocks of a little-endian pcapng file."""
    place = 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == 6:
            size = struct.unpack_from("<I", data, place + 20)[0]
            yield data[place + 28 : place + 28 + size]
        place += length


def real_frames(name: str) -> list[bytes]:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(pcapng_frames(data) if ".pcapng" in name else pcap_frames(data))


def is_rocev2(frame: bytes) -> bool:
    """Untagged UDP to port 4791."""
    if frame[12:14] == b"\x86\xdd":
        return frame[20] == 17 and frame[56:58] == b"\x12\xb7"
    return frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7"


@pytest.mark.parametrize("name", ["rxe/rxe-writebw-v4.pcap.gz", "rxe/rxe-ring-put.pcap.gz"])
def test_the_slow_icrc_is_that_of_real_packets(name: str) -> None:
    """The oracle of this file is right: IPv4 and IPv6 packets of the Linux kernel's rxe."""
    found = [frame for frame in real_frames(name) if is_rocev2(frame)][:60]
    assert len(found) == 60
    assert [int.from_bytes(frame[-4:], "little") for frame in found] == [icrc_bit_by_bit(f[:-4]) for f in found]


@pytest.mark.parametrize("name", ["iter_40000_p2p", "allreduce_addstep", "allreduce+p2p", "iter_80000"])
def test_real_packets_made_again(name: str) -> None:
    """Every write and ACK of a real card, taken apart and made again, is the same to the last byte."""
    extensions = {6: 16, 7: 0, 8: 0, 9: 4, 10: 16, 11: 20, 17: 4}
    makers: dict[Endpoints, FrameMaker] = {}
    checked = 0
    for frame in real_frames(f"captures/{name}.pcapng"):
        if not is_rocev2(frame) or frame[62] not in extensions:
            continue
        ends = Endpoints(
            Address(str(IPv6Address(frame[22:38]))),
            Address(str(IPv6Address(frame[38:54]))),
            int.from_bytes(frame[54:56], "big"),
            int.from_bytes(frame[67:70], "big"),
            frame[21],
        )
        maker = makers.setdefault(ends, FrameMaker(ends))
        body = 74 + extensions[frame[62]]
        psn = int.from_bytes(frame[71:74], "big")
        made = maker.frame(frame[62], psn, frame[74:body], frame[body:-4], ack=bool(frame[70] & 0x80))
        assert made[12:] == frame[12:]
        checked += 1
    assert checked > 60
