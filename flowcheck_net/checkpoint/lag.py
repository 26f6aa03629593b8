"""How far behind the copy is, why, and whether it will get worse: plain arithmetic.

Three steps are compared: the trainer's, the newest complete one of the replica, and the newest one on durable storage.
What a failure costs is counted from the last of them, for until it is stored it is not safe.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why a step is behind."""

    NONE = "none"
    UNKNOWN_TRAINING = "training-step-unknown"
    """The side channel told of no step."""
    REPLAYING = "replaying"
    """Gradients wait to be applied."""
    STOPPED = "replay-stopped"
    """The replica waits for a regular checkpoint."""
    NOTHING_STORED = "nothing-published"
    INTERVAL = "publishing-interval"
    """The next checkpoint is not due yet."""
    WRITING = "writing"
    """One is due and is not stored yet."""
    REFUSED = "not-publishable"
    """Something is not proven, or a value of the side channel is missing."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known at one moment."""

    training: int | None
    """The trainer's newest step; None: it is not known."""
    replica: int
    """The newest step whose state is complete and proven."""
    persisted: int | None
    """The newest step on durable storage; None: there is none."""
    interval: int
    """Steps between checkpoints."""
    stopped: str = ""
    """Why the replica does not go on; empty: it does."""
    refused: str = ""
    """Why the newest checkpoint was not published; empty: it was, or was not tried."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One difference of two steps, with its reason."""

    steps: int | None
    """None: unknown."""
    why: Why
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Lag:
    """All three steps, and their differences."""

    standing: Standing
    replica: Gap
    """Of the replica behind the trainer."""
    storage: Gap
    """Of the storage behind the replica."""

    @property
    def at_risk(self) -> int | None:
        """Steps that are lost if trainer and replica fail now; None: unknown."""
        told = self.standing
        if told.training is None:
            return None
        return max(0, told.training - (told.persisted or 0))


def lag(told: Standing) -> Lag:
    """Differences and their reasons."""
    return Lag(told, _replica_gap(told), _storage_gap(told))


def _replica_gap(told: Standing) -> Gap:
    if told.training is None:
        return Gap(None, Why.UNKNOWN_TRAINING, "no message of the side channel")
    behind = max(0, told.training - told.replica)
    if told.stopped:
        return Gap(behind, Why.STOPPED, told.stopped)
    return Gap(behind, Why.REPLAYING if behind else Why.NONE)


def _storage_gap(told: Standing) -> Gap:
    if told.persisted is None:
        why = Why.REFUSED if told.refused else Why.NOTHING_STORED
        return Gap(None, why, told.refused)
    behind = max(0, told.replica - told.persisted)
    if not behind:
        return Gap(0, Why.NONE)
    if told.refused:
        return Gap(behind, Why.REFUSED, told.refused)
    return Gap(behind, Why.INTERVAL if behind < told.interval else Why.WRITING)


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured or planned times and sizes of one checkpoint node."""

    step_seconds: float
    """Of the trainer, for one step."""
    apply_seconds: float
    """Of one node, to assemble and apply one step."""
    publish_seconds: float
    """To write and verify a checkpoint."""
    gradient_bytes: int
    """That wait for each step that is not applied."""
    queue_bytes: int
    """Room of one node for steps that wait."""
    overlap: bool = False
    """Does the replay go on while a checkpoint is written?"""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What becomes of the queue at a publishing interval."""

    interval: int
    nodes: int
    load: float
    """Seconds of work for each second of training; below 1 the queue stays bounded."""
    growth: float
    """Steps that the queue grows with each second; 0 where it does not grow in the long run."""
    peak: int
    """The most steps that wait at one time, where the queue stays bounded; begins with what waits now."""
    full_in: float | None
    """Seconds until the queue is full; None: it never is."""
    recovery: float | None
    """Worst seconds of training lost by a failure, with replay and storage; None: unbounded."""


class Act(StrEnum):
    """What is to be done."""

    KEEP = "keep"
    LOWER = "publish-less-often"
    NODES = "add-nodes"
    GOAL = "goal-out-of-reach"
    """More nodes do not help: publish more often, or accept a larger loss."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What is to be done, with what then holds."""

    act: Act
    forecast: Forecast
    reason: str


