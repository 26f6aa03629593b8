"""Every object of a checkpoint, and where a published one gets it from. One of unknown source blocks publication."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import prod

SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "complex64": 8, "complex128": 16, "float8_e4m3fn": 1, "float8_e5m2": 1, "uint16": 2, "uint32": 4,
    "uint64": 8,
}  # fmt: skip
"""Element type, by PyTorch's name -> bytes."""


class Origin(StrEnum):
    """Where a published checkpoint gets an object from."""

    REPLAY = "gradient-replay"
    """It follows from the gradients, the description and the anchor."""
    SIDE = "side-channel"
    """The trainer sends it, bound to its step."""
    SNAPSHOT = "explicit-snapshot"
    """It is the anchor's: it does not change while a job runs."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Field:
    """One object of a checkpoint."""

    name: str
    """Path in the checkpoint, with dots."""
    kind: str
    """``tensor``, the name of a plain type, or of a class that was not imported."""
    file: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    place: str = ""
    """Where its data lie in the file: tied tensors have the same."""

    @property
    def tensor(self) -> bool:
        """Is it one?"""
        return self.kind == "tensor"

    @property
    def size(self) -> int:
        """Bytes of a tensor; 0 for all else."""
        return prod(self.shape) * SIZES.get(self.dtype, 0) if self.tensor else 0


@dataclass(frozen=True, slots=True)
class Listed:
    """A field with its source."""

    field: Field
    origin: Origin
    reason: str
    """A sentence for a person."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The user's word for fields that no rule knows."""

    pattern: str
    """As in a shell: ``model.*.running_mean``."""
    origin: Origin
    """``SIDE`` or ``SNAPSHOT``."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All objects of a checkpoint."""

    form: str
    fields: tuple[Listed, ...]

    @property
    def unknown(self) -> tuple[Listed, ...]:
        """What blocks publication."""
        return tuple(each for each in self.fields if each.origin is Origin.UNKNOWN)

    @property
    def partitioned(self) -> tuple[Listed, ...]:
        """Parts of an optimizer that is cut over the ranks: listed, and never written by us."""
        return tuple(each for each in self.fields if is_partitioned(each.field.name))

    def of(self, origin: Origin) -> tuple[Listed, ...]:
        """All of one source."""
        return tuple(each for each in self.fields if each.origin is origin)


Shapes = Mapping[str, tuple[int, ...]]
"""Parameters by name, aliases among them."""

_MOMENT = re.compile(r"(?:.*\.)?state\.(?P<of>.+)\.(?:exp_avg|momentum_buffer)")
_MODEL = re.compile(r"(?:model\d*|module|state_dict|master)\.(?P<of>.+)")
_NUMBER = r"(?:\d+|[^.]+)"
_CONSTANT = "it is constant, and a change stops the replay"
_RULES: tuple[tuple[str, Origin, str], ...] = (
    (r"(?:step|iteration|schedule_steps|global_steps?|skipped_steps)", Origin.REPLAY, "the replay counts steps"),
    (r"(?:.*\.)?state\..+\.(?:step|exp_avg|exp_avg_sq|momentum_buffer)", Origin.REPLAY, "state of the optimizer"),
    (r"(?:.*\.)?optimizer\.state", Origin.REPLAY, "state of the optimizer"),
    (r"optimizer", Origin.SNAPSHOT, "empty: the optimizer is in files of its own"),
    (r"(?:.*\.)?single_partition_of_fp32_groups\..*", Origin.REPLAY, "a flat part of the master parameters"),
    (r"(?:.*\.)?fp32_from_fp16_params\..*", Origin.REPLAY, "master parameters"),
    (
        r"(?:.*\.)?(?:scaler|grad_scaler|loss_scaler)\.(?:scale|_?growth_tracker|hysteresis_tracker)",
        Origin.REPLAY,
        "by the rule of loss scaling",
    ),
    (r"(?:scaler|grad_scaler)\.(?:growth_factor|backoff_factor|growth_interval)", Origin.SNAPSHOT, _CONSTANT),
    (rf"(?:.*\.)?param_groups\.{_NUMBER}\.(?:lr|learning_rate|step)", Origin.SIDE, "it changes with the schedule"),
    (rf"(?:.*\.)?param_groups(?:\.{_NUMBER}\..*)?", Origin.SNAPSHOT, _CONSTANT),
    (r"(?:.*\.)?(?:lr_scheduler|scheduler|opt_param_scheduler)(?:\..*)?", Origin.SIDE, "state of the schedule"),
    (r"(?:.*\.)?(?:[a-z_]*rng[a-z_]*|random_states?)(?:[_.].*)?", Origin.SIDE, "random numbers are not in gradients"),
    (
        r"(?:.*\.)?(?:data_?loaders?|loader|data_sampler|sampler|dataloader_state_dict|dataset)(?:\..*)?",
        Origin.SIDE,
        "position in the data",
    ),
    (r"(?:.*\.)?(?:consumed_\w+|skipped_train_samples|global_samples|epoch|tokens_seen)", Origin.SIDE, "data used"),
    (r"(?:.*\.)?num_floating_point_operations_so_far", Origin.SIDE, "a count of the trainer's own"),
    (r"rerun_state_machine(?:\..*)?", Origin.SIDE, "state of the trainer's own checks"),
    (r"args\.(?:curr_iteration|iteration|do_(?:train|valid|test))", Origin.SIDE, "it changes while the job runs"),
    (r"(?:args|ds_config|tokenizer|hparams|hyper_parameters|config)(?:\..*)?", Origin.SNAPSHOT, "settings of the job"),
    (
        r"(?:checkpoint_version|ds_version|(?:dp|mp)_world_size|content_metadata(?:\..*)?|zero_stage|clip_grad"
        r"|(?:.*\.)?(?:zero_stage|clip_grad|partition_count|group_paddings|ds_version|dynamic_loss_scale)"
        r"|(?:.*\.)?param_slice_mappings(?:\..*)?|buffer_names|param_shapes(?:\..*)?|shared_params(?:\..*)?"
        r"|frozen_param_\w+(?:\..*)?|sparse_tensor_module_names)",
        Origin.SNAPSHOT,
        "it does not change while the job runs",
    ),
)
_COMPILED = tuple((re.compile(pattern), origin, reason) for pattern, origin, reason in _RULES)


