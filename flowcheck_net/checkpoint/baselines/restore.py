"""After a failure: the newest state that storage gives, by each method's own reader."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.baselines.words import Method
from flowcheck_net.errors import RecordsCorrupt

State = tuple[int, dict[str, Any]]
"""Step, and the state in the flat form."""


def restore(method: Method, place: Path) -> State:
    """Read the newest checkpoint that counts; no other is tried where it is damaged.

    Raises:
        RecordsCorrupt: There is none, or it is not what was written. Readers of PyTorch raise what they raise.
    """
    return _READERS[method](place)


def _newest(place: Path) -> tuple[int, Path]:
    from flowcheck_net.checkpoint.baselines.methods import steps_in

    found = steps_in(place)
    if not found:
        raise RecordsCorrupt(f"{place} holds no checkpoint")
    return found[0]


def _sync(place: Path) -> State:
    import torch

    found = torch.load(_newest(place)[1], weights_only=True)
    return int(found["step"]), dict(found["state"])


def _async(place: Path) -> State:
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    path = _newest(place)[1]
    told: Mapping[str, Any] = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    blank: dict[str, Any] = {
        name: torch.empty(each.size, dtype=each.properties.dtype) if isinstance(each, TensorStorageMetadata) else 0
        for name, each in told.items()
    }
    dcp.load(blank, checkpoint_id=path, no_dist=True)
    return int(blank.pop("training_step")), blank


def _incremental(place: Path) -> State:
    from flowcheck_net.checkpoint.baselines.blocks import load

    return load(_newest(place)[1])


def _hybrid(place: Path) -> State:
    """The replica's storage as a new checkpoint node takes it up, or a newer checkpoint of the trainer."""
    from flowcheck_net.checkpoint import anchor as anchors
    from flowcheck_net.checkpoint.assemble import Assembly
    from flowcheck_net.checkpoint.baselines.gpt import flat_of_anchor
    from flowcheck_net.checkpoint.baselines.node import FIRST_STEP, GUARDS
    from flowcheck_net.checkpoint.follow_store import Store
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.spec.check_training import load_training

    training = build_training(load_training(place / "training.yaml"))
    names = [name for group in training.optimizer.groups for name in group.parameters]
    step, path = _newest(place)
    for directory in sorted(place.glob("from-*"), reverse=True)[:1]:
        begun = place / f"step-{directory.name.removeprefix('from-')}.pt"
        assembly = Assembly(training.layout, training.average, trust_assumed=True)
        with Store(directory, training) as store:
            store.open(begun, assembly, FIRST_STEP, 1, None, GUARDS)
            if store.replay.step >= step:
                # the tensors lie in memory that goes with the store
                flat = {name: each.clone() for name, each in flat_of_anchor(store.replay.snapshot(), names).items()}
                return store.replay.step, flat
    return step, flat_of_anchor(anchors.read_anchor(path), names)


_READERS: Mapping[Method, Callable[[Path], State]] = {
    Method.SYNC: _sync,
    Method.ASYNC: _async,
    Method.INCREMENTAL: _incremental,
    Method.HYBRID: _hybrid,
}
