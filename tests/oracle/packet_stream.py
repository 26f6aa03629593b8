"""What a sender sends, packet by packet, made from messages and data only: the placement tests compare with it."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.receive.native_track import Pattern
from flowcheck_net.receive.synth_frames import FrameMaker, reth

PSNS = 1 << 24
FIRST, MIDDLE, LAST_IMM, ONLY_IMM = 6, 7, 9, 11


def pcap(frames: Sequence[bytes]) -> bytes:
    """A capture file of whole frames, a microsecond apart."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    rows = (struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame for number, frame in enumerate(frames))
    return head + b"".join(rows)


def write_frames(maker: FrameMaker, message: bytes, psn: int, mtu: int) -> list[bytes]:
    """One RDMA write with its length as immediate."""
    parts = [message[at : at + mtu] for at in range(0, len(message), mtu)] or [b""]
    frames = []
    for number, part in enumerate(parts):
        first, last = number == 0, number + 1 == len(parts)
        opcode = {(True, False): FIRST, (False, False): MIDDLE, (False, True): LAST_IMM, (True, True): ONLY_IMM}
        extension = reth(0x7000_0000, 1, len(message)) if first else b""
        extension += len(message).to_bytes(4, "little") if last else b""
        frames.append(maker.frame(opcode[first, last], (psn + number) % PSNS, extension, part, ack=last))
    return frames


@dataclass(frozen=True)
class Sent:
    """One packet as the sender sent it."""

    position: int
    """PSN without wrap."""
    iteration: int
    """-1: of a foreign message."""
    slot: int
    unit: int
    data_at: int
    data: bytes
    frame: bytes


def foreign_message(maker: FrameMaker, size: int, position: int, mtu: int) -> list[Sent]:
    """A message that the pattern does not know."""
    frames = write_frames(maker, b"\xaa" * size, position, mtu)
    return [Sent(position + number, -1, -1, -1, 0, b"", frame) for number, frame in enumerate(frames)]


def iteration_packets(maker: FrameMaker, pattern: Pattern, position: int, iteration: int, data: bytes) -> list[Sent]:
    """All packets of an iteration of Simple messages; ``data`` is the group's buffer."""
    packets: list[Sent] = []
    for number, slot in enumerate(pattern.slots):
        body = data[slot.data_at : slot.data_at + slot.bytes]
        for packet, frame in enumerate(write_frames(maker, body, position, pattern.mtu)):
            at = packet * pattern.mtu
            piece = body[at : at + pattern.mtu]
            packets.append(
                Sent(position + packet, iteration, number, slot.unit + packet, slot.data_at + at, piece, frame)
            )
        position += slot.packets
    return packets
