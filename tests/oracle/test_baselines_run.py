"""The comparison for real, as small as it can be; and spoiled checkpoints, which must make it fail."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint.baselines import tap  # noqa: E402

SMALL = ["--width", "16", "--blocks", "1", "--steps", "4", "--interval", "2", "--full-every", "2", "--rounds", "1"]
METHODS = {"sync", "async", "incremental", "hybrid"}

SPOILED = """
import sys
from flowcheck_net.checkpoint.baselines import kills
from flowcheck_net.cli.main import run

honest = kills.restore

def spoil(method, place):
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix in (".pt", ".bin", ".distcp")]
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    return honest(method, place)

kills.restore = spoil
run()
"""


def compare(place: Path, code: str | None, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON that was printed, what was said beside it."""
    program = "from flowcheck_net.cli.main import run; run()" if code is None else code
    words = ["checkpoint", "compare", "--json", "--place", str(place), *SMALL, *arguments]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=900)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_full_ring_of_gradients_says_so_and_is_never_taken_up_from_another_run(tmp_path: Path) -> None:
    mine = tap.Tap(tmp_path / "tap", 3, new=True)
    theirs = tap.Tap(tmp_path / "tap", 3, new=False)
    for step in range(5, 5 + tap.SLOTS):
        assert mine.free(step)
        mine.slot(step)[:] = bytes([step, 0, step])
        mine.mark(step, taken=True)
    assert not mine.free(5 + tap.SLOTS)
    assert [bytes(theirs.slot(step)) for step in (5, 31, 32, 36)] == [bytes([n, 0, n]) for n in (5, 31, 32, 36)]
    theirs.mark(5, taken=False)
    assert mine.free(5 + tap.SLOTS)
    assert not mine.free(6 + tap.SLOTS)
    with pytest.raises(FileExistsError):
        tap.Tap(tmp_path / "tap", 3, new=True)


@pytest.mark.timeout(1000)
def test_all_methods_are_restored_bit_by_bit_and_their_bytes_are_those_of_the_model(tmp_path: Path) -> None:
    code, told, said = compare(tmp_path, None, "--kills", "1")
    assert code == 0, said
    assert told["wrong"] == 0
    assert not list(tmp_path.iterdir())
    assert {each["method"] for each in told["failures"]} == METHODS
    for each in told["failures"]:
        assert each["promised_step"] <= each["restored_step"] <= each["killed_step"]
        assert each["lost_steps"] == each["killed_step"] - each["restored_step"]

    # by hand: 256 words and 32 places of width 16; a block has 12 w^2 + 13 w; the last norm has 2 w
    parameters = 256 * 16 + 32 * 16 + 12 * 16**2 + 13 * 16 + 2 * 16
    assert told["machine"]["parameters"] == parameters
    gradient = told["machine"]["gradient_bytes"]
    assert gradient == 4 * parameters
    state = 3 * gradient + 4 * (2 + 12 + 2)  # each of 16 tensors has a count of its updates
    assert told["machine"]["state_bytes"] == state

    rows = {each["method"]: each for each in told["methods"]}
    assert set(rows) == METHODS | {"control"}
    for row in rows.values():
        # two ranks: whichever way they reduce, each must be told the other's half of the sum and of the result
        assert 2 * gradient <= row["moved"]["training-network"] < 2 * gradient * 1.5 + 20_000
        assert row["time"]["steps"] == (8 if row["method"] == "control" else 4)
    assert rows["control"]["moved"]["trainer-storage"] == rows["control"]["moved"]["mirrored"] == 0
    assert rows["hybrid"]["moved"]["mirrored"] == gradient
    assert rows["hybrid"]["missed"] == 0
    # a checkpoint every second step: half a state a step, and the form around it
    assert state / 2 <= rows["sync"]["moved"]["trainer-storage"] <= state / 2 * 1.5
    assert (
        state / 2 <= rows["async"]["moved"]["trainer-storage"] <= (state + 48 * 4000) / 2
    )  # each tensor has a form of its own
    assert rows["async"]["moved"]["memory"] == 2 * state / 2  # both ranks copy
    assert rows["incremental"]["moved"]["hashed"] == state / 2
    # one checkpoint of the trainer in four steps; the node stores each gradient, and a state every second step
    assert state / 4 <= rows["hybrid"]["moved"]["trainer-storage"] <= state / 4 * 1.5
    assert gradient + state / 2 <= rows["hybrid"]["moved"]["node-storage"] <= (gradient + state / 2) * 1.5


@pytest.mark.timeout(1000)
def test_a_checkpoint_whose_bytes_were_altered_makes_the_run_fail(tmp_path: Path) -> None:
    code, told, said = compare(tmp_path, SPOILED, "--kills", "1")
    assert code == 1
    assert told["wrong"] == 4
    assert {each["method"] for each in told["failures"] if each["wrong"]} == METHODS
    assert "restored states are wrong" in said
