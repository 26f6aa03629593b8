"""All processes of a training: ranks that meet over gloo, and the checkpoint node."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.baselines.ledger import Ledger
from flowcheck_net.checkpoint.baselines.processes import fork
from flowcheck_net.checkpoint.baselines.words import Begun, Channel, Method, Moved, Setup, Spent, StepDone

WARM = 3
"""Steps before the first measured one: DDP makes its buckets anew after the first."""
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Planned:
    """A stretch that is to be run."""

    method: Method
    round: int
    place: Path
    """Its checkpoints, and below ``events`` what happened."""
    steps: int | None
    """None: until somebody kills it."""
    record: bool = False
    """Note the digest of the state after each step, before a checkpoint of it can begin."""


def start(setup: Setup, place: Path, memory: Path, plan: Sequence[Planned]) -> list[int]:
    """Fork the processes of a training. The caller must hold no thread.

    Args:
        setup: The model and the rest.
        place: Files of the processes.
        memory: Shared memory of the checkpoint node; both are there.
        plan: What to run, one stretch after another.

    Returns:
        Process ids: the checkpoint node's first.
    """
    for each in plan:
        (each.place / "events").mkdir(parents=True)
    words, answers = os.pipe(), os.pipe()

    def node() -> None:
        from flowcheck_net.checkpoint.baselines.node import serve

        os.close(words[1])
        os.close(answers[0])
        _one_thread()
        serve(memory, words[0], answers[1])

    def rank(number: int) -> None:
        from flowcheck_net.checkpoint.baselines.tap import NodeLink

        os.close(words[0])
        os.close(answers[1])
        if number:
            os.close(words[1])
            os.close(answers[0])
        _one_thread()
        _train(setup, number, place, plan, NodeLink(memory, words[1], answers[0]))

    children = [fork("node", place, node)]
    children += [fork(f"rank-{number}", place, partial(rank, number)) for number in range(setup.processes)]
    for end in (*words, *answers):
        os.close(end)
    return children


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _train(setup: Setup, rank: int, place: Path, plan: Sequence[Planned], node: Any) -> None:  # noqa: ANN401 - NodeLink
    import torch.distributed as dist

    from flowcheck_net.checkpoint.baselines.gpt import Trainer

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=setup.processes, timeout=_PATIENCE
    )
    beside = dist.new_group(backend="gloo", timeout=_PATIENCE)
    trainer = Trainer(setup, rank)
    for _ in range(WARM):
        trainer.step()
    if rank == 0:
        _write_facts(place, trainer)
    for each in plan:
        ledger = Ledger(each.place / "events" / f"rank-{rank}.jsonl")
        _Stretch(setup, each, trainer, ledger).run(_writer(setup, each, trainer, ledger, beside, node))
        ledger.close()
    dist.barrier()
    dist.destroy_process_group()


def _write_facts(place: Path, trainer: Any) -> None:  # noqa: ANN401 - gpt.Trainer
    flat = trainer.flat()
    facts = {
        "parameters": sum(tensor.numel() for tensor in trainer.named.values()),
        "gradient_bytes": sum(tensor.grad.nbytes for tensor in trainer.named.values()),
        "state_bytes": sum(tensor.nbytes for tensor in flat.values()),
    }
    (place / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _writer(setup: Setup, planned: Planned, trainer: Any, ledger: Ledger, beside: Any, node: Any) -> Any:  # noqa: ANN401
    from flowcheck_net.checkpoint.baselines.blocks import IncrementalWriter
    from flowcheck_net.checkpoint.baselines.methods import AsyncWriter, SyncWriter, Writer
    from flowcheck_net.checkpoint.baselines.tap import HybridWriter

    if planned.method is Method.ASYNC:
        return AsyncWriter(trainer, planned.place, ledger, beside)
    if planned.method is Method.CONTROL or trainer.rank:
        return Writer(trainer, planned.place, ledger)
    if planned.method is Method.SYNC:
        return SyncWriter(trainer, planned.place, ledger)
    if planned.method is Method.INCREMENTAL:
        return IncrementalWriter(trainer, planned.place, ledger, setup.full_every)
    return HybridWriter(trainer, planned.place, ledger, full_every=setup.full_every, interval=setup.interval, node=node)


class _Stretch:
    """One stretch in one rank."""

    def __init__(self, setup: Setup, planned: Planned, trainer: Any, ledger: Ledger) -> None:  # noqa: ANN401
        self._setup, self._planned, self._trainer, self._ledger = setup, planned, trainer, ledger
        self._speaks = trainer.rank == 0

    def run(self, writer: Any) -> None:  # noqa: ANN401 - methods.Writer
        """Prepare, train, wait for what is under way."""
        import torch.distributed as dist

        from flowcheck_net.checkpoint.baselines.network import received

        start = time.monotonic()
        self._record(start, start)
        writer.begin()
        dist.barrier()
        came = received()
        self._ledger.note(Begun(time.monotonic()))
        self._steps(writer)
        over = time.monotonic()
        writer.drain()
        if self._speaks:
            self._ledger.note(Spent("tail", time.monotonic() - over))
        dist.barrier()
        self._ledger.note(Moved(Channel.NETWORK, received() - came))
        dist.barrier()

    def _steps(self, writer: Any) -> None:  # noqa: ANN401 - methods.Writer
        trainer, steps, made = self._trainer, self._planned.steps, 0
        while steps is None or made < steps:
            begin = time.monotonic()
            trainer.step()
            made += 1
            self._record(begin, time.monotonic())
            writer.stepped()
            if made % self._setup.interval == 0:
                writer.save()
            if self._speaks and not self._planned.record:
                self._ledger.note(StepDone(trainer.done, begin, time.monotonic()))

    def _record(self, begin: float, end: float) -> None:
        """The trainer's word on its state, before any checkpoint of it can be there."""
        from flowcheck_net.checkpoint.baselines.gpt import digest

        if self._speaks and self._planned.record:
            told = digest(self._trainer.done, self._trainer.flat())
            self._ledger.note(StepDone(self._trainer.done, begin, end, told))
