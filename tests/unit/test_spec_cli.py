"""check, schema and completion as a user calls them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.cli.main import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_check_of_a_directory():
    result = call("check", EXAMPLES / "eight-host")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "ok"
    assert "  rings: 2" in lines
    assert "  capture nics: 4" in lines


def test_check_of_named_files():
    two = EXAMPLES / "two-host"
    words = ["check", "--topology", two / "topology.yaml", "--job", two / "job.yaml", "--policy", two / "policy.yaml"]
    assert call(*words).output.startswith("ok\n")


def test_a_named_file_replaces_the_one_of_the_directory():
    words = ["check", EXAMPLES / "two-host", "--policy", EXAMPLES / "four-host" / "policy.yaml", "--json"]
    assert json.loads(call(*words).output)["summary"]["copies"] == 2


def test_check_needs_files():
    result = call("check", "--job", "job.yaml")
    assert result.exit_code == 2
    assert "give DIRECTORY" in result.output


def test_check_as_json():
    answer = json.loads(call("check", EXAMPLES / "two-host", "--json").output)
    assert answer["ok"] is True
    assert answer["problems"] == []
    assert answer["summary"]["gradient_elements"] == 5000


@pytest.mark.parametrize("kind", ["topology", "job", "policy"])
def test_schema(kind):
    assert json.loads(call("schema", kind).output)["$schema"].endswith("2020-12/schema")


def test_schema_of_nothing_known():
    assert call("schema", "fabric").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    result = call("completion", shell)
    assert result.exit_code == 0
    assert "_FLOWCHECK_NET_COMPLETE" in result.output
    assert "flowcheck-net" in result.output
