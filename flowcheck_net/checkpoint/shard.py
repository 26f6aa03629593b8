"""One shard of the replica: looks at a step's gradients, then applies them in its own memory, one after another."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flowcheck_net.checkpoint import arithmetic
from flowcheck_net.checkpoint.gradient import AverageRule, StepGradient
from flowcheck_net.checkpoint.hyper import Kernel, OptimizerSpec, ParameterGroup, Rule, Scaler
from flowcheck_net.checkpoint.norm import coefficient
from flowcheck_net.checkpoint.scale import Scale, after_step
from flowcheck_net.checkpoint.state import PARAM, STEP, ReplicaState, torch_dtype

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Look:
    """What a shard saw of a step's gradients: all that shards must exchange."""

    found_inf: bool = False
    norms: Mapping[str, float] = field(default_factory=dict)
    """By parameter, unscaled; empty without clipping."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a step, the same on all shards."""

    step: int
    learning_rates: tuple[float, ...]
    loss_scale: float | None
    skipped: bool
    norm: float | None
    """Of all gradients of all shards, unscaled; None without clipping."""


class Shard:
    """The optimizer on the parameters of one ``ReplicaState``."""

    def __init__(self, spec: OptimizerSpec, state: ReplicaState, chunk: int = arithmetic.CHUNK) -> None:
        self.state = state
        self._spec = spec
        self._chunk = chunk
        self._group: dict[str, tuple[int, ParameterGroup]] = {
            name: (number, group) for number, group in enumerate(spec.groups) for name in group.parameters
        }
        self.names = tuple(region.name for region in state.regions if region.kind == PARAM)
        torch_scales = spec.scaling is not None and spec.scaling.rule is Scaler.TORCH
        self._in_kernel = spec.kernel is Kernel.FUSED and spec.clip is None and torch_scales
        """GradScaler lets the fused kernel divide by the loss scale, unless the gradients were unscaled for clipping;
        Megatron multiplies by its inverse before the optimizer is called."""

    @property
    def undefined_if_skipped(self) -> bool:
        """Does PyTorch leave momentum undefined if the next step is skipped?

        Its fused SGD makes the buffers in the first step, of memory that nobody wrote, and the kernel that finds inf or
        nan does not fill them: the trainer then goes on with whatever lay there (``_fused_sgd``, 2.3 to 2.13).
        """
        if not self._in_kernel or self._spec.rule is not Rule.SGD:
            return False
        new = (name for name in self.names if self._group[name][1].momentum)
        return any(not bool(self.state.tensors[STEP, name]) for name in new)

    def look(self, gradient: StepGradient, scale: float | None) -> Look:
        """Read all gradients once, where clipping or loss scaling needs it. Changes nothing."""
        if self._spec.clip is None and scale is None:
            return Look()
        found_inf = False
        norms = {}
        for name in self.names:
            param = self.state.tensors[PARAM, name]
            whole = slice(0, param.numel())
            seen = arithmetic.gathered(
                gradient.parts[name], gradient.average, whole, param.dtype, own=scale is not None
            )
            if scale is not None:
                found_inf |= arithmetic.unscale(seen, scale)
            if self._spec.clip is not None:
                norms[name] = arithmetic.norm(seen.view(param.shape))
        return Look(found_inf, norms)

    def apply(self, gradient: StepGradient, decision: Decision) -> None:
        """Make the tensors those of ``decision.step``. A process that dies meanwhile leaves a state that is refused."""
        if not decision.skipped:
            self.state.begin(decision.step)
            for name in self.names:
                self._update(name, gradient, decision)
        standing = self.state.standing
        if self._spec.scaling is not None and standing.loss_scale is not None:
            now = Scale(standing.loss_scale, standing.growth_tracker, standing.hysteresis_left)
            then = after_step(self._spec.scaling, now, found_inf=decision.skipped)
            standing = replace(standing, loss_scale=then.value, growth_tracker=then.good, hysteresis_left=then.left)
        advances = self._spec.schedule.advances_when_skipped or not decision.skipped
        self.state.stand(
            replace(
                standing,
                step=decision.step,
                applying=None,
                schedule_steps=standing.schedule_steps + advances,
                skipped=standing.skipped + decision.skipped,
            )
        )

    def _update(self, name: str, gradient: StepGradient, decision: Decision) -> None:
        number, group = self._group[name]
        tensors = {kind: self.state.tensors[kind, name] for kind in (PARAM, *self._spec.moments)}
        count = self.state.tensors.get((STEP, name))
        flat = {kind: tensor.view(-1) for kind, tensor in tensors.items()}
        extra = {} if count is None else {STEP: count}
        for where in arithmetic.chunks(tensors[PARAM].numel(), self._cut(name, gradient, decision)):
            arithmetic.update(
                self._spec,
                group,
                decision.learning_rates[number],
                {kind: tensor[where] for kind, tensor in flat.items()} | extra,
                self._ready(name, gradient, decision, where),
                decision.loss_scale if self._in_kernel else None,
            )
        if count is not None:
            count.add_(1)

    def _cut(self, name: str, gradient: StepGradient, decision: Decision) -> int:
        """Elements to update at once: all of a gradient that is used as it lies, else few enough for a cached copy."""
        param = self.state.tensors[PARAM, name]
        parts = gradient.parts[name]
        plain = len(parts) == 1 and torch_dtype(parts[0].dtype) == param.dtype
        untouched = gradient.average.rule is AverageRule.ON_WIRE and not self._spec.clip and decision.loss_scale is None
        whole = plain and untouched and self._spec.kernel is Kernel.FUSED
        return max(1, param.numel()) if whole else self._chunk

    def _ready(self, name: str, gradient: StepGradient, decision: Decision, where: slice) -> "torch.Tensor":
        """Elements of the gradient as the optimizer gets them."""
        dtype = self.state.tensors[PARAM, name].dtype
        scale = decision.loss_scale
        own = scale is not None or self._spec.clip is not None
        seen = arithmetic.gathered(gradient.parts[name], gradient.average, where, dtype, own=own)
        if scale is not None and not self._in_kernel:
            arithmetic.unscale(seen, scale)
        if self._spec.clip is not None and decision.norm is not None:
            seen.mul_(coefficient(self._spec.clip.max_norm, decision.norm, dtype))
        return seen
