"""The fields of a framework's checkpoint: torch.save, DCP, safetensors, and the folders of Megatron and DeepSpeed.

Only headers and pickles are read, never the tensors; nothing of a file is executed (``unpickle.py``).

Layouts, as the frameworks write them: Megatron-LM ``latest_checkpointed_iteration.txt`` and ``iter_0000100`` with
``mp_rank_TT[_PPP]/model_optim_rng.pt``, or DCP beside ``common.pt`` and ``metadata.json`` (megatron/training/
checkpointing.py). DeepSpeed ``latest`` and a folder of that name with ``*_model_states.pt`` and ``*_optim_states.pt``
(deepspeed/runtime/engine.py). Hugging Face: ``*.safetensors`` with ``model.safetensors.index.json``.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.inventory import SIZES, Field
from flowcheck_net.checkpoint.unpickle import Inert, Storage, TensorForm, read_form, read_forms
from flowcheck_net.errors import RecordsCorrupt

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_HEADER_CAP = 100_000_000
"""Bytes; safetensors' own limit."""
_PICKLE_CAP = 1 << 30
_DEPTH = 64
_SAFE = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip


def read_fields(path: Path) -> tuple[str, list[Field]]:
    """The form of a checkpoint and all its fields.

    Raises:
        RecordsCorrupt: No checkpoint of a known form, or one that is not whole.
    """
    try:
        return _directory(path) if path.is_dir() else _file(path, path.name)
    except OSError as error:
        raise RecordsCorrupt(f"{path} cannot be read: {error.strerror or error}") from error


def _directory(path: Path) -> tuple[str, list[Field]]:
    for marker, form in (("latest_checkpointed_iteration.txt", "Megatron-LM"), ("latest", "DeepSpeed")):
        if (path / marker).is_file():
            return form, _join(path, _named(path, marker))
    if (path / ".metadata").is_file():
        return "torch DCP", dcp_fields(path)
    safe = sorted(path.glob("*.safetensors"))
    if safe:
        return "safetensors", [field for file in safe for field in safetensors_fields(file, file.name)]
    saved = sorted(path.glob("**/*.pt"))
    if not saved:
        cure = "give the file or folder that the framework wrote"
        if any(path.glob("*.distcp")):
            cure = "there are parts of a DCP checkpoint without .metadata: it was never completed"
        raise RecordsCorrupt(f"{path} holds no checkpoint of a known form", hint=cure)
    deep = any(file.name.endswith("_model_states.pt") for file in saved)
    return ("DeepSpeed" if deep else "torch.save folder"), _join(path, path)


def _named(path: Path, marker: str) -> Path:
    """The folder that a marker file names."""
    text = (path / marker).read_text(encoding="utf-8", errors="replace").strip()
    name = (text if text == "release" else f"iter_{int(text):07d}") if text.isdecimal() or text == "release" else text
    folder = path / name
    if not name or Path(name).name != name or not folder.is_dir():
        raise RecordsCorrupt(f"{path / marker} names {text!r}, which is not there", hint="the checkpoint is not whole")
    return folder


def _join(top: Path, folder: Path) -> list[Field]:
    found: list[Field] = []
    for file in sorted(folder.glob("**/*.pt")):
        found += _file(file, str(file.relative_to(top)))[1]
    if (folder / ".metadata").is_file():
        found += dcp_fields(folder)
    if not found:
        raise RecordsCorrupt(f"{folder} holds no checkpoint of a known form")
    return found


def _file(path: Path, name: str) -> tuple[str, list[Field]]:
    with path.open("rb") as file:
        start = file.read(9)
    if start[:4] == b"PK\x03\x04":
        return "torch.save", list(_fields(_zipped(path), name))
    if start[:1] == b"\x80":
        return "torch.save (old form)", list(_fields(_legacy(path), name))
    if len(start) == 9 and start[8:] == b"{":
        return "safetensors", safetensors_fields(path, name)
    raise RecordsCorrupt(f"{path} is neither a torch.save file nor safetensors")


