"""The oracle is the trainer: its gradients go over the wire, and the replica must be its state, bit by bit."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint import anchor  # noqa: E402
from flowcheck_net.checkpoint.optimizer import Replay  # noqa: E402
from flowcheck_net.checkpoint.payload import Wanted  # noqa: E402
from flowcheck_net.checkpoint.training import build_training  # noqa: E402
from flowcheck_net.cli.main import cli  # noqa: E402
from flowcheck_net.errors import FlowcheckError  # noqa: E402
from flowcheck_net.receive.synth import synthesize  # noqa: E402
from flowcheck_net.receive.synth_faults import parse_faults  # noqa: E402
from flowcheck_net.spec.check_training import load_training  # noqa: E402
from tests.doubles import ddp_world as world  # noqa: E402
from tests.doubles import payload_world  # noqa: E402

FP32: dict[str, Any] = {"name": "fp32", "clip": 0.5, "schedule": True}
BF16: dict[str, Any] = {"name": "bf16", "master": True, "kernel": "fused"}
LONG = [FP32, BF16]
MIXED = {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 7}
ODD = {"init_scale": 1000.0, "growth_factor": 1.5, "backoff_factor": 0.7, "growth_interval": 7}
SHORT: list[dict[str, Any]] = [
    {"name": "nesterov", "rule": "sgd", "kernel": "foreach", "clip": 1.0},
    {"name": "dampened", "rule": "sgd-dampened", "kernel": "fused"},
    {"name": "scaled", "rule": "adam", "scaling": MIXED, "clip": 0.3, "overflow_at": [3, 4, 13]},
    {"name": "scaled-fused", "kernel": "fused", "scaling": ODD, "overflow_at": [5]},
    {"name": "foreach-master", "kernel": "foreach", "master": True, "clip": 0.5},
]
STEPS, MORE, FEW = 200, 5, 25


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the trainer left; workers of one test run share it."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if os.environ.get("PYTEST_XDIST_WORKER") else place) / "trained"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            long = [each | {"steps": STEPS + MORE, "keep": [STEPS, STEPS + MORE], "rewrap_at": STEPS} for each in LONG]
            short = [each | {"steps": FEW, "keep": [FEW // 2, FEW]} for each in SHORT]
            world.train(place, [*long, *short])
            (place / "done").touch()
    return place


def raw(tensor: Any) -> bytes:
    flat: bytes = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return flat


def check_equal(mine: Any, theirs: Any, where: str = "") -> None:
    """Bit by bit, type by type; the trainer may say more than we do."""
    if isinstance(theirs, dict):
        for key in mine:
            check_equal(mine[key], theirs[key], f"{where}/{key}")
        assert where.startswith("/optimizer/param_groups") or set(mine) == set(theirs), where
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), where
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            check_equal(one, other, f"{where}/{number}")
    elif hasattr(theirs, "dtype"):
        assert mine.dtype == theirs.dtype, where
        assert mine.shape == theirs.shape, where
        assert raw(mine) == raw(theirs), where
    elif not (isinstance(mine, bool) and theirs is None):  # PyTorch's default of foreach and fused is None: no
        assert mine == theirs, where


def laid(place: Path, here: Path, iterations: range, order: Any, faults: tuple[str, ...] = ()) -> Path:
    """The gradients of some iterations over the wire: a capture, counted, audited, laid."""
    world.given(place, here / "given", iterations)
    example = payload_world.TOPOLOGIES / "four-host"
    plan = payload_world.plan_of("four-host", world.job(here / "job.yaml", order, example))
    capture = here / "mirror.pcapng"
    watched = sorted({f"{hop.group}/{hop.channel}/{hop.index}" for hop in plan.hops})
    asked = [fault.replace("EACH", hop) for fault in faults for hop in (watched if "EACH" in fault else watched[:1])]
    synthesize(plan, capture, iterations=len(iterations), faults=parse_faults(asked), gradients=here / "given")
    report = payload_world.laid_from(plan, capture, Wanted(here / "laid"))
    assert len(report.written) == len(iterations)
    return here / "laid"


def command(here: Path, place: Path, *arguments: str, code: int = 0, state: Path | None = None) -> dict[str, Any]:
    """``flowcheck-net checkpoint replay`` from the trainer's first checkpoint, or from a follower's state."""
    words = ["checkpoint", "replay", *arguments, "--training", str(place / "training.yaml"), "--json"]
    words += ["--state", str(state)] if state else ["--anchor", str(place / "step-0.pt")]
    words += ["-o", str(here / "replayed.pt")]
    done = CliRunner().invoke(cli, words)
    raised = done.exception
    assert (raised.exit_code if isinstance(raised, FlowcheckError) else done.exit_code) == code, (done.output, raised)
    told: dict[str, Any] = json.loads(done.stdout or "{}")
    return told


@pytest.mark.parametrize("setting", LONG, ids=lambda setting: setting["name"])
def test_after_200_steps_over_the_wire_the_replica_is_the_trainers_state_and_training_goes_on_from_it(
    trained: Path, tmp_path: Path, setting: dict[str, Any]
) -> None:
    place = trained / setting["name"]
    words = world.layout(place)
    first = laid(place, tmp_path / "first", range(1), words.first[0])
    # three of four hops are watched: what one lost, another gives
    rest = laid(place, tmp_path / "rest", range(1, STEPS), words.steady[0], ("loss:hop=dp0/0/1,rate=0.01",))
    told = command(tmp_path, place, str(first), str(rest), "--first-iteration", "--shards", "2")
    assert [step["step"] for step in told["steps"]] == list(range(1, STEPS + 1))
    assert sum(step["recovered_units"] for step in told["steps"]) > 0
    check_equal(world.read(tmp_path / "replayed.pt"), world.read(place / f"step-{STEPS}.pt"))

    more = {"name": "on", "resume": str(tmp_path / "replayed.pt"), "steps": STEPS + MORE, "keep": [STEPS + MORE]}
    world.train(tmp_path, [setting | more])
    end = f"step-{STEPS + MORE}.pt"
    check_equal(world.read(tmp_path / "on" / end), world.read(place / end))


def test_a_step_that_is_not_whole_is_not_applied_and_a_checkpoint_is_asked_for(trained: Path, tmp_path: Path) -> None:
    place = trained / "fp32"
    words = world.layout(place)
    first = laid(place, tmp_path / "first", range(1), words.first[0])
    lost = ("loss:hop=EACH,iteration=5,rate=0.5",)
    rest = laid(place, tmp_path / "rest", range(1, 12), words.steady[0], lost)
    told = command(tmp_path, place, str(first), str(rest), "--first-iteration", code=4)
    assert told["step"] == 6
    assert told["request"]["replica_step"] == 6
    assert told["request"]["at_step"] == 7
    assert told["request"]["stop"] == "incomplete"
    assert "never observed" in told["request"]["reason"]
    spec = world.optimizer(FP32, words)
    replay = Replay(spec, anchor.begin([tmp_path / "s"], words, spec, anchor.read_anchor(place / "step-0.pt")))
    for iteration in range(6):
        replay.advance(world.direct(place, words, iteration))
    check_equal(anchor.snapshot([replay.shards[0].state], words, spec), world.read(tmp_path / "replayed.pt"))
    # the newest full state of a follower that can be read is as good a beginning
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "replayed.pt").rename(state / "step-000000006.pt")
    (state / "step-000000007.pt").write_bytes(b"torn")
    again = laid(place, tmp_path / "again", range(6, 8), words.steady[0])
    told = command(tmp_path, place, str(again), state=state)
    assert (told["begun_at"], told["step"]) == (6, 8)
    for iteration in range(6, 8):
        replay.advance(world.direct(place, words, iteration))
    check_equal(anchor.snapshot([replay.shards[0].state], words, spec), world.read(tmp_path / "replayed.pt"))
    (state / "step-000000006.pt").unlink()
    command(tmp_path, place, str(again), code=9, state=state)


def test_the_first_iteration_has_other_buckets_and_is_refused_as_a_later_one(trained: Path, tmp_path: Path) -> None:
    place = trained / "fp32"
    first = laid(place, tmp_path / "first", range(1), world.layout(place).first[0])
    told = command(tmp_path, place, str(first), code=10)
    assert told["step"] == 0
    assert told["request"]["stop"] == "layout"


def test_the_description_is_what_the_trainer_has(trained: Path) -> None:
    for setting in [*LONG, *SHORT]:
        place = trained / setting["name"]
        told = build_training(load_training(place / "training.yaml"))
        words = world.layout(place)
        assert told.layout == words
        assert told.optimizer == world.optimizer(setting, words)
        assert told.optimizer.digest == world.optimizer(setting, words).digest


@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting["name"])
@pytest.mark.parametrize("shards", [1, 3])
def test_other_rules_kernels_and_scalings(trained: Path, tmp_path: Path, setting: dict[str, Any], shards: int) -> None:
    place = trained / setting["name"]
    words = world.layout(place)
    spec = world.optimizer(setting, words)
    states = anchor.begin(
        [tmp_path / f"shard{n}" for n in range(shards)], words, spec, anchor.read_anchor(place / "step-0.pt")
    )
    replay = Replay(spec, states)
    skipped = []
    for iteration in range(FEW):
        decision = replay.advance(world.direct(place, words, iteration))
        skipped += [decision.step] if decision.skipped else []
        if decision.step in (FEW // 2, FEW):
            check_equal(anchor.snapshot(states, words, spec), world.read(place / f"step-{decision.step}.pt"))
    assert skipped == setting.get("overflow_at", [])


@pytest.mark.parametrize("setting", LONG, ids=lambda setting: setting["name"])
def test_buckets_are_where_the_trainer_has_them(trained: Path, setting: dict[str, Any]) -> None:
    place = trained / setting["name"]
    words = world.layout(place)
    for iteration in (0, 1, 2, STEPS - 1):
        (order,) = words.orders(first=iteration == 0)
        buckets, slots, _ = world.memory(place, iteration)
        assert [bucket.elements * bucket.dtype.size for bucket in order.buckets] == [len(data) for data in buckets]
        assert [{s.name: [s.offset, s.elements] for s in bucket.slots} for bucket in order.buckets] == slots
    assert len(words.first[0].buckets) == 1
    assert len(words.steady[0].buckets) == (2 if setting.get("master") else 4)


def test_no_two_kernels_give_the_same_bits(trained: Path, tmp_path: Path) -> None:
    """The check can fail: with another kernel than the trainer's the state differs."""
    setting = SHORT[3]
    place = trained / setting["name"]
    words = world.layout(place)
    spec = world.optimizer(setting | {"kernel": "for-loop"}, words)
    begun = anchor.read_anchor(place / "step-0.pt")
    for group in begun["optimizer"]["param_groups"]:
        group["fused"] = False
    replay = Replay(spec, anchor.begin([tmp_path / "shard"], words, spec, begun))
    for iteration in range(FEW):
        replay.advance(world.direct(place, words, iteration))
    with pytest.raises(AssertionError, match=r"model/"):
        check_equal(
            anchor.snapshot([s.state for s in replay.shards], words, spec), world.read(place / f"step-{FEW}.pt")
        )
