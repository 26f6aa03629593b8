"""Why a replica does not go on: frozen findings, each with what is asked of the trainer."""

from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.errors import CoverageGap, CoverageUnknown


class Stop(StrEnum):
    """What stops a replica; it keeps its former state."""

    INCOMPLETE = "incomplete"
    """Bytes of the gradient were never observed."""
    UNPROVEN = "unproven"
    """No byte is missing, but the audit does not prove that."""
    OUT_OF_STEP = "out-of-step"
    """The gradient is not of the step that follows the state."""
    OPTIMIZER_UNKNOWN = "optimizer-unknown"
    """A rule, kernel, schedule or option that this program cannot replay."""
    OPTIMIZER_CHANGED = "optimizer-changed"
    """The trainer's optimizer is not the one described, and nobody announced another."""
    HYPER_CHANGED = "hyper-parameters-changed"
    """A learning rate, loss scale or other hyper-parameter is not the one that follows from the description."""
    VALUE_MISSING = "value-missing"
    """The description leaves a value to the side channel, which did not say it."""
    LAYOUT = "layout"
    """The buckets on the wire are not those described."""
    DISPROVED = "description-disproved"
    """Replayed by the description, a step does not give the trainer's regular checkpoint of it."""
    TORN = "torn"
    """The program ended while it changed the state: neither the old nor the new step."""


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """Asks the trainer for a regular checkpoint: without it the replica cannot go on."""

    replica_step: int
    """The newest step whose state is right."""
    at_step: int
    """The earliest step at which a checkpoint would help: the next one."""
    stop: Stop
    reason: str
    """A sentence for a person."""


class StepRefused(CoverageUnknown):
    """A step is not applied since something is not proven or not as described; the former state stays."""

    def __init__(self, request: CheckpointRequest, *, hint: str = "") -> None:
        super().__init__(_text(request), hint=hint or _hint(request))
        self.request = request


class StepIncomplete(CoverageGap):
    """A step is not applied since bytes of its gradient are missing; the former state stays."""

    def __init__(self, request: CheckpointRequest, *, hint: str = "") -> None:
        super().__init__(_text(request), hint=hint or _hint(request))
        self.request = request


def _text(request: CheckpointRequest) -> str:
    return f"the replica stays at step {request.replica_step:,} ({request.stop}): {request.reason}"


def _hint(request: CheckpointRequest) -> str:
    return f"let the trainer write a regular checkpoint at step {request.at_step:,} or later, and begin from it"
