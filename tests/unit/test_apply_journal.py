"""The journal file: it keeps what it is told, and refuses what is not its own."""

import fcntl
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.run import Run, RunResult, RunSwitch, StepStatus, SwitchResult
from flowcheck_net.errors import JournalError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchState
from flowcheck_net.plan.diff import diff
from tests.doubles.switches import FOREIGN, address, session

A = session("fcn-gpt-0", "Ethernet1:rx", filters=[("10.0.0.1", "10.0.0.2")])
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
BEFORE = SwitchState(owned=(A,), foreign=(FOREIGN,))
STEPS = diff([B], BEFORE)


def run_switch(name: str, *, before: SwitchState = BEFORE, wanted=(B,)) -> RunSwitch:
    steps = diff(wanted, before)
    return RunSwitch(address(name), before, tuple(wanted), steps, (StepStatus.PLANNED,) * len(steps))


def open_run(journal: Journal, job: str | None = None) -> Run:
    """The open run, or the last of a job."""
    run = journal.last_run(job) if job else journal.open_run()
    assert run is not None
    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite"


def test_a_run_is_read_back_as_it_was_begun_by_another_process_too(path: Path):
    given = (run_switch("leaf1"), run_switch("leaf2", wanted=(A, B)))
    with Journal(path) as journal:
        run_id = journal.begin("digest", "gpt", given)
    with Journal(path) as journal:
        run = journal.open_run()
    assert run is not None
    assert (run.id, run.plan_digest, run.job, run.finished, run.result) == (run_id, "digest", "gpt", None, None)
    assert run.switches == given
    assert " pid " in run.who


def test_settings_are_the_durable_ones(path: Path):
    with Journal(path) as journal:
        pragmas = [journal._pragma(p) for p in ("journal_mode", "synchronous", "foreign_keys")]
    assert pragmas == ["wal", 2, 1]


def test_statuses_and_results(path: Path):
    with Journal(path) as journal:
        run_id = journal.begin("digest", "gpt", [run_switch("leaf1"), run_switch("leaf2")])
        journal.mark_steps(run_id, SwitchName("leaf1"), StepStatus.INTENDED)
        one, two = open_run(journal).switches
        assert (one.in_flight, one.touched, two.in_flight, two.touched) == (True, True, False, False)
        journal.settle(run_id, SwitchName("leaf1"), SwitchResult.WRITTEN)
        assert open_run(journal).switches[0] == replace(
            one, statuses=(StepStatus.DONE, StepStatus.DONE), result=SwitchResult.WRITTEN
        )
        journal.settle(run_id, SwitchName("leaf1"), SwitchResult.RESTORED)
        assert open_run(journal).switches[0].statuses == (StepStatus.UNDONE, StepStatus.UNDONE)
        journal.finish(run_id, RunResult.ROLLED_BACK)
        assert journal.open_run() is None
        assert open_run(journal, "gpt").result is RunResult.ROLLED_BACK
        assert journal.last_run("bert") is None
        journal.reopen(run_id)
        assert open_run(journal).id == run_id


def test_a_second_run_is_refused_while_one_is_open(path: Path):
    with Journal(path) as journal:
        journal.begin("a" * 64, "gpt", [run_switch("leaf1")])
        with pytest.raises(JournalError, match=r"run 1 of job gpt, begun 20\d\d-.*\+00:00 by .*@.* pid \d+") as caught:
            journal.begin("b", "bert", [])
        assert caught.value.exit_code == 2
        assert "--resume" in caught.value.hint
        # Even around our own check, the database itself allows one open run only.
        with pytest.raises(sqlite3.IntegrityError):
            journal._db.execute("INSERT INTO run (plan_digest, job, who, started) VALUES ('x', 'x', 'x', 'x')")


def test_two_processes_cannot_change_the_fabric_at_once(path: Path):
    with (
        Journal(path) as one,
        Journal(path) as two,
        one.exclusive(),
        pytest.raises(JournalError, match=r"another change is under way: .*@.* pid \d+ since 20"),
        two.exclusive(),
    ):
        pass
    with Journal(path) as three, three.exclusive():
        pass


def test_the_lock_of_a_process_that_is_gone_is_free(path: Path):
    with Journal(path) as journal:
        lock = path.with_suffix(".lock")
        lock.write_text("somebody@somewhere pid 1 since long ago\n")
        with journal.exclusive(), lock.open() as held, pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_leftovers_are_switches_where_the_newest_run_left_sessions(path: Path):
    with Journal(path) as journal:

        def run(result: RunResult, job: str = "gpt", **switches: tuple[RunSwitch, SwitchResult]) -> None:
            run_id = journal.begin("d", job, [s for s, _ in switches.values()])
            for name, (_, settled) in switches.items():
                journal.settle(run_id, SwitchName(name), settled)
            journal.finish(run_id, result)

        nothing = SwitchState((), (FOREIGN,))
        run(
            RunResult.APPLIED,
            written=(run_switch("written"), SwitchResult.WRITTEN),
            cleared=(run_switch("cleared", wanted=()), SwitchResult.WRITTEN),
            again=(run_switch("again"), SwitchResult.WRITTEN),
        )
        run(
            RunResult.ROLLED_BACK,
            again=(run_switch("again", before=nothing), SwitchResult.RESTORED),
            restored=(run_switch("restored"), SwitchResult.RESTORED),
            untouched=(run_switch("untouched", before=nothing), SwitchResult.PENDING),
            gone=(run_switch("gone"), SwitchResult.FORGOTTEN),
        )
        run(RunResult.APPLIED, job="bert", theirs=(run_switch("theirs"), SwitchResult.WRITTEN))
        assert [a.name for a in journal.leftovers("gpt", [])] == ["restored", "written"]
        assert [a.name for a in journal.leftovers("gpt", [SwitchName("written")])] == ["restored"]
        journal.begin("d", "gpt", [run_switch("cut-off", before=nothing)])
        assert "cut-off" in {a.name for a in journal.leftovers("gpt", [])}


def test_a_file_of_another_program_is_refused_and_not_changed(path: Path):
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="database of another program"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_journal_of_a_newer_version_is_refused(path: Path):
    Journal(path).__exit__()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JournalError, match="version 99, this program reads 2"):
        Journal(path)


def test_a_file_that_is_no_database_is_refused(path: Path):
    path.parent.mkdir()
    path.write_bytes(b"these are not the pages you are looking for" * 100)
    with pytest.raises(JournalError, match="cannot be used as a journal: file is not a database"):
        Journal(path)


@pytest.mark.parametrize("damage", ["cut", "scribble"])
def test_a_damaged_journal_is_refused(path: Path, damage: str):
    with Journal(path) as journal:
        for number in range(40):
            run_id = journal.begin("d", "gpt", [run_switch(f"leaf{number}")])
            journal.finish(run_id, RunResult.APPLIED)
    content = path.read_bytes()
    page = int.from_bytes(content[16:18], "big")
    assert len(content) > 3 * page
    path.write_bytes(content[: len(content) - page - 100] if damage == "cut" else content[:page] + b"\xff" * page * 2)
    with pytest.raises(JournalError, match="cannot be used as a journal"):
        Journal(path)


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(tmp_path / "file" / "journal.sqlite")


def test_a_transaction_that_fails_leaves_nothing(path: Path):
    with Journal(path) as journal:
        twice = [run_switch("leaf1"), run_switch("leaf1")]
        with pytest.raises(JournalError, match="UNIQUE"):
            journal.begin("d", "gpt", twice)
        assert journal.last_run(None) is None
        journal.begin("d", "gpt", twice[:1])
