"""``training.yaml``: the parameters of a model, the buckets that carry their gradients, and the optimizer.

``flowcheck_net.checkpoint.describe`` writes it from the training script; nobody types hundreds of parameters.
"""

from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import Spec, Version
from flowcheck_net.spec.ranges import GROUP_PATTERN, MOST_ELEMENTS

ParameterName = Annotated[str, Field(min_length=1, max_length=512)]
GroupLabel = Annotated[str, Field(pattern=GROUP_PATTERN)]
ElementKind = Literal["fp32", "fp16", "bf16", "fp64"]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Extent = Annotated[int, Field(ge=1, le=MOST_ELEMENTS)]


class ParameterSpec(Spec):
    """One tensor that the optimizer updates."""

    name: ParameterName
    """As in the state dict."""
    shape: tuple[Extent, ...]
    """Extents; ``[]`` for a single number."""
    dtype: ElementKind
    """Of the model's tensor."""
    tied: tuple[ParameterName, ...] = ()
    """Other names of the same tensor in the state dict."""
    sum: tuple[tuple[GroupLabel, ParameterName], ...] = ()
    """``[group, slot]`` of each bucket slot whose sum is the gradient; left out: the slot of the same name."""


class SlotSpec(Spec):
    """A run of elements of a bucket."""

    name: ParameterName
    """A parameter, or a name that ``sum`` uses."""
    offset: Annotated[int, Field(ge=0, le=MOST_ELEMENTS)]
    """Elements from the start of the bucket."""
    elements: Extent
    """Elements."""


class ListedBucketSpec(Spec):
    """One all-reduce."""

    dtype: ElementKind
    """On the wire."""
    elements: Extent
    """Elements, padding included."""
    slots: tuple[SlotSpec, ...]
    """What lies in it, by offset."""


class ListedGroupSpec(Spec):
    """The buckets of one data-parallel group."""

    group: GroupLabel
    """Such as ``dp0``."""
    buckets: tuple[ListedBucketSpec, ...]
    """In the order of their all-reduces."""
    first: tuple[ListedBucketSpec, ...] = ()
    """Of the first iteration of a training process, where they differ."""


class BucketRuleSpec(Spec):
    """Which parameter lies in which bucket."""

    rule: Literal["ddp", "ddp-unused", "megatron", "listed"]
    """PyTorch's DDP, DDP with find_unused_parameters, Megatron's DDP, or every bucket written out."""
    group: GroupLabel = "dp0"
    """The group that reduces them; ``listed`` names its own."""
    caps: tuple[Extent, ...] = (1 << 20, 25 << 20)
    """``ddp``: bytes of the first bucket and of those that follow; with bucket_cap_mb set, that alone."""
    ready: tuple[ParameterName, ...] = ()
    """``ddp``: parameters in the order in which their gradients become ready; left out: as registered, backwards."""
    bucket_elements: Extent | None = None
    """``megatron``: a bucket is closed at so many elements; left out: one bucket."""
    dtype: ElementKind | None = None
    """Element type on the wire, where it is not that of the parameters; ``listed`` names its own."""
    groups: tuple[ListedGroupSpec, ...] = ()
    """``listed``: every group."""


class AverageSpec(Spec):
    """Who divides the sum by the number of ranks."""

    rule: Literal["on-wire", "multiply", "divide"] = "on-wire"
    """The wire has the mean, or the ranks multiply or divide what they received."""
    by: Positive = 1.0
    """The number."""


class OptimizerGroupSpec(Spec):
    """One of the optimizer's param_groups."""

    parameters: tuple[ParameterName, ...]
    """In the optimizer's order."""
    learning_rate: Annotated[float, Field(ge=0)]
    """Before any schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """As given to the optimizer."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Adam and AdamW."""
    eps: Annotated[float, Field(ge=0)] = 1e-8
    """Adam and AdamW."""
    momentum: Annotated[float, Field(ge=0)] = 0.0
    """SGD."""
    dampening: float = 0.0
    """SGD."""
    nesterov: bool = False
    """SGD."""
    maximize: bool = False
    """Go uphill."""


class ScheduleSpec(Spec):
    """How the learning rate goes on."""

    kind: Literal[
        "constant",
        "announced",
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "CosineAnnealingLR",
        "CosineAnnealingWarmRestarts",
        "PolynomialLR",
        "SequentialLR",
    ] = "constant"
    """``announced``: by the side channel at each step; else a class of torch.optim.lr_scheduler."""
    arguments: dict[str, float | int | tuple[int, ...]] = Field(default_factory=dict)
    """Of the class."""
    parts: tuple["ScheduleSpec", ...] = ()
    """``SequentialLR``: its schedulers."""
    advances_when_skipped: bool = True
    """Is it stepped also where loss scaling skips the optimizer?"""


class ClipSpec(Spec):
    """Clipping by the global L2 norm (``torch.nn.utils.clip_grad_norm_``)."""

    max_norm: Positive
    """The limit."""


class LossScalingSpec(Spec):
    """Loss scaling."""

    rule: Literal["torch", "megatron"] = "torch"
    """torch.amp.GradScaler, or Megatron's DynamicGradScaler."""
    initial: Positive = 65536.0
    """init_scale."""
    growth_factor: Positive = 2.0
    """growth_factor."""
    backoff_factor: Positive = 0.5
    """backoff_factor."""
    growth_interval: Annotated[int, Field(ge=1)] = 2000
    """growth_interval; Megatron: loss_scale_window."""
    hysteresis: Annotated[int, Field(ge=1)] = 2
    """Megatron: hysteresis."""
    min_scale: Positive = 1.0
    """Megatron: min_loss_scale."""


class OptimizerDescription(Spec):
    """The optimizer."""

    rule: Literal["sgd", "adam", "adamw"]
    """Class of torch.optim."""
    kernel: Literal["for-loop", "foreach", "fused"]
    """Which implementation: their last bits differ. The default on a CPU is ``for-loop``."""
    master: Literal["fp32", "fp64"] | None = None
    """Type of the copy that the optimizer works on, if it is not the model's own tensors."""
    groups: Annotated[tuple[OptimizerGroupSpec, ...], Field(min_length=1)]
    """param_groups."""
    schedule: ScheduleSpec = ScheduleSpec()
    """Of the learning rate."""
    clip: ClipSpec | None = None
    """Clipping, if any."""
    loss_scaling: LossScalingSpec | None = None
    """Loss scaling, if any."""


class TrainingSpec(Spec):
    """What a replica must know of a training."""

    version: Version
    parameters: Annotated[tuple[ParameterSpec, ...], Field(min_length=1)]
    """In the order of registration."""
    buckets: BucketRuleSpec
    """Where their gradients lie."""
    average: AverageSpec = AverageSpec()
    """How sums become means."""
    optimizer: OptimizerDescription
    """What it does with them."""
