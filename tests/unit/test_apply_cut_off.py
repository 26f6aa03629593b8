"""A change that is broken off while it runs: by the user, by a full disk, by a guardian that cannot start."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.apply.run import StepStatus, SwitchResult
from flowcheck_net.cli.guardian import LOG, start_guardian
from flowcheck_net.drivers.fake import FakeDriver
from flowcheck_net.errors import JournalError, NotRolledBack
from flowcheck_net.ids import SwitchName
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
NAMES = [f"leaf{n:02}" for n in range(20)]
PLAN = plan_for({name: [A] for name in NAMES})


class FullDisk(Journal):
    """Takes so many changes of a run under way, and then no more."""

    room = 1000

    def _take(self) -> None:
        self.room -= 1
        if self.room < 0:
            raise self._unwritable("database or disk is full")

    def mark_steps(self, run_id: int, switch: SwitchName, status: StepStatus) -> None:
        self._take()
        super().mark_steps(run_id, switch, status)

    def settle(self, run_id: int, switch: SwitchName, result: SwitchResult) -> None:
        self._take()
        super().settle(run_id, switch, result)


@pytest.fixture
def fabric() -> FakeFabric:
    made = FakeFabric()
    for name in NAMES:
        made.seed(name, FOREIGN)
    return made


def written(fabric: FakeFabric) -> int:
    return sum(bool(fabric.state(name).owned) for name in NAMES)


@pytest.mark.parametrize("room", [0, 1, 2, 3, 8])
def test_a_disk_that_fills_in_the_middle_stops_the_change_and_says_that_the_run_is_open(
    tmp_path: Path, fabric: FakeFabric, room: int
):
    with FullDisk(tmp_path / "journal.sqlite") as journal:
        journal.room = room
        with pytest.raises(NotRolledBack, match="run 1 stays open") as told:
            apply_plan(PLAN, "d", journal, fabric.reach(workers=2))
        assert "with room" in told.value.hint
        assert "rollback" in told.value.hint
        assert written(fabric) <= room
        assert fabric.events[-1].result == "not finished"
        journal.room = 1000
        if room % 2:
            resume_plan(PLAN, "d", journal, fabric.reach())
            assert written(fabric) == 20
        journal.room = 1
        if room > 1:
            with pytest.raises(NotRolledBack, match="run 1 stays open"):
                rollback(journal, fabric.reach)
        journal.room = 1000
        rollback(journal, fabric.reach)
    assert written(fabric) == 0


@pytest.mark.parametrize("fault", [KeyboardInterrupt, KeyError])
def test_after_what_nobody_foresaw_no_further_switch_is_begun(
    tmp_path: Path, fabric: FakeFabric, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], BaseException]
):
    write = FakeDriver.write

    def broken(driver: FakeDriver, steps: object) -> None:
        if driver._switch == "leaf02":
            raise fault()
        write(driver, steps)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeDriver, "write", broken)
    with Journal(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(NotRolledBack if fault is KeyboardInterrupt else KeyError):
            apply_plan(PLAN, "d", journal, fabric.reach(workers=1))
        assert written(fabric) == 2
        monkeypatch.undo()
        rollback(journal, fabric.reach)
    assert written(fabric) == 0


def test_a_guardian_that_cannot_write_its_log_is_told_before_anything_is_written(tmp_path: Path, fabric: FakeFabric):
    (tmp_path / LOG).mkdir()
    with Journal(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(JournalError, match="nothing was written") as told:
            apply_plan(
                PLAN, "d", journal, fabric.reach(), confirm_within=60, guard=lambda run: start_guardian(tmp_path, run)
            )
        assert LOG in told.value.hint
        assert journal.open_run() is None
    assert written(fabric) == 0


def test_the_guardian_runs_no_code_of_the_directory_it_is_started_in(monkeypatch: pytest.MonkeyPatch):
    """Root applies from a directory that others can write to."""
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        (there / "sqlite3.py").write_text("raise SystemExit('not ours')\n")
        with Journal(there / "state" / "journal.sqlite"):
            pass
        monkeypatch.chdir(there)
        # No such run: it is settled at once.
        start_guardian(there / "state", 1)
