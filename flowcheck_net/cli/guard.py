"""What a command may not do to files that are there already."""

import os
import stat
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
        click.UsageError: ``output`` is one of them, by whatever name, or ``-``, by which many mean standard output.
    """
    if str(output) == "-":
        raise click.UsageError(f"{option} - is no standard output here: give the name of a file")
    if output is not None and any(_same(output, path) for path in _given(inputs)):
        raise click.UsageError(f"{option} {output} would write over an input; choose another name")


def refuse_repeats(files: Iterable[Path]) -> None:
    """Refuse a file that is given twice: all that is in it would count twice.

    Raises:
        click.UsageError: one is there again, by whatever name.
    """
    known: dict[tuple[int, int], Path] = {}
    for path in files:
        try:
            found = path.stat() if str(path) != "-" else os.fstat(0)
        except OSError:
            continue  # whoever reads it says why
        before = known.setdefault((found.st_dev, found.st_ino), path)
        if before is not path and stat.S_ISREG(found.st_mode):
            again = "" if before == path else f" (as {before} too)"
            raise click.UsageError(f"{path} is given twice{again}: each of its packets would count twice")


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
