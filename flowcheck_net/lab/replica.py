"""A replica beside a run of the lab: follow, publish, restore and resume by the commands that a user has."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from flowcheck_net.checkpoint.anchor import read_anchor
from flowcheck_net.checkpoint.drift import Drift, measure
from flowcheck_net.checkpoint.follow_again import Begin, latest
from flowcheck_net.errors import LabError
from flowcheck_net.lab.build import Lab
from flowcheck_net.lab.faults import Fault
from flowcheck_net.lab.run import LabReport, Payload, run
from flowcheck_net.lab.trained import FIRST, Trained, train

_PROGRAM = "import sys; from flowcheck_net.cli.main import run; sys.argv[0] = 'flowcheck-net'; run()"
_LOOK = 0.05
_START, _END = 300.0, 600.0
"""Seconds that a follower may take until it says the first line, and behind the receivers' end."""
_NEVER = str(1 << 30)
"""Steps between full states: all gradients and their proofs since the anchor are kept, and are published with it."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What came of a run with a replica beside it."""

    report: LabReport
    code: int
    """The follower's exit code."""
    applied: tuple[int, ...]
    """Steps, in order."""
    requests: tuple[dict[str, Any], ...]
    """For regular checkpoints."""
    said: str
    state: Path
    """Directory of the follower's files."""

    @property
    def newest(self) -> Path:
        """Its newest full state."""
        return max(self.state.glob("step-*.pt"))

    @property
    def begun(self) -> int:
        """Step of the regular checkpoint that it began from, the last time."""
        return min(int(path.stem.removeprefix("step-")) for path in self.state.glob("step-*.pt"))


class Follower:
    """``flowcheck-net checkpoint follow`` on the boards and records of a lab, and what it says."""

    def __init__(self, words: Sequence[str], place: Path) -> None:
        """``words``: behind ``checkpoint follow``; ``place``: for what it says."""
        self._words = [sys.executable, "-c", _PROGRAM, "checkpoint", "follow", *words, "--json"]
        self._out, self._err = place / "follow.out", place / "follow.err"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def start(self) -> None:
        """It looks for packets when this returns. Raises LabError where it ends before."""
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(self._words, stdout=out, stderr=err)  # noqa: S603 - our own program
        deadline = time.monotonic() + _START
        while not self.lines():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"`checkpoint follow` does not follow: {self.said()}")
            time.sleep(_LOOK)

    def wait(self) -> int:
        """Its exit code, once it has ended by itself. Raises LabError where it does not."""
        if self._process is None:
            raise LabError("`checkpoint follow` was not started")
        try:
            return self._process.wait(_END)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"`checkpoint follow` does not end: {self.lines()[-1:]}") from error

    def lines(self) -> list[dict[str, Any]]:
        """What it said of the steps."""
        return [json.loads(line) for line in self._out.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()]

    def said(self) -> str:
        """All else."""
        return self._err.read_text(encoding="utf-8", errors="replace")


def follow_words(lab: Lab, trained: Trained, place: Path, anchor: int) -> list[str]:
    """For a follower of a run of ``lab`` into ``place``."""
    nodes = [word for node in lab.drawn.nodes for word in ("--records", str(place / f"{node}.fcr"))]
    boards = [word for node in lab.drawn.nodes for word in ("--boards", str(place / "boards" / node))]
    told = [*told_words(trained, anchor), "--first-step", str(FIRST + 1), "--anchors", str(trained.place)]
    return ["--plan", str(place / "plan.json"), *nodes, *boards, *told, "--state", str(place / "state")]


def told_words(trained: Trained, anchor: int) -> list[str]:
    """What `follow` and `publish` are told of a training: the checkpoint after the anchor tries the description."""
    begun, trial = trained.checkpoint(anchor), trained.checkpoint(anchor + 1)
    words = {"--training": trained.training, "--anchor": begun, "--trial": trial, "--side": trained.side}
    return [word for name, path in words.items() for word in (name, str(path))]


def run_followed(
    lab: Lab,
    trained: Trained,
    place: Path,
    anchor: int,
    faults: Sequence[Fault],
    tell: Callable[[str], None],
    *,
    slower: float,
    more: Sequence[str] = (),
) -> Replica:
    """A run whose hosts send the trainer's gradients, and a follower beside it.

    Args:
        lab: Of the trainer's job; it is up.
        trained: The training.
        place: Empty folder for plan, records, boards, and the follower's state.
        anchor: Step of the regular checkpoint that the replica begins from.
        faults: That happen meanwhile.
        tell: Called with a line at each step.
        slower: So many times the job's iteration time.
        more: Options of ``checkpoint follow``.
    """
    payload = Payload(trained.gradients, place / "boards")
    words = [*follow_words(lab, trained, place, anchor), "--save-every", _NEVER, *more]
    with Follower(words, place) as follower:
        report = run(lab, place, trained.iterations, faults, tell, slower=slower, payload=payload, ready=follower.start)
        tell("the hosts have sent; the follower goes on until everything is applied")
        code = follower.wait()
        lines = follower.lines()
        return Replica(
            report,
            code,
            tuple(step for line in lines for step in line.get("applied", ())),
            tuple(line for line in lines if line["event"] == "request"),
            follower.said(),
            latest(Begin(place / "state", FIRST + 1)).state,
        )


def compare(step: int, trainer: Path, replica: Path) -> Drift:
    """Bit by bit, the trainer's regular checkpoint of a step beside another file."""
    return measure(step, read_anchor(trainer), read_anchor(replica))


def publish(trained: Trained, replica: Replica, store: Path, back: Path) -> None:
    """Publish what was followed, with the proof of each step since the anchor, and restore it from there to ``back``.

    Raises LabError where the commands refuse.
    """
    gradients = replica.state / "gradients"
    told = [*told_words(trained, replica.begun), "--from-step", str(replica.begun + 1)]
    command("checkpoint", "publish", str(gradients), "--store", str(store), *told)
    command("checkpoint", "restore", str(store), str(back))


def resume(trained: Trained, setting: dict[str, Any], begun: Path, steps: int) -> Path:
    """Train on from a checkpoint up to ``steps``; the regular checkpoint of that step."""
    name = f"{setting['name']}-resumed"
    wanted = {**setting, "name": name, "resume": str(begun.absolute()), "steps": steps, "keep": [steps]}
    train(trained.place.parent, [wanted])
    return trained.place.parent / name / f"step-{steps}.pt"


def command(*words: str) -> str:
    """Run ``flowcheck-net``; what it prints. Raises LabError where it ends with another code than 0."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"`flowcheck-net {' '.join(words)}` ended with {done.returncode}: {done.stderr}")
    return done.stdout
