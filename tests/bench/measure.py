"""How benches measure: whole commands, best of three, on one core, with the file in the page cache."""

import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
RUNS = 3


@dataclass(frozen=True)
class Result:
    """One number of a bench."""

    name: str
    value: float | None
    """None: could not be measured here; ``note`` says why."""
    unit: str
    bar: float | None = None
    higher_is_better: bool = True
    note: str = ""

    def passes(self) -> bool | None:
        """Is it at or over the bar? None without a bar or a value."""
        if self.bar is None or self.value is None:
            return None
        return self.value >= self.bar if self.higher_is_better else self.value <= self.bar

    def as_json(self) -> dict[str, object]:
        """The form in build/bench.json."""
        found = asdict(self)
        del found["note"]
        return found


def pinned(command: Sequence[str]) -> list[str]:
    """The command on one core, where taskset is there."""
    taskset = shutil.which("taskset")
    return [taskset, "-c", str(max(os.sched_getaffinity(0))), *command] if taskset else list(command)


def best_seconds(command: Sequence[str], runs: int = RUNS) -> float:
    """Shortest wall time of the whole command; raises CalledProcessError with its output if it fails."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(pinned(command), check=True, capture_output=True, cwd=ROOT)
        best = min(best, time.perf_counter() - start)
    return best


def least_cpu_seconds(commands: Mapping[str, Sequence[str]], runs: int = RUNS) -> dict[str, float]:
    """Least processor time, user and system, of each whole command on one core. They take turns."""
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(runs):
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(pinned(command), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            least[name] = min(least[name], spent)
    return least


def peak_anonymous(command: Sequence[str]) -> int:
    """Most anonymous memory of the command, in bytes, looked at every few milliseconds."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"RssAnon:\s*(\d+) kB", status.read_text())
            peak = max(peak, int(found[1]) * 1024 if found else 0)
            time.sleep(0.003)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return peak


def warm(path: Path) -> None:
    """Read the whole file, so that it is in the page cache."""
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(1 << 24)
        while file.readinto(buffer):
            pass
