"""A hop of a ring -> its messages: the arithmetic of NCCL's ring all-reduce on RDMA writes.

Source: NCCL 2.8 to 2.30 (``src/device/all_reduce.h``, ``src/enqueue.cc``, ``src/transport/net_ib``).
``wire_regimes`` cuts a bucket into chunks, ``wire_protocol`` turns data into wire bytes, ``wire_qps`` lays messages on
queue pairs and packets, ``collectives.ring`` gives the order; here they are put together.

Channels and threads are those that NCCL uses (job file, as in its log): that it takes fewer for small sizes is not
modelled.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from flowcheck_net.model.collectives.ring import partial_chunks, reduced_chunks
from flowcheck_net.model.job import Broadcast, BucketKind, Wire
from flowcheck_net.model.wire_protocol import data_before, slices, wire_size
from flowcheck_net.model.wire_qps import has_closing_write, packets, pieces
from flowcheck_net.model.wire_regimes import Span, broadcast_spans, loops


@dataclass(frozen=True, slots=True)
class WireMessage:
    """One RDMA message on one queue pair, in the order of sending."""

    bucket: int
    """Index into ``Wire.buckets``."""
    loop: int
    chunk: int
    """Ring chunk, 0 .. N-1."""
    slice: int
    reduced: bool
    """Fully reduced (all-gather half), else a partial sum."""
    contributions: int
    """Ranks whose gradients are in it; N when reduced."""
    qp: int
    """Index of the queue pair of this connection, 0 .. Q-1."""
    wire_bytes: int
    """RDMA payload bytes, flags included."""
    packets: int
    """Consecutive PSNs that it takes: at least 1."""
    data_offset: int
    """Byte offset of its gradient data in the bucket."""
    data_bytes: int
    """Gradient bytes (0: an empty message)."""
    closes: bool
    """True for the separate 0-byte write with immediate of the adaptive-routing form."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over messages."""

    messages: int
    packets: int
    wire_bytes: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class HopTotals:
    """What one iteration puts on one hop."""

    partial: Totals
    """The reduce-scatter half: partial sums, which no checkpoint can use."""
    reduced: Totals
    """The all-gather half: fully reduced gradients."""
    total: Totals
    psn_span: tuple[int, ...]
    """By queue pair: the PSNs that it advances. Every queue pair counts its own."""


@lru_cache(maxsize=1024)
def hop_messages(
    wire: Wire, ring_size: int, channel: int, hop: int, carries: tuple[BucketKind, ...] = (BucketKind.DENSE,)
) -> tuple[WireMessage, ...]:
    """The messages of one iteration on one hop: all buckets in order, each in the order of sending.

    Equal arguments are computed once, so hops of equal groups share their messages. Where messages take turns on
    several queue pairs, the first of the iteration is put on queue pair 0; a running connection goes on from wherever
    it was (``wire_turns``). A channel that has no share of a bucket (NCCL 2.20 and later, small buckets) sends nothing
    for it.

    Args:
        wire: Protocol, version, channels, MTU and buckets.
        ring_size: Ranks of the ring, 2 or more.
        channel: 0 .. ``wire.nccl.channels - 1``.
        hop: Ring index of the sender.
        carries: Kinds of buckets that the ring reduces; the others are not on it.
    """
    result: list[WireMessage] = []
    turn = 0
    for bucket, chunk, half in _chunks(wire, ring_size, channel, hop, carries):
        for slice_number, span in enumerate(slice_spans(wire, bucket, chunk.span)):
            place = MessagePlace(bucket, chunk.loop, chunk.index, slice_number)
            result.extend(send_messages(wire, place, half, span, turn))
            turn += 1
    return tuple(result)


def hop_totals(messages: Sequence[WireMessage]) -> HopTotals:
    """Sum messages of one hop, partial sums and fully reduced gradients apart."""
    partial = _totals(m for m in messages if not m.reduced)
    reduced = _totals(m for m in messages if m.reduced)
    return HopTotals(partial, reduced, _totals(messages), psn_span(messages))


