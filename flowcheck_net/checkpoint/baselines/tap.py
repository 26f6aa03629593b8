"""The hybrid's side of the trainer: reduced gradients into memory that the checkpoint node reads, and some anchors.

In the field switches copy the gradients, and the trainer does nothing for it. Here rank 0 copies them after its step;
what that takes is counted by itself (``Spent("tap")``). Like a mirror it never waits: what finds no room is lost, and
the replica begins again from the next anchor.
"""

import json
import mmap
import os
import time
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.anchor import write_anchor
from flowcheck_net.checkpoint.baselines.gpt import Trainer
from flowcheck_net.checkpoint.baselines.ledger import Ledger
from flowcheck_net.checkpoint.baselines.methods import MAKING, Writer, name_of
from flowcheck_net.checkpoint.baselines.words import Channel, Missed, Moved, Spent
from flowcheck_net.checkpoint.files import sync_directory, sync_file
from flowcheck_net.checkpoint.training import Training, build_training
from flowcheck_net.errors import FlowcheckError
from flowcheck_net.spec.check_training import load_training

SLOTS = 32
"""Gradients that may wait for the checkpoint node."""
_WORD = 8


class Tap:
    """A ring of gradients in a file of shared memory: a word for each slot (its step; 0: free), then the slots."""

    def __init__(self, path: Path, size: int, *, new: bool) -> None:
        """``size``: bytes of a gradient; ``new``: make the file. One of another run has full slots."""
        self.size = size
        with path.open("x+b" if new else "r+b") as file:
            file.truncate(SLOTS * (_WORD + size))
            self._memory = memoryview(mmap.mmap(file.fileno(), SLOTS * (_WORD + size)))

    def _word(self, step: int) -> slice:
        return slice(step % SLOTS * _WORD, step % SLOTS * _WORD + _WORD)

    def slot(self, step: int) -> memoryview:
        """Where the gradient of a step lies."""
        start = SLOTS * _WORD + step % SLOTS * self.size
        return self._memory[start : start + self.size]

    def free(self, step: int) -> bool:
        """Is there room for it?"""
        return not any(self._memory[self._word(step)])

    def mark(self, step: int, *, taken: bool) -> None:
        """A slot holds the gradient of ``step`` from now on, or nothing."""
        self._memory[self._word(step)] = (step if taken else 0).to_bytes(_WORD, "little")


class HybridWriter(Writer):
    """Rank 0's."""

    def __init__(
        self, trainer: Trainer, place: Path, ledger: Ledger, *, full_every: int, interval: int, node: "NodeLink"
    ) -> None:
        """``node``: the checkpoint node's process. The trainer must have made two steps."""
        super().__init__(trainer, place, ledger)
        self._node = node
        self._full_every, self._interval = full_every, interval
        self._count = 0
        self._training = self._describe()
        self._tap = Tap(node.memory / f"tap-{place.name}", _gradient_size(self._training), new=True)

    def _describe(self) -> Training:
        path = self.place / "training.yaml"
        path.write_text(self.trainer.description(), encoding="utf-8")
        return build_training(load_training(path))

    def begin(self) -> None:
        """The anchor from which the replica begins."""
        words = {"place": str(self.place), "interval": self._interval, "anchor": str(self._write_anchor())}
        self._node.tell("begin", step=self.trainer.done, **words)
        self._node.wait()

    def stepped(self) -> None:
        """Hand over what DDP reduced."""
        before = time.monotonic()
        step = self.trainer.done
        if self._tap.free(step):
            target, at = self._tap.slot(step), 0
            memory = self.trainer.buckets()
            for bucket in self._training.layout.steady[0].buckets:
                data = memory[bucket.slots[0].name]
                target[at : at + len(data)] = memoryview(data)
                at += len(data)
            if at != self._tap.size:
                raise FlowcheckError(f"DDP reduced {at:,} bytes in step {step}, its description has {self._tap.size:,}")
            self._tap.mark(step, taken=True)
            self._node.tell("gradient", step=step)
            self.ledger.note(Moved(Channel.MIRROR, at))
        else:
            self.ledger.note(Missed(step))
        self.ledger.note(Spent("tap", time.monotonic() - before))

    def save(self) -> None:
        """Mostly nothing: the replica has the state. Now and then an anchor."""
        self._count += 1
        if self._count % self._full_every == 0:
            path = self._write_anchor()
            self.ledger.durable(self.trainer.done)
            self._node.tell("anchor", step=self.trainer.done, path=str(path))

    def drain(self) -> None:
        """Until the replica has done all that it was handed."""
        self._node.tell("drain")
        self._node.wait()

    def _write_anchor(self) -> Path:
        path = self.place / f"{name_of(self.trainer.done)}.pt"
        making = path.with_name(path.name + MAKING)
        write_anchor(making, self.trainer.anchor())
        sync_file(making)
        making.rename(path)
        sync_directory(self.place)
        self.ledger.note(Moved(Channel.STORAGE, path.stat().st_size))
        return path


class NodeLink:
    """Two pipes to the checkpoint node: words go there, an empty line comes back where one is waited for."""

    def __init__(self, memory: Path, words: int, answers: int) -> None:
        """``memory``: a directory in shared memory; the others are open ends of pipes."""
        self.memory = memory
        self._words, self._answers = words, answers

    def tell(self, do: str, **more: Any) -> None:  # noqa: ANN401 - any JSON value
        """Say something."""
        os.write(self._words, json.dumps({"do": do, **more}).encode() + b"\n")

    def wait(self) -> None:
        """Until it answers. Raises FlowcheckError where it has ended."""
        if not os.read(self._answers, 1):
            raise FlowcheckError("the checkpoint node has ended")


def _gradient_size(training: Training) -> int:
    return sum(bucket.elements * bucket.dtype.size for bucket in training.layout.steady[0].buckets)
