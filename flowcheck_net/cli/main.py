"""The entry point: finds the command, catches FlowcheckError, and nothing else."""

import importlib
import sys
from typing import ClassVar

import click

from flowcheck_net.cli.streams import make_tolerant
from flowcheck_net.errors import FlowcheckError, OutputError


class LazyGroup(click.Group):
    """Imports a command's module only when it is run or asked for help: start-up stays fast."""

    commands_by_name: ClassVar[dict[str, tuple[str, str]]] = {
        "check": ("flowcheck_net.cli.check:command", "Check topology, job and policy files; every problem at once."),
        "schema": ("flowcheck_net.cli.schema:command", "Print the JSON Schema of an input file, for editors."),
        "import": ("flowcheck_net.cli.import_:command", "Turn files of other tools into input files."),
        "discover": ("flowcheck_net.cli.discover:command", "Ask devices what they are cabled to; write the topology."),
        "plan": ("flowcheck_net.cli.plan:command", "Choose the observation points and write the plan."),
        "plan-diff": ("flowcheck_net.cli.plan_diff:command", "Compare two plans: points, switch changes, cost."),
        "apply": ("flowcheck_net.cli.apply:command", "Program the planned mirror sessions; all switches or none."),
        "confirm": ("flowcheck_net.cli.confirm:command", "Keep a change that would undo itself (--confirm-within)."),
        "verify": ("flowcheck_net.cli.verify:command", "Compare the switches with the plan; change nothing."),
        "probe": ("flowcheck_net.cli.probe:command", "Write marked packets that prove the observation points."),
        "watch": ("flowcheck_net.cli.watch:command", "Verify again and again; tell what begins to differ."),
        "rollback": ("flowcheck_net.cli.rollback:command", "Undo our own last change, and nothing else."),
        "replay": ("flowcheck_net.cli.replay:command", "Read capture files and write records of what was seen."),
        "receive": (
            "flowcheck_net.cli.receive:command",
            "Count mirrored packets as they arrive, by DPDK; write records.",
        ),
        "records": ("flowcheck_net.cli.records:command", "Look into records files, merge them, compare them."),
        "synth": ("flowcheck_net.cli.synth:command", "Write the capture that a plan's observation points would see."),
        "audit": ("flowcheck_net.cli.audit:command", "Compare records with what the plan expects; give verdicts."),
        "checkpoint": ("flowcheck_net.cli.checkpoint:command", "Replay the optimizer on what was seen."),
        "accept": ("flowcheck_net.cli.accept:command", "Try checkpoints with faults on every part of the way."),
        "topology": ("flowcheck_net.cli.topology:command", "Generate a made-up cluster of any size."),
        "capacity": ("flowcheck_net.cli.capacity:command", "Reckon loads, rates and what failures cost."),
        "lab": ("flowcheck_net.cli.lab:command", "A fabric of real switches on this machine (root)."),
        "demo": ("flowcheck_net.cli.demo:command", "Run the whole path on the shipped examples."),
        "completion": ("flowcheck_net.cli.completion:command", "Print the shell completion script."),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of a user's work, not of the alphabet."""
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that is asked for."""
        found = self.commands_by_name.get(cmd_name)
        if found is None:
            return None
        module, attribute = found[0].split(":")
        loaded = getattr(importlib.import_module(module), attribute)
        if not isinstance(loaded, click.Command):
            raise TypeError(f"{found[0]} is not a click command")
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """``plan diff A B`` is ``plan-diff A B``; a folder of that name is planned as ``./diff``."""
        if args[:2] == ["plan", "diff"]:
            args = ["plan-diff", *args[2:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``, from the table above, so that no command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_by_name.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flowcheck-net")
def cli() -> None:
    """Plan, program and prove in-network gradient observation.

    \b
    The usual path:
      flowcheck-net plan topologies/two-host -o plan.json
      flowcheck-net apply plan.json --dry-run
      flowcheck-net apply plan.json
      flowcheck-net replay mirror.pcapng -o records.fcr
      flowcheck-net audit records.fcr --plan plan.json --html report.html

    Exit codes: 0 ok, 2 bad input or unwritable output, 3 infeasible or stale plan, 4 coverage gap, 5 device, 6 drift,
    7 rolled back, 8 not rolled back, 9 receiver or capture file, 10 unknown.
    """  # noqa: D301 - click wants the real backspace character


def run() -> None:
    """Run the command line; a FlowcheckError becomes its message, its cure and its exit code.

    Output that is lost (a full disk; not a pipe that its reader closed) is an error of its own.
    """
    output = make_tolerant()
    code: int | str | None = 0
    try:
        cli.main(standalone_mode=True)
    except SystemExit as leave:
        code = leave.code
    except FlowcheckError as error:
        _tell(error)
        code = error.exit_code
    except PermissionError as refused:
        barred = OutputError(
            f"{refused.filename}: {refused.strerror}", hint="run it as a user who may, or name another place"
        )
        _tell(barred)
        code = barred.exit_code
    if output is not None:
        sys.stdout.flush()
        if output.lost:
            unwritten = OutputError(f"standard output: {output.lost}", hint="what was printed is incomplete")
            _tell(unwritten)
            code = code or unwritten.exit_code
    sys.exit(code)


def _tell(error: FlowcheckError) -> None:
    from flowcheck_net.cli.output import shown

    click.echo(shown(f"error: {error.message}"), err=True)
    if error.hint:
        click.echo(shown(f"what to do: {error.hint}"), err=True)
