"""A replay that may be published from: two things that no packet tells must be told by the trainer.

Each would give a wrong state without a sign:

* the description is not the trainer's (parameters in another order inside a bucket, other clipping, a step count that
  is off by one): after each regular checkpoint it is tried once, before anything may be published;
* the optimizer changed in silence: no step is applied of which the side channel did not tell the learning rates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flowcheck_net.checkpoint.anchor import Anchor, snapshot
from flowcheck_net.checkpoint.drift import Drift, measure
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepRefused, Stop
from flowcheck_net.checkpoint.gradient import StepGradient
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.inventory_read import leaves
from flowcheck_net.checkpoint.optimizer import Replay
from flowcheck_net.checkpoint.shard import Decision, Shard
from flowcheck_net.checkpoint.training import Training


def no_regular(_step: int) -> None:
    """The trainer wrote no regular checkpoint."""


@dataclass(frozen=True, slots=True)
class Guards:
    """What a replay is held to."""

    regular: Callable[[int], Anchor | None] = no_regular
    """Step -> the trainer's regular checkpoint of it, to try the description with; None: there is none."""
    within: float = 0.0
    """Largest relative difference of a tensor in a trial; 0: bit by bit."""
    untold: bool = False
    """Apply also steps of which the side channel says nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A replica that was what the trainer's regular checkpoint of its step is."""

    step: int
    identical: bool
    """Bit by bit; else within what was allowed."""


class Guarded:
    """``Replay`` under ``Guards``."""

    def __init__(self, replay: Replay, training: Training, guards: Guards, begun_at: int | None = None) -> None:
        """Take up a replica that began at the regular checkpoint of ``begun_at``; None: it begins now."""
        self._replay = replay
        self._training = training
        self._guards = guards
        self._begun = replay.step if begun_at is None else begun_at
        self.trial: Trial | None = None
        """None: the description was not tried since the regular checkpoint."""

    @property
    def step(self) -> int:
        """The step whose state the shards hold."""
        return self._replay.step

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Of the replica."""
        return self._replay.shards

    def snapshot(self) -> dict[str, Any]:
        """The replica as a regular checkpoint (``anchor.snapshot``)."""
        return snapshot([shard.state for shard in self.shards], self._training.layout, self._training.optimizer)

    def advance(self, gradient: StepGradient, values: StepValues | None = None) -> Decision:
        """Apply a step, and try the description where that is still to be done and can be.

        Raises:
            StepRefused: As of ``Replay.advance``; the side channel did not tell of the step; or (``DISPROVED``) the
                state that the step gave is not the trainer's. Only then has the state changed: it is of no use.
        """
        if not self._guards.untold and not told(values):
            reason = f"the side channel did not tell the learning rates of step {gradient.step:,}"
            raise StepRefused(CheckpointRequest(self.step, self.step + 1, Stop.VALUE_MISSING, reason))
        decision = self._replay.advance(gradient, values)
        self.attempt()
        return decision

    def attempt(self) -> None:
        """Try the description by the state as it stands. Raises StepRefused (``DISPROVED``)."""
        if self.trial is not None or not self._telling:
            return
        regular = self._guards.regular(self.step)
        if regular is None:
            return
        mine = self.snapshot()
        drift = measure(self.step, regular, mine)
        against = _lacking(drift, mine) or [field.name for field in drift.beyond(self._guards.within)]
        if against:
            reason = f"the replay of step {self.step:,} is not the trainer's regular checkpoint: {against[0]} differs"
            hint = "training.yaml, or the step that the first iteration completes (--from-step), is not the trainer's"
            raise StepRefused(CheckpointRequest(self._begun, self.step, Stop.DISPROVED, reason), hint=hint)
        self.trial = Trial(self.step, drift.identical)

    @property
    def _telling(self) -> bool:
        """Was a step since the anchor made, and not skipped? A skipped one changes nothing, whatever is described."""
        return self.step - self._begun > self.shards[0].state.standing.skipped


def told(values: StepValues | None) -> bool:
    """Did the side channel say enough of a step, so that a change of the optimizer would show?"""
    return values is not None and values.learning_rates is not None


def _lacking(drift: Drift, mine: Mapping[str, Any]) -> list[str]:
    """Tensors of the replica that were compared with nothing; PyTorch has no moments before a first update."""
    tensors: dict[str, Any] = {name: leaf for name, leaf in leaves(mine) if hasattr(leaf, "dtype")}
    return [name for name in drift.only_replica if name in tensors and bool(tensors[name].any())]
