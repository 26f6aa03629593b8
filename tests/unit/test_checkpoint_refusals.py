"""What stops a replica, and that it then keeps its state."""

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint import anchor  # noqa: E402
from flowcheck_net.checkpoint.arithmetic import gathered  # noqa: E402
from flowcheck_net.checkpoint.findings import StepRefused, Stop  # noqa: E402
from flowcheck_net.checkpoint.gradient import Average, AverageRule, Part, Proof, StepGradient  # noqa: E402
from flowcheck_net.checkpoint.hyper import (  # noqa: E402
    Clip,
    Kernel,
    LossScaling,
    OptimizerSpec,
    ParameterGroup,
    Rule,
    Schedule,
    StepValues,
)
from flowcheck_net.checkpoint.layout import Parameter, ParameterLayout, Source  # noqa: E402
from flowcheck_net.checkpoint.norm import coefficient  # noqa: E402
from flowcheck_net.checkpoint.optimizer import Replay, joined  # noqa: E402
from flowcheck_net.checkpoint.shard import Look  # noqa: E402
from flowcheck_net.checkpoint.state import PARAM, ReplicaState  # noqa: E402
from flowcheck_net.errors import RecordsCorrupt  # noqa: E402
from flowcheck_net.ids import GroupName  # noqa: E402
from flowcheck_net.model.job import Dtype  # noqa: E402

GROUP = GroupName("dp0")
SHAPES = {"a": (70, 3), "b": (5,), "c": (1001,)}
LAYOUT = ParameterLayout(
    tuple(Parameter(name, shape, Dtype.FP32, (Source(GROUP, name),)) for name, shape in SHAPES.items()), ()
)
SPEC = OptimizerSpec(Rule.ADAMW, Kernel.FUSED, (ParameterGroup(("a", "b"), 0.01), ParameterGroup(("c",), 0.02)))
PROOF = Proof("gpt", None, 0, Verdict.COVERED, 0, (), ())


def groups(spec: OptimizerSpec) -> list[dict[str, Any]]:
    """As a trainer's ``optimizer.state_dict()``."""
    return [
        {
            "params": list(group.parameters),
            "lr": group.learning_rate,
            "betas": group.betas,
            "eps": group.eps,
            "weight_decay": group.weight_decay,
            "fused": spec.kernel is Kernel.FUSED,
            "foreach": spec.kernel is Kernel.FOREACH,
            "amsgrad": False,
        }
        for group in spec.groups
    ]


def begun(tmp_path: Path, spec: OptimizerSpec = SPEC, shards: int = 1, **more: Any) -> list[ReplicaState]:
    model = {name: torch.linspace(-1, 1, LAYOUT.by_name[name].elements).view(shape) for name, shape in SHAPES.items()}
    first = {"step": 4, "model": model, "optimizer": {"state": {}, "param_groups": groups(spec)}} | more
    return anchor.begin([tmp_path / f"shard{n}" for n in range(shards)], LAYOUT, spec, first)


def gradient(step: int = 5, **odd: float) -> StepGradient:
    parts = {}
    for name, parameter in LAYOUT.by_name.items():
        values = torch.linspace(0, 3, parameter.elements)
        values[0] = odd.get(name, 0.5)
        parts[name] = (Part(memoryview(bytearray(values.numpy().tobytes())), Dtype.FP32),)
    return StepGradient(step, PROOF, Average(), parts)


def raw(states: list[ReplicaState]) -> list[bytes]:
    return [(state.directory / "state.bin").read_bytes() for state in states]


def refused(stop: Stop, replay: Replay, values: StepValues | None, step: int = 5) -> str:
    states = [shard.state for shard in replay.shards]
    before = raw(states)
    with pytest.raises(StepRefused) as caught:
        replay.advance(gradient(step), values)
    assert caught.value.request.stop is stop
    assert caught.value.request.replica_step == 4
    assert caught.value.request.at_step == 5
    assert "regular checkpoint at step 5" in caught.value.hint
    assert raw(states) == before
    assert [state.step for state in states] == [4] * len(states)
    return caught.value.request.reason


@pytest.mark.parametrize("step", [3, 4, 6])
def test_only_the_next_step_is_applied(tmp_path, step):
    assert f"step {step}" in refused(Stop.OUT_OF_STEP, Replay(SPEC, begun(tmp_path)), None, step)


def test_what_the_trainer_announces_must_follow_from_the_description(tmp_path):
    replay = Replay(SPEC, begun(tmp_path))
    rates = (0.01, 0.02)
    refused(Stop.OUT_OF_STEP, replay, StepValues(6))
    assert "0.03" in refused(Stop.HYPER_CHANGED, replay, StepValues(5, learning_rates=(0.01, 0.03)))
    refused(Stop.HYPER_CHANGED, replay, StepValues(5, loss_scale=128.0))
    refused(Stop.HYPER_CHANGED, replay, StepValues(5, skipped=True))
    refused(Stop.OPTIMIZER_CHANGED, replay, StepValues(5, optimizer="0" * 64))
    good = StepValues(5, rates, optimizer=SPEC.digest, skipped=False)
    assert replay.advance(gradient(), good).learning_rates == rates


