"""Where the data of each message lie in a gradient buffer, and which presence bit stands for which packet.

The buffer of a group holds its buckets one behind another, in the order of their all-reduces. A **unit** is the part of
the gradient that one packet carries. Units are numbered by lane, channel, bucket, loop, chunk, slice, piece and packet,
the same on every hop, since a chunk has the same layout on the wire of each.

In the wire form of LL128 a warp shuffles 960 data bytes in each 1024 wire bytes (``docs/design/0007-placement.md``).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from flowcheck_net.ids import GroupName
from flowcheck_net.model.expect import ExpectedHop
from flowcheck_net.model.job import Protocol, Wire
from flowcheck_net.model.wire import WireMessage
from flowcheck_net.model.wire_qps import splits

PieceKey = tuple[GroupName, int, int, int, int, int, int]
"""(lane, channel, bucket, loop, chunk, slice, piece): gradient bytes on the wire of any hop."""

_LL128_LINE, _LL128_PAIR, _LL128_PAIR_DATA = 128, 1024, 960
_WORD = 8


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """One bucket in the buffer of a group."""

    name: str
    dtype: str
    elements: int
    offset: int
    """Bytes."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one RDMA message carries of one message of NCCL."""

    unit: int
    """Of its first packet; the others follow."""
    packets: int
    data_at: int
    """Byte of the buffer where the data of the whole message of NCCL begin."""
    data_bytes: int
    """Gradient bytes of the whole message."""
    wire_at: int
    """Wire byte of the whole message where this piece begins."""
    wire_bytes: int


