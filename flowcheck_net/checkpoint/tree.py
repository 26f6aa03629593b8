"""The content of a checkpoint as a tree: put together from its sources, digested, written and read without pickles."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.drift import same_value
from flowcheck_net.checkpoint.inventory_read import leaves
from flowcheck_net.checkpoint.side import TensorValue, decode
from flowcheck_net.checkpoint.side_client import plain
from flowcheck_net.errors import RecordsCorrupt

TENSORS = "tensors.safetensors"
REST = "rest.json"
_REFERENCE = "$in"


def compose(anchor: Mapping[str, Any], replayed: Mapping[str, Any], side: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint with the fields of ``anchor``: the replayed values over it, then those of the side channel.

    Args:
        anchor: A regular checkpoint.
        replayed: The replica in the same form.
        side: Values by name; a name may stand for all below it.

    Raises:
        RecordsCorrupt: A value of the side channel has no place in the anchor.
    """
    found = _over(anchor, replayed, "")
    for name, value in side.items():
        if not _put(found, name, _built(value)):
            raise RecordsCorrupt(f"the side channel sent {name}, which the anchor does not have")
    return dict(found)


def _over(below: Any, above: Any, name: str) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """What says the same keeps the trainer's form: None of an option that is off, 0 where the replica has 0.0."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {
            key: _over(below[key], above[key], f"{name}.{key}")
            if key in below and key in above
            else _copy(above[key] if key in above else below[key])
            for key in {**below, **above}
        }
    if isinstance(below, list) and isinstance(above, list) and _deep(above) and len(below) == len(above):
        return [_over(one, other, f"{name}.{n}") for n, (one, other) in enumerate(zip(below, above, strict=True))]
    same = not hasattr(above, "dtype") and not isinstance(above, Mapping) and same_value(name, below, above)
    return _copy(below if same else above)


def _deep(value: list[Any]) -> bool:
    return any(isinstance(each, Mapping) for each in value)


def _copy(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """New containers; the same leaves."""
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value


def _put(tree: Any, name: str, value: object) -> bool:  # noqa: ANN401 - whatever a checkpoint holds
    """Keys of a checkpoint have dots in them, so that each is tried."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        text = str(key)
        if name == text:
            tree[key] = value
            return True
        if name.startswith(f"{text}.") and _put(tree[key], name[len(text) + 1 :], value):
            return True
    return False


def _built(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """``TensorValue`` -> tensor."""
    if isinstance(value, TensorValue):
        import torch

        kind = getattr(torch, value.dtype, None)
        try:
            flat = torch.frombuffer(bytearray(value.data), dtype=kind) if value.data else torch.empty(0, dtype=kind)
            return flat.view(value.shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise RecordsCorrupt(f"the side channel sent a tensor that is none: {error}") from error
    if isinstance(value, dict):
        return {key: _built(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_built(each) for each in value)
    return value


def digests(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """SHA-256, type and shape of every leaf, by name. Raises RecordsCorrupt where one has no form but a pickle."""
    found = {}
    for name, leaf in leaves(tree):
        try:
            found[name] = _digest(leaf)
        except TypeError as error:
            raise RecordsCorrupt(f"{name} cannot be written without a pickle: {error}") from error
    return found


def _digest(leaf: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a checkpoint holds
    import torch

    if isinstance(leaf, torch.Tensor):
        raw = leaf.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        told = {"dtype": str(leaf.dtype).removeprefix("torch."), "shape": list(leaf.shape)}
        head = json.dumps(told, sort_keys=True).encode()
        digest = hashlib.sha256(head)
        digest.update(memoryview(raw))
        return told | {"bytes": leaf.numel() * leaf.element_size(), "sha256": digest.hexdigest()}
    text = json.dumps(plain(leaf), sort_keys=True)
    return {"kind": type(leaf).__name__, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def write_tree(folder: Path, tree: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Tensors as safetensors, all else as JSON that refers to them.

    Args:
        folder: There already.
        tree: With PyTorch's tensors.
        metadata: For the head of the safetensors file.
    """
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {}
    rest = _referring(tree, (), tensors)
    save_file(_apart(tensors), folder / TENSORS, metadata=dict(metadata))
    (folder / REST).write_text(json.dumps(rest, sort_keys=False) + "\n", encoding="utf-8")


def _referring(value: Any, path: tuple[str, ...], tensors: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
    import torch

    if isinstance(value, torch.Tensor):
        name = ".".join(path)
        if name in tensors:
            raise RecordsCorrupt(f"two tensors are called {name}")
        tensors[name] = value.detach().cpu()
        return {_REFERENCE: name}
    if isinstance(value, Mapping):
        return {"$dict": [[plain(key), _referring(each, (*path, str(key)), tensors)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        inside = [_referring(each, (*path, str(number)), tensors) for number, each in enumerate(value)]
        return inside if isinstance(value, list) else {"$tuple": inside}
    return plain(value)


def _apart(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Safetensors has no shared memory: what is tied is written for each name."""
    found = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.contiguous()
        place = whole.data_ptr()
        found[name] = whole.clone() if place in seen else whole
        seen.add(place)
    return found


def read_tree(folder: Path) -> dict[str, Any]:
    """What ``write_tree`` wrote. Raises RecordsCorrupt."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(folder / TENSORS)
        rest = json.loads((folder / REST).read_text(encoding="utf-8"))
        found = _resolved(decode(rest), tensors)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise RecordsCorrupt(f"{folder} holds no whole checkpoint: {error}") from error
    if not isinstance(found, dict):
        raise RecordsCorrupt(f"{folder / REST} is no checkpoint")
    return found


def _resolved(value: Any, tensors: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        if value.keys() == {_REFERENCE}:
            return tensors[value[_REFERENCE]]
        return {key: _resolved(each, tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_resolved(each, tensors) for each in value)
    return value
