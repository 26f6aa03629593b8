"""How the node publishes, and how whoever restores finds and reads what was published."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint import anchor
from flowcheck_net.errors import RecordsCorrupt


def publish(place: Path, state: Mapping[str, Any]) -> None:
    """Offer a checkpoint. Raises OutputError; nothing is offered then."""
    place.mkdir(exist_ok=True)
    anchor.write_anchor(place / f"step-{state['step']:06d}.pt", state)


def offered(place: Path) -> tuple[int, ...]:
    """Steps of all checkpoints that are whole, ascending."""
    found = []
    for path in sorted(place.glob("step-*.pt")):
        try:
            found.append(int(anchor.read_anchor(path)["step"]))
        except RecordsCorrupt:
            continue
    return tuple(found)


def load(place: Path, step: int) -> dict[str, Any]:
    """A published checkpoint as a regular one; raises FlowcheckError."""
    return dict(anchor.read_anchor(place / f"step-{step:06d}.pt"))


def newest(place: Path) -> dict[str, Any] | None:
    """The newest that is whole; None: there is none."""
    steps = offered(place)
    return load(place, steps[-1]) if steps else None


def files(place: Path, step: int) -> tuple[Path, ...]:
    """The files of one checkpoint."""
    return (place / f"step-{step:06d}.pt",)


FSYNCS = 1
"""Times that publishing one checkpoint calls fsync."""
