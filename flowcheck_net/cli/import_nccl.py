"""``flowcheck-net import nccl`` and ``import nccl-xml``: what NCCL itself says of a job."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.guard import refuse_overwriting

if TYPE_CHECKING:
    from flowcheck_net.importers.nccl_communicators import Log
    from flowcheck_net.importers.nccl_findings import Finding
    from flowcheck_net.importers.nccl_groups import GroupFacts
    from flowcheck_net.importers.nccl_nics import NameChoice
    from flowcheck_net.importers.nccl_topology_xml import Affinity
    from flowcheck_net.importers.nccl_wire import BucketChoice, WireChoice

_FILE = click.Path(path_type=Path)
_DTYPES = ("fp32", "fp16", "bf16", "fp64")


class _Bucket(click.ParamType["BucketChoice"]):
    name = "ELEMENTS:DTYPE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "BucketChoice":  # noqa: ANN401
        """``1000000:bf16``."""
        from flowcheck_net.importers.nccl_wire import BucketChoice

        match = re.fullmatch(r"([0-9]{1,13}):(\w+)", str(value))
        if match is None or match[2] not in _DTYPES or not 1 <= int(match[1]) <= 2**40:
            self.fail(f"{value!r} is not ELEMENTS:DTYPE, such as 1000000:bf16 ({', '.join(_DTYPES)})", param, ctx)
        return BucketChoice(int(match[1]), match[2])


class _Pair(click.ParamType[tuple[str, str]]):
    name = "LOG=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:  # noqa: ANN401
        """``0=mlx5_0`` or ``worker-0=host1``."""
        left, equals, right = str(value).partition("=")
        if not (left and equals and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", right)):
            self.fail(f"{value!r} is not LOG=NAME", param, ctx)
        return left, right


class _NcclVersion(click.ParamType[tuple[int, int, int]]):
    name = "X.Y.Z"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, int, int]:
        """``2.19.3``."""
        match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})", str(value))
        if match is None:
            self.fail(f"{value!r} is not a version such as 2.19.3", param, ctx)
        return int(match[1]), int(match[2]), int(match[3])


@click.command("nccl")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Job file to write; without it, to standard output.")
@click.option("--force", is_flag=True, help="Overwrite an existing output file.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as one JSON document; a job only with -o.")
@click.option("--topology", type=_FILE, help="Topology file, for the names of hosts and NICs.")
@click.option("--comm", "communicators", multiple=True, metavar="ID", help="Communicator of a data-parallel group.")
@click.option("--nranks", type=click.IntRange(min=2), help="All communicators with so many ranks.")
@click.option("--name", default="nccl-job", show_default=True, help="Name of the job.")
@click.option("--bucket", "buckets", multiple=True, type=_Bucket(), help="An all-reduce of an iteration, in order.")
@click.option("--iteration-time", type=click.FloatRange(min=0, min_open=True), help="Seconds of an iteration.")
@click.option("--algorithm", type=click.Choice(["ring", "tree"]), help="Where the log does not say it.")
@click.option("--protocol", type=click.Choice(["LL", "LL128", "Simple"]), help="Where the log does not say it.")
@click.option("--mtu", type=click.Choice(["256", "512", "1024", "2048", "4096"]), help="Path MTU in bytes, likewise.")
@click.option("--channels", type=click.IntRange(1, 64), help="Channels that the all-reduce uses, likewise.")
@click.option("--threads", type=click.IntRange(64, 640), help="Working threads of a channel, likewise.")
@click.option("--qps", type=click.IntRange(1, 128), help="Queue pairs of a connection, likewise.")
@click.option("--nic", "nics", multiple=True, type=_Pair(), help="NIC number in the log = NIC name.")
@click.option("--host", "hosts", multiple=True, type=_Pair(), help="Host in the log = host in the topology.")
@click.option("--nccl-version", type=_NcclVersion(), help="Where the log does not say it.")
def nccl(
    logs: Sequence[Path],
    *,
    output: Path | None,
    force: bool,
    as_json: bool,
    topology: Path | None,
    communicators: Sequence[str],
    nranks: int | None,
    name: str,
    nics: Sequence[tuple[str, str]],
    hosts: Sequence[tuple[str, str]],
    nccl_version: tuple[int, int, int] | None,
    **stated: Any,  # noqa: ANN401 - the options of _wire
) -> None:
    """Read NCCL debug logs of ALL ranks (one file or many, lines in any order) and write a job file.

    \b
    Log with:  NCCL_DEBUG=INFO  NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,TUNING,ENV
    Example:   flowcheck-net import nccl logs/* --topology topology.yaml -o job.yaml \\
                 --bucket 6553600:fp32 --iteration-time 0.5

    A ring that is cut, or of which a rank's log is missing, is refused by name (exit code 2).
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.output import emit_json, write_file
    from flowcheck_net.importers.nccl_communicators import gather
    from flowcheck_net.importers.nccl_findings import log_findings
    from flowcheck_net.importers.nccl_groups import choose, group_facts
    from flowcheck_net.importers.nccl_job import job_document
    from flowcheck_net.importers.nccl_json import facts_json
    from flowcheck_net.importers.nccl_lines import read_logs
    from flowcheck_net.spec.dump import dump_yaml

    refuse_overwriting(output, force=force)
    log = gather(read_logs(logs), [str(path) for path in logs], nccl_version)
    groups = group_facts(log, choose(log, communicators, nranks))
    if as_json and output is None:
        emit_json({"facts": facts_json(log, groups), "findings": _findings(log_findings(log, groups)), "job": None})
        return
    made = job_document(log, groups, name, _names(topology, hosts, nics), _wire(stated))
    text = dump_yaml(made.tree, comment=_comment(log, groups))
    if output is not None:
        write_file(output, text, "-o")
    if as_json:
        emit_json({"facts": facts_json(log, groups), "findings": _findings(made.findings), "job": made.tree})
    elif output is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"wrote {output}: {_summary(groups)}")
    for finding in made.findings:
        click.echo(f"{finding.name}: {finding.words}", err=True)


def _names(topology: Path | None, hosts: Sequence[tuple[str, str]], nics: Sequence[tuple[str, str]]) -> "NameChoice":
    from flowcheck_net.importers.nccl_nics import NameChoice
    from flowcheck_net.spec.load import load_topology

    odd = [left for left, _ in nics if not left.isascii() or not left.isdigit()]
    if odd:
        raise click.UsageError(f"--nic {odd[0]}=...: not the number of a NIC")
    fabric = load_topology(topology) if topology is not None else None
    return NameChoice(fabric, dict(hosts), {int(left): right for left, right in nics})


def _wire(stated: Mapping[str, Any]) -> "WireChoice":
    from flowcheck_net.importers.nccl_wire import WireChoice

    mtu = stated["mtu"]
    return WireChoice(**{**stated, "mtu": None if mtu is None else int(mtu), "buckets": tuple(stated["buckets"])})


def _comment(log: "Log", groups: Sequence["GroupFacts"]) -> str:
    ids = ", ".join(group.communicator.id for group in groups)
    return f"Imported by flowcheck-net from {log.name}\nNCCL communicators: {ids}"


def _summary(groups: Sequence["GroupFacts"]) -> str:
    ranks = sum(group.communicator.size for group in groups)
    rings = sum(len(group.rings) for group in groups)
    hops = sum(hop.send is not None for group in groups for ring in group.rings for hop in ring.hops)
    return f"{ranks} ranks, {len(groups)} data-parallel groups, {rings} rings, {hops} hops on the network"


def _findings(findings: Sequence["Finding"]) -> list[dict[str, str]]:
    return [{"name": finding.name, "words": finding.words} for finding in findings]


@click.command("nccl-xml")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def nccl_xml(files: Sequence[Path], *, as_json: bool) -> None:
    """Show the NIC nearest to each GPU (topology XML), or where each channel enters and leaves the host (graph XML).

    NCCL writes them with NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE; cloud images ship them for NCCL_TOPO_FILE.
    """
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.importers.nccl_graph_xml import graphs
    from flowcheck_net.importers.nccl_topology_xml import affinities
    from flowcheck_net.importers.nccl_xml import read_xml

    shown: list[dict[str, Any]] = []
    for path in files:
        root, source = read_xml(path), str(path)
        if root.tag == "graphs":
            shown.append({"file": source, "kind": "graph", "graphs": [asdict(one) for one in graphs(root, source)]})
        else:
            found = [_affinity(one) for one in affinities(root, source)]
            shown.append({"file": source, "kind": "topology", "gpus": found})
    if as_json:
        emit_json({"files": shown})
        return
    for one in shown:
        _show(one)


def _affinity(one: "Affinity") -> dict[str, Any]:
    gpu = one.gpu
    return {
        "bus_id": gpu.bus_id,
        "dev": gpu.number,
        "rank": gpu.rank,
        "host_hash": gpu.host or None,
        "nics": [{"name": nic.name or None, "bus_id": nic.bus_id or None, "dev": nic.number} for nic in one.nics],
        "path": None if one.path is None else one.path.name,
    }


def _show(file: Mapping[str, Any]) -> None:
    from rich.table import Table

    from flowcheck_net.cli.output import console

    table = Table(title=file["file"], title_justify="left")
    if file["kind"] == "topology":
        for heading in ("gpu", "dev", "rank", "nearest NICs", "path"):
            table.add_column(heading)
        for gpu in file["gpus"]:
            nics = ", ".join(nic["name"] or nic["bus_id"] or f"dev {nic['dev']}" for nic in gpu["nics"])
            table.add_row(gpu["bus_id"], _or_dash(gpu["dev"]), _or_dash(gpu["rank"]), nics or "-", gpu["path"] or "-")
    else:
        for heading in ("graph", "pattern", "channel", "enters by NIC", "GPUs", "leaves by NIC"):
            table.add_column(heading)
        for graph in file["graphs"]:
            for number, channel in enumerate(graph["channels"]):
                gpus = " ".join(str(gpu) for gpu in channel["gpus"])
                ends = _or_dash(channel["receive_nic"]), gpus, _or_dash(channel["send_nic"])
                table.add_row(graph["name"], graph["pattern"], str(number), *ends)
    console().print(table)


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
