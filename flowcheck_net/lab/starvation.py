"""How long programs of a lab waited for a processor: what a busy machine does to a switch in software, in seconds."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from flowcheck_net.lab.processes import Process

_LOOK = 0.02
_STARVED = 0.8
"""A thread that waits for that part of the time gets nothing done."""


class Starvation:
    """Watches processes for as long as the block lasts; where the kernel does not tell, nobody is starved."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self.worst = 0.0
        """Seconds that one of them was kept waiting on end."""
        self._processes = tuple(processes)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lab-starvation", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        since = time.monotonic()
        before = self._waited()
        hungry: dict[Path, float] = {}
        while not self._stop.wait(_LOOK):
            now, waited = time.monotonic(), self._waited()
            passed = now - since
            for task in waited.keys() & before.keys():
                kept = waited[task] - before[task] > _STARVED * passed
                hungry[task] = hungry.get(task, 0.0) + passed if kept else 0.0
                self.worst = max(self.worst, hungry[task])
            since, before = now, waited

    def _waited(self) -> dict[Path, float]:
        """Seconds that each thread has waited ready to run since its start (proc(5), schedstat, second number)."""
        found = {}
        for process in self._processes:
            for task in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                try:
                    found[task] = int(task.read_text(encoding="ascii").split()[1]) / 1e9
                except (OSError, IndexError, ValueError):
                    continue
        return found
