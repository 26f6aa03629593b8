"""A small trainer and what it would publish, for tests of publishing. Needs PyTorch."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint.gradient import GroupProof, Proof  # noqa: E402
from flowcheck_net.checkpoint.guarded import Trial  # noqa: E402
from flowcheck_net.checkpoint.publish import Candidate, Policy  # noqa: E402
from flowcheck_net.checkpoint.sealing import Key  # noqa: E402
from flowcheck_net.checkpoint.side import read_side  # noqa: E402
from flowcheck_net.checkpoint.side_client import framed, plain  # noqa: E402
from flowcheck_net.checkpoint.tree import digests  # noqa: E402
from flowcheck_net.ids import GroupName  # noqa: E402

POLICY = Policy(keep_last=2)
KEY = Key(bytes(range(32)))


class Trainer:
    """Its checkpoints are the anchors, and stand for what a replica would have replayed."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.done = 0

    def train(self, steps: int) -> "Trainer":
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(torch.randn(8, 4).bfloat16()).float().square().sum().backward()  # takes random numbers
            self.optimizer.step()
            self.schedule.step()
            self.done += 1
        return self

    def state(self) -> dict[str, Any]:
        held = {"step": self.done, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        more = {"scheduler": self.schedule.state_dict(), "rng": {"torch": torch.get_rng_state()}, "args": {"width": 6}}
        found: dict[str, Any] = copied(held | more)
        return found

    def resume(self, state: dict[str, Any]) -> "Trainer":
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"]["torch"])
        self.done = state["step"]
        return self


def copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def proof(number: int, verdict: Verdict = Verdict.COVERED) -> Proof:
    return Proof("job", "p1", number, verdict, 0, (), (GroupProof(GroupName("dp0"), 5, f"{number:064x}"),))


def candidate(tmp_path: Path, anchor: dict[str, Any], now: dict[str, Any], **change: Any) -> Candidate:
    step = now["step"]
    fields = {"rng": plain(now["rng"]), "scheduler": plain(now["scheduler"])}
    path = tmp_path / "side.log"
    rates = {"learning_rates": [0.01]}
    frames = [message(each, each - 1, rates, fields if each == step else {}) for each in range(1, step + 1)]
    path.write_bytes(b"".join(frames))
    replayed = {key: now[key] for key in ("step", "model", "optimizer")}
    made = Candidate(
        step,
        anchor["step"],
        anchor,
        replayed,
        [(each, proof(each)) for each in range(anchor["step"] + 1, step + 1)],
        {name: tuple(tensor.shape) for name, tensor in now["model"].items()},
        "digest",
        read_side(path),
        trial=Trial(anchor["step"] + 1, identical=True),
    )
    return replace(made, **change)


def message(step: int, number: int, values: dict[str, Any], fields: dict[str, Any], rank: int = 0) -> bytes:
    told = {"v": 1, "run": "a", "rank": rank, "seq": number, "step": step, "at": 0.0, "dropped": 0, "lost": []}
    return framed(told | {"refused": [], "values": values, "fields": fields})


@contextmanager
def in_memory() -> Iterator[Path]:
    """In memory: the processes are killed here, not the machine, and fsync would take most of the time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        yield Path(place)


def two_states() -> tuple[dict[str, Any], dict[str, Any]]:
    trainer = Trainer().train(1)
    return trainer.state(), trainer.train(4).state()


def same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    one, other = digests(mine), digests(theirs)
    assert one == other
