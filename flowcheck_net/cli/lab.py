"""``flowcheck-net lab``: a fabric of namespaces and real switches on this machine."""

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.audit import error_of, publishable, show_report
from flowcheck_net.errors import CoverageGap, FlowcheckError, OutputError
from flowcheck_net.lab.faults import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flowcheck_net.cli.lab_cases import Case
    from flowcheck_net.lab.build import Lab
    from flowcheck_net.lab.faults import Fault
    from flowcheck_net.lab.run import LabReport

EXAMPLE = Path("topologies/lab-leaf-spine")
_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


class _LabName(click.ParamType[str]):
    """The name of a lab: it stands in the paths of sockets, which must be short."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Unchanged, or an error."""
        if not _FORM.fullmatch(value):
            self.fail(f"{value!r} is not 1 to 32 letters, digits and dashes", param, ctx)
        return value


_NAME = click.option(
    "--name", default="lab", show_default=True, type=_LabName(), help="Of the lab; there can be several."
)
_OUTPUT = click.option(
    "-o",
    "--output",
    default=Path("build/lab"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for plan, captures and records; files of an earlier run are overwritten.",
)
_RECEIVER = click.option(
    "--receiver",
    type=click.Choice(["dpdk", "capture"]),
    help="How copies are received: `flowcheck-net receive`, or captures, replayed.  [default: dpdk where built]",
)
_ITERATIONS = 20
"""Of the demo."""
_SLOWER = (1, 3, 9)
_DIRECTORY = click.argument(
    "directory", required=False, default=EXAMPLE, type=click.Path(path_type=Path, exists=True, file_okay=False)
)


@click.group("lab")
def command() -> None:
    """Make a fabric on this machine: hosts, real Open vSwitch or BMv2 switches, checkpoint nodes (root).

    Everything is in network namespaces of its own, and gone without a trace after `lab down`. docs/lab.md tells more.

    \b
    Examples:
      flowcheck-net lab demo                                  (every fault, one after another: make lab)
      flowcheck-net lab run topologies/lab-leaf-spine         (made for this run, and taken away)
      flowcheck-net lab up topologies/lab-leaf-spine && flowcheck-net lab run && flowcheck-net lab down
    """  # noqa: D301 - click wants the real backspace character


@command.command("up")
@_DIRECTORY
@_NAME
def up_command(directory: Path, name: str) -> None:
    """Make the lab of DIRECTORY (topologies/lab-leaf-spine), and leave it there.

    The switches of the topology must be of platform `ovs` or `bmv2`; names of ports and NICs become names of Linux
    interfaces. For BMv2 the variable FLOWCHECK_BMV2 names simple_switch_grpc, where it is not on the path.

    Example: flowcheck-net lab up topologies/lab-leaf-spine
    """
    from flowcheck_net.lab.build import directory_of, up
    from flowcheck_net.spec.load import load_specs, spec_paths

    place = directory_of(name)
    with interruptible():
        up(load_specs(*spec_paths(directory)), place)
    click.echo(f"lab {name}: up; its files: {place}")
    click.echo(f"its switches, for every other command: flowcheck-net plan {place}/specs -o plan.json")


@command.command("run", epilog=f"\b\nFaults:\n{FORMS}")
@click.argument("directory", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@_NAME
@click.option("--iterations", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Of the job.")
@click.option(
    "--fault", "faults", multiple=True, metavar="SPEC", help="One of those below. May be given several times."
)
@click.option(
    "--slower",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01, 1000),
    help="So many times the job's iteration time: for a busy machine.",
)
@_OUTPUT
@_RECEIVER
@click.option("--json", "as_json", is_flag=True, help="Print the audit's report, and what the lab did, as JSON.")
def run_command(
    directory: Path | None,
    name: str,
    iterations: int,
    faults: tuple[str, ...],
    slower: float,
    output: Path,
    receiver: str | None,
    *,
    as_json: bool,
) -> None:
    """Plan, apply, send the job's traffic from all hosts at once, record the copies, and audit them.

    With DIRECTORY a lab is made for this run and taken away after it; without, the job runs in the lab that `lab up`
    made. Beside the all-reduce the job's hosts send other writes to their neighbours, as tensor parallelism does, and
    hosts without a rank to each other. Exit codes are those of `audit`.

    \b
    Examples:
      flowcheck-net lab run topologies/lab-leaf-spine
      flowcheck-net lab run topologies/lab-leaf-spine --fault loss:rate=0.01
      flowcheck-net lab run topologies/lab-p4-window --slower 2 --json
      flowcheck-net lab up && flowcheck-net lab run --fault cut:capture=ckpt1:cap0,at=0.5; flowcheck-net lab down
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.lab.run import run

    make_folder(output)
    with interruptible(), _lab(directory, name) as lab:
        asked = parse_faults(faults, lab.drawn)
        tell: Callable[[str], None] = (lambda _: None) if as_json else click.echo
        live = is_live(receiver, tell)
        report = run(lab, output.absolute(), iterations, asked, tell, live=live, slower=slower)
    if as_json:
        emit_json(_to_json(report, [fault.text for fault in asked], output))
    else:
        _show_run(report, output)
    if error := error_of(report.audit):
        raise error
    if report.unseen > 0:
        text = f"{report.verdict}: nothing came of {report.unseen} of {report.iterations} iterations"
        raise CoverageGap(text, hint="they were sent, and no copy of them reached a capture port")


def _to_json(report: "LabReport", faults: "Sequence[str]", output: Path) -> dict[str, object]:
    from flowcheck_net.audit.result import report_to_dict

    ran: dict[str, object] = {
        "faults": list(faults),
        "verdict": report.verdict.value,
        "iterations": report.iterations,
        "unseen": report.unseen,
        "iteration_time": report.plan.job.iteration_time,
        "sent": report.sent.packets,
        "received": report.received,
        "switch_drops": report.switch_drops,
        "late": report.late,
        "busy": report.busy,
        "files": str(output),
    }
    return {**report_to_dict(report.audit), "lab": ran}


def _show_run(report: "LabReport", output: Path) -> None:
    from flowcheck_net.cli.output import console

    show_report(console(), report.audit)
    click.echo(f"{report.sent.packets:,} packets sent, {report.received:,} at the capture ports; files: {output}")
    for switch, count in report.switch_drops.items():
        if count:
            click.echo(f"{switch} lost {count:,} frames in its own buffers, which none of its counters tells")
    if report.busy:
        click.echo(
            f"this machine was too busy: packets came up to {report.late:.2f} s late, and an iteration has "
            f"{report.plan.job.iteration_time:g} s; --slower gives it more"
        )


@command.command("demo")
@click.option(
    "--topologies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("topologies"),
    show_default=True,
    help="Folder of the shipped examples.",
)
@_OUTPUT
@_RECEIVER
def demo_command(topologies: Path, output: Path, receiver: str | None) -> None:
    """Run the job on real switches, clean and with every fault; then show all verdicts. Takes about two minutes.

    A run for which the machine was too busy is made again, slower. It ends with exit code 1 if a verdict is not what it
    must be.

    Example: flowcheck-net lab demo --output /tmp/flowcheck-lab
    """
    from flowcheck_net.cli.lab_cases import CASES
    from flowcheck_net.lab.build import directory_of, lab_of
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.spec.load import load_specs, spec_paths

    make_folder(output)
    live = is_live(receiver, click.echo)
    rows: list[tuple[Case, LabReport]] = []
    for example in dict.fromkeys(case.example for case in CASES):
        specs = load_specs(*spec_paths(topologies / example))
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
        click.echo(f"this machine was too busy, packets came up to {report.late:.2f} s late: once more, slower")
    return report


def _show_cases(rows: "Sequence[tuple[Case, LabReport]]") -> None:
    from flowcheck_net.cli.output import console, table

    shown = table("Verdicts", "lab", "what happened", "publishable", "verdict", "must be")
    for case, found in rows:
        good = sum(one.publishable for one in found.audit.iterations)
        row = f"{good} of {found.iterations}", found.verdict.value, " or ".join(sorted(case.allowed))
        shown.add_row(case.example, case.title, *row)
    console().print(shown)


def is_live(receiver: str | None, tell: "Callable[[str], None]") -> bool:
    """Is the DPDK receiver to be used? So it is where this build has one."""
    from flowcheck_net.errors import ReceiveError
    from flowcheck_net.receive.receiver import program

    if receiver is not None:
        return receiver == "dpdk"
    try:
        program()
    except ReceiveError as lack:
        tell(f"captures are taken and replayed: {lack.message}")
        return False
    return True


@contextmanager
def _lab(directory: Path | None, name: str) -> "Iterator[Lab]":
    """A lab for this run, or the one that is up."""
    from flowcheck_net.lab.build import directory_of, lab_of, standing
    from flowcheck_net.spec.load import load_specs, spec_paths

    if directory is None:
        with standing(directory_of(name)) as lab:
            yield lab
    else:
        specs = load_specs(*spec_paths(directory))
        with lab_of(specs, directory_of(f"{name}-{os.getpid()}")) as lab:
            yield lab


@contextmanager
def interruptible() -> "Iterator[None]":
    """SIGTERM and SIGHUP take everything away, as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def make_folder(output: Path) -> None:
    """The folder for results; raises OutputError."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise OutputError(
            f"{output} cannot be written: {fault.strerror}", hint="choose another place with -o"
        ) from fault


@command.command("down")
@_NAME
def down_command(name: str) -> None:
    """End the lab's processes, also after a crash, and remove its files.

    Example: flowcheck-net lab down
    """
    from flowcheck_net.lab.build import directory_of, down

    with interruptible():
        count = down(directory_of(name))
    click.echo(f"lab {name}: {count} processes ended" if count else f"lab {name}: nothing of it ran any more")


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print all labs with their processes as JSON.")
def status_command(*, as_json: bool) -> None:
    """Show all labs of this machine, and how to get into their nodes.

    Example: flowcheck-net lab status
    """
    from dataclasses import asdict

    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.lab.build import statuses

    labs = statuses()
    if as_json:
        emit_json([asdict(lab) for lab in labs])
        return
    if not labs:
        click.echo("no lab is up")
    for lab in labs:
        click.echo(
            f"lab {lab.name}: {len(lab.alive)} processes" + (f"; ended: {', '.join(lab.dead)}" if lab.dead else "")
        )
        for name, pid in lab.alive.items():
            click.echo(f"  {name}: nsenter --net=/proc/{pid}/ns/net" if "/" not in name else f"  {name}: process {pid}")
