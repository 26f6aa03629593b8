"""The laws of the capacity report against simulations that know nothing of them, and against arithmetic by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.plan.capacity_laws import (
    effective_share,
    loss_chance,
    stale_seconds,
    young_interval,
)


def ring_packets_by_copies(packets: int, ring_size: int, hops: int) -> tuple[tuple[int, int], ...]:
    """What ``hops`` distinct watched hops of a ring show of an update of ``packets`` fully reduced packets.

    Hop ``i`` lacks chunk ``i + 1`` and shows the other ``N - 1``. So of ``N`` chunks, ``h`` (those that one watched hop
    lacks) are shown ``h - 1`` times and ``N - h`` are shown ``h`` times; a chunk is ``M / N`` packets.
    """
    lacking = packets * hops // ring_size
    return ((hops - 1, lacking), (hops, packets - lacking))


def ring_loss_first_order(packets: int, ring_size: int, hops: int, mirror_loss: float) -> float:
    """The law for small ``p``: ``M * h/N * p^(h-1)``; 2 hops ``M * 2/N * p``, 3 hops ``M * 3/N * p^2``.

    The chunks that one hop lacks decide: they have a copy less than the others, whose share is smaller by ``p``.
    """
    return float(packets * hops / ring_size * mirror_loss ** (hops - 1))


def simulated_loss(ring_size, chunk_packets, hops, loss, trials, seed):
    """Share of updates that miss a packet: every hop of the ring shows all chunks but one, each copy is a coin."""
    random = np.random.default_rng(seed)
    complete = np.ones(trials, dtype=bool)
    for chunk in range(ring_size):
        arrived = np.zeros((trials, chunk_packets), dtype=bool)
        for hop in range(hops):
            if chunk != (hop + 1) % ring_size:
                arrived |= random.random((trials, chunk_packets)) >= loss
        complete &= arrived.all(axis=1)
    return 1 - complete.mean()


@pytest.mark.parametrize(
    ("ring_size", "chunk_packets", "hops", "loss"),
    [(8, 8, 2, 2e-3), (8, 8, 3, 3e-2), (16, 5, 3, 5e-2), (4, 20, 2, 1e-3), (3, 10, 3, 5e-2), (2, 10, 2, 5e-3)],
)
def test_loss_laws_by_simulation(ring_size, chunk_packets, hops, loss):
    trials = 40_000
    packets = ring_size * chunk_packets
    law = loss_chance(ring_packets_by_copies(packets, ring_size, hops), loss)
    found = simulated_loss(ring_size, chunk_packets, hops, loss, trials, seed=ring_size * 100 + hops)
    error = math.sqrt(law * (1 - law) / trials)  # one standard deviation of a binomial share
    assert abs(found - law) < 4 * error
    assert error < law / 10, "the simulation must be able to tell"


def test_the_design_s_two_laws():
    """DESIGN section 4, by hand: M = 10^6 packets, N = 8, p = 10^-6 -> 2/8 x 10^6 x 10^-6 and 3/8 x 10^6 x 10^-12."""
    assert ring_loss_first_order(10**6, 8, 2, 1e-6) == pytest.approx(0.25)
    assert ring_loss_first_order(10**6, 8, 3, 1e-6) == pytest.approx(3.75e-7)


@settings(max_examples=200)
@given(st.integers(3, 64), st.integers(1, 10_000), st.integers(2, 3), st.floats(1e-9, 1e-3))
def test_the_first_order_is_the_limit(ring_size, chunk_packets, hops, loss):
    packets = ring_size * chunk_packets
    exact = loss_chance(ring_packets_by_copies(packets, ring_size, hops), loss)
    first = ring_loss_first_order(packets, ring_size, hops, loss)
    # What it leaves out: the other chunks, (N - h) / h times p of it, and several losses in one update, first / 2.
    assert exact <= first * (1 + (ring_size - hops) / hops * loss) + 1e-15
    assert exact >= first * (1 - first / 2 - hops * loss) - 1e-15


@given(st.integers(2, 40), st.integers(1, 1000), st.integers(1, 5), st.floats(0, 0.5))
def test_a_hop_more_never_loses_more(ring_size, chunk_packets, hops, loss):
    hops = min(hops, ring_size - 1)
    packets = ring_size * chunk_packets
    fewer, more = (loss_chance(ring_packets_by_copies(packets, ring_size, h), loss) for h in (hops, hops + 1))
    assert more <= fewer + 1e-12


@pytest.mark.parametrize(
    ("pairs", "loss", "chance"),
    [
        ([(2, 1)], 0.5, 0.25),
        ([(1, 2)], 0.5, 0.75),
        ([(1, 1), (2, 1)], 0.5, 1 - 0.5 * 0.75),
        ([(0, 1)], 1e-9, 1.0),
        ([(0, 0), (3, 5)], 0.0, 0.0),
        ([(1, 3)], 1.0, 1.0),
        ([], 0.5, 0.0),
    ],
)
def test_loss_by_hand(pairs, loss, chance):
    assert loss_chance(pairs, loss) == pytest.approx(chance)


def simulated_training(mtbf, restart, pause, interval, failures, seed):
    """Work done and kept over wall time: work an interval, pause to save; a failure loses what is not saved."""
    random = np.random.default_rng(seed)
    wall = kept = 0.0
    for until in random.exponential(mtbf, failures):
        saves = int(until // (interval + pause))
        kept += saves * interval
        wall += until + restart
    return kept / wall


@pytest.mark.parametrize(
    ("mtbf", "restart", "pause", "interval"), [(1e5, 180, 60, 3000), (1e5, 600, 5, 800), (1e6, 900, 120, 15_000)]
)
def test_effective_time_by_simulation(mtbf, restart, pause, interval):
    law = effective_share(mtbf, restart + (interval + pause) / 2, pause, interval)
    found = simulated_training(mtbf, restart, pause, interval, failures=50_000, seed=1)
    lost = restart + (interval + pause) / 2
    assert found == pytest.approx(law, abs=2 * (lost / mtbf) ** 2 + 5e-4)  # the second order, and the sampling


def test_effective_time_by_hand():
    """1000 s to a failure that costs 100 s: 90 %; a pause of 10 s after every 90 s of work: 90 % of that."""
    assert effective_share(1000, 100, 10, 90) == pytest.approx(0.81)
    assert effective_share(1000, 1500, 10, 90) == 0.0


@given(st.floats(1, 600), st.floats(1e4, 1e7))
def test_young_s_interval_is_about_the_best(pause, mtbf):
    def share(interval):
        return effective_share(mtbf, (interval + pause) / 2, pause, interval)

    best = young_interval(pause, mtbf)
    tried = max(share(best * factor) for factor in (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0))
    assert share(best) >= tried - 2 * pause / mtbf


def simulated_staleness(loss_rate, anchor, trials, seed):
    """Age of a replica at a random moment after its anchor; it stops at its first lost update."""
    random = np.random.default_rng(seed)
    now = random.random(trials) * anchor
    lost = random.exponential(1 / loss_rate, trials)
    return np.maximum(0, now - lost)


@pytest.mark.parametrize(("loss_rate", "anchor"), [(1e-3, 14_400), (1e-4, 14_400), (1e-2, 3_600), (1e-5, 7_200)])
def test_staleness_by_simulation(loss_rate, anchor):
    ages = simulated_staleness(loss_rate, anchor, trials=400_000, seed=3)
    error = ages.std() / math.sqrt(len(ages))
    assert abs(ages.mean() - stale_seconds(loss_rate, anchor)) < 4 * error


@given(st.floats(1e-9, 1e-4))
def test_the_series_meets_the_closed_form(anchor_share):
    """Near its end the series differs from the closed form by its next term, x^4 / 720."""
    x = 1e-2 * (1 - anchor_share)
    closed = 0.5 - 1 / x + (1 - math.exp(-x)) / x**2
    assert stale_seconds(x, 1.0) == pytest.approx(closed, abs=1e-9)
    assert stale_seconds(0.0, 100.0) == 0.0
