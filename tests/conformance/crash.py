"""A process that is killed (SIGKILL) at a chosen moment of an apply, a resume or a rollback: for any kind of switch.

The moments are: before and after each commit of the journal, before and after each call of a driver, and where the bed
knows them, before and after each change inside a switch. They are set by wrapping drivers and journal here, in the
child: the engine itself has no hook.
"""

import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, Self

from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Reach
from flowcheck_net.drivers.base import Driver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Capabilities, Counters, MirrorSession, Step, SwitchState
from tests.conformance.bench import JOB

Tick = Callable[[], None]


class Bed(Protocol):
    """Four switches that outlive the process, with foreign sessions on each."""

    names: Sequence[SwitchName]
    stride: int
    """Every so many moments one is tried."""
    filters: bool
    """Can sessions be limited to address pairs?"""

    def sources(self, switch: SwitchName) -> Sequence[PortName]:
        """Three ports or more that may be watched."""
        ...

    def destinations(self, switch: SwitchName) -> Sequence[PortName]:
        """Two that copies may be sent to."""
        ...

    def open(self, name: SwitchName, job: str) -> Driver:
        """A driver that is not connected yet."""
        ...

    def save(self, folder: Path) -> None:
        """Keep the whole state of all switches in a folder that is not there yet."""
        ...

    def load(self, folder: Path) -> None:
        """Put all switches back into that state."""
        ...

    def foreign_bytes(self) -> bytes:
        """All that the switches keep of foreign sessions, word for word, read without a driver."""
        ...

    def arm(self, tick: Tick) -> None:
        """Call ``tick`` before and after each change inside a switch, in this process; nothing where it cannot."""
        ...


class Ticking:
    """A driver, with a tick before and after each call."""

    def __init__(self, inner: Driver, tick: Tick) -> None:
        self._inner, self._tick = inner, tick

    def __enter__(self) -> Self:
        self._tick()
        self._inner.__enter__()
        self._tick()
        return self

    def __exit__(self, *exc: object) -> None:
        self._inner.__exit__(*exc)

    def capabilities(self) -> Capabilities:
        return self._inner.capabilities()

    def read(self) -> SwitchState:
        self._tick()
        found = self._inner.read()
        self._tick()
        return found

    def hold(self) -> AbstractContextManager[None]:
        return self._hold()

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with self._inner.hold():
            self._tick()
            yield
        self._tick()

    def write(self, steps: Sequence[Step]) -> None:
        self._tick()
        self._inner.write(steps)
        self._tick()

    def counters(self) -> Counters:
        return self._inner.counters()


class Scene:
    """A bed and the journal of a state directory."""

    def __init__(self, bed: Bed, state: Path) -> None:
        self.bed, self.state = bed, state
        self._tick: Tick = lambda: None

    def journal(self) -> Journal:
        return Journal(self.state / "journal.sqlite")

    def reach(self, job: str = JOB) -> Reach:
        return Reach(lambda a: Ticking(self.bed.open(a.name, job), self._tick), pause=0.05)

    def owned(self) -> list[tuple[MirrorSession, ...]]:
        found = []
        for name in self.bed.names:
            with self.bed.open(name, JOB) as driver:
                found.append(driver.read().owned)
        return found

    def remains(self) -> str:
        """All that a next start can know: the journal without times and processes, and the switches."""
        with self.journal() as journal:
            db = journal._db
            rows = [
                *db.execute("SELECT id, plan_digest, finished IS NULL, result, confirm_by IS NULL, confirmed FROM run"),
                *db.execute("SELECT * FROM run_switch"),
                *db.execute("SELECT * FROM step"),
            ]
        return str([tuple(row) for row in rows]) + str(self.owned())

    def save(self, folder: Path) -> Path:
        """Keep switches and journal."""
        self.bed.save(folder / "bed")
        shutil.copytree(self.state, folder / "state")
        return folder

    def load(self, folder: Path) -> None:
        """Put both back."""
        self.bed.load(folder / "bed")
        shutil.rmtree(self.state)
        shutil.copytree(folder / "state", self.state)

    def killed_at(self, point: int, action: Callable[["Scene"], None]) -> bool:
        """Run ``action`` in a child that is killed at its ``point``-th moment; False: it ended before that."""
        child = os.fork()
        if not child:
            code = 3
            try:
                self._arm(point)
                action(self)
                code = 0
            except BaseException:  # noqa: BLE001 - the child must not return into pytest
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.WEXITSTATUS(status) == 0
        return False

    def _arm(self, point: int) -> None:
        left = point

        def tick() -> None:
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        commit = Journal._transaction

        @contextmanager
        def ticking_commit(journal: Journal) -> Iterator[sqlite3.Connection]:
            tick()
            with commit(journal) as db:
                yield db
            tick()

        Journal._transaction = ticking_commit  # type: ignore[method-assign, assignment]
        self._tick = tick
        self.bed.arm(tick)
