"""``flowcheck-net plan-diff``: two plans side by side."""

import json
from dataclasses import asdict
from pathlib import Path

import click

_FILE = click.Path(path_type=Path)


@click.command("plan-diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(before: Path, after: Path, *, as_json: bool) -> None:
    """Show what differs between two plans: inputs, points, steps on each switch, coverage and cost.

    Exit code 0 whether they differ or not; the steps are those that `apply` would take to go from BEFORE to AFTER.

    \b
    Examples:
      flowcheck-net plan-diff plan.json plan.next.json
      flowcheck-net plan-diff plan.json plan.next.json --json
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.inputs import read_plan
    from flowcheck_net.cli.plan_show import comparison_lines
    from flowcheck_net.plan.compare import compare

    found = compare(read_plan(before), read_plan(after))
    if as_json:
        click.echo(json.dumps(asdict(found), sort_keys=True))
        return
    for line in comparison_lines(found, str(before), str(after)):
        click.echo(line)
