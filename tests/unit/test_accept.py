"""The acceptance harness: it passes on the code as it is, and fails on code that is broken on purpose."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint.accept import run  # noqa: E402
from flowcheck_net.checkpoint.accept.draw import Experiment, Silence  # noqa: E402
from flowcheck_net.checkpoint.accept.trainer import SETTINGS  # noqa: E402
from flowcheck_net.checkpoint.accept.words import Kind, Restored  # noqa: E402
from flowcheck_net.cli.main import cli  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "four-host"


@pytest.fixture(scope="module")
def acceptance() -> Iterator[run.Acceptance]:
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(dir=run.MEMORY) as place:
        yield run.Acceptance(EXAMPLE, Path(place))
    torch.set_num_threads(threads)


def test_one_experiment_of_each_kind(acceptance: run.Acceptance) -> None:
    report = acceptance.run(len(Kind))
    assert [each for each in report.outcomes if each.wrong] == []
    assert report.published > len(report.outcomes) // 2
    assert {each.kind for each in report.outcomes} == set(Kind)
    for each in report.outcomes:
        assert (each.restored is Restored.NOTHING) == (each.persisted_step == 0)
        assert set(each.unpublished) | set(each.published) == {2, 4, 6, 8}


def test_a_client_that_never_says_anything_is_a_reason(acceptance: run.Acceptance) -> None:
    silent = Experiment(0, 1, SETTINGS[0], Kind.SIDE, silence=(1, Silence.ENDS))
    outcome = acceptance.experiment(silent)
    assert (outcome.wrong, outcome.published) == ((), ())
    assert set(outcome.unpublished) == {2, 4, 6, 8}
    assert "did not tell" in outcome.unpublished[2]


def test_the_same_number_is_the_same_experiment(acceptance: run.Acceptance) -> None:
    once, again = (acceptance.run(1, first=5) for _ in range(2))
    assert once.outcomes == again.outcomes
    assert acceptance.run(1, first=6).outcomes != once.outcomes


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(EXAMPLE.parents[1])
    page = tmp_path / "accept.html"
    words = ["accept", "--experiments", "2", "--kind", "none", "--kind", "side-channel", "--html", str(page), "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["passed"] is True
    assert told["outcomes"][0]["published"] == [2, 4, 6, 8]
    assert told["outcomes"][0]["restored"] == "equal"
    assert told["experiments"] == 2
    assert "✓ passed" in page.read_text()
    alone = CliRunner().invoke(cli, ["accept", "--only", "1", "--kind", "none", "--kind", "side-channel"])
    assert alone.exit_code == 0, alone.output
    assert "fault: step" in alone.output
    assert CliRunner().invoke(cli, ["accept", "--kind", "moon"]).exit_code == 2


def test_a_run_that_is_ended_leaves_nothing_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "MEMORY", str(tmp_path))
    there: list[Path] = []

    class Ended:
        def __init__(self, _example: Path, place: Path, **_: Any) -> None:
            (place / "file").touch()
            there.extend(tmp_path.glob("*/file"))

        def run(self, *_: Any, **__: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run, "Acceptance", Ended)
    former = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(cli, ["accept", "--example", str(EXAMPLE)])
    assert done.exit_code == 1
    assert len(there) == 1
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is former
