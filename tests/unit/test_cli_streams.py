"""Output that cannot be written: a closed pipe is quiet, a full disk is one line, a bad place is bad input."""

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.main import cli
from flowcheck_net.cli.streams import Tolerant
from flowcheck_net.errors import OutputError

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"
PROGRAM = (sys.executable, "-c", "from flowcheck_net.cli.main import run; run()")
CLAB = """\
name: t
topology:
  nodes:
    leaf1: {kind: nokia_srlinux}
    h1: {kind: linux}
  links:
    - endpoints: ['leaf1:e1-1', 'h1:eth1']
"""
FULL = Path("/dev/full")


def run(stdout: int, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*PROGRAM, *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120)


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("words", [("--help",), ("schema", "job"), ("check", str(EXAMPLES / "two-host"))])
def test_a_closed_pipe_ends_quietly(words: tuple[str, ...]) -> None:
    writer = closed_pipe()
    try:
        done = run(writer, *words)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("words", [("--help",), ("schema", "job"), ("check", str(EXAMPLES / "two-host"))])
def test_a_full_disk_is_one_line_of_error(words: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        done = run(full.fileno(), *words)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: standard output: No space left on device",
        "what to do: what was printed is incomplete",
    ]


def test_a_closed_standard_output_is_no_fault() -> None:
    words = " ".join([shlex.quote(word) for word in PROGRAM] + ["schema", "job", ">&-"])
    done = subprocess.run(["/bin/sh", "-c", words], stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_apply_whose_reader_is_gone_is_done_to_the_end(tmp_path: Path) -> None:
    plan, state = str(tmp_path / "plan.json"), str(tmp_path / "state")
    assert CliRunner().invoke(cli, ["plan", str(EXAMPLES / "two-host"), "-o", plan]).exit_code == 0
    writer = closed_pipe()
    try:
        done = run(writer, "apply", plan, "--state-dir", state)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    verified = CliRunner().invoke(cli, ["verify", plan, "--state-dir", state])
    assert "applied" in verified.output or verified.exit_code == 0, verified.output


def test_the_code_of_a_failure_stays_where_output_is_lost() -> None:
    writer = closed_pipe()
    try:
        done = run(writer, "plan", str(EXAMPLES / "infeasible"))
    finally:
        os.close(writer)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_what_follows_a_fault_is_dropped_and_the_first_fault_is_kept() -> None:
    writer = closed_pipe()
    stream = Tolerant(writer)
    assert stream.write(b"abc") == 3
    assert stream.fault is not None
    assert stream.fault.errno == errno.EPIPE
    assert stream.lost == ""
    os.close(writer)
    assert stream.write(b"abc") == 3
    closed = Tolerant(writer)
    closed.write(b"x")
    assert closed.lost == os.strerror(errno.EBADF)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", str(EXAMPLES / "two-host"), "-o"),
        ("synth", "{plan}", "-o"),
        ("replay", "{capture}", "-o"),
        ("audit", "{records}", "--plan", "{plan}", "--html"),
        ("topology", "generate", "leaf-spine", "--hosts", "4", "-o"),
        ("import", "containerlab", "{clab}", "-o"),
    ],
)
def test_a_place_that_cannot_be_written_is_bad_input(words: tuple[str, ...], tmp_path: Path) -> None:
    made = {name: str(tmp_path / name) for name in ("plan", "capture", "records", "clab")}
    (tmp_path / "clab").write_text(CLAB)
    for before in (
        ["plan", str(EXAMPLES / "two-host"), "-o", made["plan"]],
        ["synth", made["plan"], "-o", made["capture"], "--iterations", "1"],
        ["replay", made["capture"], "-o", made["records"]],
    ):
        assert CliRunner().invoke(cli, before).exit_code == 0
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "inside")
    result = CliRunner().invoke(cli, [*(word.format(**made) for word in words), place])
    assert isinstance(result.exception, OutputError), result.output
    assert result.exception.exit_code == 2
    assert str(tmp_path / "file") in result.exception.message
