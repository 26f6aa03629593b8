"""What is offered, and how whoever restores reads it: with PyTorch's own loader, and with our reader."""

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import store
from flowcheck_net.errors import RecordsCorrupt


def offered(place: Path) -> tuple[int, ...]:
    """Steps of all checkpoints that are whole, ascending; the last is what ``store.newest`` offers."""
    found = []
    for each in store.published(place)[0]:
        try:
            store.check_files(each)
        except RecordsCorrupt:
            continue
        found.append(each.step)
    newest = store.newest(place)
    if (newest.step if newest else 0) != (found[-1] if found else 0):
        raise RecordsCorrupt(f"{place} offers {newest.step if newest else None} as the newest of {found}")
    return tuple(found)


def names(place: Path) -> str:
    """Names of all folders that count as checkpoints now."""
    return " ".join(path.name for path in sorted((place / "checkpoints").glob("step-*")))


def load(place: Path, step: int) -> dict[str, Any]:
    """A published checkpoint in the form of a regular one. Raises RecordsCorrupt."""
    found = store.read_published(store.folder_of(place, step))
    return store.check_fields(found.path, found.manifest)


def load_as_torch_does(place: Path, step: int, form: Mapping[str, Any]) -> dict[str, Any]:
    """The same by ``torch.distributed.checkpoint``, without anything of ours. Raises RecordsCorrupt.

    Args:
        place: The store.
        step: Which checkpoint.
        form: A state with its keys and shapes; no value of it is used.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    found = {key: _blank(each) for key, each in form.items()}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            dcp.load(found, checkpoint_id=store.folder_of(place, step) / "dcp", no_dist=True)
    except CheckpointException as error:
        raise RecordsCorrupt(f"PyTorch cannot load step {step:,}: {error}") from error
    return found


def newest(place: Path) -> dict[str, Any] | None:
    """The newest that is whole; None: there is none."""
    found = store.newest(place)
    return None if found is None else load(place, found.step)


def warm() -> None:
    """Import what publishing and loading use, so that no forked node spends seconds on it."""
    import safetensors.torch  # noqa: F401
    import torch
    import torch.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.save({"a": torch.zeros(2)}, checkpoint_id=place, no_dist=True)


def files(place: Path, step: int) -> tuple[Path, ...]:
    """The files of one checkpoint."""
    folder = store.folder_of(place, step)
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))


def _blank(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    import torch

    if isinstance(value, torch.Tensor):
        return torch.full_like(value, 77)
    if isinstance(value, Mapping):
        return {key: _blank(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_blank(each) for each in value)
    return None
