"""docs/generators.md and docs/capacity.md name what there is, and say what the code says."""

import re
from pathlib import Path

from click.testing import CliRunner

from flowcheck_net.cli.main import cli
from flowcheck_net.importers.generate import KINDS
from flowcheck_net.plan.capacity_given import Givens
from flowcheck_net.spec.load import load_specs, spec_paths

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_kind_is_described():
    rows = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "generators.md").read_text(), re.MULTILINE)
    assert rows == list(KINDS)


def test_options_that_are_named_exist():
    text = (DOCS / "generators.md").read_text()
    shown = CliRunner().invoke(cli, ["topology", "generate", "--help"]).output
    for option in set(re.findall(r"--[a-z][a-z-]+", text)):
        assert option in shown, option


def test_the_python_example_runs(tmp_path):
    text = (DOCS / "generators.md").read_text().split("## In memory\n", 1)[1].split("\n## ", 1)[0]
    code = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    names: dict[str, object] = {}
    exec(code.replace("hosts=16384, pp=16", "hosts=16, pp=2"), names)
    words = ["topology", "generate", "rail-optimised", "--hosts", "16", "--pp", "2", "-o", str(tmp_path)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert names["specs"] == load_specs(*spec_paths(tmp_path))


def test_every_given_number_is_described_with_its_default():
    section = (DOCS / "capacity.md").read_text().split("## What is given\n", 1)[1].split("\n## ", 1)[0]
    described: dict[str, float] = {}
    for names, defaults in re.findall(r"^\| (`.+?) \| (.+?) \|", section, re.MULTILINE):
        values = [86400 * float(v.split()[0]) if "days" in v else float(v) for v in defaults.split(", ")]
        described.update(zip(re.findall(r"`([a-z_]+)`", names), values, strict=True))
    assert described == dict(Givens())
