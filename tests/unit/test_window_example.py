"""``topologies/p4-window`` and other windowed plans from the files to the gradient, by the command line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.cli.main import cli
from flowcheck_net.errors import CoverageGap
from tests.doubles.payload_world import laid, truth
from tests.doubles.window_world import LL, SIMPLE, windowed_plan

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "p4-window"
LL128 = {"version": "2.22.3", "protocol": "LL128", "channels": 1, "threads": 640}

LOSS = "loss:hop=dp0/0/0,iteration=1,packet=30"
"""In the window of the first bucket: packets 27 to 53 of its 54 are fully reduced."""


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert run("plan", EXAMPLE, "-o", path).exit_code == 0
    return path


def test_the_plan_mirrors_each_gradient_byte_once(plan: Path) -> None:
    """65536 bf16 and 300000 fp32 elements are 1 331 072 B."""
    raw = json.loads(plan.read_text())
    assert raw["cost"]["mirrored_bytes"] == raw["cost"]["gradient_bytes"] == 2 * 65536 + 4 * 300000
    windows = [window for planned in raw["sessions"] for window in planned["session"]["windows"]]
    assert [(w["period"], w["high"] - w["low"]) for w in windows] == [(12, 6), (12, 2)]


def test_apply_programs_the_windows_and_verify_reads_them_back(plan: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    dry = run("apply", plan, "--dry-run", "--state-dir", state)
    assert "window 10.0.3.2 queue pair 0x110: messages 6 to 12 of 12" in dry.output
    assert run("apply", plan, "--state-dir", state).exit_code == 0
    assert run("verify", plan, "--state-dir", state).exit_code == 0
    switch = state / "fake" / "leaf1.json"
    raw = json.loads(switch.read_text())
    raw["sessions"][0]["windows"][0]["low"] += 1
    switch.write_text(json.dumps(raw))
    drifted = run("verify", plan, "--state-dir", state)
    assert drifted.exit_code != 0
    assert "window 10.0.3.2" in drifted.output + str(drifted.exception)


def audited(plan: Path, tmp_path: Path, *faults: str) -> dict[str, Any]:
    capture, records = tmp_path / "mirror.pcapng", tmp_path / "records.json"
    words = [word for fault in faults for word in ("--fault", fault)]
    made = run("synth", plan, "-o", capture, "--iterations", 3, *words)
    assert made.exit_code == 0, made.output
    assert run("replay", capture, "-o", records).exit_code == 0
    report: dict[str, Any] = json.loads(run("audit", records, "--plan", plan, "--json").output)
    return report


@pytest.mark.parametrize(
    ("faults", "verdicts"),
    [
        ((), ["COVERED", "COVERED", "COVERED"]),
        (("retransmit:hop=dp0/0/0,iteration=1,packet=3,window=8,seen=no",), ["COVERED", "COVERED", "COVERED"]),
        (("retransmit:hop=dp0/0/0,iteration=1,packet=40,window=8",), ["COVERED", "COVERED", "COVERED"]),
        ((LOSS,), ["COVERED", "GAP", "COVERED"]),
    ],
)
def test_the_example_is_audited(plan: Path, tmp_path: Path, faults: Sequence[str], verdicts: list[str]) -> None:
    report = audited(plan, tmp_path, *faults)
    assert [ring["verdict"] for ring in report["rings"]] == verdicts


def test_the_gradient_comes_out_whole(plan: Path, tmp_path: Path) -> None:
    capture, out = tmp_path / "mirror.pcapng", tmp_path / "gradients"
    assert run("synth", plan, "-o", capture, "--iterations", 2).exit_code == 0
    made = run("replay", capture, "--plan", plan, "--payload", out, "-o", tmp_path / "r.json")
    assert made.exit_code == 0, made.output
    assert sorted(path.name for path in out.iterdir()) == ["iteration-000000", "iteration-000001"]


GRADIENTS: list[dict[str, Any]] = [
    {"nccl": SIMPLE},
    {"nccl": LL},
    {"nccl": LL128},
    {"nccl": SIMPLE, "tree": True},
    {"nccl": LL, "tree": True},
    {"nccl": SIMPLE, "broadcasts": [{"bytes": 5000}]},
]


@pytest.mark.parametrize("strategy", ["reduced", "exact"])
@pytest.mark.parametrize("job", GRADIENTS)
def test_the_gradient_is_what_was_reduced(tmp_path: Path, job: dict[str, Any], strategy: str) -> None:
    bucket = {"name": "b", "elements": 70001, "dtype": "fp32"}
    plan = windowed_plan(strategy, mtu=1024, buckets=[bucket], **job)
    again = "retransmit:hop={},iteration=1,packet=5,window=7,seen=no"
    hop = next(hop for hop in plan.hops if hop.counted)
    report = laid(plan, tmp_path, faults=[again.format(f"{hop.group}/{hop.channel}/{hop.index}")])
    assert all(each.complete for each in report.written), report.written
    for each in report.written:
        assert (each.directory / "dp0.gradient").read_bytes() == truth(plan, "dp0", each.iteration)


def test_a_lost_copy_leaves_a_hole_that_is_named(plan: Path, tmp_path: Path) -> None:
    capture, out = tmp_path / "mirror.pcapng", tmp_path / "gradients"
    loss = LOSS
    assert run("synth", plan, "-o", capture, "--iterations", 2, "--fault", loss).exit_code == 0
    made = run("replay", capture, "--plan", plan, "--payload", out, "-o", tmp_path / "r.json")
    assert isinstance(made.exception, CoverageGap)
    assert sorted(path.name for path in out.iterdir()) == ["iteration-000000", "iteration-000001.partial"]
