"""A process killed at every journal commit and every device step of an apply, a resume and a rollback.

The switches live in files, so they outlive the process as real ones do. SIGKILL strikes a forked child before and after
each commit of the journal and each change of a switch; whatever it leaves must be finished or undone exactly.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.drivers.fake_store import FileStore
from flowcheck_net.intent import MirrorSession
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
MOVED = session("fcn-gpt-0", "Ethernet5:rx")
FORMER = plan_for({"leaf1": [MOVED], "leaf2": [B], "leaf9": [A]})
PLAN = plan_for({"leaf1": [A, B], "leaf2": [A, B], "leaf3": [A]})
NAMES = ("leaf1", "leaf2", "leaf3", "leaf9")
FORMER_STATE = [(MOVED,), (B,), (), (A,)]
PLANNED_STATE = [(A, B), (A, B), (A,), ()]

Action = Callable[[Path], None]


def apply_it(state: Path) -> None:
    with Journal(state / "journal.sqlite") as journal:
        apply_plan(PLAN, "d1", journal, FakeFabric(state).reach())


def resume_it(state: Path) -> None:
    with Journal(state / "journal.sqlite") as journal:
        if journal.open_run():
            resume_plan(PLAN, "d1", journal, FakeFabric(state).reach())
        else:
            apply_plan(PLAN, "d1", journal, FakeFabric(state).reach())


def undo_it(state: Path) -> None:
    with Journal(state / "journal.sqlite") as journal:
        newest = journal.last_run("gpt")
        if newest is not None and newest.plan_digest == "d1":
            rollback(journal, FakeFabric(state).reach)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where that can be had: a killed process loses nothing there, and syncing hundreds of files is free."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def template(scratch: Path) -> Path:
    """FORMER is applied, beside foreign sessions that have counted packets."""
    state = scratch / "template"
    fabric = FakeFabric(state)
    for name in NAMES:
        fabric.seed(name, FOREIGN, session("fcn-bert-0", "Ethernet9:rx", to="Ethernet47"))
        fabric.offer(name, "Ethernet7", "rx", 17)
    with Journal(state / "journal.sqlite") as journal:
        apply_plan(FORMER, "d0", journal, fabric.reach())
    return state


def owned(state: Path) -> list[tuple[MirrorSession, ...]]:
    fabric = FakeFabric(state)
    return [fabric.state(name).owned for name in NAMES]


def foreign_bytes(state: Path) -> list[bytes]:
    found = []
    for name in NAMES:
        raw = json.loads((state / "fake" / f"{name}.json").read_text())
        theirs = [s for s in raw["sessions"] if not s["name"].startswith("fcn-gpt-")]
        found.append(json.dumps(theirs, sort_keys=True).encode())
    return found


def killed_at(point: int, action: Action, state: Path) -> bool:
    """Run ``action`` in a child that is killed at its ``point``-th durable change; False: it ended before that."""
    child = os.fork()
    if not child:
        code = 3
        try:
            _arm(point)
            action(state)
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


def _arm(point: int) -> None:
    left = point

    def tick() -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    commit, replace = Journal._transaction, FileStore._replace

    @contextmanager
    def ticking_commit(self: Journal) -> Iterator[sqlite3.Connection]:
        tick()
        with commit(self) as db:
            yield db
        tick()

    def ticking_replace(self: FileStore, content: str) -> None:
        tick()
        replace(self, content)
        tick()

    Journal._transaction = ticking_commit  # type: ignore[method-assign, assignment]
    FileStore._replace = ticking_replace  # type: ignore[method-assign]


def every_crash(action: Action, start: Path, scratch: Path) -> Iterator[Path]:
    """The state directories that a kill at every point of ``action`` leaves behind."""
    for point in range(1000):
        state = scratch / f"{action.__name__}-{point}"
        shutil.copytree(start, state)
        if not killed_at(point, action, state):
            assert point > 10, "the kill points were not hit"
            return
        yield state
    pytest.fail("the action never ends")


def test_after_a_crash_in_apply_resume_gives_the_plan_and_rollback_the_former_state(template: Path, scratch: Path):
    foreign = foreign_bytes(template)
    seen = set()
    for state in every_crash(apply_it, template, scratch):
        seen.add(str(owned(state)))
        other = state.with_name(f"{state.name}-undo")
        shutil.copytree(state, other)
        resume_it(state)
        assert owned(state) == PLANNED_STATE, state.name
        undo_it(other)
        assert owned(other) == FORMER_STATE, other.name
        assert foreign_bytes(state) == foreign_bytes(other) == foreign
    # The kills really fell between the steps: more states were left than the two good ones.
    assert len(seen) > 4


def test_after_a_crash_in_rollback_it_can_be_finished_or_the_plan_restored(template: Path, scratch: Path):
    foreign = foreign_bytes(template)
    applied = scratch / "applied"
    shutil.copytree(template, applied)
    apply_it(applied)
    for state in every_crash(undo_it, applied, scratch):
        other = state.with_name(f"{state.name}-redo")
        shutil.copytree(state, other)
        undo_it(state)
        assert owned(state) == FORMER_STATE, state.name
        resume_it(other)
        assert owned(other) == PLANNED_STATE, other.name
        assert foreign_bytes(state) == foreign_bytes(other) == foreign


def test_a_crash_in_the_resume_of_a_crashed_apply_is_no_worse(template: Path, scratch: Path):
    half = scratch / "half"
    shutil.copytree(template, half)
    # In the middle of leaf1's steps.
    assert killed_at(5, apply_it, half)
    assert owned(half) not in (FORMER_STATE, PLANNED_STATE)
    for state in every_crash(resume_it, half, scratch):
        other = state.with_name(f"{state.name}-undo")
        shutil.copytree(state, other)
        resume_it(state)
        assert owned(state) == PLANNED_STATE, state.name
        undo_it(other)
        assert owned(other) == FORMER_STATE, other.name
