"""Replay: one step of the trainer's optimizer on all shards, or the reason why it is not made.

Everything that can stop a step is looked at before the first byte changes. A replica that missed a step goes on only
from a regular checkpoint: the next gradient would be applied to a wrong state.
"""

from collections.abc import Sequence

from flowcheck_net.checkpoint.findings import CheckpointRequest, StepRefused, Stop
from flowcheck_net.checkpoint.gradient import StepGradient
from flowcheck_net.checkpoint.hyper import OptimizerSpec, StepValues
from flowcheck_net.checkpoint.norm import total_norm
from flowcheck_net.checkpoint.schedule import ANNOUNCED, LearningRates
from flowcheck_net.checkpoint.shard import Decision, Look, Shard
from flowcheck_net.checkpoint.state import PARAM, ReplicaState


class Replay:
    """All shards of a replica that this process holds.

    Where other processes hold more of them, each calls ``look``, they exchange what they saw, each calls ``finish``.
    """

    def __init__(self, spec: OptimizerSpec, states: Sequence[ReplicaState]) -> None:
        """Take up a replica.

        Raises:
            StepRefused: A state was made by another optimizer, or the shards stand at different steps.
        """
        self._spec = spec
        self.shards = tuple(Shard(spec, state) for state in states)
        self._rates = LearningRates(spec)
        self._order = tuple(name for group in spec.groups for name in group.parameters)
        for state in states:
            if state.standing.optimizer != spec.digest:
                raise self._refused(Stop.OPTIMIZER_CHANGED, f"{state.directory} was made with another optimizer")
            if state.standing != states[0].standing:
                reason = f"{state.directory} stands at step {state.step:,}, {states[0].directory} at {states[0].step:,}"
                raise self._refused(Stop.TORN, reason)

    @property
    def step(self) -> int:
        """The step whose state the shards hold."""
        return self.shards[0].state.step

    def advance(self, gradient: StepGradient, values: StepValues | None = None) -> Decision:
        """Apply a step where this process holds all shards.

        Args:
            gradient: Of the next step.
            values: What the side channel said of it.

        Raises:
            StepRefused: It is another step, or what was announced contradicts the description. Nothing has changed.
        """
        return self.finish(gradient, self.look(gradient, values), values)

    def look(self, gradient: StepGradient, values: StepValues | None = None) -> Look:
        """Check the step and see what the gradients of our shards are like. Changes nothing."""
        self._refuse_other_step(gradient.step, values)
        self._refuse_contradicted(values)
        return joined([shard.look(gradient, self._scale) for shard in self.shards])

    def finish(self, gradient: StepGradient, look: Look, values: StepValues | None = None) -> Decision:
        """Apply the step to our shards.

        Args:
            gradient: As given to ``look``.
            look: Of all shards of the replica, joined.
            values: As given to ``look``.

        Raises:
            StepRefused: The trainer skipped the step and we found no inf or nan, or the other way round.
        """
        skipped = look.found_inf
        if values is not None and values.skipped is not None and values.skipped != skipped:
            found = "inf or nan" if skipped else "no inf or nan"
            told = "skipped" if values.skipped else "made"
            raise self._refused(Stop.HYPER_CHANGED, f"the trainer {told} step {gradient.step:,}, we found {found}")
        if skipped and any(shard.undefined_if_skipped for shard in self.shards):
            reason = (
                f"step {gradient.step:,} is skipped, and the fused SGD of PyTorch then begins with undefined momentum"
            )
            raise self._refused(Stop.OPTIMIZER_UNKNOWN, reason)
        norm = None
        if self._spec.clip is not None:
            missing = [name for name in self._order if name not in look.norms]
            if missing:
                raise self._refused(Stop.VALUE_MISSING, f"no shard gave the norm of {missing[0]}")
            norm = total_norm(self._order, look.norms, self._dtype)
        decision = Decision(gradient.step, self._learning_rates(values), self._scale, skipped, norm)
        for shard in self.shards:
            shard.apply(gradient, decision)
        return decision

    @property
    def _scale(self) -> float | None:
        return self.shards[0].state.standing.loss_scale if self._spec.scaling is not None else None

    @property
    def _dtype(self) -> object:
        first = self.shards[0]
        return first.state.tensors[PARAM, first.names[0]].dtype

    def _learning_rates(self, values: StepValues | None) -> tuple[float, ...]:
        if self._spec.schedule.kind != ANNOUNCED:
            return self._rates.at(self.shards[0].state.standing.schedule_steps)
        if values is None or values.learning_rates is None:
            raise self._refused(Stop.VALUE_MISSING, f"nobody announced the learning rates of step {self.step + 1:,}")
        return values.learning_rates

    def _refuse_other_step(self, step: int, values: StepValues | None) -> None:
        if step != self.step + 1:
            raise self._refused(Stop.OUT_OF_STEP, f"this is the gradient of step {step:,}, not of {self.step + 1:,}")
        if values is not None and values.step != step:
            raise self._refused(Stop.OUT_OF_STEP, f"the values are those of step {values.step:,}, not of {step:,}")

    def _refuse_contradicted(self, values: StepValues | None) -> None:
        """What the trainer announced must be what follows from the description."""
        rates = self._learning_rates(values)
        if len(rates) != len(self._spec.groups):
            reason = f"{len(rates)} learning rates were announced for {len(self._spec.groups)} parameter groups"
            raise self._refused(Stop.OPTIMIZER_CHANGED, reason)
        if values is None:
            return
        if values.optimizer is not None and values.optimizer != self._spec.digest:
            raise self._refused(
                Stop.OPTIMIZER_CHANGED, "the trainer announced another optimizer than the one described"
            )
        if values.learning_rates is not None and values.learning_rates != rates:
            reason = f"the trainer used learning rates {values.learning_rates}, the description gives {rates}"
            raise self._refused(Stop.HYPER_CHANGED, reason)
        if values.loss_scale is not None and values.loss_scale != self._scale:
            reason = f"the trainer used loss scale {values.loss_scale}, the description gives {self._scale}"
            raise self._refused(Stop.HYPER_CHANGED, reason)

    def _refused(self, stop: Stop, reason: str) -> StepRefused:
        return StepRefused(CheckpointRequest(self.step, self.step + 1, stop, reason))


def joined(looks: Sequence[Look]) -> Look:
    """What several shards saw, as one."""
    norms: dict[str, float] = {}
    for look in looks:
        norms |= look.norms
    return Look(any(look.found_inf for look in looks), norms)
