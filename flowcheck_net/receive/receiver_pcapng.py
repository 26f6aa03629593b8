"""The pcapng files that a receiver writes beside its records: which there are, and which comes next."""

import re
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import OutputError


@dataclass(frozen=True, slots=True)
class Writing:
    """Everything that arrives is written to ``path``, and to files with a number before its suffix behind it."""

    path: Path
    limit_mb: int = 0
    """Of a file; 0: none."""
    files: int = 0
    """So many are kept, the newest; 0: all."""


def files_of(path: Path) -> dict[int, Path]:
    """The files that are there, by number: ``a.pcapng`` is 1, ``a-2.pcapng`` is 2."""
    form = re.compile(rf"{re.escape(path.stem)}-(\d+){re.escape(path.suffix)}")
    found = {int(match[1]): each for each in path.parent.glob("*") if (match := form.fullmatch(each.name))}
    return {**({1: path} if path.exists() else {}), **found}


def check_free(path: Path) -> None:
    """Raises OutputError where there is such a file already, or no folder for it."""
    if found := files_of(path):
        raise OutputError(f"{next(iter(found.values()))} is there already", hint="remove it, or choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent} is no folder", hint="make it, or choose another place")


def config_lines(writing: Writing) -> tuple[str, ...]:
    """For receiver/app/config.c; a receiver that is started again goes on behind the last file."""
    return (
        f"pcapng {writing.path}",
        f"pcapng_first {max(files_of(writing.path), default=0) + 1}",
        f"pcapng_mb {writing.limit_mb}",
        f"pcapng_files {writing.files}",
    )
