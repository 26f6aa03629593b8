"""From ``training.yaml`` to the words of assembling and replaying."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.checkpoint.buckets import Piece, bucket_order, ddp_buckets, ddp_first, ddp_unused, megatron_buckets
from flowcheck_net.checkpoint.gradient import Average, AverageRule
from flowcheck_net.checkpoint.hyper import (
    Clip,
    Kernel,
    LossScaling,
    OptimizerSpec,
    ParameterGroup,
    Rule,
    Scaler,
    Schedule,
)
from flowcheck_net.checkpoint.layout import Bucket, BucketOrder, Parameter, ParameterLayout, Slot, Source
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype
from flowcheck_net.spec.training import ListedBucketSpec, LossScalingSpec, ScheduleSpec, TrainingSpec


@dataclass(frozen=True, slots=True)
class Training:
    """What a replica knows of a training."""

    layout: ParameterLayout
    average: Average
    optimizer: OptimizerSpec


def build_training(spec: TrainingSpec) -> Training:
    """The words for a checked file."""
    average = Average(AverageRule(spec.average.rule), spec.average.by)
    return Training(_layout(spec), average, _optimizer(spec))


def _layout(spec: TrainingSpec) -> ParameterLayout:
    group = GroupName(spec.buckets.group)
    parameters = tuple(
        Parameter(
            p.name,
            p.shape,
            Dtype(p.dtype),
            tuple(Source(GroupName(g), slot) for g, slot in p.sum) or (Source(group, p.name),),
            p.tied,
        )
        for p in spec.parameters
    )
    if spec.buckets.rule == "listed":
        steady = tuple(_listed(GroupName(g.group), g.buckets) for g in spec.buckets.groups)
        first = tuple(_listed(GroupName(g.group), g.first or g.buckets) for g in spec.buckets.groups)
        return ParameterLayout(parameters, steady, first if first != steady else ())
    kind = spec.buckets.dtype
    pieces = {p.name: Piece(p.name, p.elements, Dtype(kind) if kind else p.dtype) for p in parameters}
    if spec.buckets.rule == "ddp-unused":
        return ParameterLayout(parameters, (_order(group, ddp_unused(list(pieces.values()), spec.buckets.caps)),))
    if spec.buckets.rule == "megatron":
        made = megatron_buckets(list(pieces.values()), spec.buckets.bucket_elements)
        return ParameterLayout(parameters, (_order(group, made),))
    ready = spec.buckets.ready or tuple(reversed(pieces))
    later = _order(group, ddp_buckets([pieces[name] for name in ready], spec.buckets.caps))
    return ParameterLayout(parameters, (later,), (_order(group, ddp_first(list(pieces.values()))),))


def _order(group: GroupName, buckets: Sequence[Sequence[Piece]]) -> BucketOrder:
    return bucket_order(group, buckets, [f"bucket{number}" for number in range(len(buckets))])


def _listed(group: GroupName, buckets: Sequence[ListedBucketSpec]) -> BucketOrder:
    return BucketOrder(
        group,
        tuple(
            Bucket(
                f"bucket{number}",
                Dtype(bucket.dtype),
                bucket.elements,
                tuple(Slot(slot.name, slot.offset, slot.elements) for slot in bucket.slots),
            )
            for number, bucket in enumerate(buckets)
        ),
    )


def _optimizer(spec: TrainingSpec) -> OptimizerSpec:
    told = spec.optimizer
    return OptimizerSpec(
        rule=Rule(told.rule),
        kernel=Kernel(told.kernel),
        groups=tuple(ParameterGroup(**group.model_dump()) for group in told.groups),
        schedule=_schedule(told.schedule),
        clip=Clip(told.clip.max_norm) if told.clip else None,
        scaling=_scaling(told.loss_scaling) if told.loss_scaling else None,
        master=Dtype(told.master) if told.master else None,
    )


def _scaling(spec: LossScalingSpec) -> LossScaling:
    return LossScaling(**spec.model_dump() | {"rule": Scaler(spec.rule)})


def _schedule(spec: ScheduleSpec) -> Schedule:
    arguments = tuple(sorted(spec.arguments.items()))
    return Schedule(spec.kind, arguments, tuple(map(_schedule, spec.parts)), spec.advances_when_skipped)
