"""How far a replica is from the trainer: a regular checkpoint beside the replayed one of the same step.

An anchor re-aligns: the next replay begins from it. What is measured here says how much that was needed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any, TypeGuard

from flowcheck_net.checkpoint.inventory_read import leaves
from flowcheck_net.checkpoint.side_client import plain
from flowcheck_net.errors import RecordsCorrupt

NAME = "drift.jsonl"


@dataclass(frozen=True, slots=True)
class FieldDrift:
    """One field that is not the same."""

    name: str
    elements: int
    different: int
    largest: float | None
    """Largest absolute difference; None: no number, or of another type or shape."""
    relative: float | None
    """That, over the largest absolute value of the trainer's; None as above."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A replica beside the trainer."""

    step: int
    compared: int
    """Fields."""
    elements: int
    fields: tuple[FieldDrift, ...]
    """Those that differ."""
    only_trainer: tuple[str, ...]
    only_replica: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Bit by bit, in all fields that both have."""
        return not self.fields

    @property
    def largest(self) -> float:
        """The largest relative difference of any tensor."""
        return max((field.relative or 0.0 for field in self.fields), default=0.0)

    def beyond(self, relative: float) -> tuple[FieldDrift, ...]:
        """Fields that differ by more, or in another way than in size."""
        return tuple(field for field in self.fields if field.relative is None or not field.relative <= relative)


def measure(step: int, trainer: Mapping[str, Any], replica: Mapping[str, Any]) -> Drift:
    """Compare two checkpoints of one step, in the anchor's form. Raises RecordsCorrupt where one holds itself."""
    theirs, ours = dict(leaves(trainer)), dict(leaves(replica))
    both = [name for name in theirs if name in ours]
    found = [drift for name in both if (drift := _field(name, theirs[name], ours[name])) is not None]
    return Drift(
        step,
        len(both),
        sum(_elements(theirs[name]) for name in both),
        tuple(found),
        tuple(name for name in theirs if name not in ours),
        tuple(name for name in ours if name not in theirs),
    )


def _elements(value: Any) -> int:  # noqa: ANN401 - whatever a checkpoint holds
    return int(value.numel()) if hasattr(value, "numel") else 1


def _field(name: str, theirs: Any, ours: Any) -> FieldDrift | None:  # noqa: ANN401 - whatever a checkpoint holds
    import torch

    if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
        return None if same_value(name, theirs, ours) else FieldDrift(name, 1, 1, None, None)
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return FieldDrift(name, theirs.numel(), theirs.numel(), None, None)
    bits = [each.detach().contiguous().view(-1).view(torch.uint8) for each in (theirs, ours)]
    if torch.equal(*bits):
        return None
    different = (bits[0] != bits[1]).view(theirs.numel(), -1).any(1).sum()
    gap = float((theirs.double() - ours.double()).abs().max())
    size = float(theirs.double().abs().max())
    return FieldDrift(name, theirs.numel(), int(different), gap, gap / size if size else None)


def same_value(name: str, theirs: Any, ours: Any) -> bool:  # noqa: ANN401 - whatever a checkpoint holds
    """Do two leaves that are no tensors say the same?

    Numbers are compared by value: PyTorch's default of ``dampening`` is 0, and 0.0 says the same. True is no number.
    An option of a parameter group that is None is one that is off.
    """
    if "param_groups" in name.split(".") and all(each is None or each is False for each in (theirs, ours)):
        return True
    if isinstance(theirs, (list, tuple)) and type(theirs) is type(ours) and len(theirs) == len(ours):
        return all(same_value("", one, other) for one, other in zip(theirs, ours, strict=True))
    if _number(theirs) and _number(ours):
        return bool(theirs == ours) or (isnan(theirs) and isnan(ours))
    return type(theirs) is type(ours) and plain(theirs) == plain(ours)


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def record(store: Path, drift: Drift) -> None:
    """Append to the store's list of measurements."""
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "identical": drift.identical} | asdict(drift)
    with (store / NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")


def last(store: Path) -> dict[str, Any] | None:
    """The newest measurement; None: there is none. Raises RecordsCorrupt."""
    path = store / NAME
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    try:
        return dict(json.loads(lines[-1])) if lines else None
    except ValueError as error:
        raise RecordsCorrupt(f"{path}: its last line is not whole") from error
