"""Incremental checkpoints: a full one now and then, else the blocks whose content differs from the last full one.

A checkpoint is a directory with ``blocks.bin`` and ``index.json``: all tensors, the SHA-256 of every block, which
blocks are here, and the step of the full one that has the rest. A block never spans two tensors. With a dense model
and AdamW nearly every block changes in every step: then this saves nothing, and costs the hashing.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.baselines.gpt import Trainer, raw
from flowcheck_net.checkpoint.baselines.ledger import Ledger
from flowcheck_net.checkpoint.baselines.methods import MAKING, Writer, commit, name_of, steps_in
from flowcheck_net.checkpoint.baselines.words import Channel, Moved
from flowcheck_net.checkpoint.files import sync_file
from flowcheck_net.errors import RecordsCorrupt

BLOCK = 1 << 16
"""Bytes."""


def cut(flat: Mapping[str, Any]) -> Iterator[memoryview]:
    """The blocks of all tensors, by name."""
    for _, tensor in sorted(flat.items()):
        data = raw(tensor)
        for start in range(0, len(data), BLOCK):
            yield data[start : start + BLOCK]


class IncrementalWriter(Writer):
    """By rank 0; training waits."""

    def __init__(self, trainer: Trainer, place: Path, ledger: Ledger, full_every: int) -> None:
        """Every ``full_every``-th checkpoint is a full one."""
        super().__init__(trainer, place, ledger)
        self._full_every = full_every
        self._count = 0
        self._base: tuple[int, list[str]] | None = None

    def begin(self) -> None:
        """The first is a full one."""
        self.save()

    def save(self) -> None:
        """Hash all, write what differs."""
        step, flat = self.trainer.done, self.trainer.flat()
        blocks = list(cut(flat))
        digests = [hashlib.sha256(block).hexdigest() for block in blocks]
        self.ledger.note(Moved(Channel.HASHED, sum(map(len, blocks))))
        if self._count % self._full_every == 0:
            self._base = None
        self._count += 1
        known = None if self._base is None else self._base[1]
        here = [number for number, told in enumerate(digests) if known is None or known[number] != told]
        index = {
            "step": step,
            "base": None if self._base is None else self._base[0],
            "tensors": [[n, str(t.dtype).removeprefix("torch."), list(t.shape)] for n, t in sorted(flat.items())],
            "digests": digests,
            "here": here,
        }
        making = self.place / (name_of(step) + MAKING)
        making.mkdir()
        with (making / "blocks.bin").open("wb") as file:
            file.writelines(blocks[number] for number in here)
        (making / "index.json").write_text(json.dumps(index), encoding="utf-8")
        for path in making.iterdir():
            sync_file(path)
        self.ledger.note(Moved(Channel.STORAGE, commit(making, self.place / name_of(step))))
        self.ledger.durable(step)
        if self._base is None:
            self._base = (step, digests)
            self._forget(step)

    def _forget(self, full: int) -> None:
        """Of what came before this full one, the newest stays, with its own full one."""
        older = [each for each in steps_in(self.place) if each[0] < full]
        keep = set()
        for step, path in older[:1]:
            keep |= {step, _index(path)["base"]}
        for step, path in older:
            if step not in keep:
                shutil.rmtree(path)


def _index(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((path / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordsCorrupt(f"{path} is no incremental checkpoint: {error}") from error
    return found


def load(path: Path) -> tuple[int, dict[str, Any]]:
    """Step and state of an incremental checkpoint, every block compared with its SHA-256.

    Raises:
        RecordsCorrupt: It, or the full one that it needs, is not what was written.
    """
    import torch

    index = _index(path)
    digests = index["digests"]
    blocks: dict[int, memoryview] = {}
    if index["base"] is not None:
        base = path.with_name(name_of(index["base"]))
        blocks |= _read(base, _index(base))
    blocks |= _read(path, index)
    for number, told in enumerate(digests):
        if number not in blocks or hashlib.sha256(blocks[number]).hexdigest() != told:
            raise RecordsCorrupt(f"{path}: block {number} of {len(digests)} is not what was written")
    flat, number = {}, 0
    for name, dtype, shape in index["tensors"]:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        target = raw(tensor)
        for start in range(0, len(target), BLOCK):
            target[start : start + BLOCK] = blocks[number]
            number += 1
        flat[name] = tensor
    return int(index["step"]), flat


def _read(path: Path, index: Mapping[str, Any]) -> dict[int, memoryview]:
    """The blocks that lie in one directory."""
    try:
        data = memoryview((path / "blocks.bin").read_bytes())
    except OSError as error:
        raise RecordsCorrupt(f"{path / 'blocks.bin'} cannot be read: {error}") from error
    found, at = {}, 0
    sizes = block_sizes(index["tensors"])
    for number in index["here"]:
        found[number] = data[at : at + sizes[number]]
        at += sizes[number]
    return found


def block_sizes(tensors: list[list[Any]]) -> list[int]:
    """Bytes of each block, from names, types and shapes."""
    import torch

    sizes = []
    for _, dtype, shape in tensors:
        left = torch.empty(shape, dtype=getattr(torch, dtype), device="meta").nbytes
        while left > 0:
            sizes.append(min(left, BLOCK))
            left -= BLOCK
    return sizes
