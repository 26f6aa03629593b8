"""``flowcheck-net lab``: a fabric of namespaces and real switches on this machine."""

import re
from pathlib import Path

import click

EXAMPLE = Path("topologies/lab-leaf-spine")
_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,19}")


class _LabName(click.ParamType[str]):
    """The name of a lab: it stands in the paths of sockets, which must be short."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Unchanged, or an error."""
        if not _FORM.fullmatch(value):
            self.fail(f"{value!r} is not 1 to 20 letters, digits and dashes", param, ctx)
        return value


_NAME = click.option(
    "--name", default="lab", show_default=True, type=_LabName(), help="Of the lab; there can be several."
)
_DIRECTORY = click.argument(
    "directory", required=False, default=EXAMPLE, type=click.Path(path_type=Path, exists=True, file_okay=False)
)


@click.group("lab")
def command() -> None:
    """Make a fabric on this machine: hosts, real Open vSwitch switches, checkpoint nodes (root).

    Everything is in network namespaces of its own, and gone without a trace after `lab down`. docs/lab.md tells more.

    \b
    Examples:
      flowcheck-net lab up topologies/lab-leaf-spine
      flowcheck-net lab status
      flowcheck-net lab down
    """  # noqa: D301 - click wants the real backspace character


@command.command("up")
@_DIRECTORY
@_NAME
def up_command(directory: Path, name: str) -> None:
    """Make the lab of DIRECTORY (topologies/lab-leaf-spine), and leave it there.

    The switches of the topology must be of platform `ovs`; names of ports and NICs become names of Linux interfaces.

    Example: flowcheck-net lab up topologies/lab-leaf-spine
    """
    from flowcheck_net.lab.build import directory_of, up
    from flowcheck_net.spec.load import load_specs, spec_paths

    place = directory_of(name)
    up(load_specs(*spec_paths(directory)), place)
    click.echo(f"lab {name}: up; its files: {place}")
    click.echo(f"its switches, for every other command: flowcheck-net plan {place}/specs -o plan.json")


@command.command("down")
@_NAME
def down_command(name: str) -> None:
    """End the lab's processes, also after a crash, and remove its files.

    Example: flowcheck-net lab down
    """
    from flowcheck_net.lab.build import directory_of, down

    count = down(directory_of(name))
    click.echo(f"lab {name}: {count} processes ended" if count else f"lab {name}: nothing was there")


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
