"""From packets to a published checkpoint and on: the trainer itself is the oracle, before and after the restart."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint.side_client import SideChannel  # noqa: E402
from flowcheck_net.cli.main import cli  # noqa: E402
from flowcheck_net.errors import FlowcheckError  # noqa: E402
from tests.doubles import ddp_world as world  # noqa: E402
from tests.oracle.test_replay_vs_trainer import check_equal, laid  # noqa: E402

SETTING: dict[str, Any] = {"name": "bf16", "master": True, "kernel": "fused", "clip": 0.5}
HALF, STEPS, MORE = 4, 8, 11


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: what survives a loss of power is not tested here, and fsync would take most of the time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        yield Path(place)


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["checkpoint", *words])
    raised = done.exception
    assert (raised.exit_code if isinstance(raised, FlowcheckError) else done.exit_code) == code, (done.output, raised)
    return f"{done.stdout}{raised.message if isinstance(raised, FlowcheckError) else ''}"


def with_more(path: Path, to: Path, position: int) -> Path:
    """What a real training script keeps beside model and optimizer."""
    held = world.read(path)
    held["rng"] = {"torch": torch.full((16,), position, dtype=torch.uint8)}
    held["dataloader"] = {"position": position}
    torch.save(held, to)
    return to


def tell(log: Path, fields: bool = True) -> None:
    """What the line in the training loop says."""
    side = SideChannel(f"file:{log}")
    for step in range(1, STEPS + 2):
        kept = {"rng": {"torch": torch.full((16,), step, dtype=torch.uint8)}, "dataloader": {"position": step}}
        side.step(step, learning_rates=[3e-3, 3e-3], fields=kept if fields and step != 6 else None)
    assert side.close()


def test_a_published_checkpoint_is_the_trainers_and_training_goes_on_from_it(tmp_path: Path) -> None:
    more = {"steps": MORE, "keep": [1, HALF, HALF + 1, STEPS, MORE], "rewrap_at": STEPS}
    world.train(tmp_path, [SETTING | more])
    place = tmp_path / SETTING["name"]
    words = world.layout(place)
    first = laid(place, tmp_path / "first", range(1), words.first[0])
    rest = laid(place, tmp_path / "rest", range(1, HALF), words.steady[0])
    later = laid(place, tmp_path / "later", range(HALF, STEPS), words.steady[0], ("loss:hop=dp0/0/1,rate=0.01",))
    store, log, key = tmp_path / "store", tmp_path / "side.log", tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    anchor = with_more(place / "step-0.pt", tmp_path / "anchor.pt", 0)
    common = ["--store", str(store), "--training", str(place / "training.yaml"), "--key-file", str(key)]
    begin = ["publish", str(first), str(rest), "--first-iteration", "--anchor", str(anchor), *common]
    begin += ["--trial", str(place / "step-1.pt")]

    # nobody told of any step: none is applied; of the random numbers and of the data alone: not published
    assert "the side channel did not tell the learning rates of step 1" in run(*begin, code=10)
    tell(tmp_path / "poor.log", fields=False)
    said = run(*begin, "--side", str(tmp_path / "poor.log"), code=10)
    assert "side-value-missing: rng.torch of step 4: never-sent" in said
    assert "description" not in said
    tell(log)
    # a description that was not tried, or did not stand its trial
    said = run(*begin[:-2], "--side", str(log), code=10)
    assert "description-untried: no step after the anchor (step 0) was compared" in said
    assert "side-value" not in said
    loose = tmp_path / "loose.yaml"
    loose.write_text((place / "training.yaml").read_text().replace('"max_norm": 0.5', '"max_norm": 0.25'))
    said = run(*begin, "--side", str(log), "--training", str(loose), code=10)
    assert "description-disproved): the replay of step 1 is not the trainer's regular checkpoint" in said
    assert not store.exists()
    told = json.loads(run(*begin, "--side", str(log), "--json"))
    assert (told["step"], told["anchor_step"], told["drift"]) == (HALF, 0, None)

    # a regular checkpoint at step 4 realigns: it is what was published, bit by bit
    anchor = with_more(place / f"step-{HALF}.pt", tmp_path / "regular.pt", HALF)
    again = ["publish", str(later), "--anchor", str(anchor), *common, "--side", str(log), "--exact", "--shards", "2"]
    again += ["--trial", str(place / f"step-{HALF + 1}.pt")]
    told = json.loads(run(*again, "--json"))
    assert told["step"] == STEPS
    assert told["drift"]["identical"]
    assert told["drift"]["only_trainer"] == told["drift"]["only_replica"] == []
    status = json.loads(run("status", str(store), "--side", str(log), "--json"))
    assert (status["training"], status["replica"], status["persisted"], status["at_risk"]) == (
        STEPS + 1,
        STEPS,
        STEPS,
        1,
    )
    assert status["checkpoints"] == [HALF, STEPS]
    assert "files and fields as published" in run("verify", str(store), "--key-file", str(key))

    back = tmp_path / "back.pt"
    run("restore", str(store), str(back), "--key-file", str(key))
    true = with_more(place / f"step-{STEPS}.pt", tmp_path / "true.pt", STEPS)
    check_equal(world.read(back), world.read(true))
    resumed = {"name": "on", "resume": str(back), "steps": MORE, "keep": [MORE]}
    world.train(tmp_path, [SETTING | resumed])
    check_equal(world.read(tmp_path / "on" / f"step-{MORE}.pt"), world.read(place / f"step-{MORE}.pt"))

    # an anchor that is not what was published is told, and with --exact it bars
    held = world.read(anchor)
    held["master"]["words.weight"][0, 0] += 1
    torch.save(held, tmp_path / "other.pt")
    words_ = ["publish", str(later), "--anchor", str(tmp_path / "other.pt"), *common, "--side", str(log), "--exact"]
    assert "drift: the replica of step 4 differed from the anchor in master.words.weight" in run(*words_, code=10)
    status = json.loads(run("status", str(store), "--json"))
    assert status["refused"].startswith("drift")
    assert status["drift"]["identical"] is False

    # a damaged file: the checkpoint before it is the newest
    part = next((store / "checkpoints" / f"step-{STEPS:010d}" / "dcp").glob("*.distcp*"))
    part.write_bytes(part.read_bytes()[:-1])
    assert "is not what was published" in run("verify", str(store), "--key-file", str(key), code=9)
    assert f"step {HALF}" in run("restore", str(store), str(tmp_path / "old.pt"), "--key-file", str(key))


def test_a_forecast_says_what_to_change() -> None:
    words = ["forecast", "--step-seconds", "1", "--apply-seconds", "0.5", "--publish-seconds", "20", "--interval", "25"]
    words += ["--gradient-bytes", "1000", "--queue-bytes", "100000"]
    assert "publish-less-often: the queue is full in 342 s" in run(*words)
    told = json.loads(run(*words, "--json"))
    assert (told["act"], told["then"]["interval"], told["now"]["recovery"]) == ("publish-less-often", 50, None)
