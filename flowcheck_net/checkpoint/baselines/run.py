"""The comparison: one training by all methods in turns, then failures of each."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.checkpoint.baselines import processes
from flowcheck_net.checkpoint.baselines.kills import fail_once
from flowcheck_net.checkpoint.baselines.ledger import measured, read_events, stretch_of
from flowcheck_net.checkpoint.baselines.words import MEASURED, Failure, Method, Setup, Stretch
from flowcheck_net.checkpoint.baselines.world import Planned, start

_MEMORY = Path("/dev/shm")  # noqa: S108 - memory that is a file, which is what is wanted


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured, and on what."""

    processors: int
    torch: str
    file_system: str
    """Type of the one that holds the checkpoints."""
    parameters: int
    gradient_bytes: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was found."""

    setup: Setup
    machine: Machine
    stretches: tuple[Stretch, ...]
    failures: tuple[Failure, ...]

    @property
    def wrong(self) -> tuple[Failure, ...]:
        """Restored states that are not the trainer's: one is enough to make all of it worthless."""
        return tuple(each for each in self.failures if each.wrong)


def order_of(setup: Setup) -> list[tuple[Method, int]]:
    """Method and round of each stretch: the control at both ends of a round, the others in another order each time."""
    found = []
    for number in range(setup.rounds):
        turn = number % len(MEASURED)
        methods = (Method.CONTROL, *MEASURED[turn:], *MEASURED[:turn], Method.CONTROL)
        found += [(method, number) for method in methods]
    return found


def compare(setup: Setup, tell: Callable[[str], None] | None = None) -> Comparison:
    """Measure everything. The caller must hold no thread: processes are forked.

    Args:
        setup: How. ``setup.place`` is there, and empty at the end as at the begin.
        tell: Is told what is being done.

    Raises:
        FlowcheckError: A process failed.
    """
    import torch

    _load()
    tell = tell or (lambda _: None)
    chance = random.Random(setup.seed)  # noqa: S311 - it chooses moments, no secrets
    failures: list[Failure] = []
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-", dir=setup.place)))
        memory = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="flowcheck-compare-", dir=_MEMORY if _MEMORY.is_dir() else None)
            )
        )
        stack.callback(_free_replicas, top)
        order = order_of(setup)
        tell(f"training {len(order)} stretches of {setup.steps} steps in {setup.processes} processes")
        stretches, facts = _measure(setup, top, memory, order)
        machine = Machine(os.cpu_count() or 1, torch.__version__, file_system(top), **facts)
        for number in range(setup.kills):
            for method in MEASURED:
                tell(f"failure {number + 1} of {setup.kills}: {method}")
                place = top / f"failure-{number}-{method}"
                place.mkdir()
                with tempfile.TemporaryDirectory(dir=memory) as own:
                    failures.append(fail_once(setup, method, place, Path(own), chance))
                _free_replicas(place)
                shutil.rmtree(place)
    return Comparison(setup, machine, tuple(stretches), tuple(failures))


def _load() -> None:
    """Import what children need, once, so that none of their times holds it. Nothing is computed: no thread begins."""
    import importlib

    import torch
    import torch.distributed.checkpoint

    for name in ("blocks", "node", "restore", "tap"):
        importlib.import_module(f"flowcheck_net.checkpoint.baselines.{name}")
    torch.optim.AdamW([torch.zeros(1)])  # the first optimizer of a process imports the compiler


def _measure(
    setup: Setup, top: Path, memory: Path, order: list[tuple[Method, int]]
) -> tuple[list[Stretch], dict[str, int]]:
    place = top / "measured"
    place.mkdir()
    plan = [
        Planned(method, number, place / f"stretch-{at:03d}", setup.steps) for at, (method, number) in enumerate(order)
    ]
    processes.wait(start(setup, place, memory, plan), place)
    found = []
    for each in plan:
        paths = sorted((each.place / "events").iterdir())
        events = [event for path in paths for event in measured(read_events(path))]
        found.append(stretch_of(each.method, each.round, events))
    facts: dict[str, int] = json.loads((place / "facts.json").read_text(encoding="utf-8"))
    shutil.rmtree(place)
    return found, facts


def _free_replicas(top: Path) -> None:
    """A killed checkpoint node leaves its replica in shared memory."""
    from flowcheck_net.checkpoint.follow_store import Store
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.spec.check_training import load_training

    for path in sorted(top.rglob("from-*")):
        with Store(path, build_training(load_training(path.parent / "training.yaml"))):
            pass  # closing frees it


def file_system(path: Path) -> str:
    """Type of the file system that holds ``path``."""
    real = path.resolve()
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, told, *_ = line.split()
        if real.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, told
    return kind
