"""Which fully reduced packets of a ring were seen on at least one hop.

A chunk has the same layout on the wire of every hop, so its packets are the same pieces of the gradient wherever seen.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.arithmetic import Lengths
from flowcheck_net.audit.ranges import Ranges, clip, merge, size
from flowcheck_net.audit.result import MissingChunk
from flowcheck_net.model.job import Bucket
from flowcheck_net.model.wire import WireMessage

Unit = tuple[int, int, int, int, int]
"""(bucket, loop, chunk, slice, data offset): a piece of gradient that one message carries."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """One queue pair of one hop as far as it is known."""

    label: str
    observed: bool
    table: tuple[Lengths, ...]
    seen: Ranges
    """Offsets seen, as assigned."""
    sure: Ranges
    """Offsets seen whichever of the equal queue pairs this one is."""
    possible: Ranges
    """Offsets seen on any of the equal queue pairs."""


@dataclass(frozen=True, slots=True)
class Union:
    """All hops of a ring together."""

    packets: int
    """Fully reduced packets of one iteration, each counted once."""
    seen: int
    missing: tuple[MissingChunk, ...]
    """Those that were surely not seen; where there are none, those of which it cannot be told."""
    certain: bool
    """False: it depends on which queue pair or place some packets belong to."""


def unit_of(message: WireMessage) -> Unit:
    """The piece of gradient that a message carries."""
    return message.bucket, message.loop, message.chunk, message.slice, message.data_offset


def unite(carriers: Sequence[Carrier], buckets: Sequence[Bucket]) -> Union:
    """Count the fully reduced packets that were seen on some hop, and name those that were not.

    A hop carries every chunk at least once, as a partial sum if not fully reduced, so that the hops of the network
    alone also name the chunks which none of them carries fully reduced.
    """
    packets_of: dict[Unit, int] = {}
    rows: dict[Unit, list[tuple[Carrier, Lengths]]] = defaultdict(list)
    for carrier in carriers:
        for row in carrier.table:
            if row.message.data_bytes:
                packets_of[unit_of(row.message)] = row.message.packets
                if row.message.reduced:
                    rows[unit_of(row.message)].append((carrier, row))
    total = seen = 0
    missing: list[MissingChunk] = []
    doubtful: list[MissingChunk] = []
    for unit, packets in sorted(packets_of.items()):
        where = rows[unit]
        count = _covered(where, lambda c: c.sure)
        total += packets
        seen += count
        if count < packets:
            certain = _covered(where, lambda c: c.possible) < packets
            (missing if certain else doubtful).append(_missing(unit, where, packets, count, buckets))
    return Union(total, seen, tuple(missing or doubtful), certain=bool(missing) or not doubtful)


def _covered(where: Iterable[tuple[Carrier, Lengths]], known: Callable[[Carrier], Ranges]) -> int:
    """Packets of a unit that are in the union over its carriers."""
    return size(merge(r for c, row in where for r in clip(known(c), row.first, row.last, shift=-row.first)))


def _missing(
    unit: Unit, where: Sequence[tuple[Carrier, Lengths]], packets: int, seen: int, buckets: Sequence[Bucket]
) -> MissingChunk:
    bucket, loop, chunk, slice_number, offset = unit
    return MissingChunk(
        bucket=buckets[bucket].name,
        loop=loop,
        chunk=chunk,
        slice=slice_number,
        data_offset=offset,
        packets=packets,
        missing=packets - seen,
        carriers=tuple(sorted({c.label for c, row in where if c.observed and row.mirrored})),
        unobserved=tuple(sorted({c.label for c, row in where if not (c.observed and row.mirrored)})),
    )
