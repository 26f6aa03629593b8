"""The ring all-reduce: which chunk a hop carries, and how far reduced.

Rank ``i`` of a ring of ``N`` sends to rank ``i + 1``: this is hop ``i``. One loop has a reduce-scatter half, in which
each message holds one contribution more than the one before, and an all-gather half of fully reduced chunks. Indices
are modulo ``N``. Source: NCCL ``src/device/all_reduce.h`` (``runRing``), the same from 2.8 to 2.30.
"""


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
