"""``flowcheck-net confirm``: keep a change that would undo itself."""

from pathlib import Path

import click

from flowcheck_net.cli.inputs import read_plan_and_digest
from flowcheck_net.cli.switches import PLAN, Teller, reach_for, state_dir_option, workers_option


@click.command("confirm")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@state_dir_option
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(plan_file: Path, state_dir: Path, workers: int, *, as_json: bool) -> None:
    """Keep the change that `apply PLAN --confirm-within TIME` made.

    Every switch that it changed is read back first: a change that cut the way to a switch, or that somebody altered
    since, cannot be confirmed, and is undone when its time is over. Exit code 6: altered; 5: a switch cannot be read;
    7: too late, and undone.

    Example: flowcheck-net confirm plan.json
    """
    from flowcheck_net.apply.confirm import confirm, undo_overdue
    from flowcheck_net.apply.journal import Journal
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.errors import RolledBack

    plan, digest = read_plan_and_digest(plan_file)
    teller = Teller(quiet=as_json)
    with Journal(state_dir / "journal.sqlite") as journal:
        try:
            if undone := undo_overdue(journal, lambda job: reach_for(job, state_dir, teller, workers)):
                raise RolledBack(f"too late: run {undone.run} was not confirmed in time, and is undone")
            confirm(journal, plan.job.name, digest, reach_for(plan.job.name, state_dir, teller, workers))
        finally:
            if as_json:
                emit_json(teller.to_json())
