"""The checkpoint node of an experiment: one life of it, in a process of its own that may be killed at any moment."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import anchor
from flowcheck_net.checkpoint import store as stores
from flowcheck_net.checkpoint.accept import store
from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.findings import StepIncomplete, StepRefused
from flowcheck_net.checkpoint.gate import NotPublished
from flowcheck_net.checkpoint.gradient import Proof, StepGradient
from flowcheck_net.checkpoint.guarded import Guarded, Guards
from flowcheck_net.checkpoint.optimizer import Replay
from flowcheck_net.checkpoint.publish import Candidate, Policy, publish
from flowcheck_net.checkpoint.side import SideLog
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
    side: SideLog
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
        self._values = task.side.values()
        self._replay: Guarded
        self._anchor: anchor.Anchor
        self._training: Training
        self._proofs: list[tuple[int, Proof]] = []
        """Of every step since the anchor."""

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
            except FlowcheckError as error:
                task.say("refused", step, f"error: {error.message}")
                return
            else:
                task.say("replica", step)
                self._publish_due()
                continue
            if not self._realign(step + task.delay):
                return

    def _advance(self, step: int) -> None:
        gradient = self._gradient(step)
        self._replay.advance(gradient, self._values.get(step))
        self._proofs.append((step, gradient.proof))

    def _gradient(self, step: int) -> StepGradient:
        assembly = Assembly(self._training.layout, self._training.average)
        return assembly.assemble(self._task.laid, step - 1, step)

    def _publish_due(self) -> None:
        """Publish where it is time to, and it was not done."""
        task, step = self._task, self._replay.step
        if step % task.every or step <= self._begun or stores.folder_of(task.published, step).exists():
            return
        spec, layout = self._training.optimizer, self._training.layout
        shapes = {name: p.shape for p in layout.parameters for name in (p.name, *p.aliases)}
        made = Candidate(
            step,
            self._begun,
            self._anchor,
            self._replay.snapshot(),
            self._proofs,
            shapes,
            spec.digest,
            task.side,
            trial=self._replay.trial,
        )
        try:
            publish(task.published, made, Policy(keep_last=task.steps))
        except NotPublished as error:
            task.say("unpublished", step, "; ".join(map(str, error.reasons)))
        except FlowcheckError as error:
            task.say("unpublished", step, f"error: {error.message}")
        else:
            task.say("published", step)

    @property
    def _begun(self) -> int:
        return int(self._anchor["step"])

    def _take_up(self) -> bool:
        """The replica as a former life left it, or the newest checkpoint, or the one with which the job began."""
        task = self._task
        places = [task.memory / f"shard{number}" for number in range(SHARDS)]
        begun = [each for each in task.said() if each["event"] == "begun"]
        if begun and all(place.is_dir() for place in places):
            try:
                self._resume(places, begun[-1])
            except FlowcheckError as error:
                task.say("torn", 0, error.message)
            else:
                task.say("resumed", self._replay.step)
                self._publish_due()
                return True
        try:
            found = store.newest(task.published)
        except FlowcheckError as error:
            task.say("refused", 0, f"error: {error.message}")
            return False
        if found is not None:
            return self._begin(found, "published")
        return self._begin(anchor.read_anchor(self._regular(0)), "regular")

    def _resume(self, places: list[Path], begun: Mapping[str, Any]) -> None:
        """Take up the replica in memory; its proofs are made again from what was laid."""
        states = [ReplicaState.open(place) for place in places]
        self._training = self._task.training(states[0].step)
        step = int(begun["step"])
        regular = begun["why"] == "regular"
        self._anchor = anchor.read_anchor(self._regular(step)) if regular else store.load(self._task.published, step)
        self._replay = self._guarded(states)
        self._proofs = [(k, self._gradient(k).proof) for k in range(self._begun + 1, self._replay.step + 1)]
        self._replay.attempt()

    def _guarded(self, states: list[ReplicaState]) -> Guarded:
        """The trainer writes a regular checkpoint of any step for which it is asked."""
        replay = Replay(self._training.optimizer, states)
        guards = Guards(lambda step: anchor.read_anchor(self._regular(step)))
        return Guarded(replay, self._training, guards, self._begun)

    def _realign(self, step: int) -> bool:
        """Begin from the trainer's regular checkpoint of ``step``; False: it wrote none."""
        if step > self._task.steps or not self._regular(step).exists():
            self._task.say("waits", step)
            return False
        return self._begin(anchor.read_anchor(self._regular(step)), "regular")

    def _begin(self, found: anchor.Anchor, source: str) -> bool:
        task = self._task
        step = int(found["step"])
        self._anchor, self._training, self._proofs = found, task.training(step), []
        shutil.rmtree(task.memory, ignore_errors=True)
        places = [task.memory / f"shard{number}" for number in range(SHARDS)]
        try:
            states = anchor.begin(places, self._training.layout, self._training.optimizer, found)
            self._replay = self._guarded(states)
        except FlowcheckError as error:
            task.say("refused", step, f"error: {error.message}")
            return False
        task.say("begun", step, source)
        return True

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
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
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
