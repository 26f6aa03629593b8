"""What a command may not do to files that are there already."""

from collections.abc import Iterable
from pathlib import Path

import click

from flowcheck_net.errors import OutputError


def spare_inputs(output: Path | None, option: str, *inputs: Path | None) -> None:
    """Refuse to write over an input.

    Args:
        output: Where the command is asked to write.
        option: The option that says so.
        inputs: Files that it reads.

    Raises:
        click.UsageError: ``output`` is one of them, by whatever name.
    """
    if output is not None and any(_same(output, path) for path in _given(inputs)):
        raise click.UsageError(f"{option} {output} would write over an input; choose another name")


def refuse_overwriting(output: Path | None, *, force: bool) -> None:
    """Refuse to replace a file unless ``force`` is given; raises OutputError."""
    if output is not None and output.exists() and not force:
        raise OutputError(f"{output} is there already", hint="it may hold your own values: --force overwrites it")


def _given(inputs: Iterable[Path | None]) -> Iterable[Path]:
    return (path for path in inputs if path is not None)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
