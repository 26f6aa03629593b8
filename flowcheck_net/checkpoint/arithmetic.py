"""PyTorch's own kernels on runs of elements: the only place where numbers of a state change."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from flowcheck_net.checkpoint.gradient import Average, AverageRule, Part
from flowcheck_net.checkpoint.hyper import Kernel, OptimizerSpec, ParameterGroup, Rule
from flowcheck_net.checkpoint.state import torch_dtype

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 20
"""Elements that are updated at once. A multiple of 64, so that no cut lies inside a vector of any kernel."""


def chunks(elements: int, chunk: int = CHUNK) -> Iterator[slice]:
    """Cuts of a parameter, from its start."""
    return (slice(start, min(start + chunk, elements)) for start in range(0, elements, chunk))


def gathered(
    parts: tuple[Part, ...], average: Average, where: slice, dtype: "torch.dtype", *, own: bool
) -> "torch.Tensor":
    """Elements ``where`` of a parameter's gradient as the trainer has them before unscaling.

    Averaged and summed in the type of the wire, then converted to ``dtype``.

    Args:
        parts: Of the parameter.
        average: Of the job.
        where: Elements.
        dtype: Of the tensor that is updated.
        own: The caller will write into it: give a copy where it would be a window into the map.
    """
    import torch

    total = None
    for part in parts:
        seen = torch.frombuffer(part.data, dtype=torch_dtype(part.dtype))[where]
        if average.rule is AverageRule.MULTIPLY:
            seen = seen * average.by
        elif average.rule is AverageRule.DIVIDE:
            seen = seen / average.by
        total = seen if total is None else total + seen
    if total is None:
        raise ValueError("a parameter without sources")
    return total.to(dtype, copy=own)


def norm(gradient: "torch.Tensor") -> float:
    """L2 norm of a whole parameter's gradient, in its own type."""
    import torch

    return float(torch.linalg.vector_norm(gradient, 2.0))


def unscale(gradient: "torch.Tensor", scale: float) -> bool:
    """Divide by the loss scale in place as ``torch.amp.GradScaler.unscale_`` does; True: inf or nan was found."""
    import torch

    found = torch.zeros(())
    inverse = torch.tensor(scale).double().reciprocal().float()
    torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, inverse)
    return bool(found)


def update(
    spec: OptimizerSpec,
    group: ParameterGroup,
    learning_rate: float,
    tensors: Mapping[str, "torch.Tensor"],
    gradient: "torch.Tensor",
    scale: float | None = None,
) -> None:
    """One step of the optimizer on a run of elements, in place.

    Args:
        spec: Rule and kernel.
        group: Hyper-parameters.
        learning_rate: Of this step.
        tensors: By kind: ``param``, the moments, and ``step`` as it was before.
        gradient: Of the same elements.
        scale: Loss scale that the fused kernel divides by itself; None: the gradient is unscaled.
    """
    import torch
    from torch.optim.adam import adam
    from torch.optim.adamw import adamw

    kernel: dict[str, object] = {"foreach": spec.kernel is Kernel.FOREACH, "fused": spec.kernel is Kernel.FUSED}
    if scale is not None:
        kernel |= {"grad_scale": torch.tensor(scale), "found_inf": torch.zeros(())}
    if spec.rule is Rule.SGD:
        _sgd(group, learning_rate, tensors, gradient, kernel)
        return
    rule = adamw if spec.rule is Rule.ADAMW else adam
    rule(
        [tensors["param"]],
        [gradient],
        [tensors["exp_avg"]],
        [tensors["exp_avg_sq"]],
        [],
        [tensors["step"].clone()],
        amsgrad=False,
        beta1=group.betas[0],
        beta2=group.betas[1],
        lr=learning_rate,
        weight_decay=group.weight_decay,
        eps=group.eps,
        maximize=group.maximize,
        **kernel,
    )


def _sgd(
    group: ParameterGroup,
    learning_rate: float,
    tensors: Mapping[str, "torch.Tensor"],
    gradient: "torch.Tensor",
    kernel: Mapping[str, object],
) -> None:
    """The first step makes the momentum buffer: it is not the same as one of zeros."""
    from torch.optim.sgd import sgd

    buffer = tensors.get("momentum_buffer")
    begun = buffer is not None and bool(tensors["step"])
    buffers = [buffer if begun else None]
    sgd(
        [tensors["param"]],
        [gradient],
        buffers,
        weight_decay=group.weight_decay,
        momentum=group.momentum,
        lr=learning_rate,
        dampening=group.dampening,
        nesterov=group.nesterov,
        maximize=group.maximize,
        **kernel,
    )
    if buffer is not None and not begun and group.momentum:
        buffer.copy_(buffers[0])
