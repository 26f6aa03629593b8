"""The laws behind a capacity report: pure formulas, each derived where it stands."""

from collections.abc import Iterable
from math import exp, expm1, log1p, sqrt


def loss_chance(packets_by_copies: Iterable[tuple[int, int]], mirror_loss: float) -> float:
    """Chance that an update misses at least one packet at all of its observation points.

    A packet that ``c`` points show is missed by all of them with chance ``p^c``, the points losing copies independently
    of each other; ``m`` such packets all get through with chance ``(1 - p^c)^m``. So the update is lost with
    ``1 - prod (1 - p^c)^m`` over all ``(c, m)``. Bursts of loss are not independent: measure.

    Args:
        packets_by_copies: pairs (copies, packets); packets of 0 copies lose every update.
        mirror_loss: chance ``p`` that one point misses one packet.
    """
    log_safe = 0.0
    for copies, packets in packets_by_copies:
        if packets == 0:
            continue
        missed = mirror_loss**copies
        if missed >= 1.0:
            return 1.0
        log_safe += packets * log1p(-missed)
    return -expm1(log_safe)


def young_interval(checkpoint_cost: float, mtbf: float) -> float:
    """Seconds of work between checkpoints that lose the least time: ``sqrt(2 C M)`` (Young 1974), from C << M."""
    return sqrt(2 * checkpoint_cost * mtbf)


def effective_share(mtbf: float, down: float, pause: float, interval: float) -> float:
    """Share of the wall clock that advances training.

    In a time ``T`` there are ``T / M`` failures, each of which costs ``D`` (restart and repeated work); of what is
    left, ``C / (I + C)`` is spent in checkpoint pauses: ``(1 - D / M) * I / (I + C)``. First order: failures while
    recovering are not counted, so it holds for ``D << M``.

    Args:
        mtbf: Seconds between failures of the job.
        down: Seconds that a failure costs.
        pause: Seconds that a checkpoint stops training.
        interval: Seconds of work between checkpoints.
    """
    return max(0.0, 1 - down / mtbf) * interval / (interval + pause)


def stale_seconds(loss_rate: float, anchor_interval: float) -> float:
    """Mean age of a replica that stops at its first lost update until the next anchor, at a random moment.

    Updates are lost at rate ``l`` (1/s), so at ``u`` seconds after an anchor the replica is ``E (u - X)+`` old with
    ``X ~ Exp(l)``: ``u - (1 - e^(-l u)) / l``. The mean of that over ``u`` from 0 to ``A`` is, with ``x = l A``,
    ``A (1/2 - 1/x + (1 - e^-x) / x^2)``.
    """
    x = loss_rate * anchor_interval
    if x < 1e-2:  # the closed form cancels; the series of e^-x to the fourth order does not
        return anchor_interval * (x / 6 - x**2 / 24 + x**3 / 120)
    return anchor_interval * (0.5 - 1 / x + (1 - exp(-x)) / x**2)
