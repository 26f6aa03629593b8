"""Gradient buffers as files: written through memory maps of sparse files, read only where every byte was observed.

One directory an iteration. While it is written, and where it stays incomplete, its name ends in ``.partial``.
``docs/payload.md`` describes the files.
"""

import hashlib
import json
import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.errors import RecordsCorrupt, Unobserved
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.layout import BucketPlace, GroupLayout, Piece, missing_units, present_size

MANIFEST_VERSION = 1
PARTIAL = ".partial"
MANIFEST = "manifest.json"


def iteration_directory(out: Path, iteration: int, *, complete: bool) -> Path:
    """Where the files of an iteration stand."""
    return out / f"iteration-{iteration:06d}{'' if complete else PARTIAL}"


@contextmanager
def mapped(path: Path, size: int) -> Iterator[mmap.mmap | bytearray]:
    """A new sparse file of ``size`` bytes, zeros, as memory."""
    with path.open("x+b") as file:
        file.truncate(size)
        if not size:
            yield bytearray()
            return
        memory = mmap.mmap(file.fileno(), size)
        try:
            yield memory
        finally:
            with suppress(
                BufferError
            ):  # lent when something failed, which is what is to be told; freed with its borrower
                memory.close()


def digest(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def group_entry(directory: Path, layout: GroupLayout) -> dict[str, Any]:
    """What a manifest says of one group; its files are written."""
    gradient, present = directory / f"{layout.group}.gradient", directory / f"{layout.group}.present"
    missing = missing_units(layout, present.read_bytes())
    return {
        "group": layout.group,
        "protocol": layout.protocol.value,
        "mtu": layout.mtu,
        "units": layout.units,
        "carrying": layout.carrying,
        "complete": not missing,
        "gradient": {"file": gradient.name, "bytes": layout.size, "sha256": digest(gradient)},
        "present": {"file": present.name, "bytes": present_size(layout.units), "sha256": digest(present)},
        "buckets": [_bucket_entry(layout, bucket, missing) for bucket in layout.buckets],
        "pieces": [list(asdict(piece).values()) for piece in layout.pieces] if missing else [],
    }


def _bucket_entry(layout: GroupLayout, bucket: BucketPlace, missing: list[int]) -> dict[str, Any]:
    own = [p for p in layout.pieces if bucket.offset <= p.data_at < bucket.offset + bucket.size]
    first, last = (own[0].unit, own[-1].unit + own[-1].packets) if own else (0, 0)
    ranges = {(p.unit, p.unit + p.packets) for p in own}
    gone = [u for u in missing if any(a <= u < b for a, b in ranges)] if first <= last and missing else []
    return {**asdict(bucket), "missing_units": len(gone), "complete": not gone}


def write_manifest(directory: Path, document: dict[str, Any]) -> None:
    """The last file of an iteration."""
    text = json.dumps({"version": MANIFEST_VERSION, **document}, indent=1, sort_keys=True)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Gradient:
    """The gradient of one group in one iteration, as it was laid down."""

    layout: GroupLayout
    """Its pieces are only known where something is missing."""
    complete: bool
    path: Path
    present: bytes

    @classmethod
    def open(cls, directory: Path, group: str, *, check: bool = True) -> "Gradient":
        """Read the manifest and check the files against it.

        Args:
            directory: Of one iteration, such as ``OUT/iteration-000012`` or ``OUT/iteration-000012.partial``.
            group: Such as ``dp0``.
            check: Compare their SHA-256. False: only their sizes, since this process has just written them.

        Raises:
            RecordsCorrupt: No manifest of this version, no such group, or a file that is not as it says.
        """
        entry = _entry(directory, group)
        path = directory / entry["gradient"]["file"]
        present = directory / entry["present"]["file"]
        for file, said in ((path, entry["gradient"]), (present, entry["present"])):
            whole = file.is_file() and file.stat().st_size == said["bytes"]
            if not whole or (check and digest(file) != said["sha256"]):
                raise RecordsCorrupt(f"{file} is not what {directory / MANIFEST} says: it was changed, cut or removed")
        buckets = tuple(BucketPlace(**{name: b[name] for name in BucketPlace.__slots__}) for b in entry["buckets"])
        pieces = tuple(Piece(*row) for row in entry["pieces"])
        layout = GroupLayout(GroupName(group), Protocol(entry["protocol"]), entry["mtu"], buckets, pieces)
        return cls(layout, entry["complete"], path, present.read_bytes())

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the buffer.

        Raises:
            Unobserved: One of them was never seen on any hop.
            ValueError: Beyond the buffer.
        """
        if offset < 0 or length < 0 or offset + length > self.layout.size:
            raise ValueError(f"bytes {offset} to {offset + length} of a buffer of {self.layout.size}")
        if not self.complete:
            gone = [u for u in self.layout.units_over(offset, offset + length) if not self._has(u)]
            if gone:
                raise Unobserved(
                    f"{self.path.name}: {len(gone)} packets of bytes {offset} to {offset + length} were never observed"
                )
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def bucket(self, name: str) -> BucketPlace:
        """Where a bucket lies; raises KeyError."""
        return {bucket.name: bucket for bucket in self.layout.buckets}[name]

    def _has(self, unit: int) -> bool:
        return bool(self.present[unit >> 3] >> (unit & 7) & 1)


def _entry(directory: Path, group: str) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != MANIFEST_VERSION:
            raise RecordsCorrupt(f"{path}: version {document['version']}, this program reads {MANIFEST_VERSION}")
        found: list[dict[str, Any]] = [entry for entry in document["groups"] if entry["group"] == group]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsCorrupt(f"{path} is no manifest of a gradient: {error}") from error
    if not found:
        raise RecordsCorrupt(f"{path} has no group {group}")
    return found[0]