def test_announced_learning_rates_must_be_announced(tmp_path):
    spec = replace(SPEC, schedule=Schedule("announced"))
    replay = Replay(spec, begun(tmp_path, spec))
    refused(Stop.VALUE_MISSING, replay, None)
    refused(Stop.VALUE_MISSING, replay, StepValues(5))
    refused(Stop.OPTIMIZER_CHANGED, replay, StepValues(5, (0.1,)))
    assert replay.advance(gradient(), StepValues(5, (0.1, 0.2))).learning_rates == (0.1, 0.2)


def test_a_replica_of_another_optimizer_is_not_taken_up(tmp_path):
    states = begun(tmp_path)
    with pytest.raises(StepRefused) as caught:
        Replay(replace(SPEC, rule=Rule.ADAM), states)
    assert caught.value.request.stop is Stop.OPTIMIZER_CHANGED


@pytest.mark.parametrize(
    ("key", "value", "stop"),
    [
        ("lr", 0.5, Stop.HYPER_CHANGED),
        ("betas", (0.9, 0.95), Stop.HYPER_CHANGED),
        ("weight_decay", 0.1, Stop.HYPER_CHANGED),
        ("fused", None, Stop.HYPER_CHANGED),
        ("amsgrad", True, Stop.HYPER_CHANGED),
        ("momentum", None, None),
        ("params", [0], Stop.OPTIMIZER_CHANGED),
    ],
)
def test_an_anchor_of_another_optimizer_is_refused(tmp_path, key, value, stop):
    theirs = groups(SPEC)
    theirs[0][key] = value
    first: dict[str, Any] = {"optimizer": {"state": {}, "param_groups": theirs}}
    if stop is None:
        begun(tmp_path, **first)
        return
    with pytest.raises(StepRefused) as caught:
        begun(tmp_path, **first)
    assert caught.value.request.stop is stop
    assert not list(tmp_path.iterdir())


def test_a_state_whose_program_died_in_mid_change_is_refused(tmp_path):
    states = begun(tmp_path, shards=2)
    states[1].begin(5)
    assert ReplicaState.open(states[0].directory).step == 4
    with pytest.raises(StepRefused) as caught:
        ReplicaState.open(states[1].directory)
    assert caught.value.request.stop is Stop.TORN


