"""The checkpoint node of an experiment: one life of it, in a process of its own that may be killed at any moment."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import anchor
from flowcheck_net.checkpoint.accept import store
from flowcheck_net.checkpoint.accept.trainer import differences
from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, StepRefused, Stop
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.optimizer import Replay
from flowcheck_net.checkpoint.state import ReplicaState
from flowcheck_net.checkpoint.training import Training
from flowcheck_net.errors import FlowcheckError

SHARDS = 2


@dataclass(frozen=True, slots=True)
class Task:
    """What the node has to work with. Nothing of it changes while the node lives or is begun again."""

    laid: Path
    """Of ``replay --payload``; iteration 0 completes step 1."""
    regular: Path
    """Regular checkpoints of the trainer: ``step-K.pt``."""
    published: Path
    memory: Path
    """Where the replica lies; it outlives the process, not the machine."""
    journal: Path
    """What the node says, one JSON object a line."""
    trainings: Mapping[int, Training]
    """Step -> what describes the training from this step on."""
    values: Mapping[int, StepValues]
    """Of the side channel."""
    steps: int
    every: int
    delay: int
    """Steps that the trainer takes to write the regular checkpoint that it is asked for."""

    def training(self, step: int) -> Training:
        """What describes the training after ``step`` steps."""
        return self.trainings[max(begin for begin in self.trainings if begin <= step)]

    def say(self, event: str, step: int, why: str = "") -> None:
        """Into the journal: it is in the kernel's hands before anything else is done."""
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "step": step, "why": why}) + "\n")

    def said(self) -> Iterator[dict[str, Any]]:
        """All that the node said, in all its lives."""
        if self.journal.exists():
            yield from (json.loads(line) for line in self.journal.read_text(encoding="utf-8").splitlines())


class Life:
    """From the begin of the process to its end."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._training = task.training(0)
        self._replay: Replay
        self._trusted = False
        """Has a replica by this description given a regular checkpoint of the trainer?"""

    def live(self) -> None:
        """Go on until there are no more gradients; each step that cannot be made ends in a regular checkpoint."""
        task = self._task
        if not self._take_up():
            return
        while self._replay.step < task.steps:
            step = self._replay.step + 1
            try:
                self._advance(step)
            except (StepIncomplete, StepRefused) as error:
                task.say("refused", step, f"{error.request.stop}: {error.request.reason}")
                if not self._realign(step + task.delay):
                    return
                continue
            except FlowcheckError as error:
                task.say("refused", step, f"error: {error.message}")
                return
            task.say("replica", step)
            if step % task.every == 0:
                self._publish(step)

    def _advance(self, step: int) -> None:
        values = self._task.values.get(step)
        if values is None:
            reason = f"the side channel said nothing of step {step:,}"
            raise StepRefused(CheckpointRequest(step - 1, step, Stop.VALUE_MISSING, reason))
        assembly = Assembly(self._training.layout, self._training.average)
        self._replay.advance(assembly.assemble(self._task.laid, step - 1, step), values)
        if not self._trusted:
            self._try_description(step)

    def _try_description(self, step: int) -> None:
        """The first step by a description must give what the trainer has: nothing on the wire would tell."""
        told = differences(self._snapshot(), anchor.read_anchor(self._regular(step)))
        if told:
            reason = f"the replica is not the regular checkpoint of step {step:,}: {told[0]}"
            raise StepRefused(CheckpointRequest(step - 1, step, Stop.LAYOUT, reason))
        self._trusted = True

    def _publish(self, step: int) -> None:
        try:
            store.publish(self._task.published, self._snapshot())
        except FlowcheckError as error:
            self._task.say("unpublished", step, error.message)
            return
        self._task.say("published", step)

    def _take_up(self) -> bool:
        """The replica as a former life left it, or the newest checkpoint, or the one with which the job began."""
        task = self._task
        places = [task.memory / f"shard{number}" for number in range(SHARDS)]
        if all(place.is_dir() for place in places):
            try:
                states = [ReplicaState.open(place) for place in places]
                self._training = task.training(states[0].step)
                self._replay = Replay(self._training.optimizer, states)
            except FlowcheckError as error:
                task.say("torn", 0, error.message)
            else:
                task.say("resumed", self._replay.step)
                if self._replay.step % task.every == 0 and self._replay.step:
                    self._publish(self._replay.step)
                return True
        found = store.newest(task.published)
        return self._begin(found if found is not None else anchor.read_anchor(self._regular(0)))

    def _realign(self, step: int) -> bool:
        """Begin from the trainer's regular checkpoint of ``step``; False: it wrote none."""
        if step > self._task.steps or not self._regular(step).exists():
            self._task.say("waits", step)
            return False
        return self._begin(anchor.read_anchor(self._regular(step)))

    def _begin(self, found: anchor.Anchor) -> bool:
        task = self._task
        step = int(found["step"])
        self._training, self._trusted = task.training(step), False
        shutil.rmtree(task.memory, ignore_errors=True)
        places = [task.memory / f"shard{number}" for number in range(SHARDS)]
        try:
            states = anchor.begin(places, self._training.layout, self._training.optimizer, found)
            self._replay = Replay(self._training.optimizer, states)
        except FlowcheckError as error:
            task.say("refused", step, error.message)
            return False
        task.say("begun", step)
        return True

    def _snapshot(self) -> dict[str, Any]:
        states = [shard.state for shard in self._replay.shards]
        return anchor.snapshot(states, self._training.layout, self._training.optimizer)

    def _regular(self, step: int) -> Path:
        return self._task.regular / f"step-{step}.pt"


def live_in_child(task: Task, prepare: Any = None) -> int:  # noqa: ANN401 - a callable or None
    """One life in a forked process, whose memory nobody shares.

    Args:
        task: The work.
        prepare: Called in the child before it begins: arms what is to go wrong there.

    Returns:
        Its exit status; negative: the signal that killed it.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        if prepare is not None:
            prepare()
        Life(task).live()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a child must never run its parent's code
        task.say("crashed", 0, f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)
