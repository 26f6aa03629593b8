"""The reduced gradient of one step, with the proof that it is whole. Nothing else may be applied to a replica."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype


class AverageRule(StrEnum):
    """Who divides the sum over the ranks by their number."""

    ON_WIRE = "on-wire"
    """What was reduced is the mean: the ranks divide before (DDP, Megatron) or NCCL does (AVG)."""
    MULTIPLY = "multiply"
    """The ranks multiply the reduced values by ``by`` (DeepSpeed, Horovod)."""
    DIVIDE = "divide"
    """The ranks divide the reduced values by ``by``: other bits than MULTIPLY unless ``by`` is a power of two."""


@dataclass(frozen=True, slots=True)
class Average:
    """What the trainer does to the reduced values, in their own type, before anything else."""

    rule: AverageRule = AverageRule.ON_WIRE
    by: float = 1.0


@dataclass(frozen=True, slots=True)
class GroupProof:
    """One group of a proof."""

    group: GroupName
    units: int
    """Packets' worth of gradient; the presence bit of every one that carries data is set."""
    sha256: str
    """Of the group's buffer."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Why the gradient of a step is whole: counted by the audit, every byte present."""

    job: str
    plan: str | None
    """Digest of the plan in force; None where the files of a directory were used."""
    iteration: int
    """Number by the audit."""
    verdict: Verdict
    """COVERED or RECOVERED."""
    recovered_units: int
    """Packets' worth that one hop lost and another gave."""
    assumed: tuple[str, ...]
    """What was taken for true and cannot be seen; empty unless the user allowed it."""
    groups: tuple[GroupProof, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The elements of one source."""

    data: memoryview
    """Little-endian elements as they were reduced; read only by convention: they lie in a private map."""
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class StepGradient:
    """All gradients of one step."""

    step: int
    """The step that they complete: with them the state of ``step - 1`` becomes that of ``step``. The first is 1."""
    proof: Proof
    average: Average
    parts: Mapping[str, tuple[Part, ...]]
    """Parameter name -> its sources in order, to be summed."""
