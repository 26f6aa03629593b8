"""``flowcheck-net verify``: compare the switches with the plan, and count what they mirror."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from flowcheck_net.cli.duration import Duration
from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.switches import PLAN, Teller, reach_for, state_dir_option, workers_option

if TYPE_CHECKING:
    from flowcheck_net.apply.effect import PointEffect
    from flowcheck_net.apply.reach import Reach
    from flowcheck_net.intent import SwitchAddress
    from flowcheck_net.plan.plan import Plan

DEFAULT_WINDOW = 10
DEFAULT_COUNT = 100


@click.command("verify")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@click.option("--probe", is_flag=True, help="Prove the effect: count what each observation point mirrors.")
@click.option(
    "--window",
    type=Duration(0, 86400),
    default=DEFAULT_WINDOW,
    metavar="TIME",
    help="With --probe: how long to count what the job sends.  [default: 10s]",
)
@click.option(
    "--records",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Count the marked packets of `flowcheck-net probe` in these records of the capture ports, instead of the "
    "switches' counters.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    default=DEFAULT_COUNT,
    show_default=True,
    metavar="N",
    help="With --records: marked packets sent for each hop.",
)
@workers_option
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(
    plan_file: Path,
    state_dir: Path,
    records: Path | None,
    window: float,
    count: int,
    workers: int,
    *,
    probe: bool,
    as_json: bool,
) -> None:
    """Read every switch of PLAN and name each difference and its owner; change nothing.

    Without --probe this proves that the configuration was *accepted*, no more. With --probe each observation point is
    *working* only when it was counted: one copy of each packet that passed it while the job ran or, with --records,
    N of N marked packets at its capture port. Else it is silent, too few, too many, or still only accepted.

    Sampling, truncation, policers, foreign filters, inactive sessions and ports that are down are told as what they do
    to coverage. Exit code 6: a difference; 4: copies are missing or too many; 5: a switch cannot be read; 10: something
    that was asked for could not be proven.

    \b
    Examples:
      flowcheck-net verify plan.json
      flowcheck-net verify plan.json --probe --window 30s
      flowcheck-net probe plan.json -o probes       (then send them, capture, and replay the capture into records)
      flowcheck-net verify plan.json --records records.json
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.apply.verify import verify_plan
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.cli.verify_show import error_of, report_json, show

    asked = click.get_current_context().get_parameter_source
    if asked("window") is ParameterSource.COMMANDLINE and (not probe or records):
        raise click.UsageError("--window needs --probe, and is of no use to --records")
    if asked("count") is ParameterSource.COMMANDLINE and not records:
        raise click.UsageError("--count needs --records")
    plan = read_plan(plan_file)
    reach = reach_for(plan.job.name, state_dir, Teller(quiet=True), workers)
    report = verify_plan(plan, reach, leftovers(plan, state_dir))
    effects = _effects(plan, reach, window, records, count) if probe or records else None
    if as_json:
        emit_json(report_json(report, effects))
    else:
        show(report, effects)
    if error := error_of(report, effects):
        raise error


def leftovers(plan: "Plan", state_dir: Path) -> "tuple[SwitchAddress, ...]":
    """Switches outside the plan on which earlier runs of its job may have left sessions."""
    from flowcheck_net.apply.journal import Journal

    journal_file = state_dir / "journal.sqlite"
    if not journal_file.exists():
        return ()
    with Journal(journal_file) as journal:
        return journal.leftovers(plan.job.name, [a.name for a in plan.switches])


def _effects(
    plan: "Plan", reach: "Reach", window: float, records: Path | None, count: int
) -> "tuple[PointEffect, ...]":
    if records is None:
        from flowcheck_net.apply.measure import count_effect

        return count_effect(plan, reach, window)
    from flowcheck_net.audit.probe import judge_probes
    from flowcheck_net.receive.records_read import read_records

    return judge_probes(plan, read_records(records), count)
