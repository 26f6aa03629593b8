"""``flowcheck-net import slurm``: what the scheduler believes about the fabric, beside a topology."""

from dataclasses import asdict
from pathlib import Path

import click

from flowcheck_net.errors import SpecError

_FILE = click.Path(path_type=Path)


@click.command("slurm")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--topology", type=_FILE, help="Topology file to compare with.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(files: tuple[Path, ...], topology: Path | None, *, as_json: bool) -> None:
    """Read Slurm's topology.conf and compare its groups with a topology.

    Slurm names switches and nodes and knows no cable: nothing is written, and no link is made of it. Differences are
    hints, and the exit code stays 0.

    Example: flowcheck-net import slurm topology.conf --topology topology.yaml
    """
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.importers.slurm import read_slurm
    from flowcheck_net.importers.slurm_compare import compare
    from flowcheck_net.spec.load import load_topology

    try:
        switches = read_slurm(files)
        hints = compare(switches, load_topology(topology)) if topology is not None else ()
    except SpecError as error:
        if as_json:
            emit_json({"ok": False, "problems": [asdict(problem) for problem in error.problems]})
        raise
    if as_json:
        emit_json(
            {
                "ok": True,
                "switches": [
                    {"name": switch.name, "nodes": switch.nodes, "switches": switch.switches} for switch in switches
                ],
                "hints": [{"file": h.source.file, "line": h.source.line, "message": h.message} for h in hints],
            }
        )
        return
    for switch in switches:
        what = f"{len(switch.nodes)} nodes" if switch.nodes else f"{len(switch.switches)} switches"
        click.echo(f"{switch.name}: {what}")
    for hint in hints:
        click.echo(f"{hint.source}: {hint.message}", err=True)
    if topology is not None and not hints:
        click.echo("no difference to the topology")
