"""Random trainings: the replica beside PyTorch's own classes, and beside Megatron's rule of loss scaling in NumPy.

The trainer here is written as a training script is: ``torch.optim`` classes, ``clip_grad_norm_``, ``GradScaler``,
``torch.optim.lr_scheduler``. It shares no line with the replay. ``FLOWCHECK_REPLAY_CASES=300`` tries more.
"""

import copy
import os
import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
np = pytest.importorskip("numpy", reason="NumPy comes with PyTorch (make torch)")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint import anchor  # noqa: E402
from flowcheck_net.checkpoint.findings import StepRefused  # noqa: E402
from flowcheck_net.checkpoint.gradient import Average, AverageRule, Part, Proof, StepGradient  # noqa: E402
from flowcheck_net.checkpoint.hyper import (  # noqa: E402
    Clip,
    Kernel,
    LossScaling,
    OptimizerSpec,
    ParameterGroup,
    Rule,
    Scaler,
    Schedule,
    StepValues,
)
from flowcheck_net.checkpoint.layout import Parameter, ParameterLayout, Source  # noqa: E402
from flowcheck_net.checkpoint.optimizer import Replay  # noqa: E402
from flowcheck_net.checkpoint.scale import Scale, after_step  # noqa: E402
from flowcheck_net.checkpoint.shard import Shard  # noqa: E402
from flowcheck_net.ids import GroupName  # noqa: E402
from flowcheck_net.model.job import Dtype  # noqa: E402

CASES = int(os.environ.get("FLOWCHECK_REPLAY_CASES", "24"))
DTYPES = {Dtype.FP32: torch.float32, Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}
SHAPES = [(), (1,), (7,), (64,), (65,), (3, 7), (31, 33), (1025,), (2, 3, 5)]
PROOF = Proof("gpt", None, 0, Verdict.COVERED, 0, (), ())
SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("constant", {}),
    ("StepLR", {"step_size": 2, "gamma": 0.3}),
    ("MultiStepLR", {"milestones": (2, 5), "gamma": 0.1}),
    ("LinearLR", {"start_factor": 0.2, "total_iters": 5}),
    ("ExponentialLR", {"gamma": 0.93}),
    ("CosineAnnealingLR", {"T_max": 9, "eta_min": 1e-5}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("PolynomialLR", {"total_iters": 7, "power": 1.7}),
]


class MegatronScaler:
    """The rule as Megatron-LM's page on mixed precision has it, in NumPy's fp32; no line of our own scaling is used."""

    def __init__(self, scaling: LossScaling) -> None:
        self.told = scaling
        self.value = np.float32(scaling.initial)
        self.calm, self.patience = 0, scaling.hysteresis

    def update(self, found_inf: bool) -> None:
        if found_inf:
            self.calm = 0
            self.patience -= 1
            if self.patience <= 0:
                self.value = max(self.value * np.float32(self.told.backoff_factor), np.float32(self.told.min_scale))
            return
        self.calm += 1
        if self.calm == self.told.growth_interval:
            self.calm, self.patience = 0, self.told.hysteresis
            self.value = self.value * np.float32(self.told.growth_factor)