def _zipped(path: Path) -> object:
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            pickles = [name for name in sizes if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise RecordsCorrupt(f"{path} is a zip file, but not one of torch.save")
            if sizes[pickles[0]] > _PICKLE_CAP:
                raise RecordsCorrupt(f"{path}: its pickle is larger than {_PICKLE_CAP:,} bytes")
            found = read_form(archive.read(pickles[0]), str(path))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise RecordsCorrupt(f"{path} is no whole torch.save file: {error}") from error
    top = pickles[0].removesuffix("data.pkl")
    _check_storages(path, found, {name.removeprefix(f"{top}data/"): size for name, size in sizes.items()})
    return found


def _check_storages(path: Path, found: object, sizes: Mapping[str, int]) -> None:
    """Are the bytes of all tensors in the file?"""
    for _, leaf in leaves(found):
        if isinstance(leaf, TensorForm) and leaf.storage is not None:
            storage: Storage = leaf.storage
            if sizes.get(storage.key, -1) < storage.elements * SIZES[storage.dtype]:
                raise RecordsCorrupt(f"{path}: the data of storage {storage.key} are missing or cut off")


def _legacy(path: Path) -> object:
    data = path.read_bytes()
    if len(data) > _PICKLE_CAP:
        raise RecordsCorrupt(f"{path}: a torch.save file of the old form, and larger than {_PICKLE_CAP:,} bytes")
    try:
        magic, _, _, found = read_forms(data, str(path), 4)
    except RecordsCorrupt:
        return read_form(data, str(path))  # a plain pickle
    return found if magic == _LEGACY_MAGIC else magic


def dcp_fields(path: Path) -> list[Field]:
    """Fields of a ``torch.distributed.checkpoint`` directory. Raises RecordsCorrupt."""
    where = path / ".metadata"
    metadata = read_form(where.read_bytes(), str(where))
    state = getattr(metadata, "state", None)
    if not isinstance(state, dict) or not isinstance(state.get("state_dict_metadata"), dict):
        raise RecordsCorrupt(f"{where} is no metadata of torch.distributed.checkpoint")
    _check_parts(path, state.get("storage_data"))
    found = []
    for name, told in state["state_dict_metadata"].items():
        form = told.state if isinstance(told, Inert) and isinstance(told.state, dict) else {}
        if getattr(told, "of", "").endswith(".TensorStorageMetadata"):
            size = tuple(form.get("size", ()))
            found.append(Field(str(name), "tensor", ".metadata", _dtype_of(form.get("properties")), size))
        else:
            found.append(Field(str(name), "object", ".metadata"))
    return found


def _dtype_of(properties: object) -> str:
    state = getattr(properties, "state", None)
    told = state[0] if isinstance(state, tuple) and state else state.get("dtype") if isinstance(state, dict) else None
    return str(getattr(told, "of", "unknown")).removeprefix("torch.")


def _check_parts(path: Path, told: object) -> None:
    """Are all bytes there that the metadata names?"""
    if not isinstance(told, dict):
        raise RecordsCorrupt(f"{path / '.metadata'} does not say where its data are")
    ends: dict[str, int] = {}
    for info in told.values():
        state = getattr(info, "state", None)
        if not isinstance(state, dict) or not {"relative_path", "offset", "length"} <= state.keys():
            raise RecordsCorrupt(f"{path / '.metadata'} does not say where its data are")
        name = str(state["relative_path"])
        ends[name] = max(ends.get(name, 0), int(state["offset"]) + int(state["length"]))
    for name, end in ends.items():
        part = path / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise RecordsCorrupt(f"{path / '.metadata'} names {name!r}, which is outside of the checkpoint")
        if not part.is_file() or part.stat().st_size < end:
            raise RecordsCorrupt(f"{part} is missing or cut off")


def safetensors_fields(path: Path, name: str) -> list[Field]:
    """Tensors of a safetensors file. Raises RecordsCorrupt where it breaks a rule of its form."""
    header = read_safetensors_header(path)
    spans = []
    found = []
    for key, told in header.items():
        if key == "__metadata__":
            continue
        try:
            dtype, shape, (begin, end) = _SAFE[told["dtype"]], tuple(map(int, told["shape"])), told["data_offsets"]
            right = end - begin == prod(shape) * SIZES[dtype] and begin >= 0
        except (KeyError, TypeError, ValueError) as error:
            raise RecordsCorrupt(f"{path}: {key}: no tensor by the rules of safetensors") from error
        if not right:
            raise RecordsCorrupt(f"{path}: {key}: its bytes do not fit its shape")
        spans.append((begin, end))
        found.append(Field(key, "tensor", name, dtype, shape))
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
    spans = [(0, 0), *sorted(spans), (path.stat().st_size - start,) * 2]
    if any(left[1] != right[0] for left, right in pairwise(spans)):
        raise RecordsCorrupt(f"{path}: its tensors overlap, leave holes, or are cut off")
    return found


def read_safetensors_header(path: Path) -> dict[str, Any]:
    """The JSON header. Raises RecordsCorrupt."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _HEADER_CAP:
            raise RecordsCorrupt(f"{path}: a header of {length:,} bytes is more than safetensors allows")
        data = file.read(length)
    try:
        header = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise RecordsCorrupt(f"{path} has no header of safetensors: {error}") from error
    if len(data) != length or not isinstance(header, dict):
        raise RecordsCorrupt(f"{path} has no whole header of safetensors")
    return header


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def leaves(value: object) -> Iterator[tuple[str, object]]:
    """Name and value of everything in a checkpoint; lists of plain values are one. Raises RecordsCorrupt."""
    return ((".".join(path), leaf) for path, leaf in _walk(value, (), frozenset()))


def _fields(value: object, file: str) -> Iterator[Field]:
    return (form_of(name, leaf, file) for name, leaf in leaves(value))


def form_of(name: str, leaf: object, file: str) -> Field:
    """The field of one leaf."""
    if isinstance(leaf, TensorForm):
        place = f"{leaf.storage.key}+{leaf.offset}" if leaf.storage else ""
        return Field(name, "tensor", file, leaf.dtype, leaf.shape, place)
    if isinstance(leaf, Inert):
        return Field(name, leaf.of, file)
    if isinstance(leaf, type):
        return Field(name, f"name of {getattr(leaf, 'of', leaf.__name__)}", file)
    return Field(name, type(leaf).__name__, file)


def _walk(value: object, path: tuple[str, ...], above: frozenset[int]) -> Iterator[tuple[tuple[str, ...], object]]:
    """All leaves; lists of plain values are one. Raises RecordsCorrupt where containers hold themselves."""
    if id(value) in above or len(path) > _DEPTH:
        raise RecordsCorrupt(f"{'.'.join(path[:4])}... holds itself, or is nested more than {_DEPTH} times")
    inside = _inside(value)
    if not inside:
        yield path, value
        return
    for key, each in inside:
        yield from _walk(each, (*path, str(key)), above | {id(value)})


def _inside(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        plain = all(isinstance(each, (int, float, str, bytes, bool, type(None))) for each in value)
        return [] if plain else list(enumerate(value))
    if isinstance(value, Inert) and value.of in ("argparse.Namespace", "types.SimpleNamespace"):
        return list(value.state.items()) if isinstance(value.state, dict) else []
    return []
