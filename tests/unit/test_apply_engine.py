"""Applying: one canary, all or none, foreign sessions untouched, nothing believed that was not read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan, propose, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.apply.run import RunResult, StepStatus, SwitchResult
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import (
    ConnectError,
    Drift,
    DriverError,
    JournalError,
    NotRolledBack,
    PlanError,
    Rejected,
    RolledBack,
    StalePlan,
)
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
MOVED = session("fcn-gpt-0", "Ethernet5:rx")
PLAN = plan_for({"leaf1": [A, B], "leaf2": [A], "leaf3": [A, B]})
NAMES = ("leaf1", "leaf2", "leaf3")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture
def fabric() -> FakeFabric:
    made = FakeFabric()
    for name in NAMES:
        made.seed(name, FOREIGN)
    return made


def owned(fabric: FakeFabric) -> dict[str, tuple[MirrorSession, ...]]:
    return {name: fabric.state(name).owned for name in NAMES}


PLANNED = {"leaf1": (A, B), "leaf2": (A,), "leaf3": (A, B)}
EMPTY = dict.fromkeys(NAMES, ())


def test_the_plan_is_applied_and_foreign_sessions_stay(fabric, journal):
    report = apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == PLANNED
    assert all(fabric.state(n).foreign == (FOREIGN,) for n in NAMES)
    assert report.run == 1
    run = journal.last_run("gpt")
    assert run is not None
    assert (run.result, run.plan_digest, run.job) == (RunResult.APPLIED, "d1", "gpt")
    assert [s.result for s in run.switches] == [SwitchResult.WRITTEN] * 3
    assert {status for s in run.switches for status in s.statuses} == {StepStatus.DONE}
    assert fabric.events[0].detail == "2 created, 0 deleted, read back equal (canary)"
    assert fabric.events[-1].detail == "run 1: 3 switches written and read back"


def test_a_second_apply_writes_nothing_and_opens_no_run(fabric, journal):
    apply_plan(PLAN, "d1", journal, fabric.reach())
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.REFUSE))
    report = apply_plan(PLAN, "d1", journal, fabric.reach())
    assert report.run is None
    assert all(not t.steps for t in report.targets)
    assert journal.last_run("gpt").id == 1


def test_a_dry_run_tells_the_steps_and_writes_nothing(fabric, journal):
    apply_plan(plan_for({"leaf1": [MOVED]}), "d0", journal, fabric.reach())
    report = propose(PLAN, journal, fabric.reach())
    assert {t.address.name: [f"{s.kind} {s.session.name}" for s in t.steps] for t in report.targets} == {
        "leaf1": ["delete fcn-gpt-0", "create fcn-gpt-0", "create fcn-gpt-1"],
        "leaf2": ["create fcn-gpt-0"],
        "leaf3": ["create fcn-gpt-0", "create fcn-gpt-1"],
    }
    assert fabric.state("leaf1").owned == (MOVED,)


def test_the_canary_is_the_first_by_name_and_goes_alone(fabric, journal):
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.REFUSE, step=1))
    for other in ("leaf2", "leaf3"):
        # Were they written to, this would surface as a second failure.
        fabric.script(other, Fault(Call.WRITE, FaultKind.REFUSE))
    with pytest.raises(RolledBack, match="leaf1: step 2") as caught:
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert "leaf2" not in caught.value.message
    assert owned(fabric) == EMPTY


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("kind", [FaultKind.REFUSE, FaultKind.HALF, FaultKind.LOST_BEFORE])
def test_one_failure_rolls_all_switches_back(fabric, journal, kind, step):
    apply_plan(plan_for({"leaf1": [MOVED], "leaf3": [B]}), "d0", journal, fabric.reach())
    before = owned(fabric)
    fabric.script("leaf3", Fault(Call.WRITE, kind, step=step))
    with pytest.raises(RolledBack, match=r"leaf3: .*every switch is in its former state") as caught:
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert caught.value.exit_code == 7
    assert owned(fabric) == before
    assert all(fabric.state(n).foreign == (FOREIGN,) for n in NAMES)
    assert journal.open_run() is None
    assert journal.last_run("gpt").result is RunResult.ROLLED_BACK


def test_a_lost_answer_of_a_write_that_took_effect_is_no_failure(fabric, journal):
    fabric.script("leaf2", Fault(Call.WRITE, FaultKind.LOST_AFTER, step=0))
    apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == PLANNED


def test_a_switch_that_dies_in_the_write_is_named_and_the_run_stays_open(fabric, journal):
    fabric.script("leaf3", Fault(Call.WRITE, FaultKind.LOST_AFTER, step=0))
    fabric.script("leaf3", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=2, times=99))
    with pytest.raises(NotRolledBack, match="not in the former state: leaf3") as caught:
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert caught.value.exit_code == 8
    assert owned(fabric) == {**EMPTY, "leaf3": (A,)}
    run = journal.open_run()
    assert {s.address.name: s.result for s in run.switches} == {
        "leaf1": SwitchResult.RESTORED,
        "leaf2": SwitchResult.RESTORED,
        "leaf3": SwitchResult.UNKNOWN,
    }
    with pytest.raises(JournalError, match=r"run 1 of job gpt, begun 20.* by .* pid"):
        apply_plan(PLAN, "d1", journal, fabric.reach())


def test_an_unreachable_switch_stops_all_before_anything_is_written(fabric, journal):
    for name in ("leaf2", "leaf3"):
        fabric.script(name, Fault(Call.CONNECT, FaultKind.UNREACHABLE))
    with pytest.raises(ConnectError, match="leaf2: connect: unreachable; leaf3: connect: unreachable"):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == EMPTY
    assert journal.last_run("gpt") is None


def test_a_switch_that_goes_away_between_reading_and_writing_was_not_changed(fabric, journal):
    fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=1, times=99))
    with pytest.raises(RolledBack, match="leaf2: connect: unreachable"):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == EMPTY


def test_foreign_sessions_that_fill_the_table_are_named_before_anything_is_written(fabric, journal):
    fabric.seed("leaf3", session("fcn-bert-0", "Ethernet8:rx", to="Ethernet47"), session("x", "Ethernet9:rx"))
    with pytest.raises(Rejected, match=r"leaf3: 2 sessions .* 3 foreign ones \(fcn-bert-0, netops-span, x\)"):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == EMPTY


def test_a_foreign_session_that_changes_under_our_hands_undoes_the_run(fabric, journal, monkeypatch):
    driver = type(fabric.open("leaf2"))
    honest = driver.write

    def clumsy(self, steps):
        honest(self, steps)
        if self._switch == "leaf2" and "netops-span" in {s.name for s in fabric.state("leaf2").foreign}:
            fabric.remove("leaf2", "netops-span")

    monkeypatch.setattr(driver, "write", clumsy)
    with pytest.raises(
        NotRolledBack,
        match=r"changed while we wrote.* not in the former state: leaf2: netops-span \(foreign\) is missing",
    ):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == EMPTY
    # It is not ours to restore; once looked at, rollback closes the run.
    rollback(journal, fabric.reach)
    assert journal.open_run() is None


def test_sessions_on_switches_that_the_plan_left_are_removed_and_come_back_on_failure(fabric, journal):
    apply_plan(PLAN, "d1", journal, fabric.reach())
    smaller = plan_for({"leaf1": [A]})
    fabric.script("leaf3", Fault(Call.WRITE, FaultKind.REFUSE, step=1))
    with pytest.raises(RolledBack):
        apply_plan(smaller, "d2", journal, fabric.reach())
    assert owned(fabric) == PLANNED
    apply_plan(smaller, "d2", journal, fabric.reach())
    assert owned(fabric) == {**EMPTY, "leaf1": (A,)}
    assert journal.leftovers("gpt", [SwitchName("leaf1")]) == ()


def test_a_left_switch_that_is_gone_must_be_forgotten_by_name(fabric, journal):
    apply_plan(PLAN, "d1", journal, fabric.reach())
    fabric.script("leaf3", Fault(Call.CONNECT, FaultKind.UNREACHABLE, times=99))
    smaller = plan_for({"leaf1": [A]})
    with pytest.raises(ConnectError, match="leaf3") as caught:
        apply_plan(smaller, "d2", journal, fabric.reach())
    assert "--forget" in caught.value.hint
    apply_plan(smaller, "d2", journal, fabric.reach(), forget={SwitchName("leaf3")})
    assert owned(fabric) == {"leaf1": (A,), "leaf2": (), "leaf3": (A, B)}


def test_another_job_is_left_alone(fabric, journal):
    apply_plan(PLAN, "d1", journal, fabric.reach())
    other = session("fcn-bert-0", "Ethernet9:rx", to="Ethernet33")
    apply_plan(plan_for({"leaf1": [other]}, job="bert"), "d2", journal, fabric.reach(job="bert"))
    assert owned(fabric) == PLANNED
    assert fabric.state("leaf1", "bert").owned == (other,)


def test_a_plan_whose_session_does_not_bear_the_mark_is_refused(fabric, journal):
    with pytest.raises(PlanError, match="fcn-bert-0 does not bear the mark of job gpt"):
        apply_plan(plan_for({"leaf1": [session("fcn-bert-0", "Ethernet1:rx")]}), "d", journal, fabric.reach())
    with pytest.raises(PlanError, match="netops-span does not bear the mark"):
        apply_plan(plan_for({"leaf1": [FOREIGN]}), "d", journal, fabric.reach())


def test_resume_needs_an_open_run_of_the_same_plan(fabric, journal):
    with pytest.raises(JournalError, match="nothing to resume"):
        resume_plan(PLAN, "d1", journal, fabric.reach())
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.LOST_BEFORE, step=1))
    fabric.script("leaf1", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=2, times=6))
    with pytest.raises(NotRolledBack):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    with pytest.raises(StalePlan, match="belongs to plan d1, this one is d2"):
        resume_plan(PLAN, "d2", journal, fabric.reach())
    resume_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == PLANNED
    assert journal.open_run() is None


def test_a_rejection_in_a_resumed_run_does_not_hide_what_was_written_before(fabric, journal):
    """leaf1 has one of its two steps from before; the resumed write is refused; the first step must be undone."""
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.LOST_BEFORE, step=1))
    fabric.script("leaf1", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=2, times=6))
    with pytest.raises(NotRolledBack):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    assert fabric.state("leaf1").owned == (A,)
    fabric.script("leaf1", Fault(Call.WRITE, FaultKind.REFUSE))
    with pytest.raises(RolledBack):
        resume_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == EMPTY


def test_a_cut_off_run_is_neither_finished_nor_undone_over_someone_elses_change(fabric, journal):
    fabric.script("leaf3", Fault(Call.WRITE, FaultKind.LOST_AFTER))
    fabric.script("leaf3", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=2, times=6))
    with pytest.raises(NotRolledBack):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    # Bears our mark, and our run never wrote it.
    stranger = session("fcn-gpt-7", "Ethernet9:rx", to="Ethernet40")
    fabric.seed("leaf3", stranger)
    left = owned(fabric)
    with pytest.raises(Drift, match=r"leaf3: fcn-gpt-7 \(job gpt\) is there, and should not be"):
        resume_plan(PLAN, "d1", journal, fabric.reach())
    assert owned(fabric) == left
    with pytest.raises(NotRolledBack, match=r"leaf3: changed by someone else since: fcn-gpt-7 \(job gpt\)"):
        rollback(journal, fabric.reach)
    assert fabric.state("leaf3").owned == (A, stranger)
    fabric.remove("leaf3", "fcn-gpt-7")
    rollback(journal, fabric.reach)
    assert owned(fabric) == EMPTY


def test_the_bound_on_parallel_work_holds(fabric, journal):
    import threading

    running, most, lock = 0, 0, threading.Lock()
    reach = fabric.reach(workers=2)

    def work(_: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    reach.each(work, [str(n) for n in range(8)])
    assert most <= 2


def test_a_fault_of_a_driver_that_is_no_device_fault_is_not_hidden(fabric, journal, monkeypatch):
    def broken(self, steps):
        raise KeyError("bug")

    monkeypatch.setattr(type(fabric.open("leaf1")), "write", broken)
    with pytest.raises(KeyError):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    # The run is open, so that what may have been written is not forgotten.
    assert journal.open_run() is not None


def test_insist_gives_up_with_the_last_error(fabric):
    fabric.script("leaf1", Fault(Call.READ, FaultKind.UNREACHABLE, times=9))
    with pytest.raises(DriverError, match="leaf1: read: unreachable"):
        fabric.reach(attempts=2).insist(lambda: fabric.reach().read(PLAN.switches[0]))
    with fabric.store("leaf1").transaction() as switch:
        assert switch.faults[0].times == 7


def test_a_switch_that_another_operator_holds_is_refused_and_all_are_undone(fabric, journal):
    with fabric.store("leaf3").hold("job bert, process 7"):
        with pytest.raises(RolledBack, match="leaf3: locked by job bert, process 7"):
            apply_plan(PLAN, "d1", journal, fabric.reach())
        assert owned(fabric) == EMPTY
    assert [e.switch for e in fabric.events if e.result == "refused"] == ["leaf3"]
    apply_plan(PLAN, "d1", journal, fabric.reach())


@pytest.mark.parametrize(
    "stranger", [session("x", "Ethernet9:rx", to="Ethernet40"), session("fcn-gpt-7", "Ethernet9:rx")]
)
def test_a_switch_that_somebody_changed_between_reading_and_writing_is_not_written(
    fabric, journal, monkeypatch, stranger
):
    driver = type(fabric.open("leaf2"))
    honest = driver.hold

    def late(self):
        if self._switch == "leaf2" and stranger not in (s := fabric.state("leaf2")).foreign + s.owned:
            fabric.seed("leaf2", stranger)
        return honest(self)

    monkeypatch.setattr(driver, "hold", late)
    with pytest.raises(RolledBack, match=rf"leaf2: somebody changed it since it was read: {stranger.name}"):
        apply_plan(PLAN, "d1", journal, fabric.reach())
    state = fabric.state("leaf2")
    assert stranger in state.owned + state.foreign
    assert len(state.owned + state.foreign) == 2
