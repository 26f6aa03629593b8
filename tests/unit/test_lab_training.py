"""The lab's training: what ends it, and what is refused before it begins."""

import fcntl
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.errors import FlowcheckError

pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.cli.lab_replica import command
from flowcheck_net.lab.gpt import all_well


def child(code: int | None) -> int:
    """Ends with ``code``, or with None waits for ever."""
    made = os.fork()
    if not made:
        while code is None:
            signal.pause()
        os._exit(code or 0)
    return made


def test_a_rank_that_fails_takes_the_others_along() -> None:
    waiting = [child(None), child(None)]
    assert not all_well([*waiting, child(3)])
    for each in waiting:
        with pytest.raises(ChildProcessError):
            os.waitpid(each, os.WNOHANG)


def test_all_ranks_end_well() -> None:
    assert all_well([child(0), child(0)])


def run(*words: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    def trained(*_: Any) -> None:
        raise AssertionError("a training began")

    monkeypatch.setattr("flowcheck_net.lab.trained.train", trained)
    monkeypatch.setattr("flowcheck_net.receive.receiver.program", lambda: Path())
    return CliRunner().invoke(command, ["topologies/lab-leaf-spine", *words])


def test_a_fault_that_cannot_be_is_refused_before_the_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = run("--fault", "bogus", "-o", str(tmp_path / "o"), monkeypatch=monkeypatch)
    assert isinstance(done.exception, FlowcheckError)
    assert "no fault 'bogus'" in str(done.exception)


def test_two_runs_do_not_share_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("flowcheck_net.lab.build.missing", lambda _: "")
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run("-o", str(tmp_path), monkeypatch=monkeypatch)
    assert isinstance(done.exception, FlowcheckError)
    assert "another run works in" in str(done.exception)
