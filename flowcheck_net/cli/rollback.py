"""``flowcheck-net rollback``: undo our own last change."""

from pathlib import Path

import click

from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.switches import PLAN, Teller, forget_option, reach_for, state_dir_option, workers_option


@click.command("rollback")
@click.argument("plan_file", metavar="[PLAN]", type=PLAN, required=False)
@forget_option
@workers_option
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(plan_file: Path | None, state_dir: Path, forget: tuple[str, ...], workers: int, *, as_json: bool) -> None:
    """Undo the last run of PLAN's job; without PLAN, the last run of all, finished or cut off.

    The sessions of before that run come back exactly. It is refused, with exit code 8 and nothing written, where
    someone else changed our sessions since. Foreign sessions are never touched. Calling it twice undoes one run.

    Example: flowcheck-net rollback plan.json
    """
    from flowcheck_net.apply.journal import Journal
    from flowcheck_net.apply.rollback import rollback
    from flowcheck_net.cli.apply_progress import shown_stages
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.ids import SwitchName

    job = read_plan(plan_file).job.name if plan_file else None
    teller = Teller(quiet=as_json)
    gone = frozenset(SwitchName(name) for name in forget)
    with Journal(state_dir / "journal.sqlite") as journal, shown_stages(quiet=as_json) as stage:
        try:
            # An overdue run is the last one: what undoes it is this very rollback.
            rollback(journal, lambda owner: reach_for(owner, state_dir, teller, workers, stage), job=job, forget=gone)
        finally:
            if as_json:
                emit_json(teller.to_json())
