"""The oracle is the trainer: its gradients through Open vSwitch and the DPDK receiver, and a replica beside them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint import anchor  # noqa: E402
from flowcheck_net.checkpoint.optimizer import Replay  # noqa: E402
from flowcheck_net.lab.build import Lab, missing  # noqa: E402
from tests.doubles import ddp_world as world  # noqa: E402
from tests.dpdk.receiving import needs_receiver  # noqa: E402
from tests.netns.lab_replica import Trained, lab_for, run_followed, train  # noqa: E402
from tests.oracle.test_replay_vs_trainer import check_equal  # noqa: E402

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "not skipped"),
    needs_receiver,
    pytest.mark.alone,
]
SETTING = {"name": "fp32", "clip": 0.5}
ANCHOR, STEPS = 10, 24
"""The first iterations tell the receiver what to place; the replica begins after them."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("trained"), SETTING | {"steps": STEPS, "keep": [ANCHOR, ANCHOR + 1, STEPS]})


@pytest.fixture(scope="module")
def lab(trained: Trained) -> Iterator[Lab]:
    with lab_for(trained) as up:
        yield up


def newest(state: Path) -> Path:
    return max(state.glob("step-*.pt"))


def test_a_live_replica_is_the_trainers_state_also_when_it_was_killed_and_a_tenant_sends(
    lab: Lab, trained: Trained, tmp_path: Path
) -> None:
    """A full state every 5 steps, and what came after it again from the gradients."""
    found = run_followed(
        lab, trained, tmp_path / "run", ANCHOR, "tenant", kill_at=ANCHOR + 3, more=("--save-every", "5")
    )
    assert found.code == 0, found.said
    assert found.killed == -signal.SIGKILL
    steps = found.applied
    assert steps[-1] == STEPS
    assert found.lines[-1]["tried"] == ANCHOR + 1
    assert sorted(set(steps)) == list(range(ANCHOR + 1, STEPS + 1))
    state = tmp_path / "run" / "state"
    check_equal(world.read(newest(state)), world.read(trained.place / f"step-{STEPS}.pt"))
    # what another tenant sent through the watched port came, and no byte of it is in a gradient
    assert any(finding.kind.value == "foreign" for finding in found.report.audit.findings)
    kept = sorted((state / "gradients").glob("iteration-[0-9]*[0-9]"))
    assert kept
    for directory in kept:
        sent = trained.place / "given" / directory.name / "dp0.gradient"
        assert (directory / "dp0.gradient").read_bytes() == sent.read_bytes()


def test_a_step_that_two_hops_lost_is_not_applied_and_the_reason_told(
    lab: Lab, trained: Trained, tmp_path: Path
) -> None:
    cut = ("cut:capture=ckpt1:cap0,at=0.7", "cut:capture=ckpt1:cap1,at=0.7")
    found = run_followed(lab, trained, tmp_path / "run", ANCHOR, *cut)
    assert found.code == 4, found.said
    request = found.lines[-1]
    assert (request["event"], request["stop"]) == ("request", "incomplete")
    last = request["replica_step"]
    assert found.applied == list(range(ANCHOR + 1, last + 1))
    assert ANCHOR < last < STEPS
    assert request["at_step"] > last
    assert "a regular checkpoint" in found.said
    words = world.layout(trained.place)
    spec = world.optimizer(SETTING, words)
    begun = anchor.read_anchor(trained.place / f"step-{ANCHOR}.pt")
    replay = Replay(spec, anchor.begin([tmp_path / "s"], words, spec, begun))
    for iteration in range(ANCHOR, last):
        replay.advance(world.direct(trained.place, words, iteration))
    check_equal(anchor.snapshot([replay.shards[0].state], words, spec), world.read(newest(tmp_path / "run" / "state")))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """``flowcheck-net lab replica``."""
    program = "import sys; from flowcheck_net.cli.main import run; sys.argv[0] = 'flowcheck-net'; run()"
    told = [sys.executable, "-c", program, "lab", "replica", "--json", *words]
    return subprocess.run(told, capture_output=True, text=True)


@pytest.mark.timeout(1200)
def test_the_command_trains_follows_publishes_and_trains_on_bit_by_bit(tmp_path: Path) -> None:
    """bf16 with an fp32 master; FLOWCHECK_REPLICA_STEPS=200 (make lab-replica has both types) is the whole way."""
    steps = int(os.environ.get("FLOWCHECK_REPLICA_STEPS", "16"))
    done = command("--steps", str(steps), "--type", "bf16", "--slower", "4", "-o", str(tmp_path))
    if done.returncode and "too busy" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["bf16"]
    assert told["identical"]
    assert told["applied"] == list(range(ANCHOR + 1, steps + 1))
    assert [each["only_replica"] for each in told["compared"].values()] == [[], [], []]
    assert all(each["elements"] > 10_000 for each in told["compared"].values())
    # the trainer's own files, by another comparison than the command's
    trained = tmp_path / "training"
    check_equal(world.read(newest(tmp_path / "bf16" / "state")), world.read(trained / "bf16" / f"step-{steps}.pt"))
    after = f"step-{steps + 5}.pt"
    check_equal(world.read(trained / "bf16-resumed" / after), world.read(trained / "bf16" / after))


@pytest.mark.timeout(1200)
def test_after_a_restart_of_the_receiver_the_replica_goes_on_from_a_regular_checkpoint(tmp_path: Path) -> None:
    """What was broken is named and asked for; the steps behind it are the trainer's again, bit by bit."""
    kill = ("--fault", "kill:node=ckpt1,at=0.4")
    done = command("--steps", "50", "--type", "fp32", "--slower", "2", *kill, "-o", str(tmp_path))
    if done.returncode in (4, 10):
        pytest.skip(f"this machine is too busy: the receiver came again too late, or lost copies: {done.stderr}")
    lines = [json.loads(line) for line in (tmp_path / "fp32" / "follow.out").read_text().splitlines()]
    (request,) = [line for line in lines if line["event"] == "request"]
    assert "the receiver was started again: iteration" in request["reason"]
    assert f"(step {request['replica_step'] + 1}) is broken" in request["reason"]
    applied = [step for line in lines for step in line.get("applied", ())]
    before = [step for step in applied if step <= request["replica_step"]]
    assert before == list(range(ANCHOR + 1, request["replica_step"] + 1))
    assert done.returncode == 0, done.stderr
    assert applied[len(before) :] == list(range(request["at_step"] + 1, 51))
    assert json.loads(done.stdout)["fp32"]["identical"]
    again = tmp_path / "fp32" / "state" / "again"
    check_equal(world.read(newest(again)), world.read(tmp_path / "training" / "fp32" / "step-50.pt"))
