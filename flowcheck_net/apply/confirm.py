"""A change that undoes itself: confirmed in time it stays, else its inverse is written.

The deadline stands in the journal before the first write. Three things look at it: a guardian process that outlives the
terminal (``guardian.py``), and every later apply, confirm and rollback, which undo an overdue run before they do
anything else. If the machine itself stops, nothing looks until one of them is started again.
"""

import time
from collections.abc import Callable

from flowcheck_net.apply.compare import differences, sentence
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Event, Reach
from flowcheck_net.apply.rollback import RollbackReport, undo_run
from flowcheck_net.apply.run import Run, RunResult, SwitchResult
from flowcheck_net.apply.survey import read_all
from flowcheck_net.errors import Drift, JournalError, RolledBack, StalePlan

Clock = Callable[[], float]
"""Seconds since the epoch."""


def undo_overdue(
    journal: Journal, reach_for: Callable[[str], Reach], clock: Clock = time.time
) -> RollbackReport | None:
    """Undo the run whose time for confirmation is over; None: there is none.

    Raises:
        JournalError: another change is under way.
        ConnectError: a switch cannot be read; nothing was changed, and the run stays unconfirmed.
        NotRolledBack: as ``rollback`` does; the run stays unconfirmed or open.
    """
    if not _overdue(journal.unconfirmed(), clock):
        return None
    with journal.exclusive():
        # It may have been confirmed or undone while we waited for the lock.
        run = journal.unconfirmed()
        if run is None or not _overdue(run, clock):
            return None
        reach = reach_for(run.job)
        reach.tell(Event(None, "overdue", f"{run} was not confirmed by {run.deadline}, and is undone"))
        return undo_run(journal, reach, run)


def confirm(journal: Journal, job: str, digest: str, reach: Reach, clock: Clock = time.time) -> Run:
    """Keep the change that awaits its confirmation, once every switch was read back as it left them.

    That the switches can still be reached and still carry the change is what is confirmed; so a change that cut the way
    to a switch cannot be confirmed, and is undone.

    Raises:
        JournalError: nothing awaits confirmation, the run is still open, or another change is under way.
        StalePlan: what awaits confirmation is another plan.
        RolledBack: it is too late; the run was undone, now or before.
        NotRolledBack: it is too late, and it could not be undone.
        ConnectError: a switch cannot be read.
        Drift: somebody changed our sessions since; nothing was written, and the run stays unconfirmed.
    """
    with journal.exclusive():
        run = journal.unconfirmed()
        if run is None or run.job != job:
            raise _nothing_to_confirm(journal.last_run(job), job)
        if run.plan_digest != digest:
            raise StalePlan(
                f"{run} applied plan {run.plan_digest[:12]}, this one is {digest[:12]}",
                hint="confirm with that plan file, or `flowcheck-net rollback`",
            )
        if run.finished is None:
            raise JournalError(f"{run} was cut off", hint="`flowcheck-net apply PLAN --resume` finishes it first")
        if _overdue(run, clock):
            reach.tell(Event(None, "overdue", f"{run} was not confirmed by {run.deadline}, and is undone"))
            undo_run(journal, reach, run)
            raise RolledBack(f"{run} had to be confirmed by {run.deadline}: too late, it is undone", hint="apply again")
        if strange := _changed_since(run, reach):
            raise Drift(strange, hint=f"it is undone at {run.deadline} unless the named sessions are put back before")
        journal.confirm(run.id)
        reach.tell(Event(None, "confirmed", f"{run} stays; every switch was read back as it left them"))
        return run


def _nothing_to_confirm(last: Run | None, job: str) -> JournalError | RolledBack:
    """What became of the last change that wanted a confirmation, rather than only that there is none."""
    if last is not None and last.confirm_by is not None and last.result is RunResult.ROLLED_BACK:
        return RolledBack(f"{last} was not confirmed by {last.deadline}, and is undone already", hint="apply again")
    if last is not None and last.confirmed is not None:
        return JournalError(
            f"{last} is confirmed already, at {last.confirmed}", hint="`flowcheck-net verify PLAN` reads it back"
        )
    return JournalError(
        f"nothing of job {job} awaits a confirmation",
        hint="only a change made with `apply --confirm-within` does; is this its --state-dir?",
    )


def _changed_since(run: Run, reach: Reach) -> str:
    """How the switches differ from what the run left, in one line. The former state is no excuse here."""
    switches = [s for s in run.switches if s.result is not SwitchResult.FORGOTTEN]
    readings = read_all([s.address for s in switches], reach)
    return "; ".join(
        f"{switch.address.name}: {sentence(left)}"
        for switch, reading in zip(switches, readings, strict=True)
        if (left := differences(switch.address.name, run.job, switch.wanted, reading.state.owned))
    )


def _overdue(run: Run | None, clock: Clock) -> bool:
    return run is not None and run.confirm_by is not None and clock() >= run.confirm_by