@dataclass(frozen=True)
class GroupLayout:
    """The gradient buffer of one data-parallel group for one iteration."""

    group: GroupName
    protocol: Protocol
    mtu: int
    buckets: tuple[BucketPlace, ...]
    pieces: tuple[Piece, ...]
    """In order of their units; those without gradient bytes are not among them."""

    @property
    def size(self) -> int:
        """Bytes of gradient."""
        last = self.buckets[-1] if self.buckets else None
        return last.offset + last.size if last else 0

    @property
    def units(self) -> int:
        """Presence bits."""
        return self.pieces[-1].unit + self.pieces[-1].packets if self.pieces else 0

    @cached_property
    def carrying(self) -> int:
        """Units that carry gradient bytes."""
        return sum(1 for piece in self.pieces for _ in self.carriers(piece))

    def carriers(self, piece: Piece) -> Iterator[int]:
        """Units of a piece that carry gradient bytes; LL128 pads, so that some carry none."""
        return (piece.unit + packet for packet in range(piece.packets) if self._carries(piece, packet))

    def units_over(self, start: int, stop: int) -> Iterator[int]:
        """Units without which bytes ``start`` to ``stop`` (without) of the buffer are not all known.

        With LL128 and packets under 1024 bytes these are all units of the 960 bytes that a warp shuffles together.
        """
        starts, pieces, longest = self._by_place
        for piece in pieces[bisect_left(starts, start - longest) : bisect_left(starts, stop)]:
            first, last = max(start, piece.data_at), min(stop, piece.data_at + piece.data_bytes)
            if first < last:
                low, high = _wire_range(self.protocol, first - piece.data_at, last - piece.data_at)
                from_packet = max(0, (low - piece.wire_at) // self.mtu)
                to_packet = min(piece.packets, -((piece.wire_at - high) // self.mtu))
                for packet in range(from_packet, to_packet):
                    if self._carries(piece, packet):
                        yield piece.unit + packet

    @cached_property
    def _by_place(self) -> tuple[list[int], list[Piece], int]:
        """Pieces by where their message's data begin, these places, and the most data of a message."""
        pieces = sorted(self.pieces, key=lambda piece: (piece.data_at, piece.wire_at))
        return [p.data_at for p in pieces], pieces, max((p.data_bytes for p in pieces), default=0)

    def _carries(self, piece: Piece, packet: int) -> bool:
        start = piece.wire_at + packet * self.mtu
        length = min(self.mtu, piece.wire_at + piece.wire_bytes - start)
        return _carries(self.protocol, start, length, piece.data_bytes)


def _wire_range(protocol: Protocol, start: int, stop: int) -> tuple[int, int]:
    """Wire bytes of a message that hold its data bytes ``start`` to ``stop`` (without), whole lines."""
    if protocol is Protocol.LL:
        return start // 8 * 16, -(-stop // 8) * 16
    if protocol is Protocol.LL128:
        return start // _LL128_PAIR_DATA * _LL128_PAIR, -(-stop // _LL128_PAIR_DATA) * _LL128_PAIR
    return start, stop


def _carries(protocol: Protocol, start: int, length: int, data_bytes: int) -> bool:
    """Do wire bytes ``start`` to ``start + length`` of a message hold any of its data?"""
    if protocol is Protocol.LL:
        return length > 0 and start // 2 < data_bytes
    if protocol is Protocol.SIMPLE:
        return length > 0 and start < data_bytes
    return any(_first_byte(line) < data_bytes for line in range(start // _LL128_LINE, (start + length) // _LL128_LINE))


def _first_byte(line: int) -> int:
    """Lowest data byte in a line of LL128: of every eight lines four hold words 0-14, 16-30, ..., four what remains."""
    pair, row = line // 8 * _LL128_PAIR_DATA, line % 4
    return pair + (16 * row if line % 8 < 4 else 16 * row + 15) * _WORD


@dataclass(frozen=True)
class Layout:
    """All groups of a job."""

    groups: Mapping[GroupName, GroupLayout]
    places: Mapping[PieceKey, Piece]
    split: bool
    """Is every message cut over all queue pairs? Else whole messages may be on any of them."""

    def place(self, hop: ExpectedHop, message: WireMessage) -> Piece:
        """What a message of a hop carries."""
        return self.places[_key(hop, message, self.split)]

    @cached_property
    def numbers(self) -> Mapping[GroupName, int]:
        """Group -> its number, from 0."""
        return {group: number for number, group in enumerate(self.groups)}


def buffer_of(lane: GroupName) -> GroupName:
    """The group whose gradient a lane carries: the heads of an NVLSTree (``dp0.head3``) share one."""
    return GroupName(lane.partition(".head")[0])


def _key(hop: ExpectedHop, message: WireMessage, split: bool) -> PieceKey:
    """Which piece a message of a hop carries; on which queue pair a whole one is depends on the hop."""
    m = message
    return hop.group, hop.channel, m.bucket, m.loop, m.chunk, m.slice, m.qp if split else 0


def lay_out(wire: Wire, hops: Iterable[ExpectedHop]) -> Layout:
    """The layout of a job's groups.

    Args:
        wire: The job's.
        hops: All hops of the job that cross the network, watched or not: together they carry every piece.
    """
    found: dict[GroupName, dict[PieceKey, WireMessage]] = {}
    split = splits(wire.nccl)
    for hop in hops:
        own = found.setdefault(buffer_of(hop.group), {})
        for message in hop.messages:
            if not message.closes:
                own[_key(hop, message, split)] = message
    groups: dict[GroupName, GroupLayout] = {}
    places: dict[PieceKey, Piece] = {}
    for group, messages in sorted(found.items()):
        buckets = _buckets(wire, {key[2] for key in messages})
        pieces = dict(_pieces(messages, {number: place.offset for number, place in buckets.items()}))
        places |= pieces
        carrying = tuple(piece for piece in pieces.values() if piece.data_bytes)
        groups[group] = GroupLayout(group, wire.nccl.protocol, wire.mtu, tuple(buckets.values()), carrying)
    return Layout(groups, places, split)


def _buckets(wire: Wire, numbers: Iterable[int]) -> dict[int, BucketPlace]:
    found: dict[int, BucketPlace] = {}
    offset = 0
    for number in sorted(numbers):
        bucket = wire.buckets[number]
        found[number] = BucketPlace(bucket.name, bucket.dtype.value, bucket.elements, offset, bucket.size)
        offset += bucket.size
    return found


def _pieces(messages: Mapping[PieceKey, WireMessage], offsets: Mapping[int, int]) -> Iterator[tuple[PieceKey, Piece]]:
    whole: dict[tuple[object, ...], list[PieceKey]] = {}
    for key in sorted(messages):
        whole.setdefault(key[:-1], []).append(key)
    unit = 0
    for keys in whole.values():
        data_at = offsets[keys[0][2]] + min(messages[key].data_offset for key in keys)
        data_bytes = sum(messages[key].data_bytes for key in keys)
        wire_at = 0
        for key in keys:
            m = messages[key]
            piece = Piece(unit, m.packets, data_at, data_bytes, wire_at, m.wire_bytes)
            yield key, piece
            wire_at += m.wire_bytes
            unit += m.packets if data_bytes else 0


def present_size(units: int) -> int:
    """Bytes of a presence bitmap: whole words of 64 bits."""
    return -(-units // 64) * 8


def missing_units(layout: GroupLayout, present: bytes | bytearray) -> list[int]:
    """Units with gradient bytes whose presence bit is not set."""
    if int.from_bytes(present, "little").bit_count() == layout.carrying:
        return []
    return [u for piece in layout.pieces for u in layout.carriers(piece) if not present[u >> 3] >> (u & 7) & 1]
