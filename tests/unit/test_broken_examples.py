"""Each broken example gives exactly its stated errors and exit code 2, through the real entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowcheck_net.cli.main import run

BROKEN = Path(__file__).resolve().parents[2] / "topologies" / "broken"
CASES = sorted(path.parent.name for path in BROKEN.glob("*/expected.txt"))


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["flowcheck-net", *words])
    with pytest.raises(SystemExit) as caught:
        run()
    return int(caught.value.code or 0)


def test_there_are_enough_and_each_is_whole():
    assert len(CASES) >= 12
    assert sorted(p.name for p in BROKEN.iterdir()) == CASES
    for case in CASES:
        assert sorted(p.name for p in (BROKEN / case).iterdir()) == [
            "expected.txt",
            "job.yaml",
            "policy.yaml",
            "topology.yaml",
        ]


@pytest.mark.parametrize("case", CASES)
def test_stated_errors(case, monkeypatch, capsys):
    monkeypatch.chdir(BROKEN / case)
    assert call(monkeypatch, "check", ".") == 2
    out, err = capsys.readouterr()
    expected = Path("expected.txt").read_text().splitlines()
    heading = "1 problem in the input" if len(expected) == 1 else f"{len(expected)} problems in the input"
    assert err.splitlines() == [f"error: {heading}", *expected]
    assert out == ""


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_json(case, monkeypatch, capsys):
    monkeypatch.chdir(BROKEN / case)
    assert call(monkeypatch, "check", ".", "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    lines = Path("expected.txt").read_text().splitlines()
    assert len(answer["problems"]) == len(lines)
    for problem, line in zip(answer["problems"], lines, strict=True):
        place = f"{problem['file']}:{problem['line']}:{problem['column']}" if problem["line"] else problem["file"]
        assert line.startswith(f"{place}: ")
        assert problem["message"] in line


def test_in_a_process_of_its_own():
    code = "from flowcheck_net.cli.main import run; run()"
    case = BROKEN / "many-faults"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", "."],
        cwd=case,
        env={**os.environ, "PYTHONPATH": str(BROKEN.parents[1]), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == (case / "expected.txt").read_text().splitlines()
    assert "Traceback" not in done.stderr


def test_a_secret_is_never_repeated(monkeypatch, capsys):
    monkeypatch.chdir(BROKEN / "secret-in-management")
    assert "secret" in Path("topology.yaml").read_text()
    call(monkeypatch, "check", ".")
    assert "admin" not in capsys.readouterr().err