def test_while_tensors_change_the_state_says_so(tmp_path, monkeypatch):
    (state,) = begun(tmp_path)
    replay = Replay(SPEC, [state])

    def dies(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("flowcheck_net.checkpoint.arithmetic.update", dies)
    with pytest.raises(MemoryError):
        replay.advance(gradient())
    with pytest.raises(StepRefused) as caught:
        ReplicaState.open(state.directory)
    assert caught.value.request.stop is Stop.TORN


def test_the_coefficient_of_clipping_by_hand():
    # the fp32 after 1 + 1e-6 is 1 + 8 * 2^-23; a half of its inverse rounds to 0.5 - 16 * 2^-25
    assert float(coefficient(0.5, 1.0, torch.float32)) == 0.5 - 16 * 2.0**-25
    assert float(coefficient(2.0, 1.0, torch.float32)) == 1.0


def test_shards_at_different_steps_are_refused(tmp_path):
    states = begun(tmp_path, shards=2)
    Replay(SPEC, states[:1]).advance(gradient())
    with pytest.raises(StepRefused) as caught:
        Replay(SPEC, [ReplicaState.open(state.directory) for state in states])
    assert caught.value.request.stop is Stop.TORN


@pytest.mark.parametrize("chunk", [64, 128, 1 << 20])
@pytest.mark.parametrize("kernel", list(Kernel))
def test_cuts_and_shards_change_no_bit(tmp_path, kernel, chunk):
    spec = replace(SPEC, kernel=kernel, clip=Clip(0.7))
    found = []
    for shards in (1, 3):
        states = begun(tmp_path / str(shards), spec, shards)
        replay = Replay(spec, states)
        for shard in replay.shards:
            shard._chunk = chunk
        for step in (5, 6):
            replay.advance(gradient(step))
        found.append({key: tensor.clone() for state in states for key, tensor in state.tensors.items()})
    params = [torch.linspace(-1, 1, LAYOUT.by_name[n].elements).view(s).requires_grad_() for n, s in SHAPES.items()]
    theirs = torch.optim.AdamW(
        [{"params": params[:2], "lr": 0.01}, {"params": params[2:], "lr": 0.02}],
        weight_decay=0.0,
        fused=kernel is Kernel.FUSED,
        foreach=kernel is Kernel.FOREACH,
    )
    for _ in (5, 6):
        for parameter, name in zip(params, SHAPES, strict=True):
            parameter.grad = torch.frombuffer(gradient().parts[name][0].data, dtype=torch.float32).view(SHAPES[name])
        torch.nn.utils.clip_grad_norm_(params, 0.7)
        theirs.step()
    for mine in found:
        for parameter, name in zip(params, SHAPES, strict=True):
            assert torch.equal(mine[PARAM, name], parameter)
            assert torch.equal(mine["exp_avg_sq", name], theirs.state[parameter]["exp_avg_sq"])


def test_processes_exchange_what_their_shards_saw(tmp_path):
    spec = replace(SPEC, clip=Clip(0.7), scaling=LossScaling(initial=4.0))
    scaler: dict[str, Any] = {"scaler": {"scale": 4.0, "_growth_tracker": 0}}
    alone = begun(tmp_path / "alone", spec, **scaler)
    Replay(spec, alone).advance(gradient())
    split = begun(tmp_path / "split", spec, 3, **scaler)
    processes = [Replay(spec, [state]) for state in split]
    looks = [process.look(gradient()) for process in processes]
    with pytest.raises(StepRefused, match="no shard gave the norm"):
        processes[0].finish(gradient(), looks[0])
    sent = json.loads(json.dumps([{"found_inf": look.found_inf, "norms": dict(look.norms)} for look in looks]))
    for process in processes:
        process.finish(gradient(), joined([Look(**look) for look in sent]))
    for state in split:
        for key, tensor in state.tensors.items():
            assert torch.equal(tensor, alone[0].tensors[key])


def test_inf_on_one_shard_skips_all(tmp_path):
    spec = replace(SPEC, scaling=LossScaling(initial=4.0))
    states = begun(tmp_path, spec, 3, scaler={"scale": 4.0, "_growth_tracker": 3})
    before = raw(states)
    decision = Replay(spec, states).advance(gradient(c=float("inf")))
    assert decision.skipped
    assert raw(states) == before
    assert {(s.step, s.standing.loss_scale, s.standing.growth_tracker, s.standing.skipped) for s in states} == {
        (5, 2.0, 0, 1)
    }


def test_sums_and_means_are_taken_in_the_type_of_the_wire():
    one, two = torch.tensor([1.0, 3.0]), torch.tensor([2.0**-9, 5.0])
    parts = tuple(Part(memoryview(bytearray(_bf16(x))), Dtype.BF16) for x in (one, two))
    whole = slice(0, 2)
    # by hand: bf16 has 8 bits, so 1 + 2^-9 is 1 again; 3 + 5 is 8
    assert gathered(parts, Average(), whole, torch.float32, own=False).tolist() == [1.0, 8.0]
    third = gathered(parts[:1], Average(AverageRule.DIVIDE, 3.0), whole, torch.float32, own=False)
    assert third.tolist() == [0.333984375, 1.0]  # 171/512, the bf16 nearest to 1/3


def _bf16(values: Any) -> bytes:
    data: bytes = values.to(torch.bfloat16).view(torch.int16).numpy().tobytes()
    return data


def test_a_file_that_would_run_code_is_no_anchor(tmp_path):
    torch.save({"step": 1, "model": print, "optimizer": {}}, tmp_path / "x.pt")
    with pytest.raises(RecordsCorrupt, match="cannot be read"):
        anchor.read_anchor(tmp_path / "x.pt")
    torch.save({"step": 1}, tmp_path / "y.pt")
    with pytest.raises(RecordsCorrupt, match="no 'model'"):
        anchor.read_anchor(tmp_path / "y.pt")


@pytest.mark.parametrize("old", [False, True])
def test_a_damaged_anchor_is_refused_whatever_is_damaged(tmp_path: Path, old: bool) -> None:
    """PyTorch's reader raises IndexError, KeyError, struct.error, AssertionError and more where bytes are wrong."""
    path = tmp_path / "a.pt"
    held = {"step": 1, "model": {"a": torch.ones(3)}, "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]}}
    torch.save(held, path, _use_new_zipfile_serialization=not old)
    data = path.read_bytes()
    own = random.Random(1)
    refused = 0
    for _ in range(150):
        bad = bytearray(data)
        bad[own.randrange(len(data))] ^= 1 << own.randrange(8)
        for each in (bytes(bad), data[: own.randrange(len(data))], own.randbytes(own.randrange(40))):
            path.write_bytes(each)
            with suppress(RecordsCorrupt):
                anchor.read_anchor(path)
                continue
            refused += 1
    assert refused > 300


def test_a_bit_that_changed_in_a_tensor_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    anchor.write_anchor(path, {"step": 1, "model": {"a": torch.ones(3000)}, "optimizer": {}})
    data = bytearray(path.read_bytes())
    data[data.index(b"\0\0\x80\x3f" * 20) + 400] ^= 1
    path.write_bytes(data)
    assert not torch.load(path, weights_only=True)["model"]["a"].eq(1).all()  # PyTorch does not notice
    with pytest.raises(RecordsCorrupt, match=r"the checksum of .*data/0 is another"):
        anchor.read_anchor(path)


def test_a_replica_whose_process_died_while_it_was_filled_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experiment 981 of seed 2 of ``accept``."""

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(anchor, "_fill", dies)
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path)
    with pytest.raises(StepRefused) as refused:
        ReplicaState.open(tmp_path / "shard0")
    assert refused.value.request.stop is Stop.TORN
    monkeypatch.undo()
    assert ReplicaState.open(begun(tmp_path / "again")[0].directory).step == 4
