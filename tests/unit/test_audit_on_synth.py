"""Audit of synthesized captures from the files of a job: clean traffic in forms that tempt the audit to lie."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport, FlowUse
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from flowcheck_net.spec.load import load_specs

TWO_HOST = Path(__file__).resolve().parents[2] / "topologies" / "two-host"


def audited(
    tmp_path: Path,
    nccl: str,
    *,
    elements: Sequence[int] = (5000,),
    extra: str = "",
    faults: Sequence[str] = (),
    start_psn: int = 0,
) -> AuditReport:
    """Three iterations of a job of two ranks, both hops watched. ``extra``: more lines of the job file."""
    buckets = "".join(f"  - {{name: b{i}, elements: {n}, dtype: fp32}}\n" for i, n in enumerate(elements))
    job = tmp_path / "job.yaml"
    job.write_text(
        "version: 1\nname: gpt\ncollective: {algorithm: ring}\n"
        f"nccl: {{{nccl}}}\nmtu: 1024\ngroups: [[0, 1]]\n"
        "ranks:\n  - {rank: 0, host: host1, nic: mlx5_0}\n  - {rank: 1, host: host2, nic: mlx5_0}\n"
        f"{extra}buckets:\n{buckets}iteration_time: 0.5\n"
    )
    plan = make_plan(load_specs(TWO_HOST / "topology.yaml", job, TWO_HOST / "policy.yaml"))
    capture = tmp_path / "mirror.pcapng"
    synthesize(plan, capture, iterations=3, faults=parse_faults(faults), start_psn=start_psn)
    return audit(expectation(plan), replay([capture]))


def verdicts(report: AuditReport) -> list[Verdict]:
    return [ring.verdict for ring in report.rings]


@pytest.mark.parametrize("faults", [(), ("loss:hop=dp0/0/0,iteration=1,packet=3",)])
def test_turns_that_carry_over_into_the_next_iteration_are_unknown_with_the_reason(
    tmp_path: Path, faults: Sequence[str]
) -> None:
    # Two ranks send 2 messages an iteration on 4 queue pairs in turn: the second iteration begins on queue pair 2.
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 4"
    report = audited(tmp_path, nccl, faults=faults)
    assert verdicts(report) == [Verdict.UNKNOWN]
    assert report.verdict is Verdict.UNKNOWN
    reason = report.rings[0].reason
    assert "2 messages an iteration take turns on 4 queue pairs and carry over" in reason
    assert not any(i.publishable for i in report.iterations)
    assert {flow.use for flow in report.flows} == {FlowUse.RING, FlowUse.CONTROL}


def test_turns_that_come_round_within_an_iteration_are_covered(tmp_path: Path) -> None:
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 2"
    assert verdicts(audited(tmp_path, nccl)) == [Verdict.COVERED] * 3


def test_a_queue_pair_that_carries_only_empty_messages_is_known(tmp_path: Path) -> None:
    # One element: chunk 0 has it and chunk 1 is empty. Messages take turns, so on hop 0->1 queue pair 0 carries the
    # empty partial sum of chunk 1 and queue pair 1 the reduced chunk 0; on hop 1->0 it is the other way round.
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 2"
    report = audited(tmp_path, nccl, elements=[1])
    assert verdicts(report) == [Verdict.COVERED] * 3
    assert {flow.use for flow in report.flows} == {FlowUse.RING, FlowUse.CONTROL}
    assert report.verdict is Verdict.COVERED


def test_a_channel_without_a_share_has_nothing_to_lose(tmp_path: Path) -> None:
    # From 2.20 on a bucket of one element is one channel's alone.
    nccl = "version: 2.20.5, protocol: Simple, channels: 2, threads: 512"
    report = audited(tmp_path, nccl, elements=[1])
    assert verdicts(report) == [Verdict.COVERED] * 6
    assert "no message of any bucket" in report.rings[-1].reason
    assert all(i.publishable for i in report.iterations)
    broadcast = audited(tmp_path, nccl, elements=[1], extra="broadcasts:\n  - {bytes: 20000}\n")
    assert verdicts(broadcast) == [Verdict.COVERED] * 6
    assert broadcast.verdict is Verdict.COVERED
