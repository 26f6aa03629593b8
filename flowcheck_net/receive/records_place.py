"""Where a records file is written: under a name of its own, until it is whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, cast

from flowcheck_net.errors import OutputError


def nameless(folder: Path | None) -> BinaryIO:
    """A new file that is gone once it is closed."""
    from tempfile import TemporaryFile

    return cast(BinaryIO, TemporaryFile(dir=folder))


def copy_all(source: BinaryIO, target: BinaryIO) -> None:
    """All of one file to where the other is."""
    from shutil import copyfileobj

    source.seek(0)
    copyfileobj(source, target)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a records file is being written."""

    file: BinaryIO
    folder: Path
    """For nameless files beside it."""


@contextmanager
def records_place(path: Path) -> Iterator[Place]:
    """A new file that takes the name ``path`` once the block is left without an error, and not before.

    Raises:
        OutputError: the place cannot be written.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device, which nothing may replace
            with nameless(None) as made:
                yield Place(made, Path.cwd())
                with path.open("wb") as target:
                    copy_all(made, target)
            return
        target_path = Path(os.path.realpath(path))
        # A random name: process numbers come again, in another container or after a run that was killed.
        part = target_path.with_name(f".{target_path.name}.{token_hex(8)}.part")
        with part.open("xb+") as made:
            try:
                yield Place(made, target_path.parent)
                made.flush()
                part.replace(target_path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as fault:
        raise OutputError(f"{path} cannot be written: {fault.strerror}", hint="choose another place with -o") from fault
