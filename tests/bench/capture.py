"""The big capture: at least one million RoCEv2 packets of about 1.1 KB, synthesized once and kept."""

import hashlib
from dataclasses import replace
from pathlib import Path

from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, plan_to_json
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.bench.measure import BUILD, ROOT

PACKETS = 1_000_000


def bench_plan() -> Plan:
    """The four-host example with path MTU 1024: three hops of a ring of four, IPv4."""
    plan = make_plan(load_specs(*spec_paths(ROOT / "topologies" / "four-host")))
    return replace(plan, job=replace(plan.job, wire=replace(plan.job.wire, mtu=1024), iteration_time=0.01))


def big_capture() -> tuple[Path, int]:
    """Path and packets of the capture; its name holds a hash of all that it is made from."""
    plan = bench_plan()
    sources = sorted((ROOT / "flowcheck_net" / "receive").glob("synth*.py"))
    sources.append(ROOT / "flowcheck_net" / "receive" / "pcapng_write.py")
    parts = [plan_to_json(plan).encode(), str(PACKETS).encode(), *(source.read_bytes() for source in sources)]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    path, count = BUILD / f"replay-{key}.pcapng", BUILD / f"replay-{key}.packets"
    if not (path.exists() and count.exists()):
        for old in BUILD.glob("replay-*"):
            old.unlink()
        probe = BUILD / "replay-probe.pcapng"
        each = synthesize(plan, probe, iterations=1).packets
        probe.unlink()
        report = synthesize(plan, path, iterations=-(-PACKETS // each))
        count.write_text(f"{report.packets}\n")
    return path, int(count.read_text())
