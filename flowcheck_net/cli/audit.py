"""``flowcheck-net audit``: compare records with what is expected, and say what is proven."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.errors import FlowcheckError
from flowcheck_net.ids import HostName, NodeName, SwitchName

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from flowcheck_net.audit.result import AuditReport
    from flowcheck_net.audit.scene import Scene
    from flowcheck_net.audit.sums import HopSum
    from flowcheck_net.model.expect import Expectation
    from flowcheck_net.plan.plan import Picture
    from flowcheck_net.spec.topology import Topology

_FILE = click.Path(path_type=Path, dir_okay=False)
_ROWS = 60
"""Rings and iterations of a table; whatever is not publishable comes first."""
_STYLES = {
    "COVERED": "green",
    "RECOVERED": "cyan",
    "GAP": "bold red",
    "DUPLICATE": "yellow",
    "UNPLANNED": "bold magenta",
    "UNKNOWN": "yellow",
    "STALE": "magenta",
}


@click.command("audit")
@click.argument("records", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option("--plan", type=_FILE, help="The plan in force: its observation points are what must be seen.")
@click.option("--topology", type=_FILE, help="Without a plan: the fabric, instead of DIRECTORY/topology.yaml.")
@click.option("--job", type=_FILE, help="Without a plan: the job, instead of DIRECTORY/job.yaml.")
@click.option("--policy", type=_FILE, help="Checked together with the other two.  [default: beside the topology]")
@click.option("--html", type=_FILE, help="Write a self-contained report with a picture of the fabric.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def command(
    records: Path,
    directory: Path | None,
    plan: Path | None,
    topology: Path | None,
    job: Path | None,
    policy: Path | None,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Compare RECORDS (from replay) with the plan, or without one with the job files of DIRECTORY.

    The report is printed first. The exit code is 4 where fully reduced bytes are missing, 6 for traffic or copies that
    nobody planned and for a job that changed, 10 where something cannot be proven, else 0. The verdicts are told in
    docs/audit.md. An iteration is publishable when each of its rings is COVERED or RECOVERED.

    \b
    Examples:
      flowcheck-net audit records.fcr --plan plan.json --html report.html
      flowcheck-net audit records.fcr my-job/        (topology.yaml, job.yaml, policy.yaml; no plan)
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.audit.coverage import audit
    from flowcheck_net.audit.report import render_html
    from flowcheck_net.audit.result import report_to_dict
    from flowcheck_net.cli.guard import spare_inputs
    from flowcheck_net.cli.output import console, emit_json, write_file
    from flowcheck_net.receive.records_read import read_records

    if plan is None and directory is None and None in (topology, job):
        raise click.UsageError("give --plan, DIRECTORY, or --topology and --job")
    if plan is not None and (directory, topology, job, policy) != (None, None, None, None):
        raise click.UsageError("--plan holds the whole configuration: give it alone")
    spare_inputs(html, "--html", records, plan, topology, job, policy)
    expectation, scene = _planned(plan) if plan is not None else _unplanned(directory, topology, job, policy)
    report = audit(expectation, read_records(records))
    if html is not None:
        write_file(html, render_html(report, scene), "--html")
    if as_json:
        emit_json(report_to_dict(report))
    else:
        show_report(console(), report)
        if html is not None:
            click.echo(f"written: {html}")
    error = error_of(report)
    if error is not None:
        raise error


def _planned(path: Path) -> "tuple[Expectation, Scene]":
    from flowcheck_net.audit.scene import scene_of_plan
    from flowcheck_net.cli.inputs import read_plan
    from flowcheck_net.plan.plan import expectation

    plan = read_plan(path)
    return expectation(plan), scene_of_plan(plan)


def _unplanned(
    directory: Path | None, topology: Path | None, job: Path | None, policy: Path | None
) -> "tuple[Expectation, Scene]":
    from flowcheck_net.audit.scene import Scene
    from flowcheck_net.model.build import build_job
    from flowcheck_net.model.expect import expect
    from flowcheck_net.spec.load import load_specs, spec_paths

    usual = spec_paths(directory or (topology or Path()).parent)
    specs = load_specs(topology or usual[0], job or usual[1], policy or usual[2])
    built = build_job(specs.job, specs.topology)
    return expect(built, None), Scene(_picture(specs.topology), built.places)


def _picture(topology: "Topology") -> "Picture":
    """The whole fabric."""
    from flowcheck_net.plan.plan import Picture

    return Picture(
        switches=tuple(sorted(SwitchName(switch.name) for switch in topology.switches)),
        hosts=tuple(sorted(HostName(host.name) for host in topology.hosts)),
        nodes=tuple(sorted(NodeName(node.name) for node in topology.checkpoint_nodes)),
        links=tuple(sorted((*_end(one), *_end(two)) for one, two in topology.links)),
    )


def _end(text: str) -> tuple[str, str]:
    device, _, port = text.partition(":")
    return device, port


def error_of(report: "AuditReport") -> FlowcheckError | None:
    """The exit code of the worst verdict."""
    from flowcheck_net.audit.verdict import Verdict
    from flowcheck_net.errors import CoverageGap, CoverageUnknown, Drift

    text = f"{report.verdict}: {publishable(report)}"
    if report.verdict is Verdict.GAP:
        hint = "publish no iteration with a gap; its reason names the hops that lost packets or were not observed"
        return CoverageGap(text, hint=hint)
    if report.verdict in (Verdict.UNPLANNED, Verdict.DUPLICATE, Verdict.STALE):
        hint = "compare job.yaml with NCCL's log, and with the messages that the findings name"
        if not report.iterations:
            hint = f"do these records belong to this {'plan' if report.planned else 'job'}? Else " + hint
        elif report.planned:
            hint = "the reasons and findings name the traffic; `flowcheck-net verify` compares switches and plan"
        return Drift(text, hint=hint)
    if report.verdict is Verdict.UNKNOWN:
        return CoverageUnknown(text, hint="the reasons and findings above say what could not be proven")
    return None


def publishable(report: "AuditReport") -> str:
    """Such as ``2 of 3 iterations are publishable``."""
    if not report.iterations:
        return "no iteration was found"
    good = sum(i.publishable for i in report.iterations)
    return f"{good} of {len(report.iterations)} iterations are publishable"


def show_report(out: "Console", report: "AuditReport") -> None:
    """The tables of rings, hops and findings, and the verdict."""
    from flowcheck_net.audit.sums import hop_sums

    for warning in report.warnings:
        out.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    out.print(_ring_table(report))
    if sums := hop_sums(report.rings):
        out.print(_hop_table(sums))
    if report.findings:
        out.print(_finding_table(report))
    style = _STYLES[report.verdict.value]
    out.print(
        f"[{style}]{report.verdict}[/]: {publishable(report)}"
        + ("" if report.planned else " (no plan was given: every hop with traffic counts as observed)")
    )


def _ring_table(report: "AuditReport") -> "Table":
    from rich.text import Text

    from flowcheck_net.cli.output import table

    shown = table("Verdicts", "iteration", "ring", "verdict", "reduced packets", "reason", numbers=("iteration",))
    rows = sorted(report.rings, key=lambda r: (r.verdict.publishable, -1 if r.iteration is None else r.iteration))
    for ring in sorted(rows[:_ROWS], key=lambda r: (-1 if r.iteration is None else r.iteration, r.group, r.channel)):
        shown.add_row(
            "-" if ring.iteration is None else str(ring.iteration),
            f"{ring.group}/{ring.channel}",
            Text(ring.verdict.value, style=_STYLES[ring.verdict.value]),
            f"{ring.reduced_seen:,} of {ring.reduced_packets:,}" if ring.hops else "-",
            Text(ring.reason),
        )
    if len(rows) > _ROWS:
        shown.caption = f"{len(rows) - _ROWS} more in --json and --html"
    return shown


def _hop_table(sums: "Sequence[HopSum]") -> "Table":
    from flowcheck_net.cli.output import amount, table

    numbers = ("expected", "seen", "missing", "reduced", "bytes", "raw", "repeated", "resent")
    shown = table(
        "Packets by hop: seen + missing = expected; reduced: of the missing; raw: all that arrived",
        *("hop", "captures", "queue pairs", *numbers),
        numbers=numbers,
    )
    for hop in sums:
        if hop.watched:
            gone = (hop.missing, hop.missing_reduced)
            counts = (hop.expected, hop.seen, *gone, hop.bytes, hop.raw, hop.repeats, hop.retransmitted)
            shown.add_row(hop.label, hop.captures, hop.qpns, *map(amount, counts))
    hidden = sum(not hop.watched for hop in sums)
    if hidden:
        shown.caption = f"hops that are not watched and not listed: {hidden}\n"
    return shown


def _finding_table(report: "AuditReport") -> "Table":
    from rich.text import Text

    from flowcheck_net.cli.output import table

    shown = table("Findings", "kind", "makes it", "what", "text")
    for finding in report.findings[:_ROWS]:
        verdict = finding.verdict.value if finding.verdict else "note"
        style = _STYLES.get(verdict, "")
        shown.add_row(finding.kind.value, Text(verdict, style=style), Text(finding.subject), Text(finding.text))
    if len(report.findings) > _ROWS:
        shown.caption = f"{len(report.findings) - _ROWS} more in --json and --html"
    return shown
