"""``flowcheck-net plan`` as a person and as a program sees it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.main import run as main
from flowcheck_net.cli.plan import command, write_plan
from flowcheck_net.errors import Infeasible, OutputError, StalePlan
from flowcheck_net.plan.plan import plan_from_json

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"


def run(*args: str) -> str:
    result = CliRunner().invoke(command, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("wrong", ["topology.yaml", "elsewhere"])
def test_what_is_no_directory_is_refused_in_one_sentence(wrong: str) -> None:
    result = CliRunner().invoke(command, [str(EXAMPLES / "two-host" / wrong)])
    assert result.exit_code == 2
    assert "give the directory that holds topology.yaml, job.yaml and policy.yaml" in result.output.replace("\n", " ")


def test_a_place_that_may_not_be_entered_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def barred(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", barred)
    monkeypatch.setattr("sys.argv", ["flowcheck-net", "plan", "/barred/here"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: /barred/here: Permission denied\n")


def test_a_binary_file_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "records.fcr"
    path.write_bytes(b"\x89FCR")
    with pytest.raises(StalePlan, match="not a plan: it is no text"):
        read_plan(path)


def test_the_table_shows_points_coverage_cost_and_proof() -> None:
    text = run(str(EXAMPLES / "two-host"))
    for words in (
        "leaf1    Ethernet1   rx          dp0/0/0      fcn-gpt-dp2-1   ckpt1:cap0     400G of 400G, 100%",
        "dp0/0       2   0 1              1        1   complete",
        "mirrored: 80,000 payload bytes a step, 4.00 for each gradient byte (one copy and nothing else: 2.00, as LL ",
        "duplicate: 0 payload bytes a step",
        "2 sessions on 1 switch",
        "proof: optimal, gap 0.00%",
    ):
        assert words in text


def test_explain_shows_the_stages() -> None:
    assert "mirrored bytes: 80,000 (proven bound 80,000)" in run(str(EXAMPLES / "two-host"), "--explain")


def test_json_is_the_plan_file(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    printed = run(str(EXAMPLES / "four-host"), "--json", "-o", str(out))
    assert printed == out.read_text()
    assert plan_from_json(printed, "plan.json").job.name == "gpt-dp4"


def test_the_three_files_may_be_named() -> None:
    files = [f"--{kind}={EXAMPLES / 'two-host' / kind}.yaml" for kind in ("topology", "job", "policy")]
    assert run("--json", *files) == run("--json", str(EXAMPLES / "two-host"))
    assert CliRunner().invoke(command, files[:2]).exit_code == 2


def test_standard_output_of_the_program_is_one_json_document(tmp_path: Path) -> None:
    """The whole program, whose solver would print a banner of its own if it were let."""
    code = "from flowcheck_net.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", str(EXAMPLES / "two-host"), "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
    )
    assert json.loads(done.stdout)["version"] == 1
    assert done.stderr == ""


def test_infeasible_exits_3_and_names_ring_limit_and_cure(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    with pytest.raises(Infeasible) as caught:
        run(str(EXAMPLES / "infeasible"), "-o", str(out))
    assert caught.value.exit_code == 3
    assert "ring dp0/0" in caught.value.message
    assert "capture bandwidth at leaf1: needs 800G, has 200G" in caught.value.message
    assert caught.value.hint
    assert not out.exists()


class TestWriting:
    def test_a_plan_is_replaced(self, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        run(str(EXAMPLES / "two-host"), "-o", str(out))
        run(str(EXAMPLES / "four-host"), "-o", str(out))
        assert plan_from_json(out.read_text(), "plan.json").job.name == "gpt-dp4"
        assert list(tmp_path.iterdir()) == [out]

    def test_anything_else_is_left_as_it_is(self, tmp_path: Path) -> None:
        out = tmp_path / "job.yaml"
        shutil.copy(EXAMPLES / "two-host" / "job.yaml", out)
        before = out.read_bytes()
        with pytest.raises(OutputError, match="is not a plan; it was left as it is"):
            write_plan(out, "{}")
        assert out.read_bytes() == before
        assert list(tmp_path.iterdir()) == [out]

    def test_an_empty_file_may_be_filled(self, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        out.touch()
        write_plan(out, "{}")
        assert out.read_text() == "{}"

    def test_a_directory_and_a_missing_one_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="is a directory"):
            write_plan(tmp_path, "{}")
        with pytest.raises(OutputError, match="cannot be written"):
            write_plan(tmp_path / "no" / "plan.json", "{}")

    def test_a_failed_write_leaves_the_old_plan_and_nothing_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "plan.json"
        write_plan(out, '{"digest":"", "fingerprint":""}')

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left"):
            write_plan(out, "{}")
        assert out.read_text() == '{"digest":"", "fingerprint":""}'
        assert list(tmp_path.iterdir()) == [out]
