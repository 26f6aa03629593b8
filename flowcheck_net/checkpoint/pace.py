"""How often a follower writes its full state: by the times that it measures, before its queue grows without bound.

While a state is written nothing is applied. Where disk and optimizer together are slower than the trainer, the interval
is made longer; it is made shorter again only where the asked-for one has been easy for a while. Where no interval
helps, more nodes are asked for: nobody but the operator can give them.
"""

import math
from dataclasses import dataclass, replace

from flowcheck_net.checkpoint.lag import Act, Advice, Forecast, Rates, advise, forecast

_WEIGHT = 0.3
"""Of the newest measurement in the running mean."""
_HEADROOM = 0.9
_EASY = 0.7
"""The load at a shorter interval below which it is gone back to: far from ``_HEADROOM``, so that it does not swing."""
_CALM = 3
"""States that must be written while it is easy, before the interval is made shorter."""


@dataclass(frozen=True, slots=True)
class Paced:
    """How often the full state is written now, and why."""

    interval: int
    """Steps."""
    act: Act
    """``LOWER``: it is longer than asked for. ``NODES``: more nodes are asked for. ``KEEP``: all is well."""
    nodes: int
    """That are needed."""
    reason: str
    """Empty where it is as asked for."""
    forecast: Forecast | None
    """With the interval and one node; None: nothing is measured yet."""


class Pace:
    """Measures, and decides after each written state."""

    def __init__(self, asked: int, room: int, *, most: int = 32) -> None:
        """Begin as asked for.

        Args:
            asked: Steps between full states that the operator wants.
            room: Steps that may wait.
            most: The interval is never longer than so many times ``asked``: what it costs after a death is bounded.
        """
        self._asked, self._room, self._longest = asked, room, asked * most
        self._step: float | None = None
        self._apply: float | None = None
        self._save: float | None = None
        self._newest: tuple[int, float] | None = None
        self._last = 0
        self._calm = 0
        self.now = Paced(asked, Act.KEEP, 1, "", None)

    def due(self, step: int) -> bool:
        """Is the full state of this step to be written?"""
        return step % self._asked == 0 and step - self._last >= self.now.interval

    def seen(self, step: int, at: float) -> None:
        """The trainer is at ``step``; ``at``: seconds of a clock that only goes forward."""
        if self._newest is None:
            self._newest = (step, at)
        elif step > self._newest[0]:
            self._step = _mean(self._step, (at - self._newest[1]) / (step - self._newest[0]))
            self._newest = (step, at)

    def applied(self, seconds: float) -> None:
        """A step was applied in so many seconds."""
        self._apply = _mean(self._apply, seconds)

    def saved(self, step: int, seconds: float, waiting: int) -> Paced:
        """The full state of ``step`` was written in so many seconds, ``waiting`` steps wait: decide anew."""
        self._last = step
        self._save = _mean(self._save, seconds)
        if self._step and self._apply:
            rates = Rates(self._step, self._apply, self._save, 1, self._room)
            self.now = self._decided(rates, waiting)
        return self.now

    def _decided(self, rates: Rates, waiting: int) -> Paced:
        advice = advise(rates, self.now.interval, waiting, headroom=_HEADROOM)
        if advice.act is Act.KEEP:
            return self._eased(rates, waiting)
        self._calm = 0
        if advice.act is Act.LOWER:
            wanted = math.ceil(advice.forecast.interval / self._asked) * self._asked
            if wanted <= self._longest:
                return self._at(rates, waiting, wanted, Paced(wanted, Act.LOWER, 1, advice.reason, None))
        return self._at(rates, waiting, self._longest_useful(rates), self._asking(rates, waiting, advice))

    def _longest_useful(self, rates: Rates) -> int:
        """Applying alone may be too slow: then a longer interval only costs more after a death, and is kept."""
        alone = rates.apply_seconds / rates.step_seconds
        return self._longest if alone <= 1 else self.now.interval

    def _asking(self, rates: Rates, waiting: int, advice: Advice) -> Paced:
        there = advise(rates, self._asked, waiting, headroom=_HEADROOM)
        needed = there.forecast.nodes if there.act is Act.NODES else advice.forecast.nodes
        return Paced(self.now.interval, Act.NODES, max(2, needed), advice.reason, None)

    def _eased(self, rates: Rates, waiting: int) -> Paced:
        """Back to the interval that was asked for, step by step: half of the way each time."""
        if self.now.interval == self._asked:
            return self._at(rates, waiting, self._asked, Paced(self._asked, Act.KEEP, 1, "", None))
        shorter = max(self._asked, math.ceil(self.now.interval / 2 / self._asked) * self._asked)
        then = forecast(rates, shorter, waiting)
        self._calm = self._calm + 1 if then.load <= _EASY and then.full_in is None else 0
        if self._calm < _CALM:
            return self._at(rates, waiting, self.now.interval, replace(self.now, act=Act.LOWER, nodes=1))
        self._calm = 0
        if shorter == self._asked:
            return self._at(rates, waiting, shorter, Paced(shorter, Act.KEEP, 1, "", None))
        return self._at(rates, waiting, shorter, replace(self.now, act=Act.LOWER, nodes=1))

    def _at(self, rates: Rates, waiting: int, interval: int, told: Paced) -> Paced:
        return replace(told, interval=interval, forecast=forecast(rates, interval, waiting))


def _mean(before: float | None, now: float) -> float:
    return now if before is None else (1 - _WEIGHT) * before + _WEIGHT * now


def paced_words(paced: Paced) -> dict[str, object]:
    """Plain values, for a log."""
    told = paced.forecast
    return {
        "save_every": paced.interval,
        "act": paced.act.value,
        "nodes": paced.nodes,
        "why": paced.reason,
        "load": None if told is None else round(told.load, 3),
        "recovery_seconds": None if told is None or told.recovery is None else round(told.recovery, 3),
    }


def paced_text(paced: Paced) -> str:
    """A sentence."""
    if paced.act is Act.LOWER:
        return f"full states every {paced.interval:,} steps from now on: {paced.reason}"
    if paced.act is Act.NODES:
        return (
            f"this node is too slow, {paced.nodes:,} are needed: {paced.reason}; full states every {paced.interval:,}"
        )
    return f"full states every {paced.interval:,} steps, as asked for"
