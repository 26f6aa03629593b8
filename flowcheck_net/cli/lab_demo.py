"""``flowcheck-net lab demo``: every fault in labs of real switches, and a table of what came of them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.audit import publishable
from flowcheck_net.cli.lab_options import OUTPUT, RECEIVER, interruptible, is_live, make_folder
from flowcheck_net.errors import FlowcheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowcheck_net.cli.lab_cases import Case
    from flowcheck_net.lab.build import Lab
    from flowcheck_net.lab.faults import Fault
    from flowcheck_net.lab.run import LabReport

_ITERATIONS = 20
_SLOWER = (1, 3, 9)


@click.command("demo")
@click.option(
    "--topologies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("topologies"),
    show_default=True,
    help="Folder of the shipped examples.",
)
@OUTPUT
@RECEIVER
def command(topologies: Path, output: Path, receiver: str | None) -> None:
    """Run the job on real switches, clean and with every fault; then show all verdicts. Takes about two minutes.

    A run for which the machine was too busy is made again, slower. It ends with exit code 1 if a verdict is not what it
    must be.

    Example: flowcheck-net lab demo --output /tmp/flowcheck-lab
    """
    from flowcheck_net.cli.lab_cases import CASES
    from flowcheck_net.lab.build import directory_of, lab_of, missing
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.spec.load import load_specs, spec_paths

    make_folder(output)
    live = is_live(receiver, click.echo)
    rows: list[tuple[Case, LabReport]] = []
    for example in dict.fromkeys(case.example for case in CASES):
        specs = load_specs(*spec_paths(topologies / example))
        if why := missing({switch.platform for switch in specs.topology.switches} - {"ovs"}):
            click.echo(f"{example} is left out: {why}")
            continue
        with interruptible(), lab_of(specs, directory_of(f"demo-{os.getpid()}")) as lab:
            click.echo(click.style(f"{example}: {len(lab.drawn.all_nodes)} nodes are up", bold=True))
            for case in (case for case in CASES if case.example == example):
                folder = output / f"{example}-{case.title.replace(' ', '-').replace('%', 'percent').replace(',', '')}"
                make_folder(folder)
                words = "".join(f" --fault {fault}" for fault in case.faults)
                click.echo(click.style(f"$ flowcheck-net lab run topologies/{example}{words}", bold=True))
                report = _paced(lab, folder.absolute(), parse_faults(case.faults, lab.drawn), live=live)
                click.echo(f"{report.verdict}: {publishable(report.audit)}")
                rows.append((case, report))
    _show_cases(rows)
    wrong = [case.title for case, found in rows if found.verdict.value not in case.allowed]
    if wrong:
        raise FlowcheckError(f"not the verdict that it must be: {', '.join(wrong)}")


def _paced(lab: "Lab", folder: Path, faults: "Sequence[Fault]", *, live: bool) -> "LabReport":
    """A run, again and slower where the machine was too busy for it; what came of it is not asked."""
    from flowcheck_net.lab.run import run

    for slower in _SLOWER:
        report = run(lab, folder, _ITERATIONS, faults, live=live, slower=slower)
        if not report.busy or slower == _SLOWER[-1]:
            break
        click.echo(f"this machine was too busy, packets may be {report.late:.2f} s late: once more, slower")
    return report


def _show_cases(rows: "Sequence[tuple[Case, LabReport]]") -> None:
    from flowcheck_net.cli.output import console, table

    shown = table("Verdicts", "lab", "what happened", "publishable", "verdict", "must be")
    for case, found in rows:
        good = sum(one.publishable for one in found.audit.iterations)
        row = f"{good} of {found.iterations}", found.verdict.value, " or ".join(sorted(case.allowed))
        shown.add_row(case.example, case.title, *row)
    console().print(shown)
