"""A real training for the lab: a small GPT in four processes (``lab/gpt.py``), and what it leaves."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.training import build_training
from flowcheck_net.errors import LabError
from flowcheck_net.receive.gradient import iteration_directory
from flowcheck_net.spec.check_training import load_training

RANKS = 4
FIRST = 1
"""The trainer's iteration that is sent first: DDP's very first one has other buckets. It completes step 2."""
_PATIENCE = 900.0
"""Seconds that a training may take."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "fp32": {"clip": 0.5, "schedule": True},
    "bf16": {"master": True, "kernel": "fused"},
}
"""By name: fp32 with clipping and a schedule, bf16 with an fp32 master copy and PyTorch's fused kernel."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a trainer left."""

    place: Path
    steps: int
    """That are sent through the lab."""

    @property
    def iterations(self) -> int:
        """That are sent."""
        return self.steps - FIRST

    @property
    def gradients(self) -> Path:
        """As ``synth --gradients`` reads them."""
        return self.place / "given"

    @property
    def training(self) -> Path:
        """The trainer's own description."""
        return self.place / "training.yaml"

    @property
    def side(self) -> Path:
        """What the trainer told of each step."""
        return self.place / "side.log"

    def checkpoint(self, step: int) -> Path:
        """The regular one of a step."""
        return self.place / f"step-{step}.pt"


def train(place: Path, settings: Sequence[Mapping[str, Any]]) -> None:
    """Run trainings one after another, each into ``place/NAME``. Raises LabError where one fails."""
    place.mkdir(parents=True, exist_ok=True)
    file = place / "settings.json"
    file.write_text(json.dumps(list(settings)), encoding="utf-8")
    (place / "meeting").unlink(missing_ok=True)
    command = [sys.executable, "-m", "flowcheck_net.lab.gpt", str(RANKS), str(place.absolute()), str(file)]
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    if done.returncode:
        raise LabError(f"the training failed: {done.stderr[-2000:]}")


def hand_over(trained: Trained, group: str, example: Path) -> Path:
    """The trainer's reduced buckets as files for the hosts, and the example's job with these buckets; its path.

    Args:
        trained: A training that is over.
        group: Of the job.
        example: Directory of the specs whose job is taken, its buckets replaced.
    """
    (order,) = build_training(load_training(trained.training)).layout.steady
    for number, iteration in enumerate(range(FIRST, trained.steps)):
        memory = trained.place / "memory" / f"{iteration:06d}"
        directory = iteration_directory(trained.gradients, number, complete=True)
        directory.mkdir(parents=True, exist_ok=True)
        data = b"".join((memory / f"{bucket}.bin").read_bytes() for bucket in range(len(order.buckets)))
        (directory / f"{group}.gradient").write_bytes(data)
    head, _, rest = (example / "job.yaml").read_text(encoding="utf-8").partition("buckets:")
    buckets = "".join(f"  - {{name: {b.name}, elements: {b.elements}, dtype: {b.dtype}}}\n" for b in order.buckets)
    job = trained.place / "job.yaml"
    job.write_text(f"{head}buckets:\n{buckets}{rest[rest.index('iteration_time:') :]}", encoding="utf-8")
    return job
