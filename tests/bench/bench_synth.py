"""Packets per second of processor time of ``synthesize``, 1 KiB payload."""

import time

from flowcheck_net.receive.synth import synthesize
from tests.bench.capture import bench_plan
from tests.bench.measure import BUILD, RUNS, Result


def bench() -> list[Result]:
    """Best of three, ten iterations each."""
    plan = bench_plan()
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / "synth.pcapng"
    best = 0.0
    for _ in range(RUNS):
        start = time.process_time()
        report = synthesize(plan, out, iterations=10)
        best = max(best, report.packets / (time.process_time() - start))
    out.unlink()
    return [Result("synth_rate", best, "packets/CPU s", 50_000.0)]