class Case:
    """A training drawn by a seed, and its trainer."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        torch.manual_seed(seed)
        names = [f"p{number}" for number in range(draw.randint(1, 5))]
        kind = draw.choice(list(DTYPES))
        rule = draw.choice(list(Rule))
        kernel = draw.choice(list(Kernel))
        scaling = None
        if draw.random() < 0.6:
            scaling = LossScaling(
                initial=draw.choice([4.0, 1024.0, 3.7, 100.1]),
                growth_factor=draw.choice([2.0, 1.5, 1.3]),
                backoff_factor=draw.choice([0.5, 0.7, 0.3]),
                growth_interval=draw.randint(1, 3),
                rule=draw.choice(list(Scaler)),
                hysteresis=draw.randint(1, 3),
                min_scale=draw.choice([1.0, 2.5]),
            )
        self.master = kind is not Dtype.FP32 or draw.random() < 0.2
        name, arguments = draw.choice(SCHEDULES)
        schedule = Schedule(name, tuple(sorted(arguments.items())), (), draw.random() < 0.5)
        self.spec = OptimizerSpec(
            rule,
            kernel,
            tuple(self._group(part, rule) for part in self._parts(names)),
            schedule,
            Clip(draw.choice([0.01, 1.0, 1e6])) if draw.random() < 0.5 else None,
            scaling,
            Dtype.FP32 if self.master else None,
        )
        self.average = draw.choice([Average(), Average(AverageRule.MULTIPLY, 0.3), Average(AverageRule.DIVIDE, 3.0)])
        self.wire = draw.choice([Dtype.FP32, kind])
        shapes = {each: draw.choice(SHAPES) for each in names}
        self.sums = {each: draw.choice([1, 1, 1, 2, 3]) for each in names}
        self.layout = ParameterLayout(
            tuple(
                Parameter(
                    each,
                    shapes[each],
                    kind,
                    tuple(Source(GroupName(f"dp{n}"), each) for n in range(self.sums[each])),
                    (f"{each}.tied",) if draw.random() < 0.3 else (),
                )
                for each in names
            ),
            (),
        )
        self.model = {each: torch.randn(shape).to(DTYPES[kind]) for each, shape in shapes.items()}
        self.tuned = {
            each: torch.nn.Parameter(tensor.to(torch.float32) if self.master else tensor.clone())
            for each, tensor in self.model.items()
        }
        self._trainer()
        self.step = 0

    def _parts(self, names: list[str]) -> list[list[str]]:
        count = self.draw.randint(1, min(3, len(names)))
        return [names[number::count] for number in range(count)]

    def _group(self, names: list[str], rule: Rule) -> ParameterGroup:
        draw = self.draw
        common: dict[str, Any] = {"weight_decay": draw.choice([0.0, 0.1, 0.013]), "maximize": draw.random() < 0.3}
        rate = draw.choice([0.1, 3e-3, 0.0])
        if rule is not Rule.SGD:
            betas = draw.choice([(0.9, 0.999), (0.9, 0.95), (0.0, 0.5)])
            return ParameterGroup(tuple(names), rate, betas=betas, eps=draw.choice([1e-8, 1e-5]), **common)
        momentum = draw.choice([0.0, 0.9, 0.5])
        nesterov = momentum > 0 and draw.random() < 0.4
        dampening = 0.0 if nesterov else draw.choice([0.0, 0.1])
        return ParameterGroup(tuple(names), rate, momentum=momentum, dampening=dampening, nesterov=nesterov, **common)

    def _trainer(self) -> None:
        spec = self.spec
        groups: list[dict[str, Any]] = []
        for group in spec.groups:
            told: dict[str, Any] = {
                "lr": group.learning_rate,
                "weight_decay": group.weight_decay,
                "maximize": group.maximize,
            }
            if spec.rule is Rule.SGD:
                told |= {"momentum": group.momentum, "dampening": group.dampening, "nesterov": group.nesterov}
            else:
                told |= {"betas": group.betas, "eps": group.eps}
            groups.append({"params": [self.tuned[name] for name in group.parameters], **told})
        kind = {Rule.SGD: torch.optim.SGD, Rule.ADAM: torch.optim.Adam, Rule.ADAMW: torch.optim.AdamW}[spec.rule]
        self.optimizer = kind(groups, foreach=spec.kernel is Kernel.FOREACH, fused=spec.kernel is Kernel.FUSED)
        self.scheduler = None
        if spec.schedule.kind != "constant":
            arguments = {key: list(v) if isinstance(v, tuple) else v for key, v in spec.schedule.arguments}
            self.scheduler = getattr(torch.optim.lr_scheduler, spec.schedule.kind)(self.optimizer, **arguments)
        self.amp: Any = None
        self.megatron = None
        if spec.scaling is not None and spec.scaling.rule is Scaler.TORCH:
            told_ = spec.scaling
            self.amp = torch.amp.GradScaler(
                "cpu", told_.initial, told_.growth_factor, told_.backoff_factor, told_.growth_interval
            )
            self.amp.scale(torch.zeros(()))  # makes its tensors
        elif spec.scaling is not None:
            self.megatron = MegatronScaler(spec.scaling)

    @property
    def scale(self) -> float:
        if self.megatron is not None:
            return float(self.megatron.value)
        return 1.0 if self.amp is None else float(self.amp.get_scale())

    @property
    def first_momentum_in_kernel(self) -> bool:
        """PyTorch's fused SGD begins with uninitialised buffers where GradScaler has it skip its first step."""
        spec = self.spec
        fused = spec.rule is Rule.SGD and spec.kernel is Kernel.FUSED and self.amp is not None and spec.clip is None
        moving = [self.tuned[name] for group in spec.groups if group.momentum for name in group.parameters]
        return fused and any("momentum_buffer" not in self.optimizer.state[each] for each in moving)

    def gradients(self) -> dict[str, list[Any]]:
        """What the wire has of the next step; now and then an inf or a nan."""
        found = {}
        for name, tensor in self.tuned.items():
            parts = [(torch.randn(tensor.shape) * 2 * self.scale).to(DTYPES[self.wire]) for _ in range(self.sums[name])]
            found[name] = parts
        if self.spec.scaling is not None and self.draw.random() < 0.35:
            victim = found[self.draw.choice(list(found))][0].view(-1)
            victim[self.draw.randrange(len(victim))] = self.draw.choice([float("inf"), float("nan"), -float("inf")])
        return found

    def train(self, wire: dict[str, list[Any]]) -> bool:
        """One step of the script; was it skipped?"""
        for name, parts in wire.items():
            mean = [self._mean(part) for part in parts]
            total = mean[0]
            for part in mean[1:]:
                total = total + part
            self.tuned[name].grad = total.to(self.tuned[name].dtype)
        skipped = self._update()
        if self.scheduler is not None and not (skipped and not self.spec.schedule.advances_when_skipped):
            self.scheduler.step()
        self.step += 1
        return skipped

    def _mean(self, part: Any) -> Any:
        if self.average.rule is AverageRule.ON_WIRE:
            return part.clone()
        return part * self.average.by if self.average.rule is AverageRule.MULTIPLY else part / self.average.by

    def _clip(self) -> None:
        if self.spec.clip is not None:
            ordered = [self.tuned[name] for group in self.spec.groups for name in group.parameters]
            torch.nn.utils.clip_grad_norm_(ordered, self.spec.clip.max_norm, foreach=False)

    def _update(self) -> bool:
        if self.amp is not None:
            if self.spec.clip is not None:
                self.amp.unscale_(self.optimizer)
            self._clip()
            broken = not all(bool(torch.isfinite(each.grad).all()) for each in self.tuned.values())
            self.amp.step(self.optimizer)
            self.amp.update()
            return broken
        if self.megatron is not None:
            inverse = np.float32(1.0 / np.float64(self.megatron.value))
            broken = not all(bool(torch.isfinite(each.grad).all()) for each in self.tuned.values())
            for each in self.tuned.values():
                each.grad = torch.from_numpy(np.asarray(each.grad.float().numpy() * inverse)).to(each.dtype)
            if not broken:
                self._clip()
                self.optimizer.step()
            self.megatron.update(broken)
            return broken
        self._clip()
        self.optimizer.step()
        return False

    def state(self) -> dict[str, Any]:
        """A regular checkpoint."""
        model: dict[str, Any] = {}
        for each in self.layout.parameters:
            tensor = self.tuned[each.name].detach().to(DTYPES[each.dtype]).clone()
            model |= dict.fromkeys((each.name, *each.aliases), tensor)
        stepped = self.scheduler.last_epoch if self.scheduler is not None else self.step
        found: dict[str, Any] = {"step": self.step, "model": model, "schedule_steps": stepped}
        kept = self.optimizer.state_dict()
        found["optimizer"] = copy.deepcopy(kept)
        if self.master:
            found["master"] = {name: tensor.detach().clone() for name, tensor in self.tuned.items()}
        if self.amp is not None:
            found["scaler"] = self.amp.state_dict()
        if self.megatron is not None:
            found["scaler"] = {
                "scale": torch.tensor([float(self.megatron.value)]),
                "growth_tracker": self.megatron.calm,
                "hysteresis_tracker": self.megatron.patience,
            }
        return found


