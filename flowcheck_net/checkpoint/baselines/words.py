"""The words of the comparison, frozen: how it is done, what happened, what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Method(StrEnum):
    """Ways to checkpoint."""

    CONTROL = "control"
    """None."""
    SYNC = "sync"
    """Training waits while one file is written."""
    ASYNC = "async"
    """``torch.distributed.checkpoint.async_save``: training waits for a copy in memory, a thread writes it."""
    INCREMENTAL = "incremental"
    """A full one now and then, else the blocks whose content differs from the last full one. Training waits."""
    HYBRID = "hybrid"
    """A replica replays the reduced gradients in a process of its own; the trainer writes a full one now and then."""


MEASURED = (Method.SYNC, Method.ASYNC, Method.INCREMENTAL, Method.HYBRID)


class Channel(StrEnum):
    """Where bytes are moved."""

    NETWORK = "training-network"
    """Received by the ranks over TCP, by the kernel's count."""
    MIRROR = "mirrored"
    """Copies of reduced gradients, handed to the checkpoint node."""
    MEMORY = "memory"
    """Copies of the state in the memory of the training hosts."""
    HASHED = "hashed"
    """State that was read on the training hosts to find what changed."""
    STORAGE = "trainer-storage"
    """Files that the training hosts wrote."""
    NODE_STORAGE = "node-storage"
    """Files that the checkpoint node wrote."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the comparison is done."""

    processes: int
    width: int
    blocks: int
    steps: int
    """Of each measured stretch."""
    interval: int
    """Steps from checkpoint to checkpoint."""
    full_every: int
    """Every such checkpoint of ``incremental`` is a full one, and with ``hybrid`` the trainer writes one."""
    rounds: int
    kills: int
    """Of each method."""
    seed: int
    place: Path
    """Where checkpoints are written; a directory of this run's own."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """The trainer made a step. Times are seconds of the monotonic clock, which all processes of a machine share."""

    step: int
    begin: float
    end: float
    digest: str | None = None
    """Of the trainer's whole state after it, where it is recorded."""


@dataclass(frozen=True, slots=True)
class Durable:
    """From now on the state of a step can be restored from storage."""

    step: int
    at: float


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes were moved."""

    channel: Channel
    size: int


@dataclass(frozen=True, slots=True)
class Begun:
    """Measuring begins here: bytes and seconds that were noted before belong to the preparation."""

    at: float


@dataclass(frozen=True, slots=True)
class Missed:
    """The gradient of a step found no room at the checkpoint node."""

    step: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that something took: ``tap``, ``wait``, ``tail``, ``node-cpu`` (of a processor)."""

    what: str
    seconds: float


Event = StepDone | Durable | Moved | Begun | Missed | Spent


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that were made one after another by one method."""

    method: Method
    round: int
    start_step: int
    """Its state was restorable when the stretch began."""
    begun: float
    """Moment at which the first step began."""
    steps: Sequence[StepDone]
    durable: Sequence[Durable]
    moved: Mapping[Channel, int]
    spent: Mapping[str, float]
    missed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Everything was killed, and what lay on storage was restored."""

    method: Method
    killed_step: int
    """The last step that the trainer had made."""
    promised_step: int
    """The newest that had been told to be restorable."""
    restored_step: int | None
    """None: nothing could be restored."""
    lost_seconds: float | None
    """From the end of the restored step to the kill."""
    restore_seconds: float
    wrong: str
    """What is wrong with it; empty: the state is bit by bit what the trainer had recorded of this step."""

    @property
    def lost_steps(self) -> int | None:
        """Steps that must be made again."""
        return None if self.restored_step is None else self.killed_step - self.restored_step
