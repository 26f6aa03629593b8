"""A regular checkpoint of the trainer -> a replica, and a replica -> such a checkpoint.

The form is one ``torch.save`` file with plain tensors and numbers, read without running anything from it::

    {"step": 200,
     "model": {name: tensor},                  state dict of the model
     "optimizer": {"state": ..., "param_groups": ...},   ``optimizer.state_dict()``
     "master": {name: tensor},                 where the optimizer works on a master copy
     "scaler": {...},                          ``state_dict()`` of GradScaler or DynamicGradScaler, with loss scaling
     "schedule_steps": 200}                    times that the scheduler was stepped; left out: as many as steps
"""

import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.findings import CheckpointRequest, StepRefused, Stop
from flowcheck_net.checkpoint.hyper import Kernel, LossScaling, OptimizerSpec, ParameterGroup, Rule, Scaler
from flowcheck_net.checkpoint.inventory import is_partitioned
from flowcheck_net.checkpoint.inventory_read import leaves
from flowcheck_net.checkpoint.layout import Parameter, ParameterLayout
from flowcheck_net.checkpoint.schedule import ANNOUNCED, CONSTANT, LearningRates
from flowcheck_net.checkpoint.state import PARAM, STEP, ReplicaState, Standing, regions_of, torch_dtype
from flowcheck_net.errors import OutputError, RecordsCorrupt

Anchor = Mapping[str, Any]
"""What the file holds."""


def read_anchor(path: Path) -> Anchor:
    """Read a regular checkpoint.

    Raises:
        RecordsCorrupt: It cannot be read, or holds anything but tensors, numbers, text and plain containers.
    """
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what PyTorch's reader meets in damaged bytes, it raises as it comes
        raise RecordsCorrupt(f"{path} cannot be read as a checkpoint: {error}") from error
    _refuse_changed(path)
    missing = [key for key in ("step", "model", "optimizer") if not isinstance(found, dict) or key not in found]
    parts = sorted(name for name, _ in leaves(found) if is_partitioned(name)) if isinstance(found, dict) else []
    if parts:
        more = f" and {len(parts) - 20:,} more" if len(parts) > 20 else ""
        reason = f"an optimizer that is cut over the ranks is in it: {', '.join(parts[:20])}{more}"
        hint = "write a regular checkpoint with whole tensors: for DeepSpeed zero_to_fp32, or an optimizer without ZeRO"
        raise RecordsCorrupt(f"{path} is no anchor: {reason}", hint=hint)
    if missing:
        raise RecordsCorrupt(f"{path} is no anchor: it has no {missing[0]!r}", hint="docs/checkpoint.md shows the form")
    return dict(found)


