"""An edge of a tree -> its messages: the arithmetic of NCCL's Tree and NVLSTree all-reduce on RDMA writes.

A channel's share is cut into chunks of one step; each is one message up and one message down every edge. In the three
regimes of ``wire_regimes``:

* A, to 2.19: chunks of all channels interleave. Simple chunks are halved while there are few of them for the depth of
  the tree. A collective of less than one loop is cut evenly, rounded up by threads.
* B, 2.20 and 2.21, and C, 2.22 and later: the channel's contiguous share, in chunks that begin at its start.
* LL128 chunks are halved for small sizes in all regimes.
* NVLSTree (2.18 and later, Simple only): a loop has one chunk for each head.

How sure: medium. It is read in the source (v2.10.3, v2.18.3, v2.19.3, v2.20.5, v2.21.5, v2.22.3, v2.30:
``src/enqueue.cc`` ``computeColl``, ``computeCollChunkInfo``, ``calcCollChunking``; ``src/device/all_reduce.h``
``runTreeSplit``), and no packets of a tree were seen. On SM100 GPUs new versions take NVLSTree's chunk from a table,
which is not modelled; tuner plugins may set any chunk. That a down edge carries the whole share does not depend on it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flowcheck_net.model.job import BucketKind, Nccl, Protocol, Wire
from flowcheck_net.model.wire import MessageHalf, MessagePlace, WireMessage, send_messages
from flowcheck_net.model.wire_protocol import geometry
from flowcheck_net.model.wire_regimes import Span, channel_share, share_alignment

_SIMPLE_STEP = 524_288
_SIMPLE_LEAST = 32_768
_NVLS_CHUNK = 131_072
"""NCCL_NVLS_CHUNKSIZE, from 2.21 on."""
_NVLS_CHUNK_OF_FOUR_HOSTS = 65_536
"""From 2.19 on, with four hosts or more."""
_LL128_STEP = 614_400
"""Wire bytes."""
_SPLIT_THREADS = 128
"""Simple's tree kernel has these threads more than the working threads, and 64 of them never copy."""
_SYNC_THREADS = 64


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What of a communicator decides the chunks of its trees."""

    members: int
    """Ranks."""
    hosts: int
    head: int = 0
    heads: int = 0
    """NVLSTree: heads of each host; 0: a plain tree."""

    @property
    def nodes(self) -> int:
        """Ranks in one tree: all of them, or with NVLSTree one a host."""
        return self.hosts if self.heads else self.members

    @property
    def depth(self) -> int:
        """NCCL's own estimate of the steps from a leaf to the root."""
        return self.members // self.hosts - 1 + self.hosts.bit_length() - 1


@lru_cache(maxsize=1024)
def edge_messages(
    wire: Wire, shape: TreeShape, channel: int, contributions: int, carries: tuple[BucketKind, ...]
) -> tuple[WireMessage, ...]:
    """The messages of one iteration on one edge in one direction, in the order of sending.

    Args:
        wire: Protocol, version, channels, MTU and buckets.
        shape: The communicator.
        channel: 0 .. ``wire.nccl.channels - 1``.
        contributions: Ranks of the tree whose gradients are in it: ``shape.nodes`` on the way down.
        carries: Kinds of buckets that the tree reduces.
    """
    half = MessageHalf(contributions == shape.nodes, contributions)
    result: list[WireMessage] = []
    turn = 0
    for number, bucket in enumerate(wire.buckets):
        if bucket.kind not in carries:
            continue
        size = bucket.dtype.size
        spans = tree_spans(wire.nccl, shape, bucket.elements, size, channel)
        for loop, span in enumerate(spans):
            data = Span(span.start * size, span.count * size)
            result.extend(send_messages(wire, MessagePlace(number, loop), half, data, turn))
            turn += 1
    return tuple(result)


