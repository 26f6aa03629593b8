"""``flowcheck-net lab``: a fabric of namespaces and real switches on this machine."""

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli import lab_demo, lab_replica
from flowcheck_net.cli.audit import error_of, show_report
from flowcheck_net.cli.lab_options import OUTPUT, RECEIVER, interruptible, is_live, make_folder
from flowcheck_net.errors import CoverageGap
from flowcheck_net.lab.faults import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flowcheck_net.lab.build import Lab
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
@click.option(
    "--gradients",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Reduced gradients that the job sends, DIR/iteration-000000/GROUP.gradient ... (docs/synth.md).",
)
@click.option(
    "--payload",
    type=click.Path(path_type=Path, file_okay=False),
    help="Receivers place the payload into DIR/NODE, for `checkpoint follow --boards DIR/NODE`.",
)
@OUTPUT
@RECEIVER
@click.option("--json", "as_json", is_flag=True, help="Print the audit's report, and what the lab did, as JSON.")
def run_command(
    directory: Path | None,
    name: str,
    iterations: int,
    faults: tuple[str, ...],
    slower: float,
    gradients: Path | None,
    payload: Path | None,
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
      flowcheck-net lab run topologies/lab-leaf-spine --payload /dev/shm/fc      (then: records and payload to follow)
      flowcheck-net lab replica                        (a real training, its replica beside it, and a comparison)
      flowcheck-net lab up && flowcheck-net lab run --fault cut:capture=ckpt1:cap0,at=0.5; flowcheck-net lab down
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.lab.run import Payload, run

    make_folder(output)
    with interruptible(), _lab(directory, name) as lab:
        asked = parse_faults(faults, lab.drawn)
        tell: Callable[[str], None] = (lambda _: None) if as_json else click.echo
        live = is_live(receiver, tell)
        if payload is not None and not live:
            raise click.UsageError("--payload needs the DPDK receiver: captures place nothing")
        given = Payload(gradients, payload.absolute() if payload else None)
        report = run(lab, output.absolute(), iterations, asked, tell, live=live, slower=slower, payload=given)
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
            f"this machine was too busy: packets may have come {report.late:.2f} s late, and an iteration has "
            f"{report.plan.job.iteration_time:g} s; --slower gives it more"
        )


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


command.add_command(lab_demo.command)
command.add_command(lab_replica.command)
