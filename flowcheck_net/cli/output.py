"""How commands speak: tables on a terminal, canonical JSON for machines."""

import json
import sys
from typing import Any

import click
from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """A rich console that honours NO_COLOR and does not cut tables when the output is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 160, highlight=False)


def emit_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, sort_keys=True))
