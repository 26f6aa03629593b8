"""How a collective is cut into loops and chunks: three regimes of NCCL (``domain/nccl-wire.md`` section 3).

* A, 2.8 to 2.19: all channels interleave over the whole buffer; the chunk of the last loop depends on the threads.
* B, 2.20 and 2.21: each channel owns a contiguous share; the last chunk is aligned by protocol and threads.
* C, 2.22 and later: each channel owns a contiguous share dealt in cells; the last chunk is aligned to 16 bytes.

``Nccl.channels`` and ``Nccl.threads`` are what NCCL uses for the collective, as its log states: NCCL takes fewer of
both for small sizes, and that choice is not modelled here. ``threads`` are the working threads: Simple's extra warp,
which only synchronises, is not counted (512, not 544).

All counts are elements. Source: NCCL v2.8.4, v2.19.3, v2.20.5, v2.21.5, v2.22.3 to v2.30.7: ``src/device/all_reduce.h``
(``runRing``), ``src/enqueue.cc`` (``addCBDCollToPlan``, ``computeCollLastChunkInfo``, ``scheduleCollTasksToPlan``).
"""

from dataclasses import dataclass
from functools import lru_cache

from flowcheck_net.model.job import Nccl, Protocol
from flowcheck_net.model.wire_protocol import geometry

_WARP = 32
_TRAFFIC_PER_BYTE = 2
"""An all-reduce moves each byte twice (``ncclFuncTrafficPerByte``)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of elements of a bucket."""

    start: int
    count: int


Loop = tuple[Span, ...]
"""One pass of a channel: the span of each ring chunk, 0 .. N-1; a span may be empty."""


@lru_cache(maxsize=4096)
def loops(nccl: Nccl, elements: int, element_size: int, ring_size: int, channel: int) -> tuple[Loop, ...]:
    """The loops of one channel of an all-reduce; none where the channel has no share of this bucket."""
    if nccl.version < (2, 20, 0):
        return _interleaved(nccl, elements, element_size, ring_size, channel)
    chunk = geometry(nccl.protocol).chunk // element_size
    if nccl.version < (2, 22, 0):
        align = share_alignment(nccl, element_size)
    else:
        grain = geometry(nccl.protocol).grain // element_size
        chunk = chunk // grain * grain
        align = 16 // element_size
    return _contiguous(channel_share(nccl, elements, element_size, channel), chunk, align, ring_size)


def chunks_overlap(nccl: Nccl) -> bool:
    """Would the chunks of regime A overlap? Then the threads cannot be right."""
    if nccl.version >= (2, 20, 0) or nccl.protocol is not Protocol.SIMPLE:
        return False
    return geometry(nccl.protocol).chunk % (nccl.threads * 8) != 0


def channel_share(nccl: Nccl, elements: int, element_size: int, channel: int) -> Span:
    """Regimes B and C: the contiguous part of an all-reduce that one channel carries, whatever the algorithm."""
    if nccl.version < (2, 22, 0):
        return _equal_share(nccl.channels, elements, share_alignment(nccl, element_size), channel)
    return _share_by_cells(nccl, elements, element_size, channel)


def broadcast_spans(nccl: Nccl, size: int, channel: int) -> tuple[Span, ...]:
    """The messages' data (bytes) of a ring broadcast of ``size`` bytes on one channel, in order.

    NCCL broadcasts bytes, whatever the tensor's type.
    """
    chunk = geometry(nccl.protocol).broadcast_chunk
    if nccl.version < (2, 20, 0):
        return _interleaved_broadcast(nccl, size, channel, chunk)
    if nccl.version < (2, 22, 0):
        share = _equal_share(nccl.channels, size, share_alignment(nccl, 1), channel)
    else:
        chunk -= chunk % geometry(nccl.protocol).grain
        share = _share_by_cells(nccl, size, 1, channel, traffic_per_byte=1)
    end = share.start + share.count
    return tuple(_clip(start, chunk, end) for start in range(share.start, end, chunk))


def _interleaved(nccl: Nccl, elements: int, element_size: int, ring_size: int, channel: int) -> tuple[Loop, ...]:
    """Regime A: every loop deals chunks of all channels in turn from the rest of the buffer."""
    chunk = geometry(nccl.protocol).chunk // element_size
    result = []
    for grid in range(0, elements, nccl.channels * ring_size * chunk):
        real = _real_chunk(nccl, elements - grid, element_size, nccl.channels * ring_size, chunk)
        if nccl.protocol is Protocol.SIMPLE:
            starts = [grid + (channel * ring_size + k) * real for k in range(ring_size)]
        else:
            starts = [grid + (k * nccl.channels + channel) * real for k in range(ring_size)]
        result.append(tuple(_clip(start, real, elements) for start in starts))
    return tuple(result)


