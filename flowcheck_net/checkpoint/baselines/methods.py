"""What a training loop does for a checkpoint, by each method. ``save`` is what training waits for."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.baselines.gpt import Trainer
from flowcheck_net.checkpoint.baselines.ledger import Ledger
from flowcheck_net.checkpoint.baselines.words import Channel, Moved, Spent
from flowcheck_net.checkpoint.files import sync_directory, sync_file

KEPT = 2
"""Checkpoints of a method that stay, the newest."""
MAKING = ".making"
"""End of a name that does not count yet."""


class Writer:
    """No checkpoints: the control, and what ranks do of which a method wants nothing."""

    def __init__(self, trainer: Trainer, place: Path, ledger: Ledger) -> None:
        """``place``: where this stretch's checkpoints go; it is there."""
        self.trainer, self.place, self.ledger = trainer, place, ledger

    def begin(self) -> None:
        """Make the present state restorable. Not measured."""

    def stepped(self) -> None:
        """A step is made."""

    def save(self) -> None:
        """A checkpoint of the present state is due."""

    def drain(self) -> None:
        """Wait until all is on storage."""


def name_of(step: int) -> str:
    """Sorts by step."""
    return f"step-{step:09d}"


def steps_in(place: Path) -> list[tuple[int, Path]]:
    """Whole checkpoints of a directory, the newest first."""
    found = [path for path in place.glob("step-*") if not path.name.endswith(MAKING)]
    return sorted(((int(path.name.removeprefix("step-").partition(".")[0]), path) for path in found), reverse=True)


def commit(making: Path, target: Path) -> int:
    """Give a whole directory or file the name that counts. What it holds is on storage already. Returns its bytes."""
    if making.is_dir():
        sync_directory(making)
        size = sum(path.stat().st_size for path in making.iterdir())
    else:
        size = making.stat().st_size
    making.rename(target)
    sync_directory(target.parent)
    return size


class SyncWriter(Writer):
    """``torch.save`` by rank 0, fsync, rename: the others wait for it in the next all-reduce."""

    def begin(self) -> None:
        """As any other."""
        self.save()

    def save(self) -> None:
        """All of it, now."""
        import torch

        step = self.trainer.done
        making = self.place / (name_of(step) + MAKING)
        torch.save({"step": step, "state": self.trainer.flat()}, making)
        sync_file(making)
        self.ledger.note(Moved(Channel.STORAGE, commit(making, self.place / f"{name_of(step)}.pt")))
        self.ledger.durable(step)
        for _, old in steps_in(self.place)[KEPT:]:
            old.unlink()


class AsyncWriter(Writer):
    """``torch.distributed.checkpoint.async_save`` by all ranks; at most one at a time."""

    def __init__(self, trainer: Trainer, place: Path, ledger: Ledger, group: Any) -> None:  # noqa: ANN401 - a process group
        """``group``: of all ranks, not used by training."""
        super().__init__(trainer, place, ledger)
        self._group = group
        self._pending: Any = None
        self._settled = threading.Event()
        self._fault: BaseException | None = None

    def begin(self) -> None:
        """As any other, and wait for it."""
        self.save()
        self.drain()

    def save(self) -> None:
        """Copy the state in memory; a thread writes it. Waits where the one before is not written yet."""
        import torch.distributed.checkpoint as dcp

        before = time.monotonic()
        self.drain()
        self.ledger.note(Spent("wait", time.monotonic() - before))
        step = self.trainer.done
        making = self.place / (name_of(step) + MAKING)
        self._settled.clear()
        writer = _counting_writer(making, self.ledger)
        self._pending = dcp.async_save(
            {**self.trainer.flat(), "training_step": step}, storage_writer=writer, process_group=self._group
        )
        self._pending.add_done_callback(lambda done: self._finish(done, step, making))

    def _finish(self, done: Any, step: int, making: Path) -> None:  # noqa: ANN401 - a future
        """In the thread that wrote: DCP has synced its files, not the names of them."""
        try:
            self._fault = done.exception()
            if self._fault is None and self.trainer.rank == 0:
                self.ledger.note(Moved(Channel.STORAGE, commit(making, self.place / name_of(step))))
                self.ledger.durable(step)
                for _, old in steps_in(self.place)[KEPT:]:
                    shutil.rmtree(old)
        except OSError as fault:
            self._fault = fault
        finally:
            self._settled.set()

    def drain(self) -> None:
        """Until the one that is being written is restorable. Raises what the thread raised."""
        if self._pending is None:
            return
        self._settled.wait()
        self._pending = None
        if self._fault is not None:
            raise self._fault


def _counting_writer(path: Path, ledger: Ledger) -> Any:  # noqa: ANN401 - a storage writer
    """DCP's own writer, which is its stager too; what it copied is counted."""
    from torch.distributed.checkpoint import FileSystemWriter

    class Counting(FileSystemWriter):  # type: ignore[misc]
        def stage(self, state_dict: Any) -> Any:  # noqa: ANN401 - a state dict
            staged = super().stage(state_dict)
            ledger.note(Moved(Channel.MEMORY, copied(state_dict, staged)))
            return staged

    return Counting(path)


def copied(source: Any, staged: Any) -> int:  # noqa: ANN401 - state dicts
    """Bytes of the tensors that lie elsewhere than their source."""
    return sum(
        tensor.nbytes
        for name, tensor in staged.items()
        if hasattr(tensor, "data_ptr") and tensor.data_ptr() != source[name].data_ptr()
    )
