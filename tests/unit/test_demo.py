"""The demo beside what an earlier one left."""

import json
from pathlib import Path

from flowcheck_net.cli.demo import _plan_and_apply

TWO_HOST = Path(__file__).resolve().parents[2] / "topologies" / "two-host"


def test_switches_of_an_earlier_demo_are_in_nobodys_way(tmp_path):
    left = tmp_path / "two-host.state" / "fake" / "leaf1.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    _plan_and_apply(TWO_HOST, tmp_path)
    names = [session["name"] for session in json.loads(left.read_text())["sessions"]]
    assert len(names) == 2
    assert all(name.startswith("fcn-") for name in names)
