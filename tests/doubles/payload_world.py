"""From the files of a job to laid gradients, and the bytes that the synthesizer says it sent."""

from collections.abc import Sequence
from pathlib import Path

from flowcheck_net.checkpoint.payload import PayloadReport, Wanted, write_gradients
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from flowcheck_net.receive.synth_payload import Gradients
from flowcheck_net.spec.load import load_specs

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"


def plan_of(example: str, job: Path | None = None) -> Plan:
    """The plan of an example topology, with another job if given."""
    place = TOPOLOGIES / example
    return make_plan(load_specs(place / "topology.yaml", job or place / "job.yaml", place / "policy.yaml"))


def job_file(
    path: Path, nccl: str, elements: Sequence[int], *, mtu: int = 1024, dtype: str = "fp32", more: str = ""
) -> Path:
    """A job of two ranks for the two-host topology."""
    buckets = "".join(f"  - {{name: b{i}, elements: {n}, dtype: {dtype}}}\n" for i, n in enumerate(elements))
    path.write_text(
        "version: 1\nname: gpt\ncollective: {algorithm: ring}\n"
        f"nccl: {{{nccl}}}\nmtu: {mtu}\ngroups: [[0, 1]]\n"
        "ranks:\n  - {rank: 0, host: host1, nic: mlx5_0}\n  - {rank: 1, host: host2, nic: mlx5_0}\n"
        f"{more}buckets:\n{buckets}iteration_time: 0.5\n"
    )
    return path


def laid(
    plan: Plan,
    place: Path,
    *,
    iterations: int = 3,
    faults: Sequence[str] = (),
    seed: int = 7,
    start_psn: int = 0,
    wanted: slice = slice(0, None),
    trust_order: bool = True,
) -> PayloadReport:
    """Synthesize, count, audit, lay. The gradients are then in ``place / "out"``."""
    capture = place / "mirror.pcapng"
    synthesize(plan, capture, iterations=iterations, faults=parse_faults(faults), seed=seed, start_psn=start_psn)
    what = Wanted(place / "out", wanted.start, wanted.stop, trust_order)
    return laid_from(plan, capture, what)


def laid_from(plan: Plan, capture: Path, what: Wanted) -> PayloadReport:
    """Count, audit and lay a capture."""

    def feed(core: Core) -> None:
        core.read(capture, lambda name: name or capture.stem)

    return write_gradients(expectation(plan), replay([capture]), what, feed, Core)


def truth(plan: Plan, group: str, iteration: int, seed: int = 7) -> bytes:
    """What the synthesizer says that the reduced gradient of a group is: all its buckets in order."""
    source = Gradients(seed)
    kinds = {kind for lane in plan.job.lanes if lane.group == group for kind in lane.carries}
    return b"".join(
        source.read(f"{iteration}/{group}/bucket{number}/sum", bucket.dtype.size, 0, bucket.size)
        for number, bucket in enumerate(plan.job.wire.buckets)
        if bucket.kind in kinds
    )
