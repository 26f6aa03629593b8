"""The replica: parameters and optimizer state of one shard in shared memory, changed in place.

Three files in one directory, for example under ``/dev/shm``: ``state.bin`` holds all tensors, each at a multiple of 64
bytes, ``regions.json`` says what they are, and ``standing.json`` at which step they stand. Before the first byte of
``state.bin`` changes, ``standing.json`` says which step is being applied; a process that dies in between leaves a state
that ``open`` refuses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck_net.checkpoint.findings import CheckpointRequest, StepRefused, Stop
from flowcheck_net.checkpoint.hyper import OptimizerSpec
from flowcheck_net.checkpoint.layout import Parameter
from flowcheck_net.errors import OutputError, RecordsCorrupt
from flowcheck_net.model.job import Dtype

if TYPE_CHECKING:
    import torch

STATE_VERSION = 1
PARAM = "param"
"""Kind of the parameter itself (the master copy where there is one); the others are named as in PyTorch."""
STEP = "step"
"""Kind of the count of a parameter's updates: one fp32 number, as PyTorch keeps it for Adam."""
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Region:
    """One tensor of ``state.bin``."""

    kind: str
    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    offset: int
    """Bytes."""

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * self.dtype.size


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the state stands, beside its tensors."""

    step: int
    """Gradients applied or skipped since training began: the trainer's own number."""
    optimizer: str
    """Digest of the ``OptimizerSpec``."""
    applying: int | None = None
    """The step that is being applied; None: the tensors are those of ``step``."""
    schedule_steps: int = 0
    """Times that the learning-rate schedule was stepped."""
    loss_scale: float | None = None
    growth_tracker: int = 0
    """Steps in a row without inf or nan, as the loss scaler counts them."""
    hysteresis_left: int = 0
    """Steps with inf or nan until Megatron's scale is lowered; it goes on below zero."""
    skipped: int = 0
    """Steps that loss scaling skipped, since the anchor."""


def regions_of(parameters: Sequence[Parameter], optimizer: OptimizerSpec) -> tuple[Region, ...]:
    """The tensors of a replica of ``parameters``, parameter by parameter."""
    found = []
    offset = 0
    steps = (STEP,) if optimizer.moments else ()
    for parameter in parameters:
        dtype = optimizer.master or parameter.dtype
        for kind in (PARAM, *optimizer.moments, *steps):
            shape, kept = ((), Dtype.FP32) if kind == STEP else (parameter.shape, dtype)
            region = Region(kind, parameter.name, kept, shape, offset)
            found.append(region)
            offset += -(-region.size // _ALIGNMENT) * _ALIGNMENT
    return tuple(found)


class ReplicaState:
    """One shard of the replica. Only ``optimizer.Replay`` changes it."""

    def __init__(self, directory: Path, regions: tuple[Region, ...], standing: Standing) -> None:
        self.directory = directory
        self.regions = regions
        self.standing = standing

    @classmethod
    def create(cls, directory: Path, regions: tuple[Region, ...], standing: Standing) -> "ReplicaState":
        """A new state, all zeros, in a directory that does not exist yet.

        Raises:
            OutputError: The directory is there already, or cannot be written.
        """
        size = max((region.offset + region.size for region in regions), default=0)
        try:
            directory.mkdir(parents=True)
            with (directory / "state.bin").open("xb") as file:
                file.truncate(max(size, 1))
        except OSError as error:
            hint = "choose another directory, or remove it"
            raise OutputError(f"{directory} cannot be made: {error.strerror or error}", hint=hint) from error
        document = {"version": STATE_VERSION, "regions": [asdict(region) for region in regions]}
        (directory / "regions.json").write_text(json.dumps(document, sort_keys=True) + "\n", encoding="utf-8")
        made = cls(directory, regions, standing)
        made.stand(standing)
        return made

    @classmethod
    def open(cls, directory: Path) -> "ReplicaState":
        """An existing state.

        Raises:
            RecordsCorrupt: No state of this version.
            StepRefused: Its process ended in mid-change.
        """
        path = directory / "regions.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["version"] != STATE_VERSION:
                raise RecordsCorrupt(f"{path}: version {document['version']}, this program reads {STATE_VERSION}")
            standing = Standing(**json.loads((directory / "standing.json").read_text(encoding="utf-8")))
            regions = tuple(
                Region(r["kind"], r["name"], Dtype(r["dtype"]), tuple(r["shape"]), r["offset"])
                for r in document["regions"]
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordsCorrupt(f"{directory} is no state of a replica: {error}") from error
        if standing.applying is not None:
            reason = f"the program ended while step {standing.applying:,} was being applied to {directory}"
            raise StepRefused(CheckpointRequest(standing.step, standing.applying, Stop.TORN, reason))
        return cls(directory, regions, standing)

    @property
    def step(self) -> int:
        """The step whose state this is."""
        return self.standing.step

    def stand(self, standing: Standing) -> None:
        """Say where the state stands, at once or not at all."""
        new = self.directory / "standing.json.new"
        new.write_text(json.dumps(asdict(standing), sort_keys=True) + "\n", encoding="utf-8")
        new.replace(self.directory / "standing.json")
        self.standing = standing

    def begin(self, step: int) -> None:
        """The tensors are about to become those of ``step``."""
        self.stand(replace(self.standing, applying=step))

    @cached_property
    def tensors(self) -> Mapping[tuple[str, str], "torch.Tensor"]:
        """(kind, parameter name) -> tensor in the shared memory: a change is a change of the file."""
        import torch

        path = self.directory / "state.bin"
        memory = torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)
        found = {}
        for region in self.regions:
            flat = memory[region.offset : region.offset + region.size].view(torch_dtype(region.dtype))
            found[region.kind, region.name] = flat.view(region.shape)
        return found


def torch_dtype(dtype: Dtype) -> "torch.dtype":
    """PyTorch's word for an element type."""
    import torch

    return {Dtype.FP64: torch.float64, Dtype.FP32: torch.float32, Dtype.FP16: torch.float16}.get(dtype, torch.bfloat16)
