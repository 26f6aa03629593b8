"""``flowcheck-net apply``: program the planned mirror sessions."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.duration import Duration
from flowcheck_net.cli.inputs import read_plan_and_digest
from flowcheck_net.cli.switches import PLAN, Teller, forget_option, reach_for, state_dir_option, styled, workers_option

if TYPE_CHECKING:
    from flowcheck_net.apply.engine import ApplyReport

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command("apply")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@click.option("--dry-run", is_flag=True, help="Read the switches and show what would change; write nothing.")
@click.option("--resume", is_flag=True, help="Finish the run of this plan that was cut off.")
@click.option(
    "--confirm-within",
    type=Duration(10, 86400),
    metavar="TIME",
    help="Undo the change unless `flowcheck-net confirm PLAN` comes within TIME (90s, 5m, 1h) of its end.",
)
@forget_option
@workers_option
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    plan_file: Path,
    state_dir: Path,
    forget: tuple[str, ...],
    workers: int,
    confirm_within: float | None,
    *,
    dry_run: bool,
    resume: bool,
    as_json: bool,
) -> None:
    """Program the mirror sessions of PLAN: all switches, or none.

    Only sessions named fcn-JOB-NUMBER are ever written. Our sessions on switches that the plan no longer uses are
    removed. One switch is written first, as a canary; the others follow when it reads back as planned. Exit code 7: a
    switch failed and everything is as before; 8: a named switch is not.

    --confirm-within writes the deadline down before the first switch is told, and starts a guardian process that undoes
    the change then. That holds when this command is killed, the terminal closes or the link to you is lost. It does not
    hold while this machine is down or cut off from the switches: then the next apply, confirm or rollback
    undoes it first. A cut-off run is undone likewise.

    \b
    Examples:
      flowcheck-net apply plan.json --dry-run
      flowcheck-net apply plan.json
      flowcheck-net apply plan.json --confirm-within 5m && ping -c 3 leaf1 && flowcheck-net confirm plan.json
      flowcheck-net apply plan.json --resume        (after a cut-off run)
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.apply.confirm import undo_overdue
    from flowcheck_net.apply.engine import apply_plan, propose, resume_plan
    from flowcheck_net.apply.journal import Journal
    from flowcheck_net.cli.apply_progress import shown_stages
    from flowcheck_net.cli.guardian import start_guardian
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.ids import SwitchName
    from flowcheck_net.plan.stale import verify_tables

    if dry_run and resume:
        raise click.UsageError("--dry-run and --resume exclude each other")
    if confirm_within is not None and (dry_run or resume):
        raise click.UsageError("--confirm-within is for a new change: a resumed run keeps the time it was begun with")
    plan, digest = read_plan_and_digest(plan_file)
    if not resume:
        # What was begun by older tables must still be brought to an end.
        verify_tables(plan)
    teller = Teller(quiet=as_json)
    gone = frozenset(SwitchName(name) for name in forget)
    with Journal(state_dir / "journal.sqlite") as journal, shown_stages(quiet=as_json) as stage:
        reach = reach_for(plan.job.name, state_dir, teller, workers, stage)
        if dry_run:
            report = propose(plan, journal, reach, forget=gone)
            if as_json:
                emit_json(_proposal_json(report))
            else:
                _show(report)
            return
        try:
            undo_overdue(journal, lambda job: reach_for(job, state_dir, teller, workers, stage))
            guard = partial(start_guardian, state_dir)
            if resume:
                resume_plan(plan, digest, journal, reach, forget=gone, guard=guard)
            else:
                apply_plan(plan, digest, journal, reach, forget=gone, confirm_within=confirm_within, guard=guard)
        finally:
            if as_json:
                emit_json(teller.to_json())


def _proposal_json(report: "ApplyReport") -> dict[str, object]:
    from flowcheck_net.apply.compare import session_lines

    return {
        "verdict": "dry run",
        "switches": [
            {
                "switch": t.address.name,
                "steps": [{"kind": s.kind.value, "session": session_lines(s.session)} for s in t.steps],
                "foreign": [s.name for s in t.actual.foreign],
            }
            for t in report.targets
        ],
    }


def _show(report: "ApplyReport") -> None:
    from flowcheck_net.apply.compare import unified
    from flowcheck_net.apply.reach import counted

    for target in report.targets:
        name = target.address.name
        foreign = ", ".join(s.name for s in target.actual.foreign)
        note = f"; foreign, not touched: {foreign}" if foreign else ""
        styled(f"{name}: {counted(len(target.steps), 'step', 'steps')}{note}", "bold")
        for line in unified(name, target.wanted, target.actual):
            styled(line, _DIFF_STYLES.get(line[0], ""))
    changing = sum(1 for t in report.targets if t.steps)
    switches = counted(len(report.targets), "switch", "switches")
    styled(f"verdict: dry run: {changing} of {switches} would change, nothing was written")
