"""What a training must fulfil beyond the form of its values, and the way from a file to it."""

from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path

from pydantic import ValidationError

from flowcheck_net.errors import SpecError
from flowcheck_net.spec.explain import Words, explain
from flowcheck_net.spec.training import TrainingSpec
from flowcheck_net.spec.yamlpos import DocPath, Fault, read_document


def load_training(path: Path) -> TrainingSpec:
    """Read and check a ``training.yaml``. Raises SpecError with every problem of it."""
    document = read_document(path)
    try:
        training = TrainingSpec.model_validate(document.tree)
    except ValidationError as error:
        raise SpecError([document.problem(fault) for fault in explain(error, TrainingSpec)]) from error
    if problems := [document.problem(fault) for fault in check_training(training)]:
        raise SpecError(problems)
    return training


def check_training(training: TrainingSpec) -> Iterator[Fault]:
    """Every fault of a training."""
    names = [parameter.name for parameter in training.parameters]
    yield from _repeated(names, "parameters", "name")
    yield from _groups(training, names)
    if training.buckets.rule == "listed":
        yield from _listed(training)
    else:
        yield from _ready(training, names)
    yield from _schedule(training)
    yield from _scaling(training)


def _repeated(names: list[str], *path: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield Fault((path[0], number, *path[1:]), f"'{name}' is there twice")
        seen.add(name)


def _groups(training: TrainingSpec, names: list[str]) -> Iterator[Fault]:
    """Every parameter is in one group of the optimizer: one without would never change."""
    words = Words(names)
    told = Counter(name for group in training.optimizer.groups for name in group.parameters)
    for number, group in enumerate(training.optimizer.groups):
        for place, name in enumerate(group.parameters):
            path: DocPath = ("optimizer", "groups", number, "parameters", place)
            if name not in names:
                yield Fault(path, f"there is no parameter '{name}'", words.cure(name))
            elif told[name] > 1:
                yield Fault(path, f"'{name}' is in {told[name]} groups")
        if group.nesterov and (group.momentum == 0 or group.dampening != 0):
            yield Fault(("optimizer", "groups", number, "nesterov"), "nesterov needs momentum and no dampening")
    for number, name in enumerate(names):
        if not told[name]:
            cure = "leave out what the trainer does not update"
            yield Fault(("parameters", number, "name"), f"'{name}' is in no group of the optimizer", cure)


def _ready(training: TrainingSpec, names: list[str]) -> Iterator[Fault]:
    words = Words(names)
    for number, name in enumerate(training.buckets.ready):
        if name not in names:
            yield Fault(("buckets", "ready", number), f"there is no parameter '{name}'", words.cure(name))
    missing = [name for name in names if name not in set(training.buckets.ready)]
    if training.buckets.ready and missing:
        yield Fault(("buckets", "ready"), f"'{missing[0]}' is missing", "list every parameter, or leave `ready` out")
    for number, parameter in enumerate(training.parameters):
        if parameter.sum:
            yield Fault(("parameters", number, "sum"), "sums need `rule: listed`", "write every bucket out")


def _listed(training: TrainingSpec) -> Iterator[Fault]:
    sizes: dict[tuple[str, str], int] = {}
    for number, group in enumerate(training.buckets.groups):
        for key, buckets in (("buckets", group.buckets), ("first", group.first)):
            for place, bucket in enumerate(buckets):
                end = 0
                for at, slot in enumerate(bucket.slots):
                    path: DocPath = ("buckets", "groups", number, key, place, "slots", at)
                    if slot.offset < end:
                        yield Fault(path, f"'{slot.name}' begins at {slot.offset}, before the end of the slot before")
                    end = slot.offset + slot.elements
                    sizes[group.group, slot.name] = slot.elements
                if end > bucket.elements:
                    path = ("buckets", "groups", number, key, place, "elements")
                    yield Fault(path, f"the slots need {end} elements, the bucket has {bucket.elements}")
    for number, parameter in enumerate(training.parameters):
        for source in parameter.sum or ((training.buckets.group, parameter.name),):
            found = sizes.get(source)
            if found != prod(parameter.shape):
                has = "is in no bucket" if found is None else f"has {found} elements, not {prod(parameter.shape)}"
                parted = found is not None and found < prod(parameter.shape)
                yield Fault(("parameters", number, "name"), f"{source[0]}/{source[1]} {has}", _PARTED if parted else "")


_PARTED = (
    "a parameter of which each shard reduces a part (HSDP, several instances of a distributed optimizer) cannot be "
    "replayed whole: describe each part as a parameter of its own, with the optimizer's state of that part"
)


def _schedule(training: TrainingSpec) -> Iterator[Fault]:
    schedule = training.optimizer.schedule
    if (schedule.kind == "SequentialLR") != bool(schedule.parts):
        yield Fault(("optimizer", "schedule", "kind"), "SequentialLR needs `parts`, and nothing else has them")


def _scaling(training: TrainingSpec) -> Iterator[Fault]:
    told = training.optimizer.loss_scaling
    if told is None:
        return
    for name in ("hysteresis", "min_scale"):
        if told.rule == "torch" and name in told.model_fields_set:
            cure = "write `rule: megatron` if the trainer is Megatron-LM"
            yield Fault(("optimizer", "loss_scaling", name), f"torch.amp.GradScaler has no {name}", cure)
    if told.rule == "megatron" and not (told.backoff_factor < 1 < told.growth_factor):
        path = ("optimizer", "loss_scaling", "growth_factor")
        yield Fault(path, "Megatron's scale grows by more than 1 and is lowered by less")
