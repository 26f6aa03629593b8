"""The trainer's side of an experiment: its gradients, its states, its regular checkpoints, what its client says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import anchor
from flowcheck_net.checkpoint.accept.draw import Belief, Change, Experiment, Silence
from flowcheck_net.checkpoint.accept.trainer import BUCKETS, CAP_ELEMENTS, Trainer
from flowcheck_net.checkpoint.describe import describe
from flowcheck_net.checkpoint.side import SideLog, read_side
from flowcheck_net.checkpoint.side_client import HEAD, MAGIC, SideChannel
from flowcheck_net.checkpoint.training import Training, build_training
from flowcheck_net.errors import OutputError
from flowcheck_net.spec.check_training import load_training

PATIENCE = 300.0
"""Seconds in which the client's thread must have written its few messages, on however busy a machine."""
MORE = 3
"""Steps that are trained on from a restored checkpoint, and by the trainer itself beyond the end."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the trainer did."""

    gradients: tuple[bytes, ...]
    states: Mapping[int, Mapping[str, Any]]
    """After so many steps: the truth."""
    side: SideLog
    """What the client in the training loop said."""
    trainings: Mapping[int, Training]
    """Step -> what describes the training from this step on, as the node believes it."""
    change: tuple[int, Change] | None

    def write_regular(self, place: Path, steps: int) -> None:
        """The trainer's regular checkpoints, from which the node may begin."""
        place.mkdir()
        for step in range(steps + 1):
            anchor.write_anchor(place / f"step-{step}.pt", self.states[step])