def _real_chunk(nccl: Nccl, rest: int, element_size: int, parts: int, chunk: int) -> int:
    """Regime A's chunk for a rest of ``rest`` elements that ``parts`` chunks share."""
    if nccl.protocol is Protocol.SIMPLE:
        return _align_up(min(chunk, _divide_up(rest, parts)), nccl.threads * 8 // element_size)
    if nccl.protocol is Protocol.LL:
        smallest = nccl.threads * (8 // element_size)
    else:
        smallest = nccl.threads * (60 // element_size) // 2
    return min(chunk, _divide_up(rest, parts * smallest) * smallest)


def _interleaved_broadcast(nccl: Nccl, size: int, channel: int, chunk: int) -> tuple[Span, ...]:
    """Regime A's broadcast, in bytes: one chunk a channel and loop, an empty one included."""
    result = []
    for grid in range(0, size, nccl.channels * chunk):
        rest = size - grid
        if nccl.protocol is Protocol.SIMPLE:
            real = _align_up(min(chunk, _divide_up(rest, nccl.channels)), nccl.threads * 8)
        elif nccl.protocol is Protocol.LL:
            last = rest < nccl.channels * chunk
            real = _align_up(_divide_up(rest, nccl.channels), nccl.threads * 8) if last else chunk
        else:
            smallest = nccl.threads * 60
            real = min(chunk, _divide_up(rest, nccl.channels * smallest) * smallest)
        result.append(_clip(grid + channel * real, real, size))
    return tuple(result)


def share_alignment(nccl: Nccl, element_size: int) -> int:
    """Regime B: elements to which a channel's share and its last chunk are rounded up."""
    if nccl.protocol is Protocol.SIMPLE:
        return 4096 // element_size
    if nccl.protocol is Protocol.LL128:
        return 480 // element_size * (nccl.threads // _WARP)
    return 8 // element_size * nccl.threads


def _equal_share(channels: int, elements: int, align: int, channel: int) -> Span:
    """Regime B: equal shares, rounded up, until nothing is left."""
    share = _align_up(_divide_up(elements, channels), align)
    return _clip(channel * share, share, elements)


def _share_by_cells(
    nccl: Nccl, elements: int, element_size: int, channel: int, traffic_per_byte: int = _TRAFFIC_PER_BYTE
) -> Span:
    """Regime C: whole cells, the first channel and the middle ones alike, the rest on the last."""
    least, cell, weight = _cell(nccl, traffic_per_byte)
    per_cell = cell * traffic_per_byte * weight
    traffic = elements * element_size * traffic_per_byte * weight
    per_channel = max(least, traffic // nccl.channels)  # 2.29 rounds otherwise; the cells come out the same
    cells = _divide_up(elements * element_size, cell)
    dealt = _deal_cells(cells, per_channel, per_cell, nccl.channels, rounds_up=nccl.version >= (2, 23, 0))
    before = sum(dealt[:channel])
    mine = dealt[channel] if channel < len(dealt) else 0
    cell_elements = cell // element_size
    return _clip(before * cell_elements, mine * cell_elements, elements)


def _cell(nccl: Nccl, traffic_per_byte: int) -> tuple[int, int, int]:
    """Least traffic of a channel (bytes), cell size (bytes), and LL's extra weight."""
    weight = 4 if nccl.protocol is Protocol.LL and nccl.version >= (2, 26, 0) else 1
    if nccl.version < (2, 23, 0):
        return 512, 16, weight
    least = 32_768 if nccl.version >= (2, 29, 0) else 16_384
    return least, _align_up(_divide_up(least, traffic_per_byte * weight), 16), weight


def _deal_cells(cells: int, per_channel: int, per_cell: int, channels: int, *, rounds_up: bool) -> tuple[int, ...]:
    """Cells of each channel, from channel 0 on, for a collective that is alone in its group.

    Several collectives in one NCCL group share their channels; that is not modelled.
    """
    if channels == 1:
        return (cells,)
    share = min(cells, _divide_up(per_channel, per_cell))
    low = min(cells, _divide_up(per_channel, per_cell) if rounds_up else per_channel // per_cell)
    middle, high = divmod(cells - low, share)
    if channels < 1 + middle + (high > 0):
        middle = channels - 2
        share, extra = divmod(cells - low, middle + 1)
        high = share + extra
    dealt = (low, *[share] * middle, high)
    return dealt if high else dealt[:-1]


def _contiguous(share: Span, chunk: int, align: int, ring_size: int) -> tuple[Loop, ...]:
    """Regimes B and C: full loops, then one whose chunk is the N-th part of the rest, rounded up."""
    result = []
    end = share.start + share.count
    for start in range(share.start, end, ring_size * chunk):
        rest = end - start
        if rest < ring_size * chunk:
            chunk = _align_up(_divide_up(rest, ring_size), align)
        result.append(tuple(_clip(start + k * chunk, chunk, end) for k in range(ring_size)))
    return tuple(result)


def _clip(start: int, count: int, end: int) -> Span:
    """The part of ``start .. start + count`` before ``end``; empty ones lie at ``end``."""
    start = min(start, end)
    return Span(start, min(count, end - start))


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _align_up(number: int, unit: int) -> int:
    return _divide_up(number, unit) * unit
