"""Dynamic loss scaling after each step, by the kernel that ``torch.amp.GradScaler.update`` calls."""

from flowcheck_net.checkpoint.hyper import LossScaling


def after_step(scaling: LossScaling, scale: float, tracker: int, *, found_inf: bool) -> tuple[float, int]:
    """The loss scale and the count of good steps in a row with which the next step is made."""
    import torch

    kept, good = torch.tensor(scale), torch.tensor(tracker, dtype=torch.int32)
    torch._amp_update_scale_(
        kept,
        good,
        torch.tensor(float(found_inf)),
        scaling.growth_factor,
        scaling.backoff_factor,
        scaling.growth_interval,
    )
    return float(kept), int(good)
