"""``flowcheck-net check``: the three input files, every problem at once."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.inputs import input_files, input_options
from flowcheck_net.errors import SpecError

if TYPE_CHECKING:
    from flowcheck_net.spec.load import Specs


@click.command("check")
@input_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(
    directory: Path | None, topology: Path | None, job: Path | None, policy: Path | None, *, as_json: bool
) -> None:
    """Check the topology, job and policy file of DIRECTORY; show every problem at once.

    Prints "ok" and a summary, or file:line:column of each problem with exit code 2. A file with a wrong key, type or
    value is compared with the others once that is mended.

    Example: flowcheck-net check topologies/two-host
    """
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.spec.load import load_specs

    paths = input_files(directory, topology, job, policy)
    try:
        specs = load_specs(*paths)
    except SpecError as error:
        if as_json:
            emit_json({"ok": False, "problems": [asdict(problem) for problem in error.problems]})
        raise
    if as_json:
        emit_json({"ok": True, "problems": [], "summary": _summary(specs)})
        return
    click.echo("ok")
    for name, value in _summary(specs).items():
        click.echo(f"  {name.replace('_', ' ')}: {value}")


def _summary(specs: "Specs") -> dict[str, Any]:
    """What was read, in numbers."""
    from flowcheck_net.spec.groups import named_groups

    topology, job, policy = specs.topology, specs.job, specs.policy
    groups = named_groups(job)
    return {
        "topology": topology.name,
        "switches": len(topology.switches),
        "hosts": len(topology.hosts),
        "capture_nics": sum(len(node.nics) for node in topology.checkpoint_nodes),
        "links": len(topology.links),
        "job": job.name,
        "ranks": len(job.ranks),
        "groups": len(groups),
        "trees" if "tree" in job.collective.algorithm else "rings": len(groups) * job.nccl.channels,
        "gradient_elements": sum(bucket.elements for bucket in job.buckets),
        "copies": policy.copies,
    }
