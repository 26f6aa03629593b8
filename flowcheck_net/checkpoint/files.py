"""Files that are there wholly or not at all, and files that are gone."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.errors import OutputError

_BLOCK = 1 << 20


def sync_file(path: Path) -> None:
    """What was written is on the disk, as far as the disk says the truth."""
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """The directory's names are on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(top: Path) -> None:
    """All files and directories below ``top``, and ``top``."""
    for path in sorted(top.rglob("*"), reverse=True):
        if path.is_file():
            sync_file(path)
        else:
            sync_directory(path)
    sync_directory(top)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def erase_tree(top: Path) -> None:
    """Overwrite every file below ``top``, then remove them.

    On file systems that write elsewhere (btrfs, ZFS, anything with snapshots), on flash with wear levelling, on network
    storage and in copies, the old blocks may live on: encryption at rest, and destroying the key, is what helps there.
    """
    for path in sorted(top.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            if path.is_file() and not path.is_symlink():
                _overwrite(path)
            path.unlink()
    top.rmdir()


def _overwrite(path: Path) -> None:
    path.chmod(0o600)
    left = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        while left > 0:
            left -= file.write(os.urandom(min(left, _BLOCK)))
        os.fsync(file.fileno())


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Nobody else changes the store meanwhile. Raises OutputError where somebody does, or it cannot be used."""
    try:
        store.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (store / "lock").open("a")
    except OSError as error:
        raise OutputError(f"{store} cannot be used: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputError(f"another process is changing {store}", hint="wait until it is done") from error
        yield
