"""What the optimizer is: rule, kernel, groups, schedule, clipping, loss scaling. Frozen, and comparable by digest.

One word wrong and the replica would drift without a sign: whatever is not said here is refused, not guessed.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from flowcheck_net.model.job import Dtype


class Rule(StrEnum):
    """The update rule, as in ``torch.optim``."""

    SGD = "sgd"
    ADAM = "adam"
    ADAMW = "adamw"


class Kernel(StrEnum):
    """Which of PyTorch's implementations the trainer uses: their last bits differ."""

    FOR_LOOP = "for-loop"
    """``foreach=False, fused=False``: the default on a CPU."""
    FOREACH = "foreach"
    FUSED = "fused"


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """One of the optimizer's ``param_groups``."""

    parameters: tuple[str, ...]
    """Names, in the optimizer's order."""
    learning_rate: float
    """At step 1, before any schedule."""
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    maximize: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the learning rate goes on."""

    kind: str = "constant"
    """``constant``, ``announced`` (by the side channel, for each step), or a class of ``torch.optim.lr_scheduler``."""
    arguments: tuple[tuple[str, float | int | tuple[int, ...]], ...] = ()
    """Of the class, by name."""
    parts: tuple["Schedule", ...] = ()
    """Of ``SequentialLR``."""
    advances_when_skipped: bool = True
    """Is the schedule stepped also where loss scaling skips the optimizer? Megatron does not."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Clipping by the global L2 norm, as ``torch.nn.utils.clip_grad_norm_`` does it."""

    max_norm: float


class Scaler(StrEnum):
    """Who scales the loss."""

    TORCH = "torch"
    """``torch.amp.GradScaler``."""
    MEGATRON = "megatron"
    """``DynamicGradScaler`` of Megatron-LM."""


@dataclass(frozen=True, slots=True)
class LossScaling:
    """Dynamic loss scaling; equal factors of 1 make it static."""

    initial: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    rule: Scaler = Scaler.TORCH
    hysteresis: int = 2
    """Megatron: steps with inf or nan, since the scale last grew, from which on it is lowered."""
    min_scale: float = 1.0
    """Megatron: it is not lowered below."""


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """All that decides how a gradient changes the state."""

    rule: Rule
    kernel: Kernel
    groups: tuple[ParameterGroup, ...]
    schedule: Schedule = Schedule()
    clip: Clip | None = None
    scaling: LossScaling | None = None
    master: Dtype | None = None
    """Type of the copy of the parameters that the optimizer works on; None: it works on the parameters."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the whole: a trainer that announces another one has changed its optimizer."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of the state tensors beside the parameter, as in PyTorch's optimizer state."""
        if self.rule is not Rule.SGD:
            return ("exp_avg", "exp_avg_sq")
        return ("momentum_buffer",) if any(group.momentum for group in self.groups) else ()


@dataclass(frozen=True, slots=True)
class StepValues:
    """What the side channel said of one step. None: it did not say."""

    step: int
    learning_rates: tuple[float, ...] | None = None
    """One a parameter group, with which the step was made."""
    loss_scale: float | None = None
    """With which the step was made."""
    skipped: bool | None = None
    """Did loss scaling skip the optimizer?"""
    optimizer: str | None = None
    """Digest of the trainer's ``OptimizerSpec``."""
