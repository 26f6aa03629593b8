"""``flowcheck-net lab run`` as a user types it: JSON, exit code, and nothing left."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flowcheck_net.lab.build import missing
from flowcheck_net.lab.place import LABS

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "lab-leaf-spine"
RUN = (sys.executable, "-c", "from flowcheck_net.cli.main import run; run()", "lab", "run")

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "not skipped")


def test_iterations_of_which_nothing_came_are_a_gap(tmp_path: Path):
    """All mirror links are cut half-way: what came is complete, and the audit cannot know that there was more."""
    words = [
        *RUN,
        str(EXAMPLE),
        "--name",
        "cli",
        "--iterations",
        "10",
        "--slower",
        "2",
        "--receiver",
        "capture",
        "--json",
    ]
    words += ["-o", str(tmp_path), "--fault", "cut:at=0.5"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    ran = report["lab"]
    assert ran["faults"] == ["cut:at=0.5"]
    assert ran["iterations"] == 10
    assert ran["sent"] > ran["received"] > 0
    assert len(report["iterations"]) == 10 - ran["unseen"] < 10
    assert {one["verdict"] for one in report["iterations"][:3]} == {"COVERED"} or ran["busy"]
    assert report["verdict"] != ran["verdict"] == "GAP" or report["verdict"] in ("GAP", "UNKNOWN")
    assert done.returncode == (10 if report["verdict"] == "UNKNOWN" else 4)
    assert not list(LABS.glob("cli-*"))
