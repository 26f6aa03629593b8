"""Dynamic loss scaling: torch.amp.GradScaler by the kernel that it calls, or Megatron's DynamicGradScaler.

They differ: Megatron lowers the scale only from the ``hysteresis``-th step with inf or nan on, counted since the scale
last grew (good steps do not forgive), and never below ``min_scale``; GradScaler at each, without a bound.
"""

from dataclasses import dataclass

from flowcheck_net.checkpoint.hyper import LossScaling, Scaler


@dataclass(frozen=True, slots=True)
class Scale:
    """What a step is made with."""

    value: float
    good: int
    """Steps without inf or nan in a row."""
    left: int = 0
    """Steps with inf or nan until the scale is lowered; GradScaler does not count them."""


def after_step(scaling: LossScaling, scale: Scale, *, found_inf: bool) -> Scale:
    """What the next step is made with."""
    import torch

    kept = torch.tensor(scale.value)
    if scaling.rule is Scaler.TORCH:
        good = torch.tensor(scale.good, dtype=torch.int32)
        torch._amp_update_scale_(
            kept,
            good,
            torch.tensor(float(found_inf)),
            scaling.growth_factor,
            scaling.backoff_factor,
            scaling.growth_interval,
        )
        return Scale(float(kept), int(good))
    if found_inf:
        left = scale.left - 1
        if left > 0:
            return Scale(scale.value, 0, left)
        lowered = torch.maximum(kept * torch.tensor(scaling.backoff_factor), torch.tensor(scaling.min_scale))
        return Scale(float(lowered), 0, left)
    if scale.good + 1 == scaling.growth_interval:
        return Scale(float(kept * torch.tensor(scaling.growth_factor)), 0, scaling.hysteresis)
    return Scale(scale.value, scale.good + 1, scale.left)
