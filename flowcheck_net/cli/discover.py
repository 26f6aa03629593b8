"""``flowcheck-net discover INVENTORY --to topology.yaml``."""

import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flowcheck_net.cli.guard import refuse_overwriting
from flowcheck_net.cli.import_topology import ANSWERS, emit_refusal, finish, options_from
from flowcheck_net.errors import SpecError

_FILE = click.Path(path_type=Path)


@click.command("discover")
@click.argument("inventory", type=_FILE)
@click.option("--to", "output", type=_FILE, help="Topology file to write; without it, to standard output.")
@click.option(
    "--at-once", type=click.IntRange(1, 256), default=16, show_default=True, help="Devices that are asked at a time."
)
@click.option("--keep", type=_FILE, help="Folder for what each device answered, one file a device.")
def command(
    inventory: Path,
    *,
    output: Path | None,
    keep: Path | None,
    at_once: int,
    force: bool,
    as_json: bool,
    partial: bool,
    **given: Any,  # noqa: ANN401 - the options of options_from
) -> None:
    """Ask the devices of INVENTORY what they hear by LLDP, their speeds and mirror sessions; write the topology.

    Nothing is changed on any device. A cable counts when both of its ends tell it; everything else is listed, and keeps
    the file from being written unless --partial is given.

    \b
    Examples:
      flowcheck-net discover inventory.yaml --to topology.yaml --keep answers/
      flowcheck-net discover inventory.yaml --at-once 64 --json

    \b
    inventory.yaml:
      version: 1
      devices:
        - {name: leaf1, platform: eos, management: "ssh:leaf1.example.net"}
        - {name: host1, platform: linux, management: "tc:ssh:host1", role: host}
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.apply_progress import shown_stages
    from flowcheck_net.cli.switches import default_state_dir
    from flowcheck_net.drivers.registry import open_driver
    from flowcheck_net.importers.discover import JOB, answers_of, ask_all, survey_of, with_answers
    from flowcheck_net.importers.run import import_topology
    from flowcheck_net.spec.load import load_inventory

    refuse_overwriting(output, force=force)
    wanted = load_inventory(inventory)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with shown_stages(quiet=as_json) as tell:
        answers = ask_all(
            wanted, lambda address: open_driver(address, JOB, default_state_dir()), at_once=at_once, tell=tell
        )
    with nullcontext(str(keep)) if keep is not None else tempfile.TemporaryDirectory(prefix="fcn-") as folder:
        try:
            survey = survey_of(answers, Path(folder), inventory)
            graph = import_topology(survey, answers_of(wanted, options_from(given)))
        except SpecError as error:
            if as_json:
                emit_refusal(error)
            raise
    facts = [{"name": a.device.name, "answered": not a.silent, **asdict(a.facts)} for a in answers]
    finish(with_answers(graph, answers), output, as_json=as_json, partial=partial, more={"asked": facts})


for _decorator in reversed(ANSWERS):
    command = _decorator(command)
