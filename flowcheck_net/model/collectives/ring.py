"""The ring all-reduce: which chunk a hop carries, how far reduced, and how many hops make a copy complete.

Rank ``i`` of a ring of ``N`` sends to rank ``i + 1``: this is hop ``i``. One loop has a reduce-scatter half, in which
each message holds one contribution more than the one before, and an all-gather half of fully reduced chunks. Indices
are modulo ``N``. Source: NCCL ``src/device/all_reduce.h`` (``runRing``), the same from 2.8 to 2.30.
"""

from collections.abc import Iterable


def partial_chunks(ring_size: int, hop: int, extra_step: bool) -> tuple[int, ...]:
    """Chunks of the reduce-scatter half in sending order: ``i - 1, i - 2, ..., i + 1``.

    The ``j``-th of them (from 1) holds ``j`` contributions. The extra step does not change this half.
    """
    del extra_step
    return tuple((hop - j) % ring_size for j in range(1, ring_size))


def reduced_chunks(ring_size: int, hop: int, extra_step: bool) -> tuple[int, ...]:
    """Chunks of the all-gather half in sending order: ``i, i - 1, ..., i + 2``; with the extra step ``i + 1`` too."""
    count = ring_size if extra_step else ring_size - 1
    return tuple((hop - j) % ring_size for j in range(count))


def chunk_copies(ring_size: int, hops: Iterable[int], extra_step: bool) -> tuple[int, ...]:
    """For each chunk, on how many of the distinct ``hops`` it is seen fully reduced.

    A ring that passes through hosts has hops that no switch sees; what the others show follows from the same law.
    """
    watched = {hop % ring_size for hop in hops}
    lacking = {(hop + 1) % ring_size for hop in watched} if not extra_step else set()
    return tuple(len(watched) - (chunk in lacking) for chunk in range(ring_size))


def ring_copies(ring_size: int, hops: Iterable[int], extra_step: bool) -> int:
    """Distinct hops of ``hops`` on which every chunk is seen fully reduced, at the least.

    Hop ``i`` lacks chunk ``i + 1`` only, so ``h`` distinct hops show every chunk ``h - 1`` times or more, and the chunk
    that one of them lacks exactly ``h - 1`` times. With the extra step no hop lacks any.
    """
    watched = len({hop % ring_size for hop in hops})
    return watched if extra_step else max(0, watched - 1)
