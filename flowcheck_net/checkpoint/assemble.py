"""Laid gradients of an iteration -> the gradient of a step, parameter by parameter; or the reason why there is none.

Nothing is copied: each part is a window into the memory map of its group's file. The map is private, so that whoever
writes into it changes no file.
"""

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, StepRefused, Stop
from flowcheck_net.checkpoint.gradient import Average, GroupProof, Part, Proof, StepGradient
from flowcheck_net.checkpoint.layout import BucketOrder, ParameterLayout, Source
from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.receive.gradient import MANIFEST, MANIFEST_VERSION, Gradient, iteration_directory


@dataclass(frozen=True, slots=True)
class Assembly:
    """How the laid gradients of a job become those of its steps."""

    layout: ParameterLayout
    average: Average
    trust_assumed: bool = False
    """Apply also where queue pairs were told apart by an assumption (``replay --trust-order``)."""
    check_files: bool = True
    """Compare the files with their SHA-256. False: they were laid by this process a moment ago."""

    def assemble(self, out: Path, iteration: int, step: int, *, first: bool = False) -> StepGradient:
        """The gradient that completes ``step``.

        Args:
            out: Where ``replay --payload`` wrote.
            iteration: Its number by the audit.
            step: Of the trainer.
            first: Is it the first iteration of a training process?

        Raises:
            StepIncomplete: The iteration is not there, or bytes of it are missing.
            StepRefused: No byte is missing but something is not proven, or the buckets are not the layout's.
            RecordsCorrupt: A file is not what its manifest says.
        """
        directory = iteration_directory(out, iteration, complete=True)
        if not directory.is_dir():
            directory = iteration_directory(out, iteration, complete=False)
        if not directory.is_dir():
            raise StepIncomplete(_request(step, Stop.INCOMPLETE, f"{out} has nothing of iteration {iteration:,}"))
        document = _manifest(directory)
        orders = self.layout.orders(first=first)
        self._refuse_unproven(document, directory, step)
        proofs = []
        parts: dict[Source, Part] = {}
        for order in orders:
            entry = _group_entry(document, directory, order, step)
            gradient = Gradient.open(directory, order.group, check=self.check_files)
            _refuse_gaps(gradient, entry, step)
            parts |= _parts(gradient, order)
            proofs.append(GroupProof(order.group, entry["units"], entry["gradient"]["sha256"]))
        proof = Proof(
            job=document["job"],
            plan=document["plan"],
            iteration=document["iteration"],
            verdict=Verdict(document["verdict"]),
            recovered_units=sum(each["units"] for each in document["recovered"]),
            assumed=tuple(document["assumed"]),
            groups=tuple(proofs),
        )
        return StepGradient(step, proof, self.average, self._by_parameter(parts, step))

    def _refuse_unproven(self, document: Mapping[str, Any], directory: Path, step: int) -> None:
        why = "; ".join(document["why"]) or "the manifest gives no reason"
        gaps = [entry["group"] for entry in document["groups"] if not entry["complete"]]
        if gaps or document["verdict"] == Verdict.GAP:
            raise StepIncomplete(_request(step, Stop.INCOMPLETE, f"{directory.name}: {why}"))
        if not document["complete"] or not Verdict(document["verdict"]).publishable:
            raise StepRefused(_request(step, Stop.UNPROVEN, f"{directory.name}: {why}"))
        if document["assumed"] and not self.trust_assumed:
            reason = f"{directory.name} was laid with an assumption: {document['assumed'][0]}"
            hint = "name the queue pairs in the job, or allow it with --trust-order"
            raise StepRefused(_request(step, Stop.UNPROVEN, reason), hint=hint)

    def _by_parameter(self, parts: Mapping[Source, Part], step: int) -> dict[str, tuple[Part, ...]]:
        found = {}
        for parameter in self.layout.parameters:
            missing = [source for source in parameter.sources if source not in parts]
            if missing:
                reason = f"no bucket of {missing[0].group} holds {missing[0].slot}, the gradient of {parameter.name}"
                raise StepRefused(_request(step, Stop.LAYOUT, reason))
            found[parameter.name] = tuple(parts[source] for source in parameter.sources)
        return found


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = document["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsCorrupt(f"{path} is no manifest of a gradient: {error}") from error
    if version != MANIFEST_VERSION:
        raise RecordsCorrupt(f"{path}: version {version}, this program reads {MANIFEST_VERSION}")
    return document


def _group_entry(document: Mapping[str, Any], directory: Path, order: BucketOrder, step: int) -> dict[str, Any]:
    """The manifest's words on a group whose buckets are those of the layout."""
    found: list[dict[str, Any]] = [entry for entry in document["groups"] if entry["group"] == order.group]
    if not found:
        raise StepRefused(_request(step, Stop.LAYOUT, f"{directory.name} has no group {order.group}"))
    laid = [(b["dtype"], b["elements"]) for b in found[0]["buckets"]]
    told = [(b.dtype.value, b.elements) for b in order.buckets]
    if laid != told:
        differing = next(
            (i for i, (a, b) in enumerate(zip(laid, told, strict=False)) if a != b), min(len(laid), len(told))
        )
        reason = (
            f"bucket {differing} of {order.group}: the capture has {_bucket_text(laid, differing)}, "
            f"the description {_bucket_text(told, differing)}"
        )
        hint = "is it the first iteration of a training process? Those have other buckets (--first-iteration)"
        raise StepRefused(_request(step, Stop.LAYOUT, reason), hint=hint)
    return found[0]


def _bucket_text(buckets: list[tuple[str, int]], number: int) -> str:
    if number >= len(buckets):
        return "none"
    dtype, elements = buckets[number]
    return f"{elements:,} {dtype}"


def _refuse_gaps(gradient: Gradient, entry: Mapping[str, Any], step: int) -> None:
    """Count the presence bits once more: the manifest's word is not enough."""
    there = int.from_bytes(gradient.present, "little").bit_count()
    if there != entry.get("carrying"):
        said = entry.get("carrying", "an unknown number")
        reason = f"{gradient.path}: {there:,} units are present, {said} carry data"
        raise StepIncomplete(_request(step, Stop.INCOMPLETE, reason))


def _parts(gradient: Gradient, order: BucketOrder) -> dict[Source, Part]:
    if not gradient.layout.size:
        return {}
    with gradient.path.open("rb") as file:
        memory = memoryview(mmap.mmap(file.fileno(), gradient.layout.size, access=mmap.ACCESS_COPY))
    places = {bucket.name: place.offset for bucket, place in zip(order.buckets, gradient.layout.buckets, strict=True)}
    found = {}
    for bucket, slot in order.slots():
        start = places[bucket.name] + slot.offset * bucket.dtype.size
        window = memory[start : start + slot.elements * bucket.dtype.size]
        found[Source(order.group, slot.name)] = Part(window, bucket.dtype)
    return found


def _request(step: int, stop: Stop, reason: str) -> CheckpointRequest:
    return CheckpointRequest(replica_step=step - 1, at_step=step, stop=stop, reason=reason)
