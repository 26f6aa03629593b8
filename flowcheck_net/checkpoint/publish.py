"""Publish the state of a step: when everything is proven, whole, and at once or not at all.

All is written into a folder whose name does not count, read back and compared with the memory, brought to the disk,
and then renamed. A process that dies before leaves the former checkpoints as the newest; what it left is erased by the
next.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import access, store
from flowcheck_net.checkpoint.files import digest_of, erase_tree, locked, sync_directory, sync_file, sync_tree
from flowcheck_net.checkpoint.gate import NotPublished, Reason, Run, reasons_against
from flowcheck_net.checkpoint.gradient import Proof
from flowcheck_net.checkpoint.guarded import Trial
from flowcheck_net.checkpoint.inventory import Declaration, Field, Inventory, Origin, Shapes, classify
from flowcheck_net.checkpoint.inventory_read import leaves
from flowcheck_net.checkpoint.sealing import Key, seal, unseal
from flowcheck_net.checkpoint.side import SideLog
from flowcheck_net.checkpoint.tree import compose, digests, write_tree
from flowcheck_net.errors import OutputError, RecordsCorrupt

_MEMORY = Path("/dev/shm")  # noqa: S108 - memory that is a file: plain data must not touch the disk of a sealed store


@dataclass(frozen=True, slots=True)
class Candidate:
    """A state that is to be published."""

    step: int
    begun_at: int
    """The anchor's step."""
    anchor: Mapping[str, Any]
    """The regular checkpoint that the replica began from."""
    replayed: Mapping[str, Any]
    """The replica, in the anchor's form."""
    proofs: Sequence[tuple[int, Proof]]
    """Of every step since the anchor."""
    parameters: Shapes
    optimizer: str
    """Digest of its description."""
    side: SideLog = field(default_factory=SideLog)
    declared: Sequence[Declaration] = ()
    trial: Trial | None = None
    """Of the description, since the anchor."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How checkpoints are kept."""

    key: Key | None = None
    keep_last: int = 3
    keep_every: int | None = None
    """Steps; checkpoints at their multiples stay."""
    supersede: bool = False
    """The training went back to the anchor: erase what was published of later steps."""


def publish(place: Path, candidate: Candidate, policy: Policy, against: Sequence[Reason] = ()) -> store.Published:
    """Publish a checkpoint, then let go what retention allows.

    Args:
        place: The store; made if it is not there.
        candidate: The state.
        policy: How it is kept.
        against: Reasons that the caller found.

    Raises:
        NotPublished: Something is not proven; it names all of it.
        OutputError: The store cannot be written. The former checkpoints stay.
    """
    tree, listed = _prepare(candidate, against)
    with locked(place), ExitStack() as stack:
        target = store.folder_of(place, candidate.step)
        _refuse_other_store(place, candidate.step, policy)
        try:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            store.sweep(place)
            later = [each for each in store.published(place)[0] if each.step > candidate.begun_at]
            _remove(place, later if policy.supersede else [])
            new = target.with_name(f"{store.MAKING}{target.name}-{os.getpid()}")
            new.mkdir(mode=0o700)
            plain = new if policy.key is None else Path(stack.enter_context(_in_memory()))
            manifest = _manifest(candidate, tree, listed, policy.key)
            _write(plain, tree, candidate.step)
            _check(plain, manifest, tree)
            if policy.key is not None:
                _seal_all(plain, new, policy.key)
            _finish(new, target, manifest)
            sync_directory(place)
        except _write_faults() as error:
            hint = "the newest checkpoint before it stays; make room, or mend the disk"
            raise OutputError(f"{place} cannot be written: {error}", hint=hint) from error
        access.note(place, "publish", candidate.step, digest=manifest["digest"])
        _remove(place, store.outdated(store.published(place)[0], last=policy.keep_last, every=policy.keep_every))
    return store.read_published(target)


def _refuse_other_store(place: Path, step: int, policy: Policy) -> None:
    """No plain checkpoint among sealed ones by accident, and none that is older than the newest."""
    there = store.published(place)[0]
    name = None if policy.key is None else policy.key.name
    if there and there[-1].sealed != name:
        told = "is not encrypted" if there[-1].sealed is None else f"is encrypted with key {there[-1].sealed}"
        raise OutputError(f"{place} {told}", hint="give its --key-file, or another store")
    if there and there[-1].step >= step and not policy.supersede:
        hint = (
            "a step is published once; where the training went back to the anchor, --supersede erases what came after"
        )
        raise OutputError(f"{place} has step {there[-1].step:,} already, this is {step:,}", hint=hint)