def psn_span(messages: Sequence[WireMessage]) -> tuple[int, ...]:
    """By queue pair (index 0 .. the last one used): the PSNs that these messages take."""
    span: Counter[int] = Counter()
    for message in messages:
        span[message.qp] += message.packets
    return tuple(span[qp] for qp in range(max(span, default=-1) + 1))


def broadcast_wire_sizes(wire: Wire, broadcast: Broadcast, channel: int = 0) -> tuple[int, ...]:
    """Wire bytes of the messages of a ring broadcast on one channel, in order.

    They are the same on every hop but the one into the root, which carries nothing. Each is cut over queue pairs like
    any other message; the sizes here are before that cut.
    """
    spans = broadcast_spans(wire.nccl, broadcast.size, channel)
    return tuple(wire_size(wire.nccl.protocol, span.count) for span in spans)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One ring chunk of one loop."""

    loop: int
    index: int
    span: Span


@dataclass(frozen=True, slots=True)
class MessageHalf:
    """How far a chunk is reduced when it is sent."""

    reduced: bool
    contributions: int


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Which part of which bucket a message of NCCL carries."""

    bucket: int
    loop: int
    chunk: int = 0
    slice: int = 0


def _chunks(
    wire: Wire, ring_size: int, channel: int, hop: int, carries: tuple[BucketKind, ...]
) -> Iterator[tuple[int, _Chunk, MessageHalf]]:
    """(bucket index, chunk, half) in the order in which ring index ``hop`` sends them."""
    extra = wire.nccl.extra_step
    halves = [(k, MessageHalf(False, j)) for j, k in enumerate(partial_chunks(ring_size, hop, extra), start=1)]
    halves += [(k, MessageHalf(True, ring_size)) for k in reduced_chunks(ring_size, hop, extra)]
    for number, bucket in enumerate(wire.buckets):
        if bucket.kind not in carries:
            continue
        table = loops(wire.nccl, bucket.elements, bucket.dtype.size, ring_size, channel)
        for loop, spans in enumerate(table):
            for index, half in halves:
                yield number, _Chunk(loop, index, spans[index]), half


def slice_spans(wire: Wire, bucket: int, chunk: Span) -> Iterator[Span]:
    """The byte range in the bucket of each message of a chunk, which is given in elements."""
    size = wire.buckets[bucket].dtype.size
    start = chunk.start
    for count in slices(wire.nccl.protocol, chunk.count, size):
        yield Span(start * size, count * size)
        start += count


def send_messages(wire: Wire, place: MessagePlace, half: MessageHalf, data: Span, turn: int) -> Iterator[WireMessage]:
    """Lay one NCCL message on its queue pairs, with the closing writes of the adaptive-routing form.

    ``data``: its bytes in the bucket. ``turn``: its number (from 0) on its connection in the iteration.
    """
    protocol = wire.nccl.protocol
    length = wire_size(protocol, data.count)
    closed = has_closing_write(wire.nccl, length)
    for piece in pieces(wire.nccl, length, turn):
        before = data_before(protocol, piece.offset, data.count)
        until = data_before(protocol, piece.offset + piece.length, data.count)
        message = WireMessage(
            bucket=place.bucket,
            loop=place.loop,
            chunk=place.chunk,
            slice=place.slice,
            reduced=half.reduced,
            contributions=half.contributions,
            qp=piece.qp,
            wire_bytes=piece.length,
            packets=packets(piece.length, wire.mtu),
            data_offset=data.start + before,
            data_bytes=until - before,
            closes=False,
        )
        yield message
        if closed:
            yield replace(message, wire_bytes=0, packets=1, data_offset=data.start + until, data_bytes=0, closes=True)


def _totals(messages: Iterable[WireMessage]) -> Totals:
    every = tuple(messages)
    return Totals(
        messages=len(every),
        packets=sum(m.packets for m in every),
        wire_bytes=sum(m.wire_bytes for m in every),
        data_bytes=sum(m.data_bytes for m in every),
    )
