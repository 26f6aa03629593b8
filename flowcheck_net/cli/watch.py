"""``flowcheck-net watch``: verify again and again, and tell what changed."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.duration import Duration
from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.switches import PLAN, Teller, reach_for, state_dir_option, styled, workers_option

if TYPE_CHECKING:
    from flowcheck_net.apply.watch import Condition, Look
    from flowcheck_net.plan.plan import Plan


@click.command("watch")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@click.option(
    "--every", type=Duration(1, 86400), default=30, metavar="TIME", help="Time between two looks.  [default: 30s]"
)
@click.option("--once", is_flag=True, help="Look once and end, with an exit code; compares with the last call.")
@click.option(
    "--spec",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Tell also when topology.yaml, job.yaml or policy.yaml in DIR no longer are what the plan was made of.",
)
@click.option(
    "--replan",
    is_flag=True,
    help="With --spec: then make the new plan as PLAN.next.json and show what it would change. Applies nothing.",
)
@workers_option
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each event.")
def command(
    plan_file: Path,
    state_dir: Path,
    spec: Path | None,
    every: float,
    workers: int,
    *,
    once: bool,
    replan: bool,
    as_json: bool,
) -> None:
    """Read every switch of PLAN again and again; tell what begins and what is over. Changes nothing on any switch.

    Told are: sessions that are lost or altered, and by whom; what makes copies incomplete; switches that restarted or
    were upgraded, and sessions that count from 0 again (what passed meanwhile was not mirrored); switches that cannot
    be reached, which are asked less and less often; input files that changed; a change whose confirmation is overdue.

    Stop it with Ctrl-C. With --once the exit code is that of the worst: 6 drift, 4 incomplete, 3 stale, 5 unreachable,
    8 overdue, 10 restarted or in doubt.

    \b
    Examples:
      flowcheck-net watch plan.json --every 1m --json >> events.jsonl
      flowcheck-net watch plan.json --once                     (from cron; what was seen is kept in --state-dir)
      flowcheck-net watch plan.json --spec my-cluster --replan
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.apply.watch import Watcher
    from flowcheck_net.apply.watch_memory import recall, remember
    from flowcheck_net.cli.verify import leftovers
    from flowcheck_net.cli.watch_inputs import Inputs, overdue

    if replan and spec is None:
        raise click.UsageError("--replan needs --spec DIR")
    plan = read_plan(plan_file)
    inputs = Inputs(plan, spec) if spec else None
    kept = state_dir / f"watch-{plan.job.name}.json"
    watcher = Watcher(
        plan,
        reach_for(plan.job.name, state_dir, Teller(quiet=True), workers),
        leftovers=lambda: leftovers(plan, state_dir),
        stale=inputs.stale if inputs else lambda: "",
        unconfirmed=lambda: overdue(state_dir),
        memory=recall(kept),
    )
    try:
        while True:
            look = watcher.look()
            remember(kept, watcher.memory)
            _tell(look, as_json=as_json)
            if replan and inputs is not None and (made := inputs.replanned(plan_file)):
                _tell_plan(plan, made, plan_file, as_json=as_json)
            if once:
                break
            time.sleep(every)
    except KeyboardInterrupt:
        return
    if error := _error(look):
        raise error


def _tell(look: "Look", *, as_json: bool) -> None:
    from flowcheck_net.apply.reach import counted

    now = datetime.now(UTC).isoformat(timespec="seconds")
    events = [*(("began", c) for c in look.began), *(("over", c) for c in look.over)]
    for state, condition in events:
        if as_json:
            body = {"time": now, "event": state, "kind": condition.kind.value, "text": condition.text}
            click.echo(json.dumps({**body, "switch": condition.switch or None}, sort_keys=True))
        else:
            styled(f"{now} {state}: {condition}", "green" if state == "over" else "red")
    if not as_json and not events and not look.standing:
        styled(f"{now} as planned: {counted(len(look.working), 'switch', 'switches')} read")


def _tell_plan(plan: "Plan", made: "tuple[Path, Plan] | str", plan_file: Path, *, as_json: bool) -> None:
    from flowcheck_net.cli.plan_show import comparison_lines
    from flowcheck_net.plan.compare import compare

    if isinstance(made, str):
        if as_json:
            click.echo(json.dumps({"event": "not replanned", "plan": None, "text": made}, sort_keys=True))
        else:
            styled(f"cannot be planned again: {made}", "red")
        return
    path, new = made
    lines = comparison_lines(compare(plan, new), str(plan_file), str(path))
    if as_json:
        click.echo(json.dumps({"event": "replanned", "plan": str(path), "text": "\n".join(lines)}, sort_keys=True))
        return
    styled(f"planned again: {path}; nothing was applied, `flowcheck-net apply {path}` would do:")
    for line in lines:
        styled(f"  {line}")


def _error(look: "Look") -> Exception | None:
    from flowcheck_net.apply.watch import Kind
    from flowcheck_net.errors import (
        CoverageGap,
        CoverageUnknown,
        Drift,
        DriverError,
        FlowcheckError,
        NotRolledBack,
        StalePlan,
    )

    worst: tuple[tuple[Kind, type[FlowcheckError]], ...] = (
        (Kind.UNCONFIRMED, NotRolledBack),
        (Kind.DRIFT, Drift),
        (Kind.INCOMPLETE, CoverageGap),
        (Kind.STALE, StalePlan),
        (Kind.UNREACHABLE, DriverError),
        (Kind.RESTARTED, CoverageUnknown),
        (Kind.COUNTED_ANEW, CoverageUnknown),
        (Kind.DOUBT, CoverageUnknown),
    )
    for kind, error in worst:
        if found := [c for c in look.standing if c.kind is kind]:
            return _made(error, found)
    return None


def _made(error: "type[Exception]", found: "list[Condition]") -> Exception:
    from flowcheck_net.errors import DriverError

    words = "; ".join(str(c) for c in found)
    if error is DriverError:
        return DriverError(found[0].switch, words.removeprefix(f"{found[0].switch}: "))
    return error(words)