def _remove(place: Path, checkpoints: Sequence[store.Published]) -> None:
    for each in checkpoints:
        store.remove(place, each)
        access.note(place, "erase", each.step, digest=each.manifest["digest"])


def restore(place: Path, target: Path, *, step: int | None = None, key: Key | None = None) -> store.Published:
    """Copy a checkpoint out, decrypted, and every field compared with its digest.

    Args:
        place: The store.
        target: A directory that is not there yet; it appears whole.
        step: None: the newest that is whole.
        key: Of a sealed store.

    Raises:
        RecordsCorrupt: There is none, or it is not what was published, or the key is another.
        OutputError: ``target`` is there, or cannot be written.
    """
    found = store.newest(place) if step is None else store.read_published(store.folder_of(place, step))
    if found is None:
        raise RecordsCorrupt(f"{place} holds no whole checkpoint")
    store.check_files(found)
    if target.exists():
        raise OutputError(f"{target} is there already", hint="choose another directory")
    access.note(place, "restore", found.step, target=str(target))
    new = target.with_name(target.name + ".new")
    try:
        new.mkdir(parents=True, mode=0o700)
        try:
            copy_plain(found, new, key)
            store.check_fields(new, found.manifest)
        except RecordsCorrupt:
            erase_tree(new)
            raise
        (new / store.MANIFEST).write_bytes((found.path / store.MANIFEST).read_bytes())
        sync_tree(new)
        new.rename(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error
    return found


def copy_plain(found: store.Published, target: Path, key: Key | None) -> None:
    """All files of a checkpoint without encryption. Raises RecordsCorrupt where the key is missing or wrong."""
    if found.sealed is not None and key is None:
        raise RecordsCorrupt(f"{found.path} is encrypted with key {found.sealed}", hint="give --key-file")
    for name in found.manifest["files"]:
        to = target / name.removesuffix(store.SEALED)
        to.parent.mkdir(exist_ok=True, mode=0o700)
        if found.sealed is not None and key is not None:
            unseal(found.path / name, to, name.removesuffix(store.SEALED), key)
        else:
            to.write_bytes((found.path / name).read_bytes())


def read(place: Path, found: store.Published, key: Key | None = None) -> dict[str, Any]:
    """The content of a checkpoint, every field compared with its digest. Raises RecordsCorrupt."""
    store.check_files(found)
    access.note(place, "read", found.step)
    if found.sealed is None:
        return store.check_fields(found.path, found.manifest)
    with _in_memory() as plain:
        copy_plain(found, Path(plain), key)
        return store.check_fields(Path(plain), found.manifest)


def verify(place: Path, found: store.Published, key: Key | None = None) -> str:
    """Compare files with the manifest, and fields too where they can be read. Returns what was compared.

    Raises:
        RecordsCorrupt: Something is not what was published.
    """
    store.check_files(found)
    access.note(place, "verify", found.step)
    if found.sealed is not None and key is None:
        return "files"
    if found.sealed is None:
        store.check_fields(found.path, found.manifest)
    else:
        with _in_memory() as plain:
            copy_plain(found, Path(plain), key)
            store.check_fields(Path(plain), found.manifest)
    return "files and fields"


def _prepare(candidate: Candidate, against: Sequence[Reason]) -> tuple[dict[str, Any], Inventory]:
    """The checkpoint's content, and where each field is from. Raises NotPublished."""
    written = {name for name, _ in leaves(candidate.replayed)}
    fields = [_field(name, leaf) for name, leaf in leaves(_joined(candidate))]
    listed = classify(
        "checkpoint", fields, parameters=candidate.parameters, replayed=written, declared=candidate.declared
    )
    wanted = [each.field.name for each in listed.of(Origin.SIDE)]
    given, missing = candidate.side.fields(candidate.step, wanted)
    side = candidate.side
    run = Run(candidate.step, candidate.begun_at, candidate.proofs, side.values(), candidate.trial, side.jobs)
    reasons = [*against, *reasons_against(run, listed, missing)]
    if reasons:
        raise NotPublished(candidate.step, reasons)
    return compose(candidate.anchor, candidate.replayed, given), listed


def _joined(candidate: Candidate) -> dict[str, Any]:
    return compose(candidate.anchor, candidate.replayed, {})


def _field(name: str, leaf: Any) -> Field:  # noqa: ANN401 - whatever a checkpoint holds
    import torch

    if isinstance(leaf, torch.Tensor):
        return Field(name, "tensor", "anchor", str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape))
    return Field(name, type(leaf).__name__, "anchor")


