"""A real trainer's gradients through a lab, and ``flowcheck-net checkpoint follow`` beside the receivers."""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.lab.build import Lab, lab_of
from flowcheck_net.lab.faults import parse_faults
from flowcheck_net.lab.run import LabReport, Payload, run
from flowcheck_net.spec.load import load_specs
from tests.doubles import ddp_world as world
from tests.netns.lab_running import TOPOLOGIES

FIRST = 1
"""The trainer's iteration that is sent first: its very first one has other buckets. It completes step 2."""
_EXAMPLE = TOPOLOGIES / "lab-leaf-spine"
_PROGRAM = "import sys; from flowcheck_net.cli.main import run; sys.argv[0] = 'flowcheck-net'; run()"


@dataclass(frozen=True)
class Trained:
    """What a trainer left."""

    place: Path
    steps: int

    @property
    def iterations(self) -> int:
        """That are sent."""
        return self.steps - FIRST


def train(place: Path, setting: dict[str, Any]) -> Trained:
    """A short training, with its gradients as files."""
    world.train(place, [setting])
    trained = Trained(place / setting["name"], setting["steps"])
    world.given(trained.place, trained.place / "given", range(FIRST, trained.steps))
    world.job(trained.place / "job.yaml", world.layout(trained.place).steady[0], _EXAMPLE)
    return trained


@contextmanager
def lab_for(trained: Trained) -> Iterator[Lab]:
    """The lab with the trainer's job."""
    specs = load_specs(_EXAMPLE / "topology.yaml", trained.place / "job.yaml", _EXAMPLE / "policy.yaml")
    # Short, because the path of a socket has 107 characters at the most.
    short = tempfile.TemporaryDirectory(prefix="fcn-lab-", dir="/tmp")
    with short as folder, lab_of(specs, Path(folder) / "labs" / "lab") as lab:
        yield lab


@dataclass(frozen=True)
class Followed:
    """A run and what the follower made of it."""

    report: LabReport
    place: Path
    code: int
    lines: list[dict[str, Any]]
    said: str
    killed: int
    """Exit code of the first follower, where a second one went on."""

    @property
    def applied(self) -> list[int]:
        """Steps, in order."""
        return [step for line in self.lines for step in line.get("applied", ())]


def words(trained: Trained, place: Path, anchor: int, *more: str) -> list[str]:
    """The command, for a run in ``place``."""
    nodes = [word for node in ("ckpt1", "ckpt2") for word in ("--records", str(place / f"{node}.fcr"))]
    boards = [word for node in ("ckpt1", "ckpt2") for word in ("--boards", str(place / "boards" / node))]
    told = ["--training", str(trained.place / "training.yaml"), "--anchor", str(trained.place / f"step-{anchor}.pt")]
    told += ["--trial", str(trained.place / f"step-{anchor + 1}.pt"), "--values", str(trained.place / "values.jsonl")]
    own = ["--state", str(place / "state"), "--first-step", str(FIRST + 1), "--json", *more]
    follow = ["checkpoint", "follow", "--plan", str(place / "plan.json"), *nodes, *boards, *told, *own]
    return [sys.executable, "-c", _PROGRAM, *follow]


def run_followed(
    lab: Lab, trained: Trained, place: Path, anchor: int, *faults: str, kill_at: int = 0, more: tuple[str, ...] = ()
) -> Followed:
    """A run with a follower beside it, again and slower where the machine was too busy, or lost what it should not.

    ``kill_at``: the follower gets SIGKILL at this step, and another one is started.
    """
    for slower in (2, 6):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        payload = Payload(trained.place / "given", place / "boards")
        follower = Follower(words(trained, place, anchor, *more), place)

        def tell(line: str, follower: Follower = follower) -> None:
            if line.startswith("planned"):
                follower.start()
                follower.wait_for_line()  # before the job's time begins, and with it that of the faults
                follower.kill_at(kill_at)

        asked = parse_faults(faults, lab.drawn)
        try:
            report = run(lab, place, trained.iterations, asked, tell, slower=slower, payload=payload)
            code = follower.wait()
        finally:
            follower.end()
        proven = all(each.publishable for each in report.audit.iterations)
        if not faults_lose(faults) and not proven:
            assert code in (4, 10), follower.said()  # the lab lost something: whoever follows must have refused
        elif not report.busy:
            return Followed(report, place, code, follower.lines(), follower.said(), follower.killed)
    pytest.skip(f"this machine is too busy: {report.late:.2f} s late, dropped {report.switch_drops}")


def faults_lose(faults: tuple[str, ...]) -> bool:
    """Is anything but another tenant's traffic asked for?"""
    return any(fault != "tenant" for fault in faults)


class Follower:
    """The command, and what it says."""

    def __init__(self, command: list[str], place: Path) -> None:
        self._command = command
        self._out, self._err = place / "follow.out", place / "follow.err"
        self._out.touch()
        self._err.touch()
        self.process: subprocess.Popen[bytes] | None = None
        self._killer: threading.Thread | None = None
        self.killed = 0

    def start(self) -> None:
        """Start it, once more if it ended; it goes on writing into the same files."""
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(self._command, stdout=out, stderr=err)

    def wait_for_line(self, sign: str = "{") -> None:
        """Until it said so."""
        while sign not in self._out.read_text():
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            time.sleep(0.05)

    def kill_at(self, step: int) -> None:
        """SIGKILL once it has applied the step, and another one; 0: never."""
        if step:
            self._killer = threading.Thread(target=self._kill, args=(step,))
            self._killer.start()

    def _kill(self, step: int) -> None:
        assert self.process is not None
        while self.process.poll() is None and not any(step in line.get("applied", ()) for line in self.lines()):
            time.sleep(0.01)
        self.end()
        self.killed = self.process.returncode
        self.start()

    def wait(self) -> int:
        """Its exit code."""
        if self._killer is not None:
            self._killer.join(120)
        assert self.process is not None
        return self.process.wait(timeout=120)

    def end(self) -> None:
        """Nothing of it is left."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """What it said of the steps."""
        whole = self._out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def said(self) -> str:
        """All else."""
        return self._err.read_text()
