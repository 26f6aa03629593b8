"""The hybrid's checkpoint node, a process of its own: takes gradients, brings each to storage, replays the optimizer.

All that makes a state of gradients is the product's: ``assemble``, ``optimizer``, ``follow_store``. Only the network is
not there: the trainer hands its gradients over, which their manifest says (``assumed``).
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint import anchor as anchors
from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.baselines.ledger import Ledger
from flowcheck_net.checkpoint.baselines.tap import Tap
from flowcheck_net.checkpoint.baselines.words import Channel, Moved, Spent
from flowcheck_net.checkpoint.drift import measure
from flowcheck_net.checkpoint.files import sync_tree
from flowcheck_net.checkpoint.follow_boards import settle
from flowcheck_net.checkpoint.follow_store import Store
from flowcheck_net.checkpoint.guarded import Guards
from flowcheck_net.checkpoint.layout import BucketOrder
from flowcheck_net.checkpoint.training import Training, build_training
from flowcheck_net.errors import FlowcheckError
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.gradient import group_entry, iteration_directory, write_manifest
from flowcheck_net.receive.layout import BucketPlace, GroupLayout, Piece, present_size
from flowcheck_net.spec.check_training import load_training

FIRST_STEP = 1
"""Step that iteration 0 completes."""
ASSUMED = "the trainer handed its gradients over: no network was observed"
GUARDS = Guards(untold=True)
"""No side channel: learning rates are constant, and the trainer's own checkpoints are compared with the replica."""
_MTU = 4096


def serve(memory: Path, words: int, answers: int) -> None:
    """Do what rank 0 says until it closes its end."""
    node = Node(memory)
    with os.fdopen(words, encoding="utf-8") as said:
        for line in said:
            told = json.loads(line)
            do = told.pop("do")
            getattr(node, do)(**told)
            if do in ("begin", "drain"):
                os.write(answers, b"\n")


class Node:
    """One replica after another."""

    def __init__(self, memory: Path) -> None:
        """``memory``: where the taps are."""
        self._memory = memory
        self._place: Path
        self._training: Training
        self._layout: GroupLayout
        self._tap: Tap
        self._ledger: Ledger
        self._interval: int
        self._store: Store | None = None
        """None: a gradient was lost, and the next anchor is waited for."""

    def begin(self, step: int, place: str, interval: int, anchor: str) -> None:
        """A stretch begins at an anchor."""
        self._place, self._interval = Path(place), interval
        self._training = build_training(load_training(self._place / "training.yaml"))
        self._layout = handed_layout(self._training.layout.steady[0])
        self._tap = Tap(self._memory / f"tap-{self._place.name}", self._layout.size, new=False)
        self._ledger = Ledger(self._place / "events" / "node.jsonl")
        self._cpu = time.process_time()
        self._take_up(step, Path(anchor))

    def gradient(self, step: int) -> None:
        """Take a gradient, and advance where it is the next one."""
        if self._store is None or step <= self._store.replay.step:
            self._tap.mark(step, taken=False)
            return
        if step != self._store.replay.step + 1:
            self._tap.mark(step, taken=False)
            self._close()
            return
        self._lay(step, self._store)
        self._tap.mark(step, taken=False)
        self._ledger.durable(step)
        gradient = self._assembly.assemble(self._store.gradients, step - FIRST_STEP, step)
        self._store.replay.advance(gradient)
        if step % self._interval == 0:
            self._save(self._store)

    def anchor(self, step: int, path: str) -> None:
        """The trainer wrote a regular checkpoint: the replica must be it, or begins again from it."""
        if self._store is None:
            self._take_up(step, Path(path))
            return
        if self._store.replay.step != step:  # the gradient of this very step was lost
            self._close()
            self._take_up(step, Path(path))
            return
        drift = measure(step, anchors.read_anchor(Path(path)), self._store.replay.snapshot())
        differing = [each for each in drift.fields if not each.name.startswith("optimizer.param_groups")]
        if differing:
            raise FlowcheckError(f"the replica of step {step} is not the trainer's: {differing[0].name} differs")

    def drain(self) -> None:
        """The stretch has ended."""
        self._close()
        self._ledger.note(Spent("node-cpu", time.process_time() - self._cpu))
        self._ledger.close()

    @property
    def _assembly(self) -> Assembly:
        return Assembly(self._training.layout, self._training.average, trust_assumed=True, check_files=False)

    def _take_up(self, step: int, anchor: Path) -> None:
        store = Store(self._place / f"from-{step:09d}", self._training)
        store.open(anchor, self._assembly, FIRST_STEP, 1, None, GUARDS)
        self._store = store

    def _close(self) -> None:
        if self._store is not None:
            self._store.__exit__()
            self._store = None

    def _lay(self, step: int, store: Store) -> None:
        """Gradient, presence and manifest on storage before the replica changes."""
        number = step - FIRST_STEP
        directory = iteration_directory(store.gradients, number, complete=False)
        directory.mkdir(parents=True)
        group, units = self._layout.group, self._layout.units
        (directory / f"{group}.gradient").write_bytes(self._tap.slot(step))
        (directory / f"{group}.present").write_bytes(((1 << units) - 1).to_bytes(present_size(units), "little"))
        write_manifest(directory, _manifest(number, group_entry(directory, self._layout)))
        sync_tree(directory)
        self._ledger.note(Moved(Channel.NODE_STORAGE, sum(path.stat().st_size for path in directory.iterdir())))
        directory.rename(iteration_directory(store.gradients, number, complete=True))
        settle(store.gradients)

    def _save(self, store: Store) -> None:
        step = store.save()
        store.prune(FIRST_STEP)
        size = (store.directory / f"step-{step:09d}.pt").stat().st_size
        self._ledger.note(Moved(Channel.NODE_STORAGE, size))


def _manifest(number: int, group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "iteration": number,
        "job": "baselines",
        "plan": None,
        "verdict": Verdict.COVERED.value,
        "complete": group["complete"],
        "why": [],
        "assumed": [ASSUMED],
        "groups": [group],
        "recovered": [],
        "contradictions": [],
    }


def handed_layout(order: BucketOrder) -> GroupLayout:
    """The buckets of a group one behind another, each as one message of packets of 4,096 bytes."""
    places, pieces, offset, unit = [], [], 0, 0
    for bucket in order.buckets:
        size = bucket.elements * bucket.dtype.size
        packets = -(-size // _MTU)
        places.append(BucketPlace(bucket.name, bucket.dtype.value, bucket.elements, offset, size))
        pieces.append(Piece(unit, packets, offset, size, 0, size))
        offset, unit = offset + size, unit + packets
    return GroupLayout(order.group, Protocol.SIMPLE, _MTU, tuple(places), tuple(pieces))