_PARTITIONED = re.compile(
    r"(?:.*\.)?(?:single_partition_of_fp32_groups|base_optimizer_state|fp32_flat_groups|param_slice_mappings"
    r"|partition_count|group_paddings|(?:dp_group_idx|gbuf_idx|bucket_idx)_\d+|optimizer\.distributed)(?:\..*)?"
)
"""DeepSpeed's ZeRO (deepspeed/runtime/zero/stage_1_and_2.py, stage3.py) and Megatron's distributed optimizer
(megatron/core/optimizer/distrib_optimizer.py): flat runs of elements of many parameters, of one rank each."""


def is_partitioned(name: str) -> bool:
    """Is it a part of an optimizer whose state is cut over the ranks?"""
    return _PARTITIONED.fullmatch(name) is not None


def classify(
    form: str,
    fields: Sequence[Field],
    *,
    parameters: Shapes | None = None,
    replayed: Collection[str] = (),
    declared: Iterable[Declaration] = (),
) -> Inventory:
    """Say where each field comes from.

    Args:
        form: Of the checkpoint.
        fields: All of it.
        parameters: The trainer's parameters (``training.yaml``). Without them a tensor of the model counts as one only
            if the optimizer has a state for it.
        replayed: Names of what the replay at hand writes itself.
        declared: The user's word; it goes before the rules, but nobody can declare a tensor replayed.
    """
    evidence = _Evidence(fields, parameters)
    words = tuple(declared)
    return Inventory(
        form,
        tuple(
            Listed(field, Origin.REPLAY, "the replay writes it")
            if field.name in replayed
            else _listed(field, evidence, words)
            for field in fields
        ),
    )


def _listed(field: Field, evidence: "_Evidence", declared: Sequence[Declaration]) -> Listed:
    for word in declared:
        if fnmatchcase(field.name, word.pattern):
            return Listed(field, word.origin, f"declared by {word.pattern}")
    name = evidence.parameter_name(field)
    if name is not None:
        refused = evidence.refused(field, name)
        return Listed(field, Origin.UNKNOWN, refused) if refused else Listed(field, Origin.REPLAY, "a parameter")
    for pattern, origin, reason in _COMPILED:
        if pattern.fullmatch(field.name):
            return Listed(field, origin, reason)
    return Listed(field, Origin.UNKNOWN, "no rule knows it: send it by the side channel, or declare it")


def _stripped(name: str) -> Iterator[str]:
    """What a tensor of the model may be called in it, behind one prefix of the checkpoint after another."""
    while found := _MODEL.fullmatch(name):
        name = found["of"]
        yield name


class _Evidence:
    """What is known of which tensors are parameters, and how they look."""

    def __init__(self, fields: Sequence[Field], parameters: Shapes | None) -> None:
        self._parameters = parameters
        self._flat = all(field.tensor and field.file.endswith(".safetensors") for field in fields)
        moments = [(m["of"], f.shape) for f in fields if f.tensor and (m := _MOMENT.fullmatch(f.name))]
        self._named = dict(moments)
        self._shapes = Counter(shape for _, shape in moments)
        named = {name: f for f in fields if (name := self.parameter_name(f)) is not None}
        distinct = {(f.file, f.place) if f.place else (name, ""): f for name, f in named.items()}
        self._asked = Counter(f.shape for f in distinct.values())

    def parameter_name(self, field: Field) -> str | None:
        """Its name in the model; None: it is no tensor of the model."""
        if not field.tensor:
            return None
        if self._flat and not any(pattern.fullmatch(field.name) for pattern, _, _ in _COMPILED):
            return field.name.removeprefix("model.")
        known = self._named if self._parameters is None else self._parameters
        names = list(_stripped(field.name))
        return next((name for name in names if name in known), names[0] if names else None)

    def refused(self, field: Field, name: str) -> str:
        """Why it is not proven to be a parameter; empty if it is."""
        if self._parameters is not None:
            known = self._parameters.get(name)
            if known is None:
                return "training.yaml has no such parameter: is it a buffer, which gradients do not tell?"
            return "" if known == field.shape else f"its shape is {field.shape}, by training.yaml {known}"
        if name in self._named:
            return "" if self._named[name] == field.shape else "its shape is not that of its optimizer state"
        numbered = all(key.isdecimal() for key in self._named)
        if numbered and self._shapes and self._shapes[field.shape] >= self._asked[field.shape]:
            return ""
        return "nothing shows that the optimizer changes it: give --training, or declare it"
