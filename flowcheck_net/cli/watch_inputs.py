"""What ``watch`` compares beside the switches: the input files of the plan, and changes that await confirmation."""

import time
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.apply.journal import Journal
from flowcheck_net.cli.plan import write_plan
from flowcheck_net.errors import FlowcheckError
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, plan_to_json
from flowcheck_net.plan.stale import verify_inputs
from flowcheck_net.spec.load import load_specs, spec_paths

NEXT = ".next.json"


@dataclass(slots=True)
class Inputs:
    """The three files of a directory against the plan that was made of them."""

    plan: Plan
    directory: Path
    _tried: str = ""
    """What was stale when a new plan was last tried."""

    def stale(self) -> str:
        """How the files no longer are what the plan was made of, or why they cannot be read; empty: they are."""
        try:
            verify_inputs(self.plan, load_specs(*spec_paths(self.directory)))
        except FlowcheckError as error:
            return error.message
        return ""

    def replanned(self, plan_file: Path) -> tuple[Path, Plan] | str | None:
        """A new plan beside the old one, which is left as it is.

        None: there is no need, or it was tried already. A text: why there can be none; watching goes on.
        """
        why = self.stale()
        if not why or why == self._tried:
            return None
        self._tried = why
        path = plan_file.with_name(plan_file.name.removesuffix(".json") + NEXT)
        try:
            new = make_plan(load_specs(*spec_paths(self.directory)), running=self.plan)
            write_plan(path, plan_to_json(new))
        except FlowcheckError as error:
            return error.message
        return path, new


def overdue(state_dir: Path) -> str:
    """The change whose time for confirmation is over and that is not undone; empty: there is none."""
    journal_file = state_dir / "journal.sqlite"
    if not journal_file.exists():
        return ""
    with Journal(journal_file) as journal:
        run = journal.unconfirmed()
    if run is None or run.confirm_by is None or time.time() < run.confirm_by:
        return ""
    return f"{run} had to be confirmed by {run.deadline} and is not undone: `flowcheck-net rollback` undoes it"
