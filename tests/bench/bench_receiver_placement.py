"""The receiver's placement beside memcpy() of blocks of 1 KiB, both into the same 4 GiB, on one core in one C program.

The worker's own way without the device: 512 buffers as mbufs, PSNs written anew, ``fck_frames`` in bursts, tracker,
board and publication (``receiver_placement.c``). One worker fills the board; several pay for locked claims.
"""

import os
import shutil
import subprocess

from tests.bench.measure import BUILD, ROOT, Result, pinned

PAYLOAD = 1024
ROUNDS = 6
MILLIONS = 4
"""MiPackets of an iteration: 4 GiB, twice, since a board has two slots."""
NAME, BAR = "receiver_placement_vs_memcpy", 0.8


def bench() -> list[Result]:
    """The ratio, and the rate of payload bytes."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    millions = MILLIONS
    while millions > 1 and free < (2 * millions + 2) << 30:
        millions //= 2
    if compiler is None or free < (2 * millions + 1) << 30:
        return [Result(NAME, None, "ratio", BAR, note="no C compiler, or less than 3 GiB free")]
    BUILD.mkdir(parents=True, exist_ok=True)
    core, program = ROOT / "receiver" / "core", BUILD / "receiver_placement"
    files = [str(ROOT / "tests/bench/receiver_placement.c"), *map(str, sorted(core.glob("*.c")))]
    subprocess.run([compiler, "-std=gnu17", "-O3", f"-I{core}", "-o", str(program), *files], check=True)
    command = pinned([str(program), str(millions), str(ROUNDS)])
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    size, copying, placing = int(found[0]) * PAYLOAD, float(found[1]), float(found[2])
    note = (
        f"memcpy {size / copying / 1e9:.1f} GB/s into {millions} GiB, best of {ROUNDS} rounds of both, processor time"
    )
    return [
        Result("receiver_placement_rate", size / placing, "B/s", note=f"{found[0]} packets of {PAYLOAD} B payload"),
        Result(NAME, copying / placing, "ratio", BAR, note=note),
    ]
