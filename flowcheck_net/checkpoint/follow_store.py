"""A replica that outlives its process: full states now and then, and the gradients of every step since.

The state in memory is changed in place and never trusted after a death. On the disk are ``step-N.pt``, the newest two
full states, each whole or not there; and ``gradients``, every proven gradient after the older of them, there before it
is applied. Opening reads the newest state and applies what follows, so that no step is applied twice or half.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from flowcheck_net.checkpoint import anchor as anchors
from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.follow_boards import durable, settle
from flowcheck_net.checkpoint.gradient import StepGradient
from flowcheck_net.checkpoint.guarded import Guarded, Guards, Trial
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.optimizer import Replay
from flowcheck_net.checkpoint.shard import Decision
from flowcheck_net.checkpoint.training import Training
from flowcheck_net.errors import OutputError, RecordsCorrupt
from flowcheck_net.receive.gradient import iteration_directory

STORE_VERSION = 1
GRADIENTS = "gradients"
WITHDRAWN = "withdrawn.json"
"""Is there while steps are being taken back."""
_KEPT = 2
"""Full states: one more than needed, should the newest prove unreadable."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - memory that is a file, which is what is wanted


@dataclass(frozen=True, slots=True)
class Identity:
    """What a state belongs to: nothing else may go on with it."""

    plan: str
    layout: str
    optimizer: str
    first_step: int
    """Step that iteration 0 of the receivers completes."""
    lives: Mapping[str, int]
    """Of the receivers whose iterations are counted: each life numbers anew."""


@dataclass(frozen=True, slots=True)
class Opened:
    """How a state was found."""

    full: int
    """Step of the full state that was read."""
    redone: int
    """Steps applied again from their gradients."""
    torn: int | None
    """Step that was being applied when the last process died; None: it did not die in one."""


