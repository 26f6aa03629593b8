"""Payload placement beside memcpy() of the same blocks, in one C program on one core: Simple, LL and LL128."""

import shutil
import subprocess
from pathlib import Path

from tests.bench.measure import BUILD, ROOT, Result, pinned, warm

ROUNDS = 10
PAYLOAD = 1024
"""Bytes of a packet."""
PROTOCOLS = ("simple", "ll", "ll128")
"""In the order of ``enum fck_protocol``."""


def bench() -> list[Result]:
    """``placement_vs_memcpy`` is Simple; the other protocols have no bar."""
    results: list[Result] = []
    program = compiled()
    for number, name in enumerate(PROTOCOLS):
        suffix = "" if number == 0 else f"_{name}"
        rate_name, ratio_name = f"placement_rate{suffix}", f"placement{suffix}_vs_memcpy"
        bar = 0.7 if number == 0 else None
        if program is None:
            results.append(Result(ratio_name, None, "ratio", bar, note="no C compiler"))
            continue
        packets, copying, placing = measure(program, number)
        size = packets * PAYLOAD
        results.append(Result(rate_name, size / placing, "B/s", note=f"{packets} packets of {PAYLOAD} B payload"))
        note = f"memcpy {size / copying / 1e9:.1f} GB/s, best of {ROUNDS} rounds of both, processor time"
        results.append(Result(ratio_name, copying / placing, "ratio", bar, note=note))
    return results


def compiled() -> Path | None:
    """The program with the core's own sources, as a release build has them."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / "placement"
    core, sources = ROOT / "receiver" / "core", ROOT / "receiver" / "sources"
    readers = [path for path in sources.glob("*.c") if not path.stem.endswith("_test") and "send" not in path.stem]
    files = [Path(__file__).with_name("placement.c"), *sorted(core.glob("*.c")), *sorted(readers)]
    command = [compiler, "-std=gnu17", "-O3", f"-I{core}", f"-I{sources}", "-o", str(program), *map(str, files)]
    subprocess.run(command, check=True)
    return program


def measure(program: Path, protocol: int) -> tuple[int, float, float]:
    """Packets, and the best seconds of copying and of placing them."""
    capture = BUILD / f"placement-{PROTOCOLS[protocol]}.pcap"
    command = [str(program), str(capture), str(protocol), "0"]
    subprocess.run(command, check=True, capture_output=True)  # writes the capture where it is not there
    warm(capture)
    command[-1] = str(ROUNDS)
    found = subprocess.run(pinned(command), check=True, capture_output=True, text=True).stdout.split()
    capture.unlink()  # more than 1 GB
    return int(found[0]), float(found[1]), float(found[2])