def same(one: Any, two: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() >= two.keys(), where
        for key in two:
            same(one[key], two[key], f"{where}.{key}")
    elif hasattr(two, "numpy"):
        flat = [each.detach().contiguous().view(-1).view(torch.uint8) for each in (one, two)]
        assert torch.equal(*flat), where
    elif isinstance(two, (list, tuple)):
        for number, (left, right) in enumerate(zip(one, two, strict=True)):
            same(left, right, f"{where}.{number}")
    elif two is not None:
        assert one == two, where


def on_the_wire(wire: dict[str, list[Any]], kind: Dtype) -> dict[str, tuple[Part, ...]]:
    return {
        name: tuple(
            Part(memoryview(bytearray(part.contiguous().view(-1).view(torch.uint8).numpy().tobytes())), kind)
            for part in parts
        )
        for name, parts in wire.items()
    }


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")  # the first step may be skipped
@pytest.mark.parametrize("seed", range(CASES))
def test_random_trainings_are_replayed_bit_by_bit(tmp_path: Path, seed: int) -> None:
    case = Case(seed)
    for _ in range(case.draw.randint(0, 3)):
        case.train(case.gradients())
    shards = case.draw.randint(1, len(case.layout.parameters))
    states = anchor.begin([tmp_path / f"s{n}" for n in range(shards)], case.layout, case.spec, case.state())
    replay = Replay(case.spec, states)
    replay.shards = tuple(Shard(case.spec, state, 64 * case.draw.randint(1, 4)) for state in states)
    for _ in range(6):
        wire = case.gradients()
        rates = tuple(float(group["lr"]) for group in case.optimizer.param_groups)
        scale = case.scale
        gradient = StepGradient(case.step + 1, PROOF, case.average, on_the_wire(wire, case.wire))
        undefined = case.first_momentum_in_kernel
        skipped = case.train(wire)
        values = StepValues(case.step, rates, scale if case.spec.scaling else None, skipped)
        if skipped and undefined:
            with pytest.raises(StepRefused, match="undefined momentum"):
                replay.advance(gradient, values)
            return
        assert replay.advance(gradient, values).skipped == skipped
        theirs, ours = case.state(), anchor.snapshot(states, case.layout, case.spec)
        same(ours["model"], theirs["model"], "model")
        same(ours.get("master", {}), theirs.get("master", {}), "master")
        same(ours["optimizer"]["state"], theirs["optimizer"]["state"], "state")
        if "scaler" in theirs:
            same(ours["scaler"], theirs["scaler"], "scaler")


def test_megatron_lowers_the_scale_by_its_own_rule() -> None:
    """By hand: 16, window 2, hysteresis 2, factors 2 and 0.5, at least 3."""
    scaling = LossScaling(16.0, 2.0, 0.5, 2, Scaler.MEGATRON, 2, 3.0)
    now = Scale(16.0, 0, 2)
    seen = []
    for found_inf in (True, False, True, True, True, True, False, False, True, True):
        now = after_step(scaling, now, found_inf=found_inf)
        seen.append((now.value, now.good, now.left))
    assert seen == [
        (16.0, 0, 1),  # the first is forgiven
        (16.0, 1, 1),  # and a good step gives no patience back
        (8.0, 0, 0),
        (4.0, 0, -1),
        (3.0, 0, -2),  # not 2: the bound
        (3.0, 0, -3),
        (3.0, 1, -3),
        (6.0, 0, 2),  # grown: patience again
        (6.0, 0, 1),
        (3.0, 0, 0),
    ]
    torch_rule = LossScaling(16.0, 2.0, 0.5, 2)
    assert after_step(torch_rule, Scale(16.0, 1), found_inf=True) == Scale(8.0, 0)
