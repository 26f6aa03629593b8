"""A change that undoes itself unless it is confirmed: the deadline in the journal, the guardian, the next start."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from flowcheck_net.apply.confirm import confirm, undo_overdue
from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.apply.guardian import PATIENCE, guard
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.journal_file import _FROM_VERSION_1
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.apply.run import Run, RunResult
from flowcheck_net.cli.guardian import LOG, start_guardian
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import ConnectError, Drift, JournalError, NotRolledBack, RolledBack, StalePlan
from flowcheck_net.intent import MirrorSession
from flowcheck_net.model.platforms import capabilities
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
FORMER = plan_for({"leaf1": [A]})
PLAN = plan_for({"leaf1": [A, B], "leaf2": [B]})
FORMER_STATE = {"leaf1": (A,), "leaf2": ()}
PLANNED_STATE = {"leaf1": (A, B), "leaf2": (B,)}


class Bed:
    """A fabric on which FORMER stands and PLAN was applied, to be confirmed within 300 s."""

    def __init__(self, directory: Path) -> None:
        self.fabric = FakeFabric()
        for name in PLANNED_STATE:
            self.fabric.seed(name, FOREIGN)
        self.journal = Journal(directory / "journal.sqlite")
        apply_plan(FORMER, "d0", self.journal, self.fabric.reach())
        apply_plan(PLAN, "d1", self.journal, self.fabric.reach(), confirm_within=300, guard=self.guards.append)

    guards: list[int] = []  # noqa: RUF012 - one bed a test, cleared by the fixture

    def owned(self) -> dict[str, tuple[MirrorSession, ...]]:
        return {name: self.fabric.state(name).owned for name in PLANNED_STATE}

    def confirm(self, later: float = 0, digest: str = "d1") -> None:
        confirm(self.journal, "gpt", digest, self.fabric.reach(), lambda: time.time() + later)

    def next_start(self, later: float) -> None:
        undo_overdue(self.journal, self.fabric.reach, lambda: time.time() + later)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    Bed.guards.clear()
    made = Bed(tmp_path)
    with made.journal:
        yield made


def test_a_confirmed_change_stays(bed: Bed):
    assert bed.guards == [2]
    assert "to be undone at 20" in bed.fabric.events[-1].detail
    bed.confirm()
    bed.next_start(later=301)
    assert bed.owned() == PLANNED_STATE
    assert bed.journal.unconfirmed() is None
    with pytest.raises(JournalError, match=r"run 2 of job gpt.* is confirmed already"):
        bed.confirm()


def test_the_next_start_undoes_an_unconfirmed_change_but_not_before_its_time(bed: Bed):
    bed.next_start(later=299)
    assert bed.owned() == PLANNED_STATE
    bed.next_start(later=301)
    assert bed.owned() == FORMER_STATE
    assert bed.journal.run(2).result is RunResult.ROLLED_BACK  # type: ignore[union-attr]
    bed.next_start(later=301)
    assert bed.owned() == FORMER_STATE


def test_nothing_else_begins_before_it_is_settled(bed: Bed):
    for plan, digest in ((PLAN, "d1"), (FORMER, "d0")):
        with pytest.raises(JournalError, match="awaits its confirmation until 20"):
            apply_plan(plan, digest, bed.journal, bed.fabric.reach())
    rollback(bed.journal, bed.fabric.reach)
    assert bed.owned() == FORMER_STATE
    apply_plan(PLAN, "d1", bed.journal, bed.fabric.reach())
    assert bed.journal.unconfirmed() is None


def test_who_comes_after_the_guardian_learns_that_the_change_was_undone(bed: Bed):
    bed.next_start(later=301)
    with pytest.raises(RolledBack, match=r"run 2 of job gpt.* was not confirmed by 20.*, and is undone already"):
        bed.confirm()


def test_too_late_is_refused_and_undone_although_the_guardian_is_dead(bed: Bed):
    with pytest.raises(RolledBack, match="too late, it is undone"):
        bed.confirm(later=301)
    assert bed.owned() == FORMER_STATE


def test_another_plan_cannot_be_confirmed(bed: Bed):
    with pytest.raises(StalePlan, match="applied plan d1, this one is d0"):
        bed.confirm(digest="d0")


def test_what_was_changed_since_is_neither_confirmed_nor_undone_over_somebody_elses_head(bed: Bed):
    bed.fabric.remove("leaf2", B.name)
    stranger = session(B.name, "Ethernet5:rx")
    bed.fabric.seed("leaf2", stranger)
    with pytest.raises(Drift, match=r"leaf2: fcn-gpt-1 \(job gpt\) differs"):
        bed.confirm()
    with pytest.raises(NotRolledBack, match="changed by someone else since"):
        bed.next_start(later=301)
    assert bed.fabric.state("leaf2").owned == (stranger,)


def test_a_switch_that_lost_the_change_cannot_be_confirmed_although_it_is_as_before(bed: Bed):
    bed.fabric.remove("leaf2", B.name)
    with pytest.raises(Drift, match="is missing"):
        bed.confirm()
    bed.next_start(later=301)
    assert bed.owned() == FORMER_STATE


def test_a_change_that_cut_the_way_to_a_switch_cannot_be_confirmed(bed: Bed):
    bed.fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE))
    with pytest.raises(ConnectError, match="leaf2"):
        bed.confirm()
    assert bed.journal.unconfirmed() is not None


def test_a_run_that_was_cut_off_is_undone_at_its_deadline_and_cannot_be_confirmed(bed: Bed):
    bed.journal.reopen(2)
    with pytest.raises(JournalError, match="was cut off"):
        bed.confirm()
    bed.next_start(later=301)
    assert bed.owned() == FORMER_STATE


def test_no_guardian_no_change(tmp_path: Path):
    fabric = FakeFabric()

    def none(_: int) -> None:
        raise JournalError("no guardian")

    with Journal(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(JournalError, match="no guardian"):
            apply_plan(PLAN, "d1", journal, fabric.reach(), confirm_within=300, guard=none)
        assert fabric.state("leaf1").owned == ()
        assert journal.open_run() is None
        assert journal.unconfirmed() is None


class Time:
    """A wall clock that can be set, beside one that cannot."""

    def __init__(self, at_second: dict[int, Callable[[], object]] | None = None) -> None:
        self.start, self.passed, self.wrong = time.time(), 0.0, 0.0
        self._at_second = at_second or {}

    def wall(self) -> float:
        return self.start + self.passed + self.wrong

    def steady(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
        for second in [s for s in self._at_second if s <= self.passed]:
            self._at_second.pop(second)()

    def guard(self, bed: Bed) -> bool:
        return guard(
            bed.journal,
            2,
            bed.fabric.reach,
            bed.fabric.events.append,
            clock=self.wall,
            steady=self.steady,
            sleep=self.sleep,
        )


def test_the_guardian_undoes_at_the_deadline(bed: Bed):
    clock = Time()
    assert clock.guard(bed)
    assert bed.owned() == FORMER_STATE
    assert 299 <= clock.passed <= 302


def test_the_guardian_leaves_a_confirmed_change(bed: Bed):
    clock = Time({200: bed.confirm})
    assert clock.guard(bed)
    assert bed.owned() == PLANNED_STATE
    assert 200 <= clock.passed <= 202


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_wall_clock_that_is_set_does_not_put_the_deadline_off(bed: Bed, hours: int):
    clock = Time()

    def set_clock() -> None:
        clock.wrong = 3600.0 * hours

    clock._at_second[100] = set_clock
    assert clock.guard(bed)
    assert bed.owned() == FORMER_STATE
    assert clock.passed <= 302


def test_the_guardian_waits_for_a_change_under_way_and_tries_again(bed: Bed):
    hold = bed.journal.exclusive()
    hold.__enter__()
    clock = Time({350: lambda: hold.__exit__(None, None, None)})
    assert clock.guard(bed)
    assert bed.owned() == FORMER_STATE
    assert any(e.result == "not undone" and "another change is under way" in e.detail for e in bed.fabric.events)


def test_a_journal_that_cannot_be_read_for_a_while_does_not_end_the_watch(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    whole, failing = bed.journal.run, [True] * 3

    def full_disk(run_id: int) -> Run | None:
        if failing:
            failing.pop()
            raise JournalError("no room")
        return whole(run_id)

    monkeypatch.setattr(bed.journal, "run", full_disk)
    assert Time().guard(bed)
    assert bed.owned() == FORMER_STATE
    assert [e.detail for e in bed.fabric.events if e.result == "not undone"] == ["no room"] * 3


def test_the_guardian_gives_up_after_an_hour_and_leaves_the_run_to_the_next_start(bed: Bed):
    bed.fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE, times=10_000))
    clock = Time()
    assert not clock.guard(bed)
    assert clock.passed > PATIENCE
    bed.fabric.heal()
    bed.next_start(later=301)
    assert bed.owned() == FORMER_STATE


def test_a_killed_apply_is_undone_by_a_real_guardian(tmp_path: Path):
    state = tmp_path / "state"
    fabric = FakeFabric(state, capabilities("fake"))
    fabric.seed("leaf1", FOREIGN)
    child = os.fork()
    if not child:
        driver = type(fabric.open("leaf1"))
        whole = driver.write

        def die_after(self: object, steps: object) -> None:
            whole(self, steps)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)

        driver.write = die_after  # type: ignore[method-assign]
        try:
            with Journal(state / "journal.sqlite") as journal:
                watch = partial(start_guardian, state)
                apply_plan(PLAN, "d1", journal, fabric.reach(), confirm_within=1.0, guard=watch)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert fabric.state("leaf1").owned == (A, B)
    log = state / LOG
    for _ in range(600):
        if "settled" in log.read_text():
            break
        time.sleep(0.05)
    assert fabric.state("leaf1").owned == ()
    assert fabric.state("leaf1").foreign == (FOREIGN,)
    assert "is undone" in log.read_text()
    assert json.loads((state / "fake" / "leaf1.json").read_text())["sessions"][0]["name"] == FOREIGN.name


def test_a_journal_of_version_1_is_brought_up_to_date(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        apply_plan(FORMER, "d0", journal, FakeFabric().reach())
    db = sqlite3.connect(path)
    for column in ("confirm_within", "confirm_by", "confirmed"):
        assert f"ADD COLUMN {column}" in _FROM_VERSION_1
        db.execute(f"ALTER TABLE run DROP COLUMN {column}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    with Journal(path) as journal:
        run = journal.last_run("gpt")
        assert run is not None
        assert (run.plan_digest, run.confirm_by, run.unconfirmed) == ("d0", None, False)
    with Journal(path) as journal:
        assert journal.last_run("gpt") == run
