"""``flowcheck-net topology``: made-up clusters of any size, with a job to match."""

from pathlib import Path
from typing import Any

import click

_SPEEDS = ("10G", "25G", "40G", "50G", "100G", "200G", "400G", "800G")
_KINDS = ("rail-optimised", "leaf-spine", "fat-tree", "dragonfly")


@click.group("topology")
def command() -> None:
    """Make topologies."""


@command.command("generate")
@click.argument("kind", type=click.Choice(_KINDS))
@click.option("--hosts", type=int, required=True, help="Number of hosts.")
@click.option("--gpus-per-host", type=int, default=8, show_default=True, help="GPUs of a host; each has its own NIC.")
@click.option("--tp", type=int, help="Tensor-parallel size.  [default: GPUs of a host]")
@click.option("--pp", type=int, default=1, show_default=True, help="Pipeline-parallel size; data-parallel is the rest.")
@click.option("--channels", type=int, default=2, show_default=True, help="NCCL channels, each with a ring a group.")
@click.option("--copies", type=int, default=2, show_default=True, help="Copies of every byte that the policy asks for.")
@click.option("--speed", type=click.Choice(_SPEEDS), default="400G", show_default=True, help="NICs and switch links.")
@click.option("--capture-speed", type=click.Choice(_SPEEDS), default="800G", show_default=True, help="Capture NICs.")
@click.option(
    "--capture-ports-per-leaf",
    "capture_ports",
    type=int,
    help="Capture NICs on each leaf.  [default: as many as the plan needs]",
)
@click.option("--hosts-per-leaf", type=int, help="Hosts of a pod or leaf.  [default: rail-optimised 16, leaf-spine 2]")
@click.option("--spines", type=int, default=4, show_default=True, help="Uplinks of a leaf, each to another spine.")
@click.option("-k", "k", type=int, help="Ports of a fat-tree's switches.  [default: the fewest that do]")
@click.option("--platform", default="fake", show_default=True, help="Capability table of the switches.")
@click.option(
    "--rate-model",
    type=click.Choice(("line_rate", "average")),
    help="Of the policy.  [default: line_rate if the platform has sessions for it]",
)
@click.option("--elements", type=int, default=40_000_000, show_default=True, help="Gradient elements of a GPU (fp32).")
@click.option("--iteration-time", type=float, default=10.0, show_default=True, help="Seconds of an iteration.")
@click.option("--shuffle", is_flag=True, help="Place ranks on hosts at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of --shuffle.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Directory.")
def generate_command(kind: str, output: Path, tp: int | None, **numbers: Any) -> None:  # noqa: ANN401
    """Write topology.yaml, job.yaml and policy.yaml of a made-up cluster into the directory OUTPUT.

    Equal arguments write equal files.

    Example: flowcheck-net topology generate rail-optimised --hosts 128 --pp 16 -o big && flowcheck-net plan big
    """
    from flowcheck_net.importers.generate import generate
    from flowcheck_net.importers.generate_shape import Shape
    from flowcheck_net.spec.dump import dump_yaml
    from flowcheck_net.spec.load import spec_paths

    shape = Shape(tp=numbers["gpus_per_host"] if tp is None else tp, **numbers)
    made = generate(kind, shape)
    comment = f"Made up by `flowcheck-net topology generate {kind} --hosts {shape.hosts}`: no real network is meant."
    texts = [dump_yaml(document, comment=comment) for document in (made.topology, made.job, made.policy)]
    write_files(dict(zip(spec_paths(output), texts, strict=True)))
    click.echo(
        f"{len(made.topology['switches'])} switches, {shape.hosts} hosts, {len(made.job['ranks'])} GPUs, "
        f"rate model {made.policy['monitor']['rate_model']}"
    )
    click.echo(f"written: {output}")


def write_files(texts: dict[Path, str]) -> None:
    """Write new files; the folder is made. Nothing is written where one of them is there already.

    Raises:
        OutputError: a file is there, or the place cannot be written.
    """
    from flowcheck_net.errors import OutputError

    there = [str(path) for path in texts if path.exists()]
    if there:
        raise OutputError(f"there already: {', '.join(there)}", hint="choose another directory with -o")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path.parent} cannot be written: {error.strerror}", hint="choose another place") from None
