"""The oracle: a small model that PyTorch trains in this process, without anything of the replay.

Four ranks are played one after another; their mean gradient, in the type of the parameters, is what a reducer would
have put on the wire. All that a later comparison needs is kept: the state after each step, and what training on gives.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

RANKS = 4
VOCABULARY, WIDTH, HIDDEN = 17, 8, 64
BUCKETS = (("outer.bias", "outer.weight"), ("inner.bias", "inner.weight", "words.weight"))
"""Backwards as registered; the first is closed by its size (``CAP_ELEMENTS``)."""
CAP_ELEMENTS = 1024
GROUP = "dp0"


@dataclass(frozen=True, slots=True)
class Setting:
    """How a trainer trains."""

    name: str
    rule: str
    kernel: str = "for-loop"
    master: bool = False
    """bf16 parameters and gradients, an fp32 master copy."""
    clip: float | None = None
    schedule: bool = False
    scaling: Mapping[str, float] | None = None
    overflow_at: tuple[int, ...] = ()
    """Steps with an infinite loss."""
    weight_decay: float = 0.1


@dataclass(frozen=True, slots=True)
class Made:
    """With what the last step was made, read from the live optimizer."""

    learning_rates: tuple[float, ...]
    loss_scale: float | None
    skipped: bool | None


SCALING = {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3}
SETTINGS = (
    Setting("adamw", "adamw", clip=0.5, schedule=True),
    Setting("master", "adamw", kernel="fused", master=True),
    Setting("nesterov", "sgd", kernel="foreach"),
    Setting("scaled", "adam", kernel="fused", clip=0.3, scaling=SCALING, overflow_at=(3,)),
)


class Trainer:
    """One training."""

    def __init__(self, setting: Setting, seed: int = 7) -> None:
        """Begin anew."""
        import torch

        self.setting = setting
        self.seed = seed
        self.done = 0
        self.made = Made((), None, None)
        self.used = 0
        """Samples: the position in the data."""
        torch.manual_seed(seed)
        self.random = torch.Generator().manual_seed(seed)
        nn = torch.nn
        self.model = nn.ModuleDict(
            {
                "words": nn.Embedding(VOCABULARY, WIDTH),
                "inner": nn.Linear(WIDTH, HIDDEN),
                "outer": nn.Linear(HIDDEN, VOCABULARY),
            }
        )
        if setting.master:
            self.model = self.model.to(torch.bfloat16)
        self.named: dict[str, Any] = dict(self.model.named_parameters())
        self.masters = {n: p.detach().float() if setting.master else p for n, p in self.named.items()}
        self.clip = setting.clip
        self.scaler = torch.amp.GradScaler("cpu", **setting.scaling) if setting.scaling else None
        self.make_optimizer(setting.rule, setting.kernel, setting.weight_decay)

    def make_optimizer(self, rule: str, kernel: str, weight_decay: float) -> None:
        """A new optimizer, without a past."""
        import torch

        wide = [self.masters[name] for name in self.named if self.named[name].dim() > 1]
        narrow = [self.masters[name] for name in self.named if self.named[name].dim() < 2]
        groups = [{"params": wide, "weight_decay": weight_decay}, {"params": narrow, "weight_decay": 0.0}]
        kernels: dict[str, Any] = {"foreach": kernel == "foreach", "fused": kernel == "fused"}
        if rule == "sgd":
            self.optimizer: Any = torch.optim.SGD(
                groups, lr=0.05, momentum=0.9, dampening=0.0, nesterov=True, **kernels
            )
        else:
            made = torch.optim.AdamW if rule == "adamw" else torch.optim.Adam
            self.optimizer = made(groups, lr=3e-3, betas=(0.9, 0.95), **kernels)
        self.scheduler: Any = None
        self.schedule_steps = 0
        if self.setting.schedule:
            self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, start_factor=0.1, total_iters=6)

    def step(self) -> bytes:
        """Train one step; gives the reduced gradient as the buckets hold it."""
        import torch

        for parameter in self.named.values():
            parameter.grad = None
        total: dict[str, Any] = {}
        for rank in range(RANKS):
            loss = self._loss(rank)
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            for name, parameter in self.named.items():
                share = parameter.grad / RANKS
                total[name] = share if name not in total else total[name] + share
                parameter.grad = None
        for name, parameter in self.named.items():
            parameter.grad = total[name]
        sent = b"".join(raw(total[name]) for bucket in BUCKETS for name in bucket)
        rates = tuple(float(group["lr"]) for group in self.optimizer.param_groups)
        scale = float(self.scaler.get_scale()) if self.scaler else None
        skipped = self._update()
        self.done += 1
        if self.scheduler:
            self.scheduler.step()
            self.schedule_steps += 1
        if self.setting.master:
            with torch.no_grad():
                for name, parameter in self.named.items():
                    parameter.copy_(self.masters[name])
        self.made = Made(rates, scale, skipped)
        return sent

    def state(self) -> dict[str, Any]:
        """A regular checkpoint of this step (``checkpoint/anchor.py`` says the form); nothing in it is shared."""
        found = {
            "step": self.done,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule_steps": self.schedule_steps if self.scheduler else self.done,
            **self.beside(),
        }
        if self.setting.master:
            found["master"] = self.masters
        if self.scaler:
            found["scaler"] = self.scaler.state_dict()
        return copy.deepcopy(found)

    def beside(self) -> dict[str, Any]:
        """What of a checkpoint gradients cannot tell: the next steps need it."""
        return {"rng": {"torch": self.random.get_state()}, "dataloader": {"position": self.used}}

    def load(self, found: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        import torch

        self.done = int(found["step"])
        self.random.set_state(found["rng"]["torch"])
        self.used = int(found["dataloader"]["position"])
        self.model.load_state_dict(found["model"])
        if self.setting.master:
            with torch.no_grad():
                for name, tensor in found["master"].items():
                    self.masters[name].copy_(tensor)
        if self.scheduler:
            for _ in range(found["schedule_steps"]):
                self.optimizer.step()
                self.scheduler.step()
            self.schedule_steps = int(found["schedule_steps"])
        self.optimizer.load_state_dict(found["optimizer"])
        if self.scaler:
            self.scaler.load_state_dict(found["scaler"])

    def _loss(self, rank: int) -> "torch.Tensor":
        import torch

        tokens = torch.randint(0, VOCABULARY, (8,), generator=self.random) + self.used % 3 + rank
        tokens %= VOCABULARY
        self.used += len(tokens)
        hidden = torch.tanh(self.model["inner"](self.model["words"](tokens)))
        loss = torch.nn.functional.cross_entropy(self.model["outer"](hidden).float(), (tokens * 3 + 1) % VOCABULARY)
        return loss * float("inf") if self.done + 1 in self.setting.overflow_at else loss

    def _update(self) -> bool | None:
        """Was the optimizer skipped? None: there is no loss scaling."""
        import torch

        if self.setting.master:
            for name, parameter in self.named.items():
                self.masters[name].grad = parameter.grad.float()
        if self.clip is not None:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            ordered = [p for group in self.optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(ordered, self.clip)
        if not self.scaler:
            self.optimizer.step()
            return None
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return bool(self.scaler.get_scale() < before)


def raw(tensor: "torch.Tensor") -> bytes:
    """The bytes of a tensor's elements."""
    import torch

    flat: bytes = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return flat


def differences(found: Any, truth: Any, where: str = "") -> list[str]:  # noqa: ANN401 - whatever a state holds
    """Where two states differ, bit by bit and type by type; ``truth`` may say more of a parameter group."""
    if isinstance(truth, Mapping):
        if not isinstance(found, Mapping):
            return [f"{where or '/'}: no mapping"]
        told = [d for key in found if key in truth for d in differences(found[key], truth[key], f"{where}/{key}")]
        if "/param_groups" in where or set(found) == set(truth):
            return told
        return [*told, f"{where or '/'}: has {sorted(map(str, found))}, not {sorted(map(str, truth))}"]
    if isinstance(truth, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(truth):
            return [f"{where}: not {len(truth)} items"]
        return [d for n, (a, b) in enumerate(zip(found, truth, strict=True)) for d in differences(a, b, f"{where}/{n}")]
    if hasattr(truth, "dtype"):
        same = hasattr(found, "dtype") and found.dtype == truth.dtype and found.shape == truth.shape
        return [] if same and raw(found) == raw(truth) else [f"{where}: other bits"]
    if isinstance(found, bool) and truth is None:
        return []  # PyTorch's default of foreach and fused: no
    return [] if found == truth else [f"{where}: {found}, not {truth}"]
