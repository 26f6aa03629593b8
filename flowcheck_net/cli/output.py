"""How commands speak: tables on a terminal, canonical JSON for machines, files where the user wants them."""

import io
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, cast

import click
from rich import box
from rich.console import Console

from flowcheck_net.cli.fitting import FittingTable
from flowcheck_net.errors import OutputError

_WIDTH = 160
"""Columns where no terminal tells how many there are, so that tables are not cut in files and pipes."""


class _Trimmed(io.TextIOBase):
    """Passes text on without the blanks at line ends: rich fills tables with them, and in a file nobody wants them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Text of whole lines, as rich hands it over."""
        self._stream.write(re.sub(" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def flush(self) -> None:
        """At once."""
        self._stream.flush()


def console(*, stderr: bool = False) -> Console:
    """A rich console that honours NO_COLOR; in a file or pipe it neither cuts tables nor fills lines with blanks."""
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False)
    return Console(file=cast(IO[str], _Trimmed(stream)), width=_WIDTH, highlight=False)


def table(title: str, *columns: str, numbers: Collection[str] = (), keys: int = 1) -> FittingTable:
    """An empty table; the columns in ``numbers`` stand at the right and are never broken.

    On a terminal that is too narrow for all columns the first ``keys`` are repeated with the rest.
    """
    made = FittingTable(title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    made.keys = keys
    for name in columns:
        right = name in numbers
        made.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return made


def amount(value: int | None) -> str:
    """A count as tables and lines show it: ``1,234``; None is ``unknown``, never 0."""
    return "unknown" if value is None else f"{value:,}"


def shown(text: str) -> str:
    """Text of a switch or file as it may go to a terminal: what would move its cursor or rename it is written out."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts ``Ethernet2`` before ``Ethernet10``."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def emit_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, sort_keys=True))


def write_file(path: Path, text: str, option: str) -> None:
    """Write what the user asked for with ``option``; raises OutputError where the place cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise OutputError(
            f"{path} cannot be written: {fault.strerror}", hint=f"choose another place with {option}"
        ) from fault
