"""Learning rates by PyTorch's own schedulers, for their recursive forms give other last bits than the formulas do."""

from typing import Any

from flowcheck_net.checkpoint.hyper import OptimizerSpec, Schedule

ANNOUNCED = "announced"
CONSTANT = "constant"
SEQUENTIAL = "SequentialLR"
CLASSES = (
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "PolynomialLR",
    SEQUENTIAL,
)
"""Classes of ``torch.optim.lr_scheduler`` that follow from their arguments and change nothing but learning rates."""


class LearningRates:
    """The learning rates of a job by how often its scheduler was stepped."""

    def __init__(self, spec: OptimizerSpec) -> None:
        self._spec = spec
        self._at = 0
        self._optimizer, self._scheduler = _begin(spec)

    def at(self, steps: int) -> tuple[float, ...]:
        """One a parameter group, after ``steps`` steps of the scheduler; cheap where ``steps`` goes up."""
        if steps < self._at:
            self._at = 0
            self._optimizer, self._scheduler = _begin(self._spec)
        while self._at < steps:
            if self._scheduler is not None:
                self._optimizer.step()  # without gradients: only so that the scheduler does not complain of the order
                self._scheduler.step()
            self._at += 1
        return tuple(float(group["lr"]) for group in self._optimizer.param_groups)


def _begin(spec: OptimizerSpec) -> tuple[Any, Any]:
    """A stand-in optimizer with the job's groups, and the scheduler on it."""
    import torch

    groups = [{"params": [torch.zeros(1)], "lr": group.learning_rate} for group in spec.groups]
    optimizer = torch.optim.SGD(groups, lr=0.0)
    return optimizer, _scheduler(optimizer, spec.schedule)


def _scheduler(optimizer: object, schedule: Schedule) -> Any:  # noqa: ANN401 - PyTorch's
    import torch

    if schedule.kind in (CONSTANT, ANNOUNCED):
        return None
    arguments: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in schedule.arguments
    }
    if schedule.kind == SEQUENTIAL:
        arguments["schedulers"] = [_scheduler(optimizer, part) for part in schedule.parts]
    return getattr(torch.optim.lr_scheduler, schedule.kind)(optimizer, **arguments)
