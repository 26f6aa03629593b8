"""The fake switch in memory and in a file, for the conformance suite."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.drivers.fake import FakeDriver
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.drivers.fake_store import FileStore
from flowcheck_net.drivers.session_json import session_to_json
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, Remark, RemarkKind
from tests.conformance.bench import JOB, Trouble
from tests.doubles.switches import FOREIGN, FakeFabric
from tests.doubles.switches import session as named

_FAULTS = {
    Trouble.REFUSE: FaultKind.REFUSE,
    Trouble.HALF: FaultKind.HALF,
    Trouble.LOST_BEFORE: FaultKind.LOST_BEFORE,
    Trouble.LOST_AFTER: FaultKind.LOST_AFTER,
}


class FakeBed:
    """Four fake switches in files; see ``crash.Bed``."""

    filters = True
    names: Sequence[SwitchName] = tuple(SwitchName(name) for name in ("leaf1", "leaf2", "leaf3", "leaf9"))
    stride = 1

    def __init__(self, state_dir: Path) -> None:
        self._files = state_dir / "fake"
        self._fabric = FakeFabric(state_dir)
        for name in self.names:
            self._fabric.seed(name, *FakeBench.foreign)
            self._fabric.offer(name, "Ethernet7", "rx", 17)

    def sources(self, _: SwitchName) -> Sequence[PortName]:
        """See ``Bed.sources``."""
        return [PortName(f"Ethernet{n}") for n in (1, 2, 5)]

    def destinations(self, _: SwitchName) -> Sequence[PortName]:
        """See ``Bed.destinations``."""
        return [PortName("Ethernet31"), PortName("Ethernet32")]

    def open(self, name: SwitchName, job: str) -> FakeDriver:
        """See ``Bed.open``."""
        return self._fabric.open(name, job)

    def save(self, folder: Path) -> None:
        """See ``Bed.save``."""
        shutil.copytree(self._files, folder)

    def load(self, folder: Path) -> None:
        """See ``Bed.load``."""
        shutil.rmtree(self._files)
        shutil.copytree(folder, self._files)

    def foreign_bytes(self) -> bytes:
        """See ``Bed.foreign_bytes``."""
        found = []
        for name in self.names:
            raw = json.loads((self._files / f"{name}.json").read_text())
            found.append([s for s in raw["sessions"] if not s["name"].startswith(f"fcn-{JOB}-")])
        return json.dumps(found, sort_keys=True).encode()

    def arm(self, tick: Callable[[], None]) -> None:
        """See ``Bed.arm``: a step of a write is a file replaced."""
        replace = FileStore._replace

        def ticking_replace(store: FileStore, content: str) -> None:
            tick()
            replace(store, content)
            tick()

        FileStore._replace = ticking_replace  # type: ignore[method-assign, assignment]


class FakeBench:
    """A fake switch ``leaf1`` that holds four sessions, two of them foreign."""

    driver_class: type = FakeDriver
    atomic = False
    lock = True
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (named("fcn-bert-0", "Ethernet9:rx", to="Ethernet47"), FOREIGN)

    def __init__(self, state_dir: Path | None) -> None:
        self._fabric = FakeFabric(state_dir)
        self._fabric.seed("leaf1", *self.foreign)
        self._fabric.offer("leaf1", "Ethernet7", "rx", 17)

    def open(self, job: str = JOB) -> FakeDriver:
        """See ``Bench.open``."""
        return self._fabric.open("leaf1", job)

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """See ``Bench.as_foreign``."""
        return session

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        names = {s.name for s in self.foreign}
        with self._fabric.store("leaf1").transaction() as switch:
            theirs = [(session_to_json(s), switch.packets(n)) for n, s in switch.sessions.items() if n in names]
        return json.dumps(theirs).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        with self._fabric.store("leaf1").transaction() as switch:
            switch.offer(port, direction, packets, flow)

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        fault = (
            Fault(Call.CONNECT, FaultKind.UNREACHABLE)
            if kind is Trouble.UNREACHABLE
            else Fault(Call.WRITE, _FAULTS[kind], step)
        )
        self._fabric.script("leaf1", fault)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        with self._fabric.store("leaf1").transaction() as switch:
            switch.remarks.append(Remark(RemarkKind.SAMPLING, "1 packet in 16", session=session.name))
        return RemarkKind.SAMPLING

    def restart(self) -> None:
        """See ``Bench.restart``."""
        with self._fabric.store("leaf1").transaction() as switch:
            switch.restart(f"{switch.restart_mark}+")


@contextmanager
def bed_in_files(scratch: Path) -> Iterator[FakeBed]:
    """Files outlive the process as real switches do."""
    yield FakeBed(scratch)


@contextmanager
def in_memory(_: Path) -> Iterator[FakeBench]:
    """As long as the process."""
    yield FakeBench(None)


@contextmanager
def in_file(scratch: Path) -> Iterator[FakeBench]:
    """As the command line has it."""
    yield FakeBench(scratch)
