"""``plan diff A B``, by the command line."""

import json
from pathlib import Path

from click.testing import CliRunner

from flowcheck_net.cli.main import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"


def test_plan_diff_is_the_comparison_and_not_a_folder(tmp_path: Path) -> None:
    runner = CliRunner()
    plans = []
    for name in ("two-host", "four-host"):
        plan = tmp_path / f"{name}.json"
        assert runner.invoke(cli, ["plan", str(EXAMPLES / name), "-o", str(plan)]).exit_code == 0
        plans.append(str(plan))
    spoken = runner.invoke(cli, ["plan", "diff", *plans])
    assert spoken.exit_code == 0
    assert "  + leaf1:Ethernet2:rx to ckpt1:cap2" in spoken.output
    assert "sessions: 2 -> 3 (+50%)" in spoken.output
    same = runner.invoke(cli, ["plan", "diff", plans[0], plans[0], "--json"])
    assert same.exit_code == 0
    said = json.loads(same.output)
    assert said.pop("kept") == 2
    assert not any(said.values())
