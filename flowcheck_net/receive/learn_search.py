"""Which all-reduces of the wire model would put a learned pattern on a ring's hop.

A hop sends, in each loop, N-1 chunks as partial sums and N-1 fully reduced (N with the extra step), of which all but
the first have the sizes of the former: so the sizes tell N, and their sum tells the bucket. What was read that way is
put into ``hop_messages`` and kept only if the very same messages come out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.model.job import Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import hop_messages
from flowcheck_net.model.wire_protocol import geometry

REGIMES = ((2, 18, 3), (2, 20, 5), (2, 22, 3), (2, 24, 3), (2, 26, 2), (2, 29, 2))
"""One version of each way to cut a bucket (``wire_regimes``)."""
THREADS = (512, 256, 128, 64, 640, 320, 160, 96, 192, 384)
_MOST_RANKS = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """What the messages of an iteration tell."""

    ranks: int
    extra_step: bool
    hops: tuple[int, ...]
    """Positions in the ring at which the sender may be."""
    elements: tuple[tuple[int, int], ...]
    """Of each bucket: the least and the most that give these messages."""
    versions: tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...]
    """(version, threads that fit)"""


def shapes(
    channels: Sequence[Sequence[int]],
    protocol: Protocol,
    dtype: Dtype,
    regimes: Sequence[tuple[int, int, int]] = REGIMES,
) -> Iterator[Shape]:
    """Every reading of an iteration that the wire model confirms, the one with the fewest buckets first.

    Args:
        channels: Wire bytes of the messages of one iteration on one hop, a sequence a channel.
        protocol: Wire protocol.
        dtype: Of the elements, which nothing on the wire tells.
        regimes: Versions of NCCL to try.
    """
    found = []
    for extra in (False, True):
        for ranks in range(2, _MOST_RANKS + 1):
            buckets = _read(channels, protocol, ranks, extra=extra)
            if buckets is None:
                continue
            shape = _confirmed(channels, protocol, dtype, ranks, extra, buckets, regimes)
            if shape is not None:
                found.append(shape)
    yield from sorted(found, key=lambda shape: (len(shape.elements), shape.extra_step, shape.ranks))


def _read(channels: Sequence[Sequence[int]], protocol: Protocol, ranks: int, *, extra: bool) -> list[int] | None:
    """Data bytes of each bucket at the most; None: the sizes are not those of such a ring."""
    slices = 2 if protocol is Protocol.SIMPLE else 1
    block = 2 * (ranks - 1) + extra
    loops: list[list[tuple[int, bool]]] = []
    for sizes in channels:
        if not sizes or len(sizes) % (block * slices):
            return None
        chunks = [sum(sizes[n : n + slices]) for n in range(0, len(sizes), slices)]
        rows = [chunks[n : n + block] for n in range(0, len(chunks), block)]
        if not all(_is_loop(row, ranks) for row in rows):
            return None
        loops.append([_loop_data(row, ranks, protocol) for row in rows])
    if len({len(each) for each in loops}) > 1:
        return None
    buckets, open_ = [0], False
    for row in zip(*loops, strict=True):
        if not open_ and buckets[-1]:
            buckets.append(0)
        buckets[-1] += sum(data for data, _ in row)
        open_ = all(full for _, full in row)
    return buckets


def _is_loop(row: Sequence[int], ranks: int) -> bool:
    """Do the fully reduced chunks, but the first, have the sizes of the partial ones?"""
    partial, reduced = row[: ranks - 1], row[ranks - 1 :]
    return all(a == b for a, b in zip(reduced[1:], partial, strict=False))


def _loop_data(row: Sequence[int], ranks: int, protocol: Protocol) -> tuple[int, bool]:
    """Data bytes of all chunks at the most, and whether all of them are full."""
    line = geometry(protocol)
    data = [size // line.line_wire * line.line_data for size in row[:ranks]]
    full = line.chunk - line.chunk % line.grain
    return sum(data), all(each >= full for each in data)


def _confirmed(
    channels: Sequence[Sequence[int]],
    protocol: Protocol,
    dtype: Dtype,
    ranks: int,
    extra: bool,
    buckets: Sequence[int],
    regimes: Sequence[tuple[int, int, int]],
) -> Shape | None:
    versions: list[tuple[tuple[int, int, int], tuple[int, ...]]] = []
    first: tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None = None
    for version in regimes:
        fits = []
        for threads in THREADS if version < (2, 22, 0) else THREADS[:1]:
            if protocol is not Protocol.LL128 and threads > 512:
                continue
            nccl = Nccl(version, protocol, len(channels), threads, extra, 1, False, False, 8192)
            found = _fit(channels, nccl, dtype, ranks, buckets)
            if found is not None:
                fits.append(threads)
                first = found if first is None else (first[0], _union(first[1], found[1]))
        if fits:
            versions.append((version, tuple(fits)))
    return Shape(ranks, extra, first[0], first[1], tuple(versions)) if first else None


def _union(one: tuple[tuple[int, int], ...], two: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """What either version allows."""
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, two, strict=True))


def _fit(
    channels: Sequence[Sequence[int]], nccl: Nccl, dtype: Dtype, ranks: int, buckets: Sequence[int]
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None:
    """The positions and the elements with which the model gives these very messages."""
    lines = geometry(nccl.protocol).line_data * ranks * nccl.channels
    hops: list[int] = []
    elements: tuple[tuple[int, int], ...] = ()
    for hop in range(ranks):
        at = [0] * len(channels)
        ranges: list[tuple[int, int]] = []
        for most in buckets:
            found = _range(channels, at, nccl, dtype, ranks, hop, (most, lines))
            if found is None:
                break
            ranges.append(found)
            for channel, sizes in enumerate(_model(nccl, dtype, ranks, hop, found[1])):
                at[channel] += len(sizes)
        else:
            if all(here == len(sizes) for here, sizes in zip(at, channels, strict=True)):
                hops.append(hop)
                elements = elements or tuple(ranges)
    return (tuple(hops), elements) if hops else None


def _range(
    channels: Sequence[Sequence[int]],
    at: Sequence[int],
    nccl: Nccl,
    dtype: Dtype,
    ranks: int,
    hop: int,
    limits: tuple[int, int],
) -> tuple[int, int] | None:
    """Least and most elements of the bucket whose messages begin at ``at``; bytes on the wire only grow with them."""
    most, slack = limits[0] // dtype.size, -(-limits[1] // dtype.size)

    def model(elements: int) -> list[tuple[int, ...]]:
        return _model(nccl, dtype, ranks, hop, elements)

    def total(elements: int) -> int:
        return sum(map(sum, model(elements)))

    lengths = [len(sizes) for sizes in model(most)]
    observed = [tuple(s[a : a + n]) for s, a, n in zip(channels, at, lengths, strict=True)]
    wanted = sum(map(sum, observed))
    low, high = max(1, most - slack), most + 1
    least = _first(low, high, lambda elements: total(elements) >= wanted)
    end = _first(low, high, lambda elements: total(elements) > wanted)
    fits = [elements for elements in {least, end - 1} if low <= elements < high and model(elements) == observed]
    return (min(fits), max(fits)) if fits else None


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number of [low, high) for which a condition holds that goes on holding; ``high``: none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _model(nccl: Nccl, dtype: Dtype, ranks: int, hop: int, elements: int) -> list[tuple[int, ...]]:
    wire = Wire(nccl, 4096, (Bucket("learned", elements, dtype),), ())
    channels = range(nccl.channels)
    return [tuple(m.wire_bytes for m in hop_messages(wire, ranks, channel, hop)) for channel in channels]
