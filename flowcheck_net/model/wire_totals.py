"""Sums over the messages of a ring's hops without laying out every message of every hop.

What one chunk puts on the wire is the same on every hop that carries it, partial or reduced: only its queue pair
differs. So the chunks are summed once for all hops of a channel, and a hop is all chunks less the one that it lacks;
laying out N hops of 2 (N - 1) chunks would take N squared, minutes for a ring of a thousand ranks.
"""

from dataclasses import dataclass
from functools import lru_cache

from flowcheck_net.model.collectives.ring import partial_chunks, reduced_chunks
from flowcheck_net.model.job import BucketKind, Ring, Wire
from flowcheck_net.model.wire import MessageHalf, MessagePlace, Totals, send_messages, slice_spans
from flowcheck_net.model.wire_regimes import loops

_NOTHING = Totals(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CarriedTotals:
    """What one iteration puts on one hop."""

    reduced: Totals
    """Fully reduced gradients."""
    total: Totals
    """With partial sums."""


def ring_totals(wire: Wire, ring: Ring, hop: int) -> CarriedTotals:
    """The sums of ``hop_totals(hop_messages(...))`` for one hop of a ring."""
    chunks = _by_chunk(wire, ring.size, ring.channel, ring.carries)
    extra = wire.nccl.extra_step
    partial = _sum(chunks, partial_chunks(ring.size, hop, extra))
    reduced = _sum(chunks, reduced_chunks(ring.size, hop, extra))
    return CarriedTotals(reduced, _add(partial, reduced))


@dataclass(frozen=True, slots=True)
class _Chunks:
    each: tuple[Totals, ...]
    """By ring chunk."""
    total: Totals


@lru_cache(maxsize=1024)
def _by_chunk(wire: Wire, ring_size: int, channel: int, carries: tuple[BucketKind, ...]) -> _Chunks:
    each = [_NOTHING] * ring_size
    for number, bucket in enumerate(wire.buckets):
        if bucket.kind not in carries:
            continue
        for loop in loops(wire.nccl, bucket.elements, bucket.dtype.size, ring_size, channel):
            for chunk, span in enumerate(loop):
                for data in slice_spans(wire, number, span):
                    for message in send_messages(wire, MessagePlace(number, 0), MessageHalf(True, ring_size), data, 0):
                        one = Totals(1, message.packets, message.wire_bytes, message.data_bytes)
                        each[chunk] = _add(each[chunk], one)
    total = _NOTHING
    for chunk_total in each:
        total = _add(total, chunk_total)
    return _Chunks(tuple(each), total)


def _sum(chunks: _Chunks, carried: tuple[int, ...]) -> Totals:
    """Of the distinct chunks ``carried``: mostly all but one."""
    count = len(chunks.each)
    if len(carried) == count:
        return chunks.total
    if len(carried) == count - 1:
        missing = chunks.each[count * (count - 1) // 2 - sum(carried)]
        return Totals(
            chunks.total.messages - missing.messages,
            chunks.total.packets - missing.packets,
            chunks.total.wire_bytes - missing.wire_bytes,
            chunks.total.data_bytes - missing.data_bytes,
        )
    total = _NOTHING
    for chunk in carried:
        total = _add(total, chunks.each[chunk])
    return total


def _add(one: Totals, two: Totals) -> Totals:
    return Totals(
        one.messages + two.messages,
        one.packets + two.packets,
        one.wire_bytes + two.wire_bytes,
        one.data_bytes + two.data_bytes,
    )
