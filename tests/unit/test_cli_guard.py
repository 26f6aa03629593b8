"""A command never writes over what it reads."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.main import cli
from flowcheck_net.plan.plan import plan_to_json
from tests.doubles.synth_reading import example


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan, its capture and its records."""
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(plan_to_json(example("two-host")))
    runner = CliRunner()
    assert runner.invoke(cli, ["synth", "plan.json", "-o", "a.pcapng", "--iterations", "1"]).exit_code == 0
    assert runner.invoke(cli, ["replay", "a.pcapng", "-o", "a.json"]).exit_code == 0
    Path("link").symlink_to("a.pcapng")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "replay a.pcapng -o a.pcapng",
        "replay a.pcapng -o ./link",
        "replay a.pcapng --before link -o link",
        "synth plan.json -o plan.json",
        "synth plan.json -o b.pcapng --truth plan.json",
        "audit a.json --plan plan.json --html a.json",
        "audit a.json --plan plan.json --html plan.json",
    ],
)
def test_inputs_are_spared(files: Path, arguments: str) -> None:
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    result = CliRunner().invoke(cli, arguments.split())
    assert result.exit_code == 2
    assert "would write over an input" in result.output
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_names_in_captures_and_of_files_do_not_steer_the_terminal(files: Path) -> None:
    image = Path("a.pcapng").read_bytes().replace(b"ckpt1:cap0", b"cc\x1b]0;x\x07:p")
    evil = Path("a\x1b[2J\n.pcapng")
    evil.write_bytes(image)
    whole = CliRunner().invoke(cli, ["replay", str(evil), "-o", "evil.json"])
    cut = Path("b\x1b[2J.pcapng")
    cut.write_bytes(image[:200])
    broken = CliRunner().invoke(cli, ["replay", str(cut)])
    shown = CliRunner().invoke(cli, ["audit", "evil.json", "--plan", "plan.json", "--html", "x.html"])
    assert whole.exit_code == 0
    text = whole.output + shown.output + str(broken.exception) + Path("x.html").read_text()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\N{REPLACEMENT CHARACTER}" in text


@pytest.mark.parametrize(
    "arguments",
    ["replay a.pcapng ./a.pcapng", "replay a.pcapng link", "replay a.pcapng --before link --before a.pcapng"],
)
def test_a_capture_given_twice_would_count_twice(files: Path, arguments: str) -> None:
    result = CliRunner().invoke(cli, arguments.split())
    assert result.exit_code == 2
    assert "is given twice" in result.stderr
    assert CliRunner().invoke(cli, ["replay", "a.pcapng", "--before", "link"]).exit_code == 0


def test_a_capture_name_that_names_nothing_is_told(files: Path) -> None:
    result = CliRunner().invoke(cli, ["replay", "a.pcapng", "--capture", "leaf1=b.pcapng"])
    assert result.exit_code == 0
    assert "--capture leaf1=b.pcapng names no file and no interface; the capture ports are ckpt1:cap0" in result.stderr
    given = CliRunner().invoke(cli, ["replay", "a.pcapng", "--capture", "leaf1=ckpt1:cap0"])
    assert "names no file" not in given.stderr


@pytest.mark.parametrize("arguments", ["replay a.pcapng -o -", "records merge a.json -o -", "synth plan.json -o -"])
def test_a_dash_is_not_the_name_of_a_file_to_write(files: Path, arguments: str) -> None:
    result = CliRunner().invoke(cli, arguments.split())
    assert result.exit_code == 2
    assert "is no standard output here" in result.stderr
    assert not Path("-").exists()
