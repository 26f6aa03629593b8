"""The ring law by brute force, without the planner and without the model.

A ring all-reduce is simulated with sets of contributions; what each hop showed fully reduced is written down; then
every choice of hops is tried for N = 2 .. 9. Only the last tests compare the product's formulas with this.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import pytest

from flowcheck_net.model.collectives.ring import partial_chunks, reduced_chunks

SIZES = range(2, 10)
Chunk = int
Contributions = frozenset[int]


@dataclass
class Rank:
    """Holds a partial sum of every chunk, as the set of ranks whose gradient is in it."""

    number: int
    chunks: dict[Chunk, Contributions] = field(default_factory=dict)


@cache
def simulate(size: int, extra_step: bool) -> list[list[tuple[Chunk, Contributions]]]:
    """Per hop, in the order of sending: the chunk and what was in it.

    All ranks move in lock step: everyone sends one chunk, then everyone takes in what the left neighbour sent. A rank
    starts with the chunk before its own number and then always passes on the chunk that it has just received.
    """
    ranks = [Rank(i, {k: frozenset([i]) for k in range(size)}) for i in range(size)]
    hops: list[list[tuple[Chunk, Contributions]]] = [[] for _ in range(size)]
    held = {rank.number: (rank.number - 1) % size for rank in ranks}
    steps = 2 * size - 1 if extra_step else 2 * size - 2
    for _ in range(steps):
        sent = {rank.number: (held[rank.number], rank.chunks[held[rank.number]]) for rank in ranks}
        for rank in ranks:
            hops[rank.number].append(sent[rank.number])
            chunk, contributions = sent[(rank.number - 1) % size]
            rank.chunks[chunk] = rank.chunks[chunk] | contributions
            held[rank.number] = chunk
    everyone = frozenset(range(size))
    assert all(rank.chunks == dict.fromkeys(range(size), everyone) for rank in ranks), "not an all-reduce"
    return hops


def fully_reduced(size: int, hop: int, extra_step: bool) -> set[Chunk]:
    everyone = frozenset(range(size))
    return {chunk for chunk, contributions in simulate(size, extra_step)[hop] if contributions == everyone}


def times_seen(size: int, hops: tuple[int, ...], extra_step: bool) -> list[int]:
    seen = Counter(chunk for hop in hops for chunk in fully_reduced(size, hop, extra_step))
    return [seen[chunk] for chunk in range(size)]


def every_choice(size: int) -> list[tuple[int, ...]]:
    return [hops for count in range(size + 1) for hops in combinations(range(size), count)]


@pytest.mark.parametrize("size", SIZES)
def test_a_hop_lacks_exactly_the_chunk_of_its_receiver(size: int) -> None:
    for hop in range(size):
        missing = set(range(size)) - fully_reduced(size, hop, extra_step=False)
        assert missing == {(hop + 1) % size}


@pytest.mark.parametrize("size", SIZES)
def test_any_h_hops_show_every_chunk_h_minus_1_times(size: int) -> None:
    choices = every_choice(size)
    assert len(choices) == 2**size
    for hops in choices:
        seen = times_seen(size, hops, extra_step=False)
        lacking = {(hop + 1) % size for hop in hops}
        for chunk in range(size):
            assert seen[chunk] == len(hops) - (chunk in lacking)
        assert min(seen) == max(0, len(hops) - 1)


@pytest.mark.parametrize("size", SIZES)
def test_no_hop_alone_is_enough_and_both_directions_of_a_port_are(size: int) -> None:
    for hop in range(size):
        assert min(times_seen(size, (hop,), extra_step=False)) == 0
        assert min(times_seen(size, ((hop - 1) % size, hop), extra_step=False)) == 1


def test_two_ranks_have_no_spare_copy_at_all() -> None:
    assert times_seen(2, (0, 1), extra_step=False) == [1, 1]


@pytest.mark.parametrize("size", SIZES)
def test_with_the_extra_step_every_hop_is_complete(size: int) -> None:
    for hops in every_choice(size):
        assert times_seen(size, hops, extra_step=True) == [len(hops)] * size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("extra_step", [False, True])
def test_chunks_are_sent_in_the_order_of_the_simulation(size: int, extra_step: bool) -> None:
    everyone = frozenset(range(size))
    for hop, sent in enumerate(simulate(size, extra_step)):
        partial = [(chunk, len(who)) for chunk, who in sent if who != everyone]
        assert list(zip(partial_chunks(size, hop, extra_step), range(1, size), strict=True)) == partial
        assert list(reduced_chunks(size, hop, extra_step)) == [chunk for chunk, who in sent if who == everyone]
