"""What the real trainer of ``lab/gpt.py`` left, as files and words for assembling and replaying."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.buckets import Piece, bucket_order, ddp_buckets, ddp_first
from flowcheck_net.checkpoint.gradient import Average, Part, Proof, StepGradient
from flowcheck_net.checkpoint.hyper import Clip, Kernel, LossScaling, OptimizerSpec, ParameterGroup, Rule, Schedule
from flowcheck_net.checkpoint.layout import BucketOrder, Parameter, ParameterLayout, Source
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype

TRAINER = "flowcheck_net.lab.gpt"
GROUP = GroupName("dp0")
WORLD = 4
CAP = int(0.004 * (1 << 20))
"""Of the trainer's buckets, in bytes."""
PROOF = Proof("gpt", None, 0, Verdict.COVERED, 0, (), ())


def train(place: Path, settings: Sequence[Mapping[str, Any]]) -> None:
    """Run the trainings one after another in four processes."""
    file = place / "settings.json"
    file.write_text(json.dumps(settings))
    (place / "meeting").unlink(missing_ok=True)
    command = [sys.executable, "-m", TRAINER, str(WORLD), str(place), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def read(path: Path) -> Any:
    import torch

    return torch.load(path, weights_only=True)


def memory(place: Path, iteration: int) -> tuple[list[bytes], list[dict[str, list[int]]], list[str]]:
    """Buckets as they lay in the trainer's memory, what lay where in them, and the order of readiness."""
    directory = place / "memory" / f"{iteration:06d}"
    told = json.loads((directory / "buckets.json").read_text())
    buckets = [(directory / f"{number}.bin").read_bytes() for number in range(len(told["slots"]))]
    return buckets, told["slots"], told["ready"]


def layout(place: Path) -> ParameterLayout:
    """By our rules, from the shapes in the trainer's first checkpoint and the order in which gradients became ready."""
    model = read(place / "step-0.pt")["model"]
    dtype = Dtype.BF16 if str(model["words.weight"].dtype) == "torch.bfloat16" else Dtype.FP32
    names = [name for name in model if name != "head.weight"]
    parameters = tuple(
        Parameter(name, tuple(model[name].shape), dtype, (Source(GROUP, name),), _aliases(name)) for name in names
    )
    pieces = {p.name: Piece(p.name, p.elements, dtype) for p in parameters}
    ready = memory(place, 1)[2]
    later = ddp_buckets([pieces[name] for name in ready], [CAP])
    first = ddp_first(list(pieces.values()))
    return ParameterLayout(parameters, (_order(later),), (_order(first),))


def _aliases(name: str) -> tuple[str, ...]:
    return ("head.weight",) if name == "words.weight" else ()


def _order(buckets: Sequence[Sequence[Piece]]) -> BucketOrder:
    return bucket_order(GROUP, buckets, [f"bucket{n}" for n in range(len(buckets))])


def optimizer(setting: Mapping[str, Any], layout: ParameterLayout) -> OptimizerSpec:
    """The trainer's optimizer in our words, written out by hand."""
    rule = setting.get("rule", "adamw")
    sgd = rule.startswith("sgd")
    common: dict[str, Any] = {"learning_rate": 0.05 if sgd else 3e-3, "betas": (0.9, 0.95)}
    if sgd:
        common |= {"momentum": 0.9, "nesterov": rule == "sgd", "dampening": 0.3 if rule == "sgd-dampened" else 0.0}
        common |= {"betas": (0.9, 0.999)}
    wide = tuple(p.name for p in layout.parameters if len(p.shape) > 1)
    narrow = tuple(p.name for p in layout.parameters if len(p.shape) < 2)
    warm = Schedule("LinearLR", (("start_factor", 0.1), ("total_iters", 20)))
    rest = Schedule("CosineAnnealingLR", (("T_max", 180), ("eta_min", 1e-4)))
    scaling = setting.get("scaling")
    return OptimizerSpec(
        rule=Rule.SGD if sgd else Rule(rule),
        kernel=Kernel(setting.get("kernel", "for-loop")),
        groups=(
            ParameterGroup(wide, weight_decay=0.1, **common),
            ParameterGroup(narrow, weight_decay=0.0, **common),
        ),
        schedule=Schedule("SequentialLR", (("milestones", (20,)),), (warm, rest))
        if setting.get("schedule")
        else Schedule(),
        clip=Clip(setting["clip"]) if setting.get("clip") else None,
        scaling=LossScaling(
            scaling["init_scale"],
            scaling["growth_factor"],
            scaling["backoff_factor"],
            scaling["growth_interval"],
        )
        if scaling
        else None,
        master=Dtype.FP32 if setting.get("master") else None,
    )


def direct(place: Path, words: ParameterLayout, iteration: int) -> StepGradient:
    """The gradient of a step straight from the trainer's memory: for tests of the optimizer alone."""
    buckets, _, _ = memory(place, iteration)
    (order,) = words.orders(first=iteration == 0)
    parts = {}
    for data, bucket in zip(buckets, order.buckets, strict=True):
        view = memoryview(bytearray(data))
        for slot in bucket.slots:
            size = bucket.dtype.size
            window = view[slot.offset * size : (slot.offset + slot.elements) * size]
            parts[slot.name] = (Part(window, bucket.dtype),)
    return StepGradient(iteration + 1, PROOF, Average(), parts)


def given(place: Path, out: Path, iterations: range) -> None:
    """The trainer's reduced buckets as ``synth --gradients`` reads them."""
    for number, iteration in enumerate(iterations):
        directory = out / f"iteration-{number:06d}"
        directory.mkdir(parents=True)
        (directory / f"{GROUP}.gradient").write_bytes(b"".join(memory(place, iteration)[0]))


def job(path: Path, order: BucketOrder, example: Path) -> Path:
    """The example's job with the trainer's buckets."""
    text = (example / "job.yaml").read_text()
    head, rest = text.split("buckets:", 1)
    buckets = "".join(f"  - {{name: {b.name}, elements: {b.elements}, dtype: {b.dtype}}}\n" for b in order.buckets)
    tail = rest[rest.index("iteration_time:") :]
    path.write_text(f"{head}buckets:\n{buckets}{tail}")
    return path