def _refuse_changed(path: Path) -> None:
    """PyTorch writes checksums, and does not look at them when it reads: a bit that changed would be taken for true."""
    if not zipfile.is_zipfile(path):  # the old form has none
        return
    try:
        with zipfile.ZipFile(path) as file:
            bad = file.testzip()
    except (OSError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise RecordsCorrupt(f"{path} cannot be read as a checkpoint: {error}") from error
    if bad is not None:
        hint = "take another; or is torch.serialization.set_crc32_options(False) in the training script?"
        raise RecordsCorrupt(f"{path} was changed or damaged: the checksum of {bad} is another", hint=hint)


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Write a regular checkpoint; the file appears only when it is whole. Raises OutputError."""
    import torch

    new = path.with_name(path.name + ".new")
    try:
        torch.save(dict(anchor), new)
        new.replace(path)
    except (OSError, RuntimeError) as error:
        new.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error}", hint="choose another place with -o") from error


def begin(
    directories: Sequence[Path], layout: ParameterLayout, spec: OptimizerSpec, anchor: Anchor
) -> list[ReplicaState]:
    """Make a replica from a regular checkpoint, one shard a directory.

    Raises:
        StepRefused: Its optimizer is not the one described.
        RecordsCorrupt: A tensor is missing or has another shape.
        OutputError: A directory is there already.
    """
    step = int(anchor["step"])
    standing = Standing(step, spec.digest, schedule_steps=int(anchor.get("schedule_steps", step)))
    if spec.scaling is not None:
        standing = _scaled(standing, spec.scaling, anchor)
    _refuse_other_groups(spec, anchor, standing)
    states = []
    for directory, parameters in zip(directories, split(layout.parameters, len(directories)), strict=True):
        # until it is filled it is the state of no step: a process that dies meanwhile leaves what is refused
        state = ReplicaState.create(directory, regions_of(parameters, spec), replace(standing, applying=standing.step))
        _fill(state, spec, anchor)
        state.stand(standing)
        states.append(state)
    return states


def split(parameters: Sequence[Parameter], shards: int) -> list[tuple[Parameter, ...]]:
    """Whole parameters, in order, to shards of about equal size; none is empty where there are parameters enough."""
    total = sum(parameter.elements for parameter in parameters)
    found: list[list[Parameter]] = [[] for _ in range(shards)]
    before = current = 0
    for number, parameter in enumerate(parameters):
        wanted = (before + parameter.elements // 2) * shards // max(1, total)
        last = len(parameters) - number <= shards - 1 - current
        if found[current] and current < shards - 1 and (wanted > current or last):
            current += 1
        found[current].append(parameter)
        before += parameter.elements
    return [tuple(each) for each in found]


def snapshot(states: Iterable[ReplicaState], layout: ParameterLayout, spec: OptimizerSpec) -> dict[str, Any]:
    """The replica as a regular checkpoint. Its tensors lie in the shared memory: write them before the next step."""
    shards = tuple(states)
    standing = shards[0].standing
    tensors = {key: tensor for state in shards for key, tensor in state.tensors.items()}
    rates = LearningRates(spec).at(standing.schedule_steps)
    optimizer: dict[str, Any] = {"state": {}, "param_groups": []}
    for group, rate in zip(spec.groups, rates, strict=True):
        first = len(optimizer["state"])
        for number, name in enumerate(group.parameters, first):
            moments = {kind: tensors[kind, name] for kind in spec.moments}
            count = {STEP: tensors[STEP, name]} if spec.rule is not Rule.SGD else {}
            optimizer["state"][number] = count | moments
        numbers = list(range(first, first + len(group.parameters)))
        base = {} if spec.schedule.kind in (CONSTANT, ANNOUNCED) else {"initial_lr": group.learning_rate}
        optimizer["param_groups"].append(_torch_group(spec, group, rate) | base | {"params": numbers})
    params = {parameter.name: tensors[PARAM, parameter.name] for parameter in layout.parameters}
    found: dict[str, Any] = {
        "step": standing.step,
        "model": _model(layout, params),
        "optimizer": optimizer,
        "schedule_steps": standing.schedule_steps,
    }
    if spec.master is not None:
        found["master"] = params
    if spec.scaling is not None:
        found["scaler"] = _scaler(spec.scaling, standing)
    return found


def _model(layout: ParameterLayout, params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for parameter in layout.parameters:
        tensor = params[parameter.name].to(torch_dtype(parameter.dtype))
        found |= dict.fromkeys((parameter.name, *parameter.aliases), tensor)
    return found


def _torch_group(spec: OptimizerSpec, group: ParameterGroup, rate: float) -> dict[str, Any]:
    """What decides an update, under PyTorch's names."""
    common: dict[str, Any] = {"lr": rate, "weight_decay": group.weight_decay, "maximize": group.maximize}
    common |= {"foreach": spec.kernel is Kernel.FOREACH, "fused": spec.kernel is Kernel.FUSED}
    if spec.rule is Rule.SGD:
        return common | {"momentum": group.momentum, "dampening": group.dampening, "nesterov": group.nesterov}
    return common | {"betas": group.betas, "eps": group.eps, "amsgrad": False}


def _scaler(scaling: LossScaling, standing: Standing) -> dict[str, Any]:
    """As the trainer's scaler gives its state."""
    if scaling.rule is Scaler.MEGATRON:
        import torch

        return {
            "scale": torch.tensor([standing.loss_scale]),
            "growth_tracker": standing.growth_tracker,
            "hysteresis_tracker": standing.hysteresis_left,
        }
    return {
        "scale": standing.loss_scale,
        "growth_factor": scaling.growth_factor,
        "backoff_factor": scaling.backoff_factor,
        "growth_interval": scaling.growth_interval,
        "_growth_tracker": standing.growth_tracker,
    }


def _scaled(standing: Standing, scaling: LossScaling, anchor: Anchor) -> Standing:
    """Raises RecordsCorrupt, StepRefused."""
    scaler = anchor.get("scaler")
    megatron = scaling.rule is Scaler.MEGATRON
    wanted = ("scale", "growth_tracker", "hysteresis_tracker") if megatron else ("scale", "_growth_tracker")
    missing = [name for name in wanted if name not in (scaler or {})]
    if not scaler or missing:
        lacking = f"no {missing[0]!r} in its 'scaler'" if scaler else "no 'scaler'"
        raise RecordsCorrupt(f"the anchor has {lacking}, but the description has loss scaling of {scaling.rule}")
    for name in () if megatron else ("growth_factor", "backoff_factor", "growth_interval"):
        if name in scaler and scaler[name] != getattr(scaling, name):
            reason = (
                f"{name} of the scaler is {scaler[name]} in the checkpoint, {getattr(scaling, name)} by the description"
            )
            raise _refused(standing, Stop.HYPER_CHANGED, reason)
    return replace(
        standing,
        loss_scale=float(scaler["scale"]),
        growth_tracker=int(scaler[wanted[1]]),
        hysteresis_left=int(scaler["hysteresis_tracker"]) if megatron else 0,
    )


def _refuse_other_groups(spec: OptimizerSpec, anchor: Anchor, standing: Standing) -> None:
    """The checkpoint's hyper-parameters must be those that follow from the description."""
    groups = anchor["optimizer"]["param_groups"]
    rates = LearningRates(spec).at(standing.schedule_steps)
    if len(groups) != len(spec.groups):
        reason = f"the checkpoint has {len(groups)} parameter groups, the description {len(spec.groups)}"
        raise _refused(standing, Stop.OPTIMIZER_CHANGED, reason)
    for number, (theirs, ours, rate) in enumerate(zip(groups, spec.groups, rates, strict=True)):
        if len(theirs["params"]) != len(ours.parameters):
            reason = f"group {number} has {len(theirs['params'])} parameters, the description {len(ours.parameters)}"
            raise _refused(standing, Stop.OPTIMIZER_CHANGED, reason)
        for key, told in _torch_group(spec, ours, rate).items():
            given = theirs.get(key)
            same = bool(given) == told if isinstance(told, bool) else _plain(given) == _plain(told)
            if not same and not (key == "lr" and spec.schedule.kind == ANNOUNCED):
                reason = f"{key} of group {number} is {given} in the checkpoint, {told} by the description"
                raise _refused(standing, Stop.HYPER_CHANGED, reason)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _refused(standing: Standing, stop: Stop, reason: str) -> StepRefused:
    hint = "describe the optimizer as the trainer has it now, and begin again"
    return StepRefused(CheckpointRequest(standing.step, standing.step + 1, stop, reason), hint=hint)


def _fill(state: ReplicaState, spec: OptimizerSpec, anchor: Anchor) -> None:
    numbers = {name: number for number, name in enumerate(name for g in spec.groups for name in g.parameters)}
    params = anchor["master"] if spec.master is not None and "master" in anchor else anchor["model"]
    for (kind, name), tensor in state.tensors.items():
        own = anchor["optimizer"]["state"].get(numbers[name], {})
        given = params.get(name) if kind == PARAM else own.get(kind)
        if kind == PARAM and given is None:
            raise RecordsCorrupt(f"the anchor has no parameter {name}")
        if given is None and kind == STEP and spec.rule is Rule.SGD:
            given = 1.0 if own.get("momentum_buffer") is not None else 0.0
        if given is None:
            continue  # PyTorch has no state of a parameter before its first update
        if not isinstance(given, (int, float)) and tuple(given.shape) != tuple(tensor.shape):
            raise RecordsCorrupt(f"{kind} of {name} has shape {tuple(given.shape)}, not {tuple(tensor.shape)}")
        tensor.copy_(given) if not isinstance(given, (int, float)) else tensor.fill_(given)
