"""The real receiver at the checkpoint nodes: ``flowcheck-net receive``, as a user would start it there."""

import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from flowcheck_net.errors import LabError
from flowcheck_net.ids import CapturePort
from flowcheck_net.lab.build import RECEIVER, Lab
from flowcheck_net.lab.processes import Process, process_of
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.records_merge import merge
from flowcheck_net.receive.records_read import read_records
from flowcheck_net.receive.records_write import write_records

_PROGRAM = "import sys; from flowcheck_net.cli.main import run; sys.argv[0] = 'flowcheck-net'; run()"
_STARTED = "receiving: "
"""What it says each time that it has begun to receive."""
_INTERVAL = "0.2"
"""Seconds: finished messages are written so often, and so little is lost with a killed one."""
_SLOTS = "16"
"""Iterations whose payload is in memory at once: they follow one another quickly here."""
_SETTLED = 2.5
"""A receiver that dies within 2 s of its start is taken for one that cannot run, and not started again."""
_START, _END = 60.0, 60.0
"""Seconds that it may take."""


class LiveReceivers:
    """One receiver for each node that the plan mirrors to."""

    def __init__(
        self, lab: Lab, plan: Path, captures: Sequence[CapturePort], folder: Path, payload: Path | None = None
    ) -> None:
        """``captures``: of the plan; ``folder``: for the records of each node; ``payload``: for each node's boards."""
        self._payload = payload
        self._lab = lab
        self._plan = plan
        self._folder = folder
        self._nics = {node: sorted(n for o, _, n in (c.partition(":") for c in captures) if o == node)
                      for node in lab.drawn.nodes}  # fmt: skip
        self._starts: dict[str, int] = {}
        self._begun: dict[str, float] = {}

    def start(self, node: str) -> None:
        """Start it, or wait until it has come again by itself."""
        if not self._nics[node]:
            return
        name = _name(node)
        if name not in self._lab.place.processes:
            ports = [word for nic in self._nics[node] for word in ("--port", f"{nic}=af_packet:{nic}")]
            words = ["receive", "--plan", str(self._plan), "--node", node, *ports, "--interval", _INTERVAL]
            if self._payload is not None:
                words += ["--payload", str(self._payload / node), "--payload-slots", _SLOTS]
            output = self._output(node)
            output.unlink(missing_ok=True)
            shutil.rmtree(_spool(output), ignore_errors=True)
            self._starts[node] = self._lab.place.text(name).count(_STARTED)
            self._lab.place.spawn(name, [sys.executable, "-c", _PROGRAM, *words, "-o", str(output)], inside=node)
        self._starts[node] += 1
        self._lab.place.expect(
            name,
            lambda: self._lab.place.text(name).count(_STARTED) >= self._starts[node],
            f"receiver of {node}",
            _START,
        )
        self._begun[node] = time.monotonic()

    def kill(self, node: str) -> None:
        """SIGKILL for the program that polls the ports; its supervisor starts another one."""
        if node not in self._begun:
            raise LabError(f"nothing is mirrored to {node}", hint="kill the receiver of another node")
        time.sleep(max(0.0, self._begun[node] + _SETTLED - time.monotonic()))
        for child in _children(self._lab.place.processes[_name(node)]):
            child.tell(signal.SIGKILL)

    def stop(self) -> None:
        """Each empties its queues and writes its records."""
        running = [_name(node) for node in self._begun]
        for name in running:
            self._lab.place.processes[name].tell(signal.SIGTERM)
        for name in running:
            self._lab.place.processes[name].wait(_END)
            self._lab.place.end(name, signal.SIGKILL)

    def records(self, output: Path) -> Records:
        """Of all nodes together, also written to ``output``."""
        for node in self._begun:
            if not self._output(node).exists():
                raise LabError(
                    f"the receiver of {node} wrote no records: {self._lab.place.said(_name(node))}",
                    hint=f"what it left is in {_spool(self._output(node))}",
                )
        merged = merge([(node, read_records(self._output(node))) for node in self._begun])
        write_records(output, merged)
        return merged

    def _output(self, node: str) -> Path:
        return self._folder / f"{node}.fcr"


def _spool(output: Path) -> Path:
    """Where a receiver keeps what it has until its records are written."""
    return output.with_name(f"{output.name}.spool")


def _name(node: str) -> str:
    return f"{node}{RECEIVER}"


def _children(parent: Process) -> Iterator[Process]:
    for task in Path(f"/proc/{parent.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            for pid in (task / "children").read_text(encoding="ascii").split():
                yield process_of(int(pid))