def forecast(rates: Rates, interval: int, waiting: int = 0, nodes: int = 1) -> Forecast:
    """Reckon the queue.

    A node applies a step in ``apply_seconds``; ``nodes`` share each step and each checkpoint evenly. While a checkpoint
    is written nothing is applied (unless ``overlap``): one in ``interval`` steps costs ``publish_seconds`` more.

    Args:
        rates: Times and sizes, all positive.
        interval: Steps between checkpoints.
        waiting: Steps in the queue now.
        nodes: That share the work.
    """
    apply, stall = rates.apply_seconds / nodes, rates.publish_seconds / nodes
    busy = apply + (0.0 if rates.overlap else stall / interval)
    load = busy / rates.step_seconds
    if rates.overlap:  # the writer is a second worker: it must keep up as well
        load = max(load, stall / (interval * rates.step_seconds))
    room = nodes * rates.queue_bytes // rates.gradient_bytes
    growth = max(0.0, 1 / rates.step_seconds - 1 / (load * rates.step_seconds)) if load > 1 else 0.0
    come = 0 if rates.overlap else math.ceil(stall / rates.step_seconds)
    peak = waiting + come + 1
    full: float | None = None
    if peak > room:
        full = 0.0 if waiting >= room else max(0.0, (room - waiting) * rates.step_seconds)
    elif growth > 0:
        full = (room - peak) / growth
    bounded = load <= 1 and full is None
    recovery = interval * rates.step_seconds + peak * apply + stall if bounded else None
    return Forecast(interval, nodes, load, growth, peak, full, recovery)


def advise(
    rates: Rates, interval: int, waiting: int = 0, nodes: int = 1, *, goal: float | None = None, headroom: float = 0.9
) -> Advice:
    """What keeps the queue bounded, before it grows.

    Publishing less often helps as long as applying alone is within ``headroom`` and the recovery goal still holds; else
    more nodes are needed.

    Args:
        rates: Times and sizes.
        interval: Steps between checkpoints now.
        waiting: Steps in the queue now.
        nodes: That share the work now.
        goal: The most seconds of training that a failure may cost; None: no goal.
        headroom: The load that is planned for, below 1: bursts need the rest.
    """
    now = forecast(rates, interval, waiting, nodes)
    if _good(now, goal, headroom):
        return Advice(Act.KEEP, now, "")
    longer = _longer(rates, nodes, headroom)
    if longer is not None and longer > interval:
        then = forecast(rates, longer, waiting, nodes)
        if _good(then, goal, headroom):
            return Advice(Act.LOWER, then, _why(now, goal, headroom))
    needed = math.floor(nodes * now.load / headroom)
    for more in range(max(nodes + 1, needed), max(nodes, needed) + _MORE):
        then = forecast(rates, interval, waiting, more)
        if _good(then, goal, headroom):
            return Advice(Act.NODES, then, _why(now, goal, headroom))
    return Advice(Act.GOAL, now, _why(now, goal, headroom))


_MORE = 1024
"""Nodes that are tried beyond those that the load alone needs: what a goal asks for."""


def _good(told: Forecast, goal: float | None, headroom: float) -> bool:
    within = goal is None or (told.recovery is not None and told.recovery <= goal)
    return told.load <= headroom and told.full_in is None and within


def _longer(rates: Rates, nodes: int, headroom: float) -> int | None:
    """The shortest interval whose load is within ``headroom``; None: none is."""
    apply, stall = rates.apply_seconds / nodes, rates.publish_seconds / nodes
    left = headroom * rates.step_seconds - (0.0 if rates.overlap else apply)
    if left <= 0 or (rates.overlap and apply > headroom * rates.step_seconds):
        return None
    found = max(1, math.ceil(stall / left))
    near = (found, found + 1)  # the quotient may be a bit too small
    return next((each for each in near if forecast(rates, each, 0, nodes).load <= headroom), None)


def _why(now: Forecast, goal: float | None, headroom: float) -> str:
    if now.full_in is not None:
        return f"the queue is full in {now.full_in:,.0f} s"
    if now.load > headroom:
        return f"the load is {now.load:.2f}, planned for {headroom:.2f}"
    return f"a failure may cost {now.recovery or 0:,.1f} s of training, the goal is {goal or 0:,.1f} s"
