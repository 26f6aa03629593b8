"""The watch over one run that must be confirmed: waits for its deadline in a process of its own, then undoes it."""

import time
from collections.abc import Callable
from functools import partial

from flowcheck_net.apply.confirm import undo_overdue
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Event, Reach
from flowcheck_net.errors import FlowcheckError

LONGEST_SLEEP = 1.0
"""Seconds between two looks at the journal."""
RETRY = 10.0
"""Seconds between two attempts to undo."""
PATIENCE = 3600.0
"""Seconds after the deadline for which a failed undo is tried again."""


def guard(
    journal: Journal,
    run_id: int,
    reach_for: Callable[[str], Reach],
    tell: Callable[[Event], None],
    *,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until the run is confirmed or undone, or undo it at its deadline.

    A wall clock that is set back must not put the deadline off: time is also counted from when the deadline was read.

    Args:
        journal: of the state directory.
        run_id: the run to watch.
        reach_for: the way to the switches for a job.
        tell: told of every failed attempt, also to read the journal.
        clock: seconds since the epoch.
        steady: seconds that never go back.
        sleep: waits so many seconds.

    Returns:
        False: patience is at its end, and the run is still neither confirmed nor undone.
    """
    deadline, due = -1.0, steady()
    while True:
        try:
            run = journal.run(run_id)
            if run is None or run.confirm_by is None or not run.unconfirmed:
                return True
            if run.confirm_by != deadline:
                deadline, due = run.confirm_by, steady() + max(run.confirm_by - clock(), 0.0)
            left = min(due - steady(), deadline - clock())
            if left > 0:
                sleep(min(left, LONGEST_SLEEP))
            else:
                undo_overdue(journal, reach_for, partial(max, deadline, clock()))
        except FlowcheckError as error:
            tell(Event(None, "not undone", error.message))
            if steady() - due > PATIENCE:
                return False
            sleep(RETRY)