class Store:
    """The directory of ``checkpoint follow --state``, held by one process at a time."""

    def __init__(self, directory: Path, training: Training) -> None:
        """Raises OutputError: another process follows into it, or it cannot be made."""
        self.directory = directory
        self.training = training
        self.gradients = directory / GRADIENTS
        name = hashlib.sha256(os.path.realpath(directory).encode()).hexdigest()[:16]
        self._work = (_MEMORY if _MEMORY.is_dir() else directory) / f"flowcheck-net-replica-{name}"
        self.replay: Guarded
        self._withdrawn = False
        try:
            self.gradients.mkdir(parents=True, exist_ok=True)
            self._lock = (directory / "lock").open("w")
        except OSError as error:
            raise OutputError(f"{directory} cannot be made: {error.strerror}", hint="choose another --state") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise OutputError(f"another process follows into {directory}", hint="end it first") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        self._lock.close()

    @property
    def identity(self) -> Identity | None:
        """What the state belongs to; None: it is new. Raises RecordsCorrupt."""
        path = self.directory / "follow.json"
        if not path.exists():
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.pop("version") != STORE_VERSION:
                raise RecordsCorrupt(f"{path} was written by another version")
            return Identity(**document)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordsCorrupt(f"{path} is no state of `checkpoint follow`: {error}") from error

    def claim(self, wanted: Identity) -> None:
        """The state belongs to this from now on. Raises OutputError where it belongs to something else."""
        found = self.identity
        if found is None:
            text = json.dumps({"version": STORE_VERSION, **asdict(wanted)}, indent=1, sort_keys=True)
            durable(self.directory / "follow.json", f"{text}\n".encode())
            return
        told, asked = asdict(found), asdict(wanted)
        other = [name for name in told if told[name] != asked[name]]
        if other:
            reason = f"{other[0]} was {told[other[0]]}, and is {asked[other[0]]} now"
            hint = "begin anew from a regular checkpoint, with another --state"
            raise OutputError(f"{self.directory} is the state of something else: {reason}", hint=hint)

    def open(
        self,
        anchor: Path,
        assembly: Assembly,
        first_step: int,
        shards: int,
        values: Mapping[int, StepValues] | None,
        guards: Guards,
    ) -> Opened:
        """The replica as it stood.

        Args:
            anchor: Regular checkpoint to begin from, where the state is new.
            assembly: Checks files: they are from another process.
            first_step: Step that iteration 0 completes.
            shards: Parts of the replica.
            values: Of the side channel.
            guards: What the replica is held to.

        Raises:
            RecordsCorrupt: No full state can be read, or a gradient is damaged.
            StepRefused: The state's optimizer is not the one described.
        """
        torn = self._torn()
        self._end_withdrawal()
        shutil.rmtree(self._work, ignore_errors=True)
        step, begun = self._newest(anchor)
        places = [self._work / f"shard{n}" for n in range(min(shards, len(self.training.layout.parameters)))]
        states = anchors.begin(places, self.training.layout, self.training.optimizer, begun)
        self.replay = Guarded(Replay(self.training.optimizer, states), self.training, guards)
        self.replay.trial = self._tried
        if not fulls(self.directory):
            self.save()
        redone = 0
        while iteration_directory(self.gradients, self.replay.step + 1 - first_step, complete=True).is_dir():
            number = self.replay.step + 1 - first_step
            gradient = assembly.assemble(self.gradients, number, self.replay.step + 1)
            self.advance(gradient, values or {})
            redone += 1
        return Opened(step, redone, torn)

    def advance(self, gradient: StepGradient, values: Mapping[int, StepValues]) -> Decision:
        """Apply a step, and keep that the description was tried. Raises StepRefused as ``Guarded.advance``."""
        decision = self.replay.advance(gradient, values.get(gradient.step))
        if self.replay.trial is not None and self._tried is None:
            text = json.dumps(asdict(self.replay.trial) | self._described, sort_keys=True)
            durable(self._trial_file, f"{text}\n".encode())
        return decision

    @property
    def _described(self) -> dict[str, str]:
        return {"layout": self.training.layout.digest, "optimizer": self.training.optimizer.digest}

    @property
    def _trial_file(self) -> Path:
        return self.directory / "tried.json"

    @property
    def _tried(self) -> Trial | None:
        """By a former process, of the same description."""
        try:
            told = json.loads(self._trial_file.read_text(encoding="utf-8"))
            if {name: told[name] for name in self._described} == self._described:
                return Trial(int(told["step"]), bool(told["identical"]))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordsCorrupt(f"{self._trial_file} is not of `checkpoint follow`: {error}") from error
        return None

    def _torn(self) -> int | None:
        for path in self._work.glob("shard*/standing.json"):
            try:
                applying: int | None = json.loads(path.read_text(encoding="utf-8"))["applying"]
            except (OSError, ValueError, KeyError):
                continue
            if applying is not None:
                return applying
        return None

    def _newest(self, anchor: Path) -> tuple[int, Mapping[str, Any]]:
        found = newest_full(self.directory)
        if found is None:
            found = anchors.read_anchor(anchor)
        return int(found["step"]), found

    def save(self) -> int:
        """Write the full state, drop what is older than the one before; step of the newest that is there.

        Nothing is written where a fault ended a step half way, or steps were taken back.
        """
        step = self.replay.step
        states = [shard.state for shard in self.replay.shards]
        if self._withdrawn or any(state.standing.applying is not None for state in states):
            return self.full_step
        path = self.directory / f"step-{step:09d}.pt"
        if not path.exists():
            new = path.with_suffix(".writing")
            anchors.write_anchor(new, self.replay.snapshot())
            with new.open("rb") as file:
                os.fsync(file.fileno())
            new.replace(path)
            settle(self.directory)
        for _, old in fulls(self.directory)[_KEPT:]:
            old.unlink()
        return step

    @property
    def full_step(self) -> int:
        """Of the newest full state."""
        return max((step for step, _ in fulls(self.directory)), default=0)

    def withdraw(self, step: int, first_step: int) -> None:
        """Nothing from this step on may be gone on with. The next opening begins at what is left, or the anchor."""
        self._withdrawn = True
        told = {"step": step, "first_step": first_step}
        durable(self.directory / WITHDRAWN, json.dumps(told).encode())
        self._take_back(step, first_step)

    def _take_back(self, step: int, first_step: int) -> None:
        """As often as it takes: a process that is killed in it leaves the word to the next."""
        for found, path in fulls(self.directory):
            if found >= step:
                path.unlink()
        for path in self.gradients.glob("iteration-*"):
            if _number(path) + first_step >= step:
                shutil.rmtree(path)
        settle(self.gradients)
        settle(self.directory)
        (self.directory / WITHDRAWN).unlink()
        settle(self.directory)

    def _end_withdrawal(self) -> None:
        step = withdrawal(self.directory)
        if step is not None:
            self._take_back(*step)

    def prune(self, first_step: int) -> None:
        """Drop gradients that no full state needs."""
        oldest = min((step for step, _ in fulls(self.directory)), default=0)
        for path in self.gradients.glob("iteration-*"):
            if _number(path) + first_step <= oldest:
                shutil.rmtree(path, ignore_errors=True)


def fulls(directory: Path) -> list[tuple[int, Path]]:
    """Step and file of all full states of a ``--state`` directory, the newest first."""
    paths = directory.glob("step-*.pt")
    steps = ((path.stem.removeprefix("step-"), path) for path in paths)
    return sorted(((int(step), path) for step, path in steps if step.isdecimal()), reverse=True)


def withdrawal(directory: Path) -> tuple[int, int] | None:
    """Step from which on all is being taken back, and that of iteration 0; None: nothing is. Raises RecordsCorrupt."""
    path = directory / WITHDRAWN
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return int(told["step"]), int(told["first_step"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsCorrupt(f"{path} is not of `checkpoint follow`: {error}") from error


def newest_full(directory: Path) -> anchors.Anchor | None:
    """The newest full state that can be read; None: there is none. Raises RecordsCorrupt where none can."""
    taken_back = withdrawal(directory)
    found = [(step, path) for step, path in fulls(directory) if taken_back is None or step < taken_back[0]]
    for number, (_, path) in enumerate(found, 1):
        try:
            return anchors.read_anchor(path)
        except RecordsCorrupt:
            if number == len(found):
                raise
    return None


def _number(path: Path) -> int:
    return int(path.name.removeprefix("iteration-").partition(".")[0])
