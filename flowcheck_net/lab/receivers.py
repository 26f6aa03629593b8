"""What takes the copies at the checkpoint nodes: one receiver a node, started, killed, and started again."""

import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from flowcheck_net.errors import LabError
from flowcheck_net.lab.build import RECEIVER, Lab
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import CaptureIncomplete, replay_to_file


class Receivers(Protocol):
    """The receivers of all checkpoint nodes."""

    def start(self, node: str) -> None:
        """Begin to receive at a node; it has begun when this returns."""

    def kill(self, node: str) -> None:
        """SIGKILL."""

    def stop(self) -> None:
        """End all of them in order."""

    def records(self, output: Path) -> Records:
        """What all of them received, also written to ``output``."""


class CaptureReceivers:
    """Capture processes; their files become records by ``replay`` afterwards."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._folder = folder
        self._starts: Counter[str] = Counter()
        self.files: list[Path] = []

    def start(self, node: str) -> None:
        """A capture of all ports of the node into a new file."""
        self._starts[node] += 1
        path = self._folder / f"{node}-{self._starts[node]}.pcapng"
        path.unlink(missing_ok=True)
        ports = [f"{node}:{nic}={nic}" for nic in self._lab.drawn.captures(node)]
        words = [sys.executable, "-m", "flowcheck_net.lab.capture", str(path), *ports]
        self._lab.place.spawn(f"{node}{RECEIVER}", words, inside=node)
        self._lab.place.expect(f"{node}{RECEIVER}", path.exists, f"receiver of {node}")
        self.files.append(path)

    def kill(self, node: str) -> None:
        """What the process had not written yet is lost."""
        self._lab.place.end(f"{node}{RECEIVER}", signal.SIGKILL)

    def stop(self) -> None:
        """They take what waits, and write what the kernel dropped. Raises LabError where one had died by itself."""
        died = []
        for node in self._lab.drawn.nodes:
            name = f"{node}{RECEIVER}"
            if name in self._lab.place.processes and not self._lab.place.processes[name].alive:
                died.append(f"the receiver of {node} died: {self._lab.place.said(name)}")
            self._lab.place.end(name, signal.SIGTERM)
        if died:
            raise LabError("; ".join(died))

    def records(self, output: Path) -> Records:
        """Of all files, in the order of their starts; what a killed one has cut off is told as a warning of them."""
        try:
            return replay_to_file(self.files, output)
        except CaptureIncomplete as cut:
            return cut.records


def begin(receivers: Receivers, nodes: Sequence[str]) -> None:
    """Start the receivers of all nodes."""
    for node in nodes:
        receivers.start(node)
