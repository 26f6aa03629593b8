"""Which run of elements of which bucket is the gradient of which parameter: frozen words, no arithmetic.

A **source** is one run of elements in the reduced buckets of one data-parallel group. Most parameters have one. A tied
embedding on two pipeline stages has one in the group of each stage, and a layer norm under sequence parallelism one for
each tensor-parallel rank: the gradient is their sum, in the order in which they stand.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod

from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """One run of elements: the slot ``slot`` in the buckets of ``group``."""

    group: GroupName
    slot: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor that the optimizer updates, as one shard of it holds it."""

    name: str
    """As in the framework's state dict; of tensor- or pipeline-parallel shards with a prefix such as ``tp1/``."""
    shape: tuple[int, ...]
    dtype: Dtype
    """Of the model's tensor; the optimizer may work on an fp32 master copy of it."""
    sources: tuple[Source, ...]
    aliases: tuple[str, ...] = ()
    """Other names of the same tensor in the state dict (tied weights)."""

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Slot:
    """A run of elements of a bucket."""

    name: str
    offset: int
    """Elements from the start of the bucket."""
    elements: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """One all-reduce."""

    name: str
    """Unique in its order; job.yaml may call it otherwise: buckets are compared by place, type and size."""
    dtype: Dtype
    """On the wire."""
    elements: int
    """Padding included."""
    slots: tuple[Slot, ...]
    """By offset; what lies between them is padding."""


@dataclass(frozen=True, slots=True)
class BucketOrder:
    """The buckets of one group in one iteration, in the order of their all-reduces."""

    group: GroupName
    buckets: tuple[Bucket, ...]

    def slots(self) -> Iterator[tuple[Bucket, Slot]]:
        """All slots in the order in which they stand."""
        return ((bucket, slot) for bucket in self.buckets for slot in bucket.slots)


@dataclass(frozen=True)
class ParameterLayout:
    """All parameters of a job and where their gradients lie."""

    parameters: tuple[Parameter, ...]
    """In the framework's order of registration."""
    steady: tuple[BucketOrder, ...]
    """One a group: every iteration but the first."""
    first: tuple[BucketOrder, ...] = ()
    """One a group, where the first iteration of a training process has other buckets (DDP); empty: the same ones."""

    def orders(self, *, first: bool) -> tuple[BucketOrder, ...]:
        """The buckets of an iteration; ``first``: is it the first one of a training process?"""
        return self.first if first and self.first else self.steady

    @cached_property
    def by_name(self) -> Mapping[str, Parameter]:
        """Parameter name -> parameter; aliases are not among them."""
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the whole."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
