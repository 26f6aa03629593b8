"""A store of published checkpoints: which are there, which is the newest, whether they are still what they were.

::

    STORE/checkpoints/step-0000000200/manifest.json     written last; without it there is no checkpoint
                                      dcp/              torch.distributed.checkpoint
                                      safetensors/      tensors.safetensors, rest.json: the same without pickles
    STORE/access.log, drift.jsonl, lock
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.files import digest_of, erase_tree, sync_directory
from flowcheck_net.checkpoint.tree import digests, read_tree
from flowcheck_net.errors import RecordsCorrupt

VERSION = 1
MANIFEST = "manifest.json"
SEALED = ".sealed"
MAKING, LEAVING = ".new-", ".gone-"
"""Beginnings of the names of folders that are being written or erased, and do not count."""


@dataclass(frozen=True, slots=True)
class Published:
    """One checkpoint of a store, with a manifest that is whole."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Whose state it is."""
        return int(self.manifest["step"])

    @property
    def sealed(self) -> str | None:
        """Name of the key; None: not encrypted."""
        told = self.manifest["sealed"]
        return None if told is None else str(told)


def folder_of(store: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return store / "checkpoints" / f"step-{step:010d}"


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of all of a manifest but its digest."""
    text = json.dumps({key: manifest[key] for key in manifest if key != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_published(folder: Path) -> Published:
    """A checkpoint, by its manifest. Raises RecordsCorrupt."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        right = manifest["version"] == VERSION and manifest["digest"] == manifest_digest(manifest)
        named = folder.name == f"step-{int(manifest['step']):010d}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsCorrupt(f"{folder} is no published checkpoint: {error}") from error
    if not right or not named:
        raise RecordsCorrupt(f"{path} was changed, or is of another version or step")
    return Published(folder, manifest)


def published(store: Path) -> tuple[list[Published], list[str]]:
    """All checkpoints by step, and what is wrong with those that are none."""
    found, wrong = [], []
    for folder in sorted((store / "checkpoints").glob("step-*")):
        try:
            found.append(read_published(folder))
        except RecordsCorrupt as error:
            wrong.append(error.message)
    return found, wrong


def check_files(checkpoint: Published) -> None:
    """Are all files there, byte for byte? Raises RecordsCorrupt and names the first that is not."""
    told = checkpoint.manifest["files"]
    there = {str(p.relative_to(checkpoint.path)) for p in checkpoint.path.rglob("*") if not p.is_dir()} - {MANIFEST}
    strange = there ^ told.keys()
    if strange:
        name = min(strange)
        raise RecordsCorrupt(f"{checkpoint.path / name} {'is not of the manifest' if name in there else 'is missing'}")
    for name, file in told.items():
        path = checkpoint.path / name
        if path.stat().st_size != file["bytes"] or digest_of(path) != file["sha256"]:
            raise RecordsCorrupt(f"{path} is not what was published: its digest is another")


def check_fields(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read the plain form and compare every field with its digest.

    Args:
        folder: With ``safetensors/``, decrypted.
        manifest: Of the checkpoint.

    Returns:
        The checkpoint.

    Raises:
        RecordsCorrupt: A field is missing or differs.
    """
    tree = read_tree(folder / "safetensors")
    mine = digests(tree)
    told = manifest["fields"]
    for name in [*told, *mine]:
        if name not in mine or name not in told or mine[name]["sha256"] != told[name]["sha256"]:
            raise RecordsCorrupt(f"{folder}: field {name} is not what was published")
    return tree


def newest(store: Path) -> Published | None:
    """The newest checkpoint whose files are all as published; None: there is none."""
    for checkpoint in reversed(published(store)[0]):
        try:
            check_files(checkpoint)
        except RecordsCorrupt:
            continue
        return checkpoint
    return None


def sweep(store: Path) -> list[str]:
    """Erase what a process that died has left; the store must be locked."""
    top = store / "checkpoints"
    left = [path for path in sorted(top.glob(".*")) if path.name.startswith((MAKING, LEAVING))]
    for path in left:
        erase_tree(path)
    if left:
        sync_directory(top)
    return [path.name for path in left]


def remove(store: Path, checkpoint: Published) -> None:
    """Take a checkpoint out, then erase it; the store must be locked. A crash leaves it whole, or no checkpoint."""
    leaving = checkpoint.path.with_name(LEAVING + checkpoint.path.name)
    checkpoint.path.rename(leaving)
    sync_directory(store / "checkpoints")
    erase_tree(leaving)
    sync_directory(store / "checkpoints")


def outdated(checkpoints: list[Published], *, last: int, every: int | None) -> list[Published]:
    """Those that retention lets go: all but the ``last`` newest and those at multiples of ``every`` steps."""
    kept = {each.step for each in checkpoints[-max(1, last) :]}
    return [each for each in checkpoints if each.step not in kept and not (every and each.step % every == 0)]
