"""What an experiment is and what came of it: frozen words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What goes wrong in an experiment."""

    NONE = "none"
    """Nothing: everything must be published."""
    LOSS = "loss"
    """Single copies are lost, at one hop or at all of them."""
    REORDER = "reorder"
    DUPLICATE = "duplicate"
    RETRANSMIT = "retransmit"
    """The network itself loses packets, and the sender goes back."""
    CONGESTION = "mirror-congestion"
    """A monitor port drops a run of copies, or many of them."""
    RESTART = "node-restart"
    """The checkpoint node is killed (SIGKILL), in the middle of whatever it does, and begins again."""
    OPTIMIZER = "optimizer-change"
    """The trainer changes its optimizer, announced or not."""
    SIDE = "side-channel"
    """The side channel leaves steps out, or says something else than the description gives."""
    SWITCH = "switch-failure"
    """A switch mirrors nothing from some packet on, for a while or for good."""
    STORAGE = "storage-failure"
    """A full disk, an fsync that fails, or a published file that is torn or changed afterwards."""
    PLAN = "wrong-plan"
    """The node has the plan or the description of something else."""
    MIXED = "mixed"
    """Two or three of them at once."""


class Restored(StrEnum):
    """What came of loading the newest checkpoint offered, and training on from it."""

    EQUAL = "equal"
    """Bit by bit the trainer's state at its step, and after further training its later state."""
    NOTHING = "nothing"
    """No checkpoint is offered: training would begin again from its beginning."""
    DIFFERS = "differs"
    FAILED = "failed"
    """A checkpoint is offered that cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One experiment."""

    number: int
    seed: int
    setting: str
    """Of the trainer."""
    kind: Kind
    faults: tuple[str, ...]
    """Each in a few words, enough to tell what happened."""
    training_step: int
    """The step that the trainer reached."""
    replica_step: int
    """The last step whose gradient the replica has applied."""
    persisted_step: int
    """The newest checkpoint offered; 0: none but the one that the job began with."""
    restored: Restored
    published: tuple[int, ...]
    """Steps of the checkpoints that were offered at any time."""
    unpublished: Mapping[int, str]
    """Step at which a checkpoint was due -> why there is none."""
    withdrawn: tuple[int, ...] = ()
    """Steps whose checkpoint is not offered any more, since its files are not what they were."""
    lives: int = 1
    """Times that the checkpoint node was begun."""
    wrong: tuple[str, ...] = ()
    """What must not be. Empty: the experiment is passed."""


@dataclass(frozen=True, slots=True)
class Report:
    """All experiments of a run."""

    seed: int
    steps: int
    """Each trained so many."""
    every: int
    """A checkpoint was due each so many steps."""
    outcomes: tuple[Outcome, ...]
    seconds: float = field(default=0.0, compare=False)

    @property
    def wrong(self) -> tuple[Outcome, ...]:
        """Experiments that are not passed."""
        return tuple(each for each in self.outcomes if each.wrong)

    @property
    def published(self) -> int:
        """Checkpoints that were offered and compared."""
        return sum(len(each.published) for each in self.outcomes)

    @property
    def unpublished(self) -> int:
        """Checkpoints that were due and not offered, each with its reason."""
        return sum(len(each.unpublished) for each in self.outcomes)
