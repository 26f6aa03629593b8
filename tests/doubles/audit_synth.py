"""A job of two ranks written as files, planned, synthesized and replayed: what an audit is given."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.model.expect import Expectation
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from flowcheck_net.spec.load import load_specs

TWO_HOST = Path(__file__).resolve().parents[2] / "topologies" / "two-host"


def audited(tmp_path: Path, nccl: str, **options: Any) -> AuditReport:
    """The verdicts on what ``seen`` shows."""
    return audit(*seen(tmp_path, nccl, **options))


def seen(
    tmp_path: Path,
    nccl: str,
    *,
    iterations: int = 3,
    elements: Sequence[int] = (5000,),
    extra: str = "",
    faults: Sequence[str] = (),
    start_psn: int = 0,
    mtu: int = 1024,
) -> tuple[Expectation, Records]:
    """Some iterations of a job of two ranks, both hops watched. ``extra``: more lines of the job file."""
    buckets = "".join(f"  - {{name: b{i}, elements: {n}, dtype: fp32}}\n" for i, n in enumerate(elements))
    job = tmp_path / "job.yaml"
    job.write_text(
        "version: 1\nname: gpt\ncollective: {algorithm: ring}\n"
        f"nccl: {{{nccl}}}\nmtu: {mtu}\ngroups: [[0, 1]]\n"
        "ranks:\n  - {rank: 0, host: host1, nic: mlx5_0}\n  - {rank: 1, host: host2, nic: mlx5_0}\n"
        f"{extra}buckets:\n{buckets}iteration_time: 0.5\n"
    )
    plan = make_plan(load_specs(TWO_HOST / "topology.yaml", job, TWO_HOST / "policy.yaml"))
    capture = tmp_path / "mirror.pcapng"
    synthesize(plan, capture, iterations=iterations, faults=parse_faults(faults), start_psn=start_psn)
    return expectation(plan), replay([capture])


def verdicts(report: AuditReport) -> list[Verdict]:
    return [ring.verdict for ring in report.rings]
