"""Every moment of an apply, a resume or a rollback, taken in one run: for switches with a command line, without a kill.

What a process that is killed leaves behind is the journal as it is on disk and the switches as they are once its logins
are gone. Both are kept here before and after each line that is typed and each commit of the journal. So all moments can
be looked at in seconds; that a real kill leaves no more than this is what ``test_crash.py`` tries on some of them.
"""

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Reach
from flowcheck_net.drivers.base import Driver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.model.platforms import capabilities
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import SshBench
from tests.conformance.crash import Scene, Tick
from tests.doubles.ssh_box import Platform, Session
from tests.doubles.typist import Direct

NAMES = tuple(SwitchName(name) for name in ("leaf1", "leaf2", "leaf3", "leaf9"))


class TypedBed:
    """See ``crash.Bed``: four boxes in this process."""

    names: Sequence[SwitchName] = NAMES
    stride = 1

    def __init__(self, bench: type[SshBench]) -> None:
        self._bench = bench
        self._limits = replace(capabilities(bench.PLATFORM), session_limits=())
        self.filters = self._limits.filters
        self.boxes: dict[SwitchName, Platform] = {name: bench.platform() for name in NAMES}
        self._logins: dict[SwitchName, list[Session]] = {name: [] for name in NAMES}
        self._left: dict[SwitchName, bytes] = {}
        self.tick: Tick = lambda: None

    def sources(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.sources``."""
        return self._bench.sources[:3]

    def destinations(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.destinations``."""
        return self._bench.destinations[:2]

    def open(self, name: SwitchName, job: str) -> Driver:
        """See ``Bed.open``."""
        logins = self._logins[name]

        def tick() -> None:
            self._left.pop(name, None)
            self.tick()

        return Direct(self._bench, self.boxes[name], job, name=name, limits=self._limits, tick=tick, logins=logins)

    def forget(self) -> None:
        """A hand changed the boxes."""
        self._left.clear()

    def remains(self) -> dict[SwitchName, bytes]:
        """All boxes, as they are when the logins are gone."""
        for name in NAMES:
            if name not in self._left:
                box, logins = deepcopy((self.boxes[name], self._logins[name]))
                for login in logins:
                    login.close()
                self._left[name] = pickle.dumps(vars(box))
        return dict(self._left)

    def put(self, remains: dict[SwitchName, bytes]) -> None:
        """Put all boxes into that state."""
        for name, state in remains.items():
            vars(self.boxes[name]).update(pickle.loads(state))
            self._left[name] = state

    def save(self, folder: Path) -> None:
        """See ``Bed.save``."""
        folder.mkdir(parents=True)
        (folder / "boxes").write_bytes(pickle.dumps(self.remains()))

    def load(self, folder: Path) -> None:
        """See ``Bed.load``."""
        self.put(pickle.loads((folder / "boxes").read_bytes()))

    def foreign_bytes(self) -> bytes:
        """See ``Bed.foreign_bytes``."""
        return b"\n".join(_Hand(self._bench, box).foreign_bytes() for box in self.boxes.values())

    def arm(self, tick: Tick) -> None:
        """See ``Bed.arm``."""
        self.tick = tick


class _Hand:
    """The bench's own look at a box that has no server."""

    def __init__(self, bench: type[SshBench], platform: Platform) -> None:
        self._bench = bench.__new__(bench)
        self._bench.box = _Bare(platform)  # type: ignore[assignment]

    def foreign_bytes(self) -> bytes:
        return self._bench.foreign_bytes()


class _Bare:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform


Left = tuple[dict[SwitchName, bytes], dict[str, bytes]]
"""Boxes, and files of the journal by name."""


class TypedScene(Scene):
    """A bed of boxes in this process, and the journal of a state directory."""

    bed: TypedBed

    def reach(self, job: str = JOB) -> Reach:
        """One switch after the other: the moments are the same ones each time."""
        return Reach(lambda a: self.bed.open(a.name, job), workers=1, pause=0)

    def put(self, left: Left) -> None:
        """Let the next start find this."""
        boxes, files = left
        self.bed.put(boxes)
        for old in self.state.iterdir():
            old.unlink()
        for name, content in files.items():
            (self.state / name).write_bytes(content)

    def moments(self, action: Callable[[Scene], None]) -> tuple[Left, ...]:
        """Carry the action out; what was left at each of its moments, the different ones of them."""
        found: dict[str, Left] = {}

        def tick() -> None:
            boxes = self.bed.remains()
            # The index of the write-ahead log is made anew from it.
            files = {p.name: p.read_bytes() for p in self.state.iterdir() if not p.name.endswith("-shm")}
            seen = hashlib.sha256(pickle.dumps((sorted(boxes.items()), sorted(files.items())))).hexdigest()
            found.setdefault(seen, (boxes, files))

        with _ticking(tick):
            self.bed.arm(tick)
            action(self)
            self.bed.arm(lambda: None)
        return tuple(found.values())


@contextmanager
def _ticking(tick: Tick) -> Iterator[None]:
    """Before and after each commit of a journal."""
    commit = Journal._transaction

    @contextmanager
    def ticking(journal: Journal) -> Iterator[Connection]:
        tick()
        with commit(journal) as db:
            yield db
        tick()

    Journal._transaction = ticking  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Journal._transaction = commit  # type: ignore[method-assign]
