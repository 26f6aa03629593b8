"""Undo the last run, and nothing else: the inverse of our own steps, refused where our sessions were changed since."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from flowcheck_net.apply.engine import forget_switches, left_open, restore_all
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Event, Reach, counted
from flowcheck_net.apply.run import Run, RunResult, RunSwitch, SwitchResult
from flowcheck_net.apply.undo import meddling
from flowcheck_net.errors import JournalError, NotRolledBack
from flowcheck_net.ids import SwitchName

_AFTER_MEDDLING = (
    "nothing was written; `flowcheck-net verify PLAN` shows how the sessions should be: put them back so by hand, then "
    "`flowcheck-net rollback PLAN`; or keep the plan: `flowcheck-net apply PLAN` puts them back"
)


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What was undone."""

    run: int | None
    """Number of the run in the journal; None: there was nothing to undo."""
    switches: tuple[SwitchName, ...]
    """Switches that are in the state before that run again, sorted."""


def rollback(
    journal: Journal, reach_for: Callable[[str], Reach], *, job: str | None = None, forget: Collection[SwitchName] = ()
) -> RollbackReport:
    """Restore the sessions that our job had before its last run, whether that run was finished or cut off.

    A run that was rolled back already is left alone: calling this twice does no more than calling it once.

    Args:
        journal: held exclusively for the time of the call.
        reach_for: the way to the switches for a job, which decides what is ours.
        job: whose last run; None: the last run of all.
        forget: switches that are gone for good.

    Raises:
        JournalError: the open run belongs to another job.
        ConnectError: a switch of a finished run cannot be read; nothing was changed.
        NotRolledBack: our sessions were changed by someone else since (then nothing was changed), or a switch failed.
    """
    with journal.exclusive():
        run = journal.open_run() or journal.last_run(job)
        reach = reach_for(run.job if run else job or "")
        if run is None or run.result is RunResult.ROLLED_BACK:
            of = f" of job {job}" if job else ""
            why = f"{run} is rolled back already" if run else f"the journal has no run{of}; is this its --state-dir?"
            reach.tell(Event(None, "unchanged", f"nothing to undo: {why}"))
            return RollbackReport(None, ())
        if job is not None and run.job != job:
            raise JournalError(f"{run} is open, and must be finished or undone first")
        return undo_run(journal, reach, run, forget)


def undo_run(journal: Journal, reach: Reach, run: Run, forget: Collection[SwitchName] = ()) -> RollbackReport:
    """Undo a run, while the journal is held. Arguments and errors are those of ``rollback``."""
    forget_switches(journal, run, forget)
    switches = [s for s in run.switches if _concerned(s, forget)]
    if run.finished is not None:
        if strange := meddling(run, switches, reach):
            raise NotRolledBack(strange, hint=_AFTER_MEDDLING)
        journal.reopen(run.id)
    with left_open(reach, run.id):
        failures = restore_all(journal, reach, run.id, run.job, switches)
        if failures:
            raise NotRolledBack(
                "; ".join(failures),
                hint="cure it, then `flowcheck-net rollback` again; a switch that is gone for good: --forget SWITCH",
            )
        journal.finish(run.id, RunResult.ROLLED_BACK)
    reach.tell(Event(None, "rolled back", f"{run} is undone, {counted(len(switches), 'switch', 'switches')} read back"))
    return RollbackReport(run.id, tuple(s.address.name for s in switches))


def _concerned(switch: RunSwitch, forget: Collection[SwitchName]) -> bool:
    return switch.touched and switch.result is not SwitchResult.FORGOTTEN and switch.address.name not in forget
