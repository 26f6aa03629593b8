"""Experiments one after another: train, send, lose, lay, replay, kill, publish, restore, compare."""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.accept import harm, store
from flowcheck_net.checkpoint.accept.course import MORE, Course, Descriptions, follow, train
from flowcheck_net.checkpoint.accept.draw import Belief, Disk, Experiment, draw
from flowcheck_net.checkpoint.accept.judge import judge
from flowcheck_net.checkpoint.accept.node import Task, live_in_child
from flowcheck_net.checkpoint.accept.trainer import SETTINGS, Setting, Trainer
from flowcheck_net.checkpoint.accept.wire import Wire
from flowcheck_net.checkpoint.accept.words import Kind, Outcome, Report

STEPS, EVERY = 8, 2
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - memory that is a file
"""Where runs put their files: thousands of fsyncs on a disk take hours, and a kill does not lose what was written."""


class Acceptance:
    """A run: what all experiments share."""

    def __init__(self, example: Path, place: Path, *, seed: int = 1, steps: int = STEPS, every: int = EVERY) -> None:
        """Make ready.

        Args:
            example: Directory of a topology (``Wire.example``).
            place: An empty directory for everything; experiments leave nothing in it.
            seed: All faults follow from it.
            steps: That each experiment trains.
            every: A checkpoint is due each so many steps.
        """
        import torch

        torch.set_num_threads(1)  # a forked child must not wait for threads that it does not have
        store.warm()
        self.seed, self.steps, self.every = seed, steps, every
        self._place = place
        self._wire = Wire(example)
        self._descriptions = Descriptions(place)
        self._ground = self._wire.ground([Trainer(setting) for setting in SETTINGS], steps)
        self._work: dict[str, harm.Work] = {}
        """By setting."""

    def run(
        self,
        count: int,
        *,
        kinds: Sequence[Kind] = tuple(Kind),
        first: int = 0,
        each: Callable[[Outcome], None] | None = None,
    ) -> Report:
        """Experiments ``first`` and following; ``each`` is called with every outcome."""
        begun = time.monotonic()
        ground = replace(self._ground, kinds=tuple(kinds))
        outcomes = []
        for number in range(first, first + count):
            outcome = self.experiment(draw(number, self.seed, ground))
            outcomes.append(outcome)
            if each is not None:
                each(outcome)
        return Report(self.seed, self.steps, self.every, tuple(outcomes), time.monotonic() - begun)

    def experiment(self, experiment: Experiment) -> Outcome:
        """One experiment."""
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            return _One(self, experiment, Path(place)).run()

    def course(self, experiment: Experiment, place: Path) -> Course:
        """What the trainer does in it."""
        extra = experiment.belief is Belief.OFFSET
        return train(experiment, self.steps + extra, self._descriptions, place / "side.log")

    def lay(self, experiment: Experiment, course: Course, place: Path) -> Path:
        """What the node gets of the gradients."""
        trainer = Trainer(experiment.setting)
        in_force = self._wire.plan(trainer)
        believed = self._wire.plan(trainer, experiment.belief)
        if experiment.belief is Belief.POINTS:
            in_force, believed = believed, in_force
        extra = experiment.belief is Belief.OFFSET
        sent = course.gradients[extra : self.steps + extra]
        return self._wire.lay(in_force, believed, sent, place, faults=experiment.mirror, seed=experiment.seed)

    def work(self, setting: Setting) -> harm.Work:
        """What an undisturbed life of the node does."""
        if setting.name not in self._work:
            with tempfile.TemporaryDirectory(dir=self._place) as place:
                one = _One(self, Experiment(0, 0, setting, Kind.NONE), Path(place))
                report = Path(place) / "work"
                live_in_child(one.task(self.lay(one.experiment, one.course, Path(place))), harm.count(report))
                self._work[setting.name] = harm.Work(*map(int, report.read_text(encoding="utf-8").split()))
        return self._work[setting.name]


class _One:
    """One experiment while it runs."""

    def __init__(self, shared: Acceptance, experiment: Experiment, place: Path) -> None:
        self._shared, self.experiment, self._place = shared, experiment, place
        self.course = shared.course(experiment, place)
        self._random = random.Random(experiment.seed)  # noqa: S311 - nothing secret
        self._lives = 0

    def task(self, laid: Path) -> Task:
        """What the node has to work with."""
        self.course.write_regular(self._place / "regular", self._shared.steps)
        return Task(
            laid,
            self._place / "regular",
            self._place / "published",
            self._place / "memory",
            self._place / "journal",
            self.course.trainings,
            self.course.side,
            self._shared.steps,
            self._shared.every,
            self.experiment.delay,
        )

    def run(self) -> Outcome:
        """To the end, with the comparison."""
        task = self.task(self._shared.lay(self.experiment, self.course, self._place))
        for at, memory in self.experiment.kills:
            work = self._shared.work(self.experiment.setting)
            calls = max(1, round(at * (work.memory if memory else work.calls)))
            if self._life(task, partial(harm.kill_after, calls, memory=memory)) == 0:
                break  # it came to its end before
            task.say("killed", 0)
        disk = self.experiment.disk
        if not self.experiment.kills or disk is not None:
            self._life(task, self._arm(disk, task))
        else:
            self._life(task, None)
        self._damage(task, disk)
        return judge(self.experiment, self.course, task, self._lives, self._go_on)

    def _life(self, task: Task, prepare: Callable[[], None] | None) -> int:
        self._lives += 1
        return live_in_child(task, prepare)

    def _arm(self, disk: tuple[float, Disk] | None, task: Task) -> Callable[[], None] | None:
        if disk is None or disk[1] not in (Disk.FULL, Disk.FSYNC):
            return None
        if disk[1] is Disk.FSYNC:
            after = int(disk[0] * self._shared.work(self.experiment.setting).syncs)
            return partial(harm.fail_fsync, after, lambda: task.say("fsync-failed", 0, store.names(task.published)))
        largest = (task.regular / f"step-{task.steps}.pt").stat().st_size
        return partial(harm.fill_disk, round((0.4 + disk[0]) * largest))

    def _damage(self, task: Task, disk: tuple[float, Disk] | None) -> None:
        if disk is None or disk[1] in (Disk.FULL, Disk.FSYNC):
            return
        steps = store.offered(task.published)
        if steps:
            which = harm.damage(store.files(task.published, steps[-1]), disk[1], self._random)
            task.say("damaged", steps[-1], f"{disk[1]}: {which}")

    def _go_on(self, restored: dict[str, Any]) -> tuple[Any, Any]:
        """The state after training on from a restored checkpoint, and the trainer's own."""
        step = int(restored["step"]) + MORE
        return follow(self.experiment, self.course, restored, MORE), self.course.states[step]


def accept(example: Path, count: int, **options: Any) -> Report:  # noqa: ANN401 - of ``Acceptance`` and its ``run``
    """A whole run in a temporary directory."""
    place = Path(tempfile.mkdtemp(prefix="flowcheck-accept-", dir=MEMORY))
    own = {key: options.pop(key) for key in ("kinds", "first", "each") if key in options}
    try:
        return Acceptance(example, place, **options).run(count, **own)
    finally:
        shutil.rmtree(place)
