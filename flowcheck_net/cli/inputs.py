"""What commands read: the three input files, by directory or by name, and a plan."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from flowcheck_net.plan.plan import Plan

Command = TypeVar("Command", bound=Callable[..., None])

_FILE = click.Path(path_type=Path)
_PLAN_HINT = "plans are written by `flowcheck-net plan DIRECTORY -o plan.json`"
_OPTIONS = (
    click.argument("directory", required=False, type=_FILE),
    click.option("--topology", type=_FILE, help="Topology file, instead of DIRECTORY/topology.yaml."),
    click.option("--job", type=_FILE, help="Job file, instead of DIRECTORY/job.yaml."),
    click.option("--policy", type=_FILE, help="Policy file, instead of DIRECTORY/policy.yaml."),
)


def input_options(function: Command) -> Command:
    """``DIRECTORY``, ``--topology``, ``--job`` and ``--policy``, given to the command under these names."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def input_files(
    directory: Path | None, topology: Path | None, job: Path | None, policy: Path | None
) -> tuple[Path, Path, Path]:
    """The files that are named, the others from the directory; raises UsageError where one is not told."""
    from flowcheck_net.spec.load import spec_paths

    if directory is None and None in (topology, job, policy):
        raise click.UsageError("give DIRECTORY, or all of --topology, --job and --policy")
    if directory is not None and not directory.is_dir():
        fault = "is a file" if directory.exists() else "does not exist"
        raise click.UsageError(
            f"{directory} {fault}: give the directory that holds topology.yaml, job.yaml and policy.yaml"
        )
    usual = spec_paths(directory or Path())
    return topology or usual[0], job or usual[1], policy or usual[2]


def read_plan(path: Path) -> "Plan":
    """The plan of a file; raises StalePlan."""
    from flowcheck_net.plan.plan import plan_from_json

    return plan_from_json(_plan_text(path), str(path))


def read_plan_and_digest(path: Path) -> "tuple[Plan, str]":
    """The plan of a file and its digest; raises StalePlan."""
    from flowcheck_net.plan.plan import plan_from_json

    text = _plan_text(path)
    return plan_from_json(text, str(path)), str(json.loads(text)["digest"])


def _plan_text(path: Path) -> str:
    from flowcheck_net.errors import StalePlan

    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StalePlan(f"{path}: not a plan: it is no text", hint=_PLAN_HINT) from error
    except OSError as error:
        raise StalePlan(f"{path} cannot be read: {error.strerror}", hint=_PLAN_HINT) from error