class Descriptions:
    """``training.yaml`` of trainers, read as a user's is; each text once."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._known: dict[str, Training] = {}

    def of(self, trainer: Trainer, belief: Belief | None = None) -> Training:
        """What the training script writes of its live optimizer; or, with ``belief``, what the node wrongly has."""
        text = self._text(trainer, belief)
        if text not in self._known:
            path = self._place / "training.yaml"
            path.write_text(text, encoding="utf-8")
            self._known[text] = build_training(load_training(path))
        return self._known[text]

    def _text(self, trainer: Trainer, belief: Belief | None) -> str:
        more: dict[str, Any] = {}
        clip = trainer.clip
        if belief is Belief.CLIP:
            clip = None if clip is not None else 0.01
        if clip is not None:
            more["clip"] = {"max_norm": clip}
        if trainer.setting.scaling:
            more["loss_scaling"] = {
                ("initial" if k == "init_scale" else k): v for k, v in trainer.setting.scaling.items()
            }
        if trainer.scheduler:
            more["schedule"] = {"kind": "LinearLR", "arguments": {"start_factor": 0.1, "total_iters": 6}}
        names = [name for bucket in BUCKETS for name in bucket]
        cap = CAP_ELEMENTS * (2 if trainer.setting.master else 4)
        if belief is Belief.SLOTS:
            names = [*names[:2], *reversed(names[2:])]
        elif belief is Belief.CAPS:
            cap *= 4
        masters = trainer.masters if trainer.setting.master else None
        document = json.loads(
            describe(trainer.model, trainer.optimizer, names, caps=(cap,), masters=masters, more=more)
        )
        if belief is Belief.KERNEL:
            kernel = document["optimizer"]["kernel"]
            document["optimizer"]["kernel"] = "for-loop" if kernel == "fused" else "fused"
        return json.dumps(document, sort_keys=True)


def train(experiment: Experiment, steps: int, descriptions: Descriptions, log: Path) -> Course:
    """Train ``steps`` steps, and ``MORE`` that are never mirrored; the client writes ``log``."""
    trainer = Trainer(experiment.setting)
    belief = experiment.belief
    states = {0: trainer.state()}
    trainings = {0: descriptions.of(trainer, belief)}
    gradients = []
    log.touch()  # as whoever listens does: a client that says nothing writes no file
    client = SideChannel(f"file:{log}", run="accept", room=steps + MORE)
    at, change = experiment.change or (0, None)
    for step in range(1, steps + MORE + 1):
        if change is not None and step == at:
            alter(trainer, change)
        live = descriptions.of(trainer).optimizer.digest
        gradients.append(trainer.step())
        if change is Change.RATE_ONCE and step == at:
            alter(trainer, change, back=True)
        if step == at:
            trainings[step] = descriptions.of(trainer, belief)
        if step != at or experiment.announced:
            _say(client, experiment, trainer, live)
        states[step] = trainer.state()
    if not client.close(PATIENCE):
        raise OutputError(
            f"{log} could not be written in {PATIENCE:.0f} s: the disk is full, or the machine is too busy"
        )
    if experiment.silence is not None and experiment.silence[1] is Silence.DAMAGED:
        _damage(log, experiment.silence[0], experiment.seed)
    return Course(tuple(gradients), states, read_side(log), trainings, experiment.change)


def _say(client: SideChannel, experiment: Experiment, trainer: Trainer, live: str) -> None:
    """What the line in the training loop says after a step."""
    step, how = experiment.silence or (0, None)
    if (how is Silence.OMITS and trainer.done == step) or (how is Silence.ENDS and trainer.done >= step):
        return
    made = trainer.made
    rates = made.learning_rates
    if how is Silence.RATE and trainer.done == step:
        rates = tuple(rate * 1.0000001 for rate in rates)
    blind = experiment.belief in (Belief.CLIP, Belief.KERNEL)  # a client that does not know the description's digest
    client.step(
        trainer.done,
        learning_rates=rates,
        loss_scale=made.loss_scale,
        skipped=made.skipped,
        optimizer=None if blind else live,
        fields=trainer.beside(),
    )


def _damage(log: Path, number: int, seed: int) -> None:
    """Another bit in the body of a message."""
    data = bytearray(log.read_bytes())
    at = -1
    for _ in range(number):
        found = data.find(MAGIC, at + 1)
        if found < 0:
            break
        at = found
    end = data.find(MAGIC, at + 1)
    body = at + HEAD.size
    data[body + seed % ((end if end >= 0 else len(data)) - body)] ^= 1
    log.write_bytes(data)


def alter(trainer: Trainer, change: Change, *, back: bool = False) -> None:
    """Change the live optimizer."""
    setting = trainer.setting
    groups = trainer.optimizer.param_groups
    if change in (Change.RATE, Change.RATE_ONCE):
        for group in groups:
            group["lr"] *= 0.25 if back else 4.0
            if change is Change.RATE and not setting.schedule:
                group.pop("initial_lr", None)
    elif change is Change.DECAY:
        groups[0]["weight_decay"] = 0.3
    elif change is Change.BETAS:
        key, value = ("momentum", 0.5) if setting.rule == "sgd" else ("betas", (0.8, 0.9))
        for group in groups:
            group[key] = value
    elif change is Change.CLIP:
        trainer.clip = 0.05 if trainer.clip is None else None
    elif change is Change.RULE:
        trainer.make_optimizer("adamw" if setting.rule == "sgd" else "sgd", "for-loop", 0.0)
    else:
        trainer.make_optimizer(
            setting.rule, "foreach" if setting.kernel != "foreach" else "fused", setting.weight_decay
        )


def follow(experiment: Experiment, course: Course, restored: Mapping[str, Any], steps: int) -> Mapping[str, Any]:
    """Train on from a restored checkpoint, as a trainer begun anew does."""
    trainer = Trainer(experiment.setting)
    begun = int(restored["step"])
    if course.change is not None and course.change[0] <= begun and course.change[1] is not Change.RATE_ONCE:
        alter(trainer, course.change[1])
    trainer.load(restored)
    while trainer.done < begun + steps:
        if course.change is not None and trainer.done + 1 == course.change[0]:
            alter(trainer, course.change[1])
        trainer.step()
        if course.change is not None and trainer.done == course.change[0] and course.change[1] is Change.RATE_ONCE:
            alter(trainer, Change.RATE_ONCE, back=True)
    return trainer.state()
