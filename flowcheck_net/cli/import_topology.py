"""``flowcheck-net import KIND FILE...`` for every source of cables."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.guard import refuse_overwriting
from flowcheck_net.errors import SpecError

if TYPE_CHECKING:
    from flowcheck_net.importers.cables import Finding, Survey
    from flowcheck_net.importers.options import Choice, Options
    from flowcheck_net.importers.run import Graph

_FILE = click.Path(path_type=Path)
_SHOWN = 12
"""Findings of a harmless kind that are written out."""
_LISTS = ("switches", "hosts", "checkpoint_nodes", "links")
ANSWERS = (
    click.option("--force", is_flag=True, help="Overwrite an existing output file."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document: graph, findings and topology."),
    click.option("--partial", is_flag=True, help="Write what is proven although there are problems."),
    click.option("--accept-one-sided", is_flag=True, help="Trust a cable whose other device gave no report."),
    click.option("--switch", "switches", multiple=True, metavar="GLOB", help="Devices that are switches."),
    click.option("--host", "hosts", multiple=True, metavar="GLOB", help="Devices that are training hosts."),
    click.option("--checkpoint", "nodes", multiple=True, metavar="GLOB", help="Devices that are checkpoint nodes."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out cables at this device or device:port."),
    click.option("--speed", "speeds", multiple=True, metavar="[GLOB=]SPEED", help="Where the source tells none."),
    click.option("--platform", "platforms", multiple=True, metavar="[GLOB=]NAME", help="Capability table of switches."),
    click.option("--management", multiple=True, metavar="[GLOB=]KIND:REF", help="Such as 'fake:{switch}'."),
    click.option("--addresses", type=_FILE, help="File with lines 'host nic address': IP addresses of host NICs."),
    click.option("--name", default="", help="Name of the topology; else from the source."),
)
"""Options that every source of cables has."""
_DECORATORS = (
    click.argument("files", metavar="FILE...", nargs=-1, required=True),
    click.option("-o", "--output", type=_FILE, help="Topology file to write; without it, to standard output."),
    *ANSWERS,
)


def _command(kind: str, what: str, read: "Callable[[Sequence[str]], Survey]") -> click.Command:
    """One importer as a command; all have the same options."""

    def run(
        files: Sequence[str],
        *,
        output: Path | None,
        force: bool,
        as_json: bool,
        partial: bool,
        **given: Any,  # noqa: ANN401 - the options of options_from
    ) -> None:
        from flowcheck_net.importers.run import import_topology

        refuse_overwriting(output, force=force)
        try:
            graph = import_topology(read(files), options_from(given))
        except SpecError as error:
            if as_json:
                emit_refusal(error)
            raise
        finish(graph, output, as_json=as_json, partial=partial)

    run.__doc__ = what
    for decorator in reversed(_DECORATORS):
        run = decorator(run)
    return click.command(kind)(run)


def options_from(given: dict[str, Any]) -> "Options":
    """What the user said with the options that all importers share."""
    from flowcheck_net.importers.addresses import read_addresses
    from flowcheck_net.importers.options import Options

    return Options(
        checkpoint=given["nodes"],
        host=given["hosts"],
        switch=given["switches"],
        exclude=given["exclude"],
        speed=_speeds(given["speeds"]),
        platform=_choices(given["platforms"]),
        management=_choices(given["management"]),
        addresses=read_addresses(given["addresses"]) if given["addresses"] is not None else (),
        accept_one_sided=given["accept_one_sided"],
        name=given["name"],
    )


def _speeds(texts: Sequence[str]) -> "tuple[Choice, ...]":
    """The choices of ``--speed``; a speed that our files cannot hold is refused here, before it is written."""
    from flowcheck_net.importers.names import natural
    from flowcheck_net.importers.roles import USABLE_SPEEDS

    choices = _choices(texts)
    for choice in choices:
        if choice.value not in USABLE_SPEEDS:
            known = ", ".join(sorted(USABLE_SPEEDS, key=natural))
            raise click.BadParameter(f"'{choice.value}' is none of {known}", param_hint="--speed")
    return choices


def _choices(texts: Sequence[str]) -> "tuple[Choice, ...]":
    """``GLOB=VALUE``, or ``VALUE`` for everything. A value for everything comes last, wherever it was written."""
    from flowcheck_net.importers.options import Choice

    choices = [Choice(*text.rsplit("=", 1)) if "=" in text else Choice("*", text) for text in texts]
    return tuple(sorted(choices, key=lambda choice: choice.glob == "*"))


def finish(
    graph: "Graph",
    output: Path | None,
    *,
    as_json: bool,
    partial: bool,
    more: dict[str, Any] | None = None,
) -> None:
    """Write the topology if it may be written; say what was found, in JSON with ``more``."""
    from flowcheck_net.cli.output import write_file
    from flowcheck_net.importers.cables import FindingKind
    from flowcheck_net.spec.dump import dump_yaml

    problems = graph.problems
    is_empty = any(finding.kind is FindingKind.NOTHING for finding in problems)
    is_written = not problems or (partial and not is_empty)
    text = dump_yaml(graph.imported.document, comment=_comment(graph)) if is_written else ""
    if text and output is not None:
        write_file(output, text, "-o")
    if as_json:
        _emit_graph(graph, more or {}, is_written=is_written)
    else:
        if text and output is None:
            click.echo(text, nl=False)
        _show([finding for finding in graph.imported.findings if is_written or not finding.is_problem])
        if output is not None and is_written:
            click.echo(f"wrote {output}: {_summary(graph)}", err=True)
    if is_written:
        return
    raise SpecError(
        [finding.problem() for finding in problems],
        hint="correct the source, or answer with the options of this command"
        + ("" if is_empty else "; --partial writes what is proven"),
    )


def _comment(graph: "Graph") -> str:
    """The head of the written file: where it is from, and what is left to do."""
    from flowcheck_net.importers.cables import FindingKind

    lines = ["Written by flowcheck-net import. Replace every FILL, then: flowcheck-net check"]
    lines += [f"- {f.message}" for f in graph.imported.findings if f.kind is FindingKind.FILL]
    if graph.problems:
        lines.append(f"PARTIAL: {len(graph.problems)} problems of the source are not in this file, such as:")
        lines += [f"- {finding.kind}: {finding.message}" for finding in graph.problems[:_SHOWN]]
    return "\n".join(lines)


def _summary(graph: "Graph") -> str:
    document = graph.imported.document
    counts = [(word, len(document[word]) if isinstance(document[word], list) else 0) for word in _LISTS]
    return ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts)


def _show(findings: "Sequence[Finding]") -> None:
    """The findings, one line each, on standard error; of the harmless kinds the first ones only."""
    from flowcheck_net.importers.cables import PROBLEMS

    count = Counter(finding.kind for finding in findings)
    shown: Counter[str] = Counter()
    for finding in findings:
        shown[finding.kind] += 1
        if not finding.is_problem and shown[finding.kind] > _SHOWN:
            continue
        cure = f" ({finding.cure})" if finding.cure else ""
        click.echo(f"{finding.source}: {finding.kind}: {finding.message}{cure}", err=True)
    for kind, number in count.items():
        if shown[kind] > _SHOWN and kind not in PROBLEMS:
            click.echo(f"and {number - _SHOWN} more of kind {kind}: --json lists them all", err=True)


def _emit_graph(graph: "Graph", more: dict[str, Any], *, is_written: bool) -> None:
    from flowcheck_net.cli.output import emit_json

    findings = [
        {
            "kind": finding.kind,
            "problem": finding.is_problem,
            "message": finding.message,
            "cure": finding.cure,
            "file": finding.source.file,
            "line": finding.source.line,
        }
        for finding in graph.imported.findings
    ]
    emit_json(
        {
            "ok": not graph.problems,
            "written": is_written,
            "devices": [
                {"name": device.name, "role": graph.roles.get(device.name), "platform": device.platform}
                for device in graph.devices
            ],
            "links": [{"a": str(link.a), "b": str(link.b), "speed": link.speed} for link in graph.links],
            "findings": findings,
            "topology": graph.imported.document,
            **more,
        }
    )


def emit_refusal(error: SpecError) -> None:
    """The problems as one JSON document."""
    from flowcheck_net.cli.output import emit_json

    emit_json({"ok": False, "written": False, "problems": [asdict(problem) for problem in error.problems]})


def _paths(files: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(file) for file in files)


def _read_containerlab(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.containerlab import read_containerlab

    return read_containerlab(_paths(files))


def _read_netbox(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.netbox import read_netbox

    return read_netbox(_paths(files))


def _read_lldp(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.lldp import parse_report_argument
    from flowcheck_net.importers.lldp_read import read_lldp

    return read_lldp([parse_report_argument(file) for file in files])


def _read_batfish(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.batfish import read_batfish

    return read_batfish(_paths(files))


def _read_netq(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.netq import read_netq

    return read_netq(_paths(files))


def _read_ibnetdiscover(files: Sequence[str]) -> "Survey":
    from flowcheck_net.importers.ibnetdiscover import read_ibnetdiscover

    return read_ibnetdiscover(_paths(files))


containerlab = _command(
    "containerlab",
    """Read containerlab files; nodes of kind linux are hosts, all others are switches.

    Example: flowcheck-net import containerlab clos02.clab.yml --speed 100G --platform fake -o topology.yaml
    """,
    _read_containerlab,
)
netbox = _command(
    "netbox",
    """Read the JSON of "manage.py dumpdata dcim" of NetBox; cables are followed through patch panels.

    Example: flowcheck-net import netbox dcim.json --exclude '*-pdu*' -o topology.yaml
    """,
    _read_netbox,
)
lldp = _command(
    "lldp",
    """Read LLDP neighbours, one file a device, named NAME=FILE or by the file: leaf1.txt is of leaf1.

    Files are the JSON of NAPALM's lldp_neighbors_detail, or the CLI answers of EOS, NX-OS, Junos, VRP and Comware.

    Example: flowcheck-net import lldp leaf1.json leaf2.json spine1=lldp.txt --accept-one-sided -o topology.yaml
    """,
    _read_lldp,
)
batfish = _command(
    "batfish",
    """Read Batfish layer1_topology.json files; they tell no roles, so say them with --switch and --host.

    Example: flowcheck-net import batfish layer1_topology.json --host 'host*' --switch '*' -o topology.yaml
    """,
    _read_batfish,
)
netq = _command(
    "netq",
    """Read NetQ topologyGraph.json files; what NetQ only heard by LLDP is taken for a host.

    Example: flowcheck-net import netq topologyGraph.json --speed 200G -o topology.yaml
    """,
    _read_netq,
)
ibnetdiscover = _command(
    "ibnetdiscover",
    """Read the output of ibnetdiscover. InfiniBand is not RoCE: nothing can be planned, the graph is given.

    Example: flowcheck-net import ibnetdiscover fabric.out --json
    """,
    _read_ibnetdiscover,
)
