"""Captures for the benches, made once and kept: their names hold a hash of all that they are made from."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.bench.measure import BUILD, ROOT

HERE = Path(__file__).parent


class Missing(Exception):
    """Something that a bench needs is not on this machine."""


@dataclass(frozen=True)
class Shape:
    """What ``make_capture.c`` is asked for: 8 queue pairs that take turns in bursts of 1 to 16 packets."""

    name: str
    packets: int
    family: int
    payload: int
    """Bytes a packet."""
    message: int
    """Packets a message."""


LARGE = Shape("large", 5_000_000, 4, 1024, 128)
"""1 KiB of payload in IPv4, 5.6 GB."""
LARGE_FIFTH = replace(LARGE, name="large-fifth", packets=1_000_000)
SMALL = Shape("small", 20_000_000, 6, 4, 32)
"""4 bytes of payload in IPv6: 82 bytes a packet, but for the RETH of a message's first and the immediate of its last.
So many that the start of Python counts as little as it does with LARGE."""


def bench_plan() -> Plan:
    """The four-host example with path MTU 1024: three hops of a ring of four, IPv4."""
    plan = make_plan(load_specs(*spec_paths(ROOT / "topologies" / "four-host")))
    return replace(plan, job=replace(plan.job, wire=replace(plan.job.wire, mtu=1024), iteration_time=0.01))


def compiled(program: str, *more: Path, flags: tuple[str, ...] = ()) -> Path:
    """The program of a C file beside this one, in build/bench."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("no C compiler")
    BUILD.mkdir(parents=True, exist_ok=True)
    made = BUILD / program
    sources = [str(HERE / f"{program}.c"), *map(str, more)]
    subprocess.run([compiler, "-O3", "-Wall", "-Wextra", *flags, "-o", str(made), *sources], check=True)
    return made


def capture(shape: Shape) -> Path:
    """The capture of a shape."""
    parts = [repr(shape).encode(), (HERE / "make_capture.c").read_bytes()]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    path = BUILD / f"{shape.name}-{key}.pcapng"
    if path.exists():
        return path
    maker = compiled("make_capture")
    for old in BUILD.glob(f"{shape.name}-????????????????.pcapng"):
        old.unlink()
    unfinished = path.with_suffix(".unfinished")
    sizes = (shape.packets, shape.family, shape.payload, shape.message, 8)
    subprocess.run([str(maker), str(unfinished), *map(str, sizes)], check=True)
    unfinished.rename(path)
    return path