def _manifest(candidate: Candidate, tree: Mapping[str, Any], listed: Inventory, key: Key | None) -> dict[str, Any]:
    origins = {each.field.name: each.origin for each in listed.fields}
    fields = {}
    for name, told in digests(tree).items():
        origin = origins.get(name, Origin.SIDE)  # below a name that the side channel filled anew
        step = candidate.begun_at if origin is Origin.SNAPSHOT else candidate.step
        fields[name] = told | {"source": origin.value, "of_step": step}
    proofs = [proof for _, proof in candidate.proofs]
    return {
        "version": store.VERSION,
        "step": candidate.step,
        "anchor_step": candidate.begun_at,
        "optimizer": candidate.optimizer,
        "tried": None if candidate.trial is None else asdict(candidate.trial),
        "plans": sorted({proof.plan for proof in proofs if proof.plan is not None}),
        "jobs": sorted({proof.job for proof in proofs}),
        "proven": {
            "steps": len(proofs),
            "recovered": sum(1 for proof in proofs if proof.recovered_units),
            "assumed": sorted({each for proof in proofs for each in proof.assumed}),
            "gradients": [
                {"step": step, "iteration": proof.iteration, "verdict": proof.verdict.value, "groups": _groups(proof)}
                for step, proof in candidate.proofs
            ],
        },
        "fields": fields,
        "sealed": None if key is None else key.name,
        "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _groups(proof: Proof) -> dict[str, str]:
    return {str(group.group): group.sha256 for group in proof.groups}


def _write(folder: Path, tree: Mapping[str, Any], step: int) -> None:
    import torch.distributed.checkpoint as dcp

    (folder / "safetensors").mkdir(mode=0o700)
    write_tree(folder / "safetensors", tree, {"step": str(step), "written_by": "flowcheck-net"})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.save(dict(tree), checkpoint_id=folder / "dcp", no_dist=True)


def _check(folder: Path, manifest: Mapping[str, Any], tree: Mapping[str, Any]) -> None:
    """What was written must be what is in memory, in both forms."""
    import torch.distributed.checkpoint as dcp

    store.check_fields(folder, manifest)
    read = _blank(tree)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.load(read, checkpoint_id=folder / "dcp", no_dist=True)
    mine = {name: told["sha256"] for name, told in digests(read).items()}
    for name, told in manifest["fields"].items():
        if mine.get(name) != told["sha256"]:
            raise RecordsCorrupt(f"{folder / 'dcp'}: field {name} was not written as it is in memory")


def _write_faults() -> tuple[type[BaseException], ...]:
    """What the writers raise where a disk is full or fails."""
    from safetensors import SafetensorError
    from torch.distributed.checkpoint.api import CheckpointException

    return (OSError, RuntimeError, SafetensorError, CheckpointException)


def _blank(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """The same form with other values, for DCP to fill."""
    import torch

    if isinstance(value, torch.Tensor):
        return torch.zeros(value.shape, dtype=value.dtype)
    if isinstance(value, Mapping):
        return {key: _blank(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_blank(each) for each in value)
    return None


def _seal_all(plain: Path, target: Path, key: Key) -> None:
    for path in sorted(plain.rglob("*")):
        name = str(path.relative_to(plain))
        if path.is_dir():
            (target / name).mkdir(mode=0o700)
        else:
            seal(path, target / (name + store.SEALED), name, key)


def _finish(new: Path, target: Path, manifest: dict[str, Any]) -> None:
    """Everything to the disk, the manifest last, then the name that counts."""
    files = [path for path in sorted(new.rglob("*")) if path.is_file()]
    manifest["files"] = {
        str(path.relative_to(new)): {"bytes": path.stat().st_size, "sha256": digest_of(path)} for path in files
    }
    manifest["digest"] = store.manifest_digest(manifest)
    sync_tree(new)
    path = new / store.MANIFEST
    path.write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    sync_file(path)
    sync_directory(new)
    new.rename(target)
    sync_directory(target.parent)


def _in_memory() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="flowcheck-", dir=_MEMORY if _MEMORY.is_dir() else None)
