"""Rollback: the inverse of our own last run, once, and only where nobody else changed our sessions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.apply.run import RunResult
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import ConnectError, JournalError, NotRolledBack
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
MOVED = session("fcn-gpt-0", "Ethernet5:rx")
FIRST = plan_for({"leaf1": [MOVED], "leaf2": [B]})
SECOND = plan_for({"leaf1": [A, B], "leaf2": [A]})
NAMES = ("leaf1", "leaf2")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture
def fabric(journal) -> FakeFabric:
    """Two runs were made: FIRST, then SECOND."""
    made = FakeFabric()
    for name in NAMES:
        made.seed(name, FOREIGN)
    apply_plan(FIRST, "d1", journal, made.reach())
    apply_plan(SECOND, "d2", journal, made.reach())
    return made


def owned(fabric) -> list[tuple[MirrorSession, ...]]:
    return [fabric.state(name).owned for name in NAMES]


def test_the_last_run_is_undone_and_only_that_one(fabric, journal):
    report = rollback(journal, fabric.reach, job="gpt")
    assert (report.run, report.switches) == (2, NAMES)
    assert owned(fabric) == [(MOVED,), (B,)]
    again = rollback(journal, fabric.reach, job="gpt")
    assert again.run is None
    assert fabric.events[-1].detail.startswith("nothing to undo: run 2 of job gpt")
    assert owned(fabric) == [(MOVED,), (B,)]


def test_foreign_sessions_that_came_after_the_run_stay(fabric, journal):
    late = session("netops-late", "Ethernet9:rx", to="Ethernet47")
    fabric.seed("leaf1", late)
    rollback(journal, fabric.reach)
    assert fabric.state("leaf1").foreign == (late, FOREIGN)
    assert owned(fabric) == [(MOVED,), (B,)]


def test_it_is_refused_where_our_sessions_were_changed_since(fabric, journal):
    fabric.remove("leaf2", "fcn-gpt-0")
    with pytest.raises(NotRolledBack, match=r"leaf2: fcn-gpt-0 \(job gpt\) is missing") as caught:
        rollback(journal, fabric.reach)
    assert all(words in caught.value.hint for words in ("nothing was written", "verify PLAN", "rollback PLAN"))
    assert owned(fabric) == [(A, B), ()]
    assert journal.open_run() is None
    fabric.seed("leaf2", A)
    rollback(journal, fabric.reach)
    assert owned(fabric) == [(MOVED,), (B,)]


def test_a_changed_filter_or_source_is_seen_too(fabric, journal):
    fabric.remove("leaf1", "fcn-gpt-0")
    fabric.seed("leaf1", session("fcn-gpt-0", "Ethernet1:rx"))
    with pytest.raises(NotRolledBack, match="differs: lacks source Ethernet1 tx"):
        rollback(journal, fabric.reach)


def test_a_switch_that_is_in_the_former_state_already_is_fine(fabric, journal):
    fabric.remove("leaf2", "fcn-gpt-0")
    fabric.seed("leaf2", B)
    rollback(journal, fabric.reach)
    assert owned(fabric) == [(MOVED,), (B,)]


def test_an_unreachable_switch_stops_it_before_anything_is_written(fabric, journal):
    fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE))
    with pytest.raises(ConnectError, match="leaf2"):
        rollback(journal, fabric.reach)
    assert owned(fabric) == [(A, B), (A,)]
    assert journal.open_run() is None


def test_a_switch_that_is_gone_can_be_forgotten(fabric, journal):
    fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE, times=99))
    report = rollback(journal, fabric.reach, forget={SwitchName("leaf2")})
    assert report.switches == ("leaf1",)
    assert owned(fabric) == [(MOVED,), (A,)]


def test_a_rollback_that_fails_half_way_is_finished_by_the_next(fabric, journal):
    fabric.script("leaf1", *[Fault(Call.WRITE, FaultKind.HALF, step=1)] * 3)
    with pytest.raises(NotRolledBack, match="leaf1"):
        rollback(journal, fabric.reach)
    assert journal.open_run().id == 2
    assert owned(fabric)[1] == (B,)
    rollback(journal, fabric.reach)
    assert owned(fabric) == [(MOVED,), (B,)]
    assert journal.last_run(None).result is RunResult.ROLLED_BACK


def test_a_rollback_survives_one_lost_connection(fabric, journal):
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.HALF, step=2))
    rollback(journal, fabric.reach)
    assert owned(fabric) == [(MOVED,), (B,)]


def test_an_empty_journal_has_nothing_to_undo(tmp_path):
    fabric = FakeFabric()
    with Journal(tmp_path / "other.sqlite") as empty:
        assert rollback(empty, fabric.reach).run is None
    assert fabric.events[-1].detail == "nothing to undo: the journal has no run; is this its --state-dir?"


def test_the_open_run_of_another_job_is_not_undone_by_name(fabric, journal):
    fabric.script(
        "leaf1", Fault(Call.WRITE, FaultKind.LOST_BEFORE), Fault(Call.CONNECT, FaultKind.UNREACHABLE, 0, 2, 9)
    )
    with pytest.raises(NotRolledBack):
        apply_plan(FIRST, "d3", journal, fabric.reach())
    with pytest.raises(JournalError, match="run 3 of job gpt"):
        rollback(journal, fabric.reach, job="bert")
