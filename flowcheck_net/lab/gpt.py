"""A real trainer: a small GPT under DistributedDataParallel over gloo, a process for each rank. Run as a program.

    python -m flowcheck_net.lab.gpt WORLD PLACE SETTINGS.json

Each setting of the list is one training. It writes into ``PLACE/NAME``: the buckets as they lie in memory after each
backward pass (rank 0; DDP's own reducer, no communication hook), the order in which gradients became ready,
``training.yaml`` by ``checkpoint/describe.py``, and regular checkpoints in the form of ``checkpoint/anchor.py``, made
with nothing but PyTorch.
"""

import json
import os
import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flowcheck_net.checkpoint.describe import describe, watch
from flowcheck_net.checkpoint.side_client import SideChannel
from flowcheck_net.checkpoint.small_gpt import Gpt

VOCABULARY, CONTEXT, BATCH = 61, 16, 4


@dataclass
class Setting:
    """How to train."""

    name: str
    rule: str = "adamw"
    kernel: str = "for-loop"
    master: bool = False
    """bf16 parameters and gradients, fp32 master copy."""
    clip: float | None = None
    scaling: dict[str, float] | None = None
    overflow_at: list[int] = field(default_factory=list)
    schedule: bool = False
    steps: int = 200
    cap_mb: float = 0.004
    keep: list[int] = field(default_factory=list)
    """Steps after which a checkpoint is written."""
    resume: str | None = None
    rewrap_at: int | None = None
    """Wrap the model by a new DDP after this step, as a process that begins anew does."""