@lru_cache(maxsize=4096)
def tree_spans(nccl: Nccl, shape: TreeShape, elements: int, element_size: int, channel: int) -> tuple[Span, ...]:
    """The elements of each message of one channel, and with NVLSTree of one head; empty messages are among them."""
    if nccl.version < (2, 20, 0):
        return tuple(_interleaved(nccl, shape, elements, element_size, channel))
    share = channel_share(nccl, elements, element_size, channel)
    if nccl.version < (2, 22, 0):
        size, channels = elements * element_size, nccl.channels
    else:
        size, channels = share.count * element_size, 1
    chunk = _chunk(nccl, shape, size, channels)
    if nccl.version >= (2, 22, 0):
        chunk -= chunk % geometry(nccl.protocol).grain
    return tuple(_contiguous(nccl, shape, share, chunk // element_size, element_size))


def _interleaved(nccl: Nccl, shape: TreeShape, elements: int, element_size: int, channel: int) -> Iterator[Span]:
    """Regime A: every loop deals a chunk to each channel, and with NVLSTree to each head of it."""
    chunk = _chunk(nccl, shape, elements * element_size, nccl.channels) // element_size
    parts = nccl.channels * max(1, shape.heads)
    place = channel * max(1, shape.heads) + shape.head
    if not shape.heads and parts * chunk > elements:
        least = _least_chunk(nccl, element_size)
        chunk = _divide_up(elements, parts * least) * least
        yield _clip(place * chunk, chunk, elements)
        return
    for grid in range(0, elements, parts * chunk):
        yield _clip(grid + place * chunk, chunk, elements)


def _least_chunk(nccl: Nccl, element_size: int) -> int:
    """Regime A's unit of a collective of less than one loop, elements."""
    if nccl.protocol is Protocol.SIMPLE:
        return (nccl.threads + _SPLIT_THREADS - _SYNC_THREADS) * 8 * (8 // element_size)
    if nccl.protocol is Protocol.LL:
        return nccl.threads * (8 // element_size)
    return nccl.threads * (60 // element_size) // 8


def _contiguous(nccl: Nccl, shape: TreeShape, share: Span, chunk: int, element_size: int) -> Iterator[Span]:
    """Regimes B and C: the share from its start on; the last loop of NVLSTree is dealt evenly to the heads."""
    end = share.start + share.count
    heads = max(1, shape.heads)
    for start in range(share.start, end, heads * chunk):
        rest = end - start
        if shape.heads and rest < heads * chunk:
            align = share_alignment(nccl, element_size) if nccl.version < (2, 22, 0) else 16 // element_size
            chunk = _divide_up(_divide_up(rest, heads), align) * align
        yield _clip(start + shape.head * chunk, chunk, end)


def _chunk(nccl: Nccl, shape: TreeShape, size: int, channels: int) -> int:
    """Data bytes of a full chunk, for ``size`` bytes on ``channels`` channels."""
    if shape.heads:
        return _nvls_chunk(nccl, shape, size, channels)
    if nccl.protocol is Protocol.SIMPLE:
        return _simple_chunk(nccl, shape, size, channels)
    if nccl.protocol is Protocol.LL:
        return geometry(Protocol.LL).chunk
    return _ll128_chunk(nccl, shape, size, channels)


def _simple_chunk(nccl: Nccl, shape: TreeShape, size: int, channels: int) -> int:
    """One step; to 2.19 halved while there are too few chunks to fill the depth of the tree."""
    chunk = _SIMPLE_STEP
    if nccl.version >= (2, 20, 0):
        return chunk
    for factor, least in ((8, 131_072), (4, 65_536), (1, _SIMPLE_LEAST)):
        while size // (channels * chunk) < shape.depth * factor and chunk > least:
            chunk //= 2
    return chunk


def _ll128_chunk(nccl: Nccl, shape: TreeShape, size: int, channels: int) -> int:
    """One step, halved for small sizes: to 2.19 by its wire bytes, later by its data bytes."""
    by_wire = nccl.version < (2, 20, 0)
    chunk = _LL128_STEP if by_wire else geometry(Protocol.LL128).chunk
    per_host = shape.members / shape.hosts
    steps = 1 + (shape.hosts.bit_length() - 1) + 0.1 * per_host
    for factor, least in ((64, 131_072), (16, 32_768)):
        while size // (channels * chunk) < steps * factor / per_host and chunk > least:
            chunk //= 2
    return chunk * 15 // 16 if by_wire else chunk


def _nvls_chunk(nccl: Nccl, shape: TreeShape, size: int, channels: int) -> int:
    chunk = _NVLS_CHUNK if nccl.version >= (2, 21, 0) else _SIMPLE_STEP
    if shape.hosts >= 4 and nccl.version >= (2, 19, 0):
        chunk = min(chunk, _NVLS_CHUNK_OF_FOUR_HOSTS)
    for factor, smaller in ((32, 262_144), (16, 131_072), (4, 65_536), (1, 32_768)):
        if size < factor * channels * shape.heads * chunk and chunk > smaller:
            chunk = smaller
    return chunk


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _clip(start: int, count: int, end: int) -> Span:
    """The part of ``start .. start + count`` before ``end``; empty ones lie at ``end``."""
    start = min(start, end)
    return Span(start, min(count, end - start))
