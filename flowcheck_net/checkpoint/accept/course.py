"""The trainer's side of an experiment: its gradients, its states, its regular checkpoints, what its client says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import anchor
from flowcheck_net.checkpoint.accept.draw import Belief, Change, Experiment, Silence
from flowcheck_net.checkpoint.accept.trainer import BUCKETS, CAP_ELEMENTS, Trainer
from flowcheck_net.checkpoint.describe import describe
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.training import Training, build_training
from flowcheck_net.spec.check_training import load_training

MORE = 3
"""Steps that are trained on from a restored checkpoint, and by the trainer itself beyond the end."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the trainer did."""

    gradients: tuple[bytes, ...]
    states: Mapping[int, Mapping[str, Any]]
    """After so many steps: the truth."""
    values: Mapping[int, StepValues]
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


def train(experiment: Experiment, steps: int, descriptions: Descriptions) -> Course:
    """Train ``steps`` steps, and ``MORE`` that are never mirrored."""
    trainer = Trainer(experiment.setting)
    belief = experiment.belief
    states = {0: trainer.state()}
    trainings = {0: descriptions.of(trainer, belief)}
    gradients, values = [], {}
    for step in range(1, steps + MORE + 1):
        changed = experiment.change is not None and experiment.change[0] == step
        if experiment.change is not None and changed:
            alter(trainer, experiment.change[1])
        live = descriptions.of(trainer)
        sent, told = trainer.step()
        if experiment.change is not None and step == experiment.change[0] and experiment.change[1] is Change.RATE_ONCE:
            alter(trainer, Change.RATE_ONCE, back=True)
        if changed:
            trainings[step] = descriptions.of(trainer, belief)
        if not changed or experiment.announced:
            values[step] = replace(told, optimizer=live.optimizer.digest)
        states[step] = trainer.state()
        gradients.append(sent)
    if experiment.belief in (Belief.CLIP, Belief.KERNEL):
        values = {step: replace(told, optimizer=None) for step, told in values.items()}
    if experiment.silence is not None:
        values = _silenced(values, *experiment.silence)
    return Course(tuple(gradients), states, values, trainings, experiment.change)


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


def _silenced(values: Mapping[int, StepValues], step: int, how: Silence) -> dict[int, StepValues]:
    found = dict(values)
    if how is Silence.OMITS:
        found.pop(step, None)
    elif how is Silence.ENDS:
        found = {number: told for number, told in found.items() if number < step}
    elif how is Silence.SWAPS and step - 1 in found:
        found[step] = found[step - 1]
    elif how is Silence.RATE and (rates := found[step].learning_rates):
        found[step] = replace(found[step], learning_rates=tuple(rate * 1.0000001 for rate in rates))
    return found