class Trainer:
    """One rank of one training."""

    def __init__(self, setting: Setting, place: Path, rank: int) -> None:
        """Model and optimizer by the setting, or as they stood in the checkpoint to resume from."""
        self.setting, self.rank = setting, rank
        self.place = place / setting.name
        torch.manual_seed(7)
        self.model = Gpt(width=16, blocks=1, heads=2, words=VOCABULARY, places=CONTEXT)
        if setting.master:
            self.model = self.model.to(torch.bfloat16)
        self.named = dict(self.model.named_parameters())
        self.masters = {n: p.detach().float() if setting.master else p for n, p in self.named.items()}
        self.optimizer = self.make_optimizer()
        self.scheduler = self.make_scheduler()
        self.scaler = torch.amp.GradScaler("cpu", **setting.scaling) if setting.scaling else None
        self.done = 0
        if setting.resume:
            self.load(torch.load(setting.resume, weights_only=True))
        self.watched = watch(self.model)
        self.ready: list[str] = []
        for name, parameter in self.named.items():
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: self.ready.append(name))
        self.wrap()

    def make_optimizer(self) -> Any:  # noqa: ANN401 - PyTorch's
        """With weight decay for matrices only."""
        plain = [n for n in self.named if self.named[n].dim() < 2]
        groups = [
            {"params": [self.masters[n] for n in self.named if n not in plain], "weight_decay": 0.1},
            {"params": [self.masters[n] for n in plain], "weight_decay": 0.0},
        ]
        kernel = {"foreach": self.setting.kernel == "foreach", "fused": self.setting.kernel == "fused"}
        if self.setting.rule == "sgd":
            return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True, **kernel)
        if self.setting.rule == "sgd-dampened":
            return torch.optim.SGD(groups, lr=0.05, momentum=0.9, dampening=0.3, **kernel)
        rule = torch.optim.AdamW if self.setting.rule == "adamw" else torch.optim.Adam
        return rule(groups, lr=3e-3, betas=(0.9, 0.95), **kernel)

    def make_scheduler(self) -> Any:  # noqa: ANN401 - PyTorch's
        """Warm-up and cosine, where the setting has a schedule."""
        if not self.setting.schedule:
            return None
        warm = torch.optim.lr_scheduler.LinearLR(self.optimizer, start_factor=0.1, total_iters=20)
        rest = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=180, eta_min=1e-4)
        return torch.optim.lr_scheduler.SequentialLR(self.optimizer, [warm, rest], milestones=[20])

    def wrap(self) -> None:
        """Give the model to DDP: its first iteration has other buckets."""
        cap = self.setting.cap_mb
        self.ddp = DistributedDataParallel(self.model, bucket_cap_mb=cap, gradient_as_bucket_view=True)

    def run(self) -> None:
        """All steps, with checkpoints where the setting wants them."""
        self.place.mkdir(exist_ok=True)
        self.side = SideChannel(f"file:{self.place / 'side.log'}", rank=self.rank) if self.rank == 0 else None
        if not self.setting.resume:
            self.save(0)
        while self.done < self.setting.steps:
            self.step()
            if self.done == 2 and self.rank == 0:
                (self.place / "training.yaml").write_text(self.description())
            if self.done in self.setting.keep:
                self.save(self.done)
            if self.done == self.setting.rewrap_at:
                for parameter in self.named.values():
                    parameter.grad = None
                self.wrap()
        if self.side is not None and not self.side.close(60):
            raise OSError(f"{self.place / 'side.log'} is not whole")

    def step(self) -> None:
        """Forward, backward, reduce, update."""
        self.ready.clear()
        for parameter in self.named.values():
            if parameter.grad is not None:
                parameter.grad.zero_()
        loss = self.loss()
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        if self.rank == 0:
            self.dump()
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.update()
        self.tell(rates)
        if self.scheduler:
            self.scheduler.step()
        if self.setting.master:
            for name, parameter in self.named.items():
                parameter.data.copy_(self.masters[name])
        self.done += 1

    def description(self) -> str:
        """``training.yaml``."""
        setting = self.setting
        more: dict[str, Any] = {}
        if setting.clip is not None:
            more["clip"] = {"max_norm": setting.clip}
        if setting.scaling:
            more["loss_scaling"] = {"initial" if k == "init_scale" else k: v for k, v in setting.scaling.items()}
        if setting.schedule:
            warm = {"kind": "LinearLR", "arguments": {"start_factor": 0.1, "total_iters": 20}}
            rest = {"kind": "CosineAnnealingLR", "arguments": {"T_max": 180, "eta_min": 1e-4}}
            more["schedule"] = {"kind": "SequentialLR", "arguments": {"milestones": [20]}, "parts": [warm, rest]}
        caps = (int(setting.cap_mb * (1 << 20)),)
        masters = self.masters if setting.master else None
        return describe(self.model, self.optimizer, self.watched, caps=caps, masters=masters, more=more)

    def loss(self) -> Any:  # noqa: ANN401 - PyTorch's
        """Of the rank's own part of this step's batch."""
        source = torch.Generator().manual_seed(1000 * self.done + self.rank)
        start = torch.randint(0, VOCABULARY, (BATCH, 1), generator=source)
        tokens = (start + 3 * torch.arange(CONTEXT + 1)) % VOCABULARY
        logits = self.ddp(tokens[:, :-1]).float()
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        return loss * float("inf") if self.done + 1 in self.setting.overflow_at else loss

    def update(self) -> None:
        """The optimizer's part, from the reduced gradients on."""
        if self.setting.master:
            for name, parameter in self.named.items():
                self.masters[name].grad = parameter.grad.float()
        if self.setting.clip is not None:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_([p for g in self.optimizer.param_groups for p in g["params"]], self.setting.clip)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def dump(self) -> None:
        """The buckets as DDP's reducer holds them: gradients are views into them."""
        buckets: dict[int, dict[str, Any]] = {}
        for name, parameter in self.named.items():
            storage = parameter.grad.untyped_storage()
            found = buckets.setdefault(storage.data_ptr(), {"storage": storage, "slots": {}})
            found["slots"][name] = [parameter.grad.storage_offset(), parameter.numel()]
        directory = self.place / "memory" / f"{self.done:06d}"
        directory.mkdir(parents=True)
        order = sorted(buckets.values(), key=lambda b: min(self.ready.index(n) for n in b["slots"]))
        for number, bucket in enumerate(order):
            flat = torch.empty(0, dtype=torch.uint8).set_(bucket["storage"])
            (directory / f"{number}.bin").write_bytes(flat.numpy().tobytes())
        told = {"ready": self.ready, "slots": [b["slots"] for b in order]}
        (directory / "buckets.json").write_text(json.dumps(told))

    def tell(self, rates: list[float]) -> None:
        """With what the step was made: to the side channel, and as a line of ``--values``."""
        if self.side is not None:
            self.side.step(self.done + 1, learning_rates=rates)
            with (self.place / "values.jsonl").open("a") as file:
                file.write(json.dumps({"step": self.done + 1, "learning_rates": rates}) + "\n")

    def save(self, step: int) -> None:
        """Write a regular checkpoint; rank 0 does."""
        if self.rank:
            return
        found: dict[str, Any] = {
            "step": step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule_steps": step,
        }
        if self.setting.master:
            found["master"] = self.masters
        if self.scaler:
            found["scaler"] = self.scaler.state_dict()
        torch.save(found, self.place / f"step-{step}.pt")

    def load(self, found: dict[str, Any]) -> None:
        """Go on from a regular checkpoint."""
        self.done = found["step"]
        self.model.load_state_dict(found["model"])
        if self.setting.master:
            for name, tensor in found["master"].items():
                self.masters[name].copy_(tensor)
        for _ in range(found["schedule_steps"] if self.scheduler else 0):
            self.optimizer.step()
            self.scheduler.step()
        self.optimizer.load_state_dict(found["optimizer"])
        if self.scaler:
            self.scaler.load_state_dict(found["scaler"])


def main() -> None:
    """A process for each rank; ends with 1 where one of them failed."""
    world, place = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    ranks = [run_rank(rank, world, place) for rank in range(world)]
    sys.exit(0 if all_well(ranks) else 1)


def all_well(children: Collection[int]) -> bool:
    """Wait until they have ended. Once one fails the others are killed: they would wait for it for ever."""
    left = set(children)
    well = True
    while left:
        child, status = os.wait()
        left.discard(child)
        if status and well:
            well = False
            for other in left:
                os.kill(other, signal.SIGKILL)
    return well


def run_rank(rank: int, world: int, place: Path) -> int:
    """A child that has PyTorch imported already; its process id."""
    child = os.fork()
    if child:
        return child
    dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=world)
    for setting in json.loads(Path(sys.argv[3]).read_text()):
        Trainer(Setting(**setting), place, rank).run()
        dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
