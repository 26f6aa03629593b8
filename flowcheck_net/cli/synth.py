"""``flowcheck-net synth``: the capture that a plan's observation points would see."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.receive.synth_faults import FORMS

if TYPE_CHECKING:
    from flowcheck_net.receive.synth_report import SynthReport

_MAX_PSN = 0xFFFFFF


@click.command("synth", epilog=f"\b\nFaults:\n{FORMS}")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="pcapng file.")
@click.option("--iterations", default=3, show_default=True, type=click.IntRange(1), help="Training iterations.")
@click.option(
    "--fault", "faults", multiple=True, metavar="SPEC", help="One of the faults below. May be given several times."
)
@click.option("--seed", default=0, show_default=True, type=int, help="Gradients and random faults follow from it.")
@click.option(
    "--start-psn",
    default=0,
    show_default=True,
    type=click.IntRange(0, _MAX_PSN),
    help="First packet sequence number of every queue pair.",
)
@click.option(
    "--senders", is_flag=True, help="Not the copies: what each host's network card sends, an interface for each."
)
@click.option(
    "--gradients",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Send the reduced gradients of a trainer, DIR/iteration-000000/GROUP.gradient, and not made-up ones.",
)
@click.option("--truth", type=click.Path(path_type=Path, dir_okay=False), help="Write what was really done as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print what was really done as JSON.")
def command(
    plan: Path,
    output: Path,
    iterations: int,
    faults: tuple[str, ...],
    seed: int,
    start_psn: int,
    gradients: Path | None,
    truth: Path | None,
    *,
    senders: bool,
    as_json: bool,
) -> None:
    """Write the capture that the observation points of PLAN would see.

    The same arguments give the same file. Hops, iterations and packets count from 0. What each fault does is told in
    docs/synth.md.

    \b
    Examples:
      flowcheck-net synth plan.json -o mirror.pcapng
      flowcheck-net synth plan.json -o mirror.pcapng --fault loss:hop=dp0/0/1,iteration=2,packet=30
      flowcheck-net synth plan.json -o mirror.pcapng --gradients trained --iterations 200
      flowcheck-net synth plan.json -o sent.pcapng --senders          (to be sent: replay --to host1:nic0=...)
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.guard import spare_inputs
    from flowcheck_net.cli.inputs import read_plan
    from flowcheck_net.cli.output import write_file
    from flowcheck_net.receive.synth import synthesize
    from flowcheck_net.receive.synth_faults import parse_faults
    from flowcheck_net.receive.synth_report import report_to_json

    spare_inputs(output, "-o", plan, truth)
    spare_inputs(truth, "--truth", plan)
    asked = parse_faults(faults)
    made = read_plan(plan)
    report = synthesize(
        made,
        output,
        iterations=iterations,
        faults=asked,
        seed=seed,
        start_psn=start_psn,
        senders=senders,
        gradients=gradients,
    )
    text = report_to_json(report)
    if truth is not None:
        write_file(truth, text, "--truth")
    if as_json:
        click.echo(text, nl=False)
    else:
        _show(report, output)


def _show(report: "SynthReport", output: Path) -> None:
    from collections import Counter

    click.echo(f"{output}: {report.packets:,} packets of {report.iterations:,} iterations")
    for capture in report.captures:
        drops = f", {capture.reported_drops:,} reported as dropped" if capture.reported_drops else ""
        outside = f", {capture.outside:,} outside the capture" if capture.outside else ""
        click.echo(f"  {capture.name}: {capture.packets:,} packets{drops}{outside}")
    for (kind, fault), times in Counter((event.kind, event.fault) for event in report.events).items():
        click.echo(f"  {kind}: {'once' if times == 1 else f'{times:,} times'} ({fault})")
