"""After a restart of the receiver: a state of its own inside the former one, from a regular checkpoint on.

The new life counts from 0. Its first step is found by ``follow_lives``, or the replica stops; what the former life had
seen and nobody proved is broken.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.checkpoint.anchor import Anchor, read_anchor
from flowcheck_net.checkpoint.follow_boards import Boards, durable
from flowcheck_net.checkpoint.follow_lives import Former, furthest, shift_between
from flowcheck_net.checkpoint.follow_proof import Prover
from flowcheck_net.errors import RecordsCorrupt

_FOLDER, _MARK = "again", "again.json"


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a replica begins, or goes on."""

    state: Path
    first_step: int
    """Step that iteration 0 of the receivers' present life completes."""
    at_step: int | None = None
    """A regular checkpoint of this step or a later one is needed; None: the first life has its own."""


def latest(begin: Begin) -> Begin:
    """The state of the last life that was taken up. Raises RecordsCorrupt."""
    mark = begin.state / _MARK
    if not mark.exists():
        return begin
    try:
        told = json.loads(mark.read_text(encoding="utf-8"))
        return latest(Begin(begin.state / _FOLDER, int(told["first_step"]), int(told["at_step"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsCorrupt(f"{mark} is not of `checkpoint follow`: {error}") from error


def fresh(begin: Begin) -> Path:
    """An empty directory for the next life, which does not count yet."""
    folder = begin.state / _FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def renumbered(begin: Begin, former: Former, prover: Prover, boards: Boards, plan_digest: str) -> Begin | None:
    """Look whether it is certain which step the new life's iteration 0 completes; None: not yet.

    Args:
        begin: Of the former life.
        former: What is known of it.
        prover: Of the new life, in the directory of ``fresh``.
        boards: Of the new life.
        plan_digest: Of the plan in force.
    """
    judged = prover.look()
    if judged is None or not prover.lines or not boards.open(plan_digest, 0) or boards.newest is None:
        return None
    high = furthest(former.number, former.moment, judged.until, (*former.paces, *judged.paces))
    found = None if high is None else shift_between(former.lines, prover.lines, former.number, high)
    if found is None:
        return None
    first = begin.first_step + found
    told = {"first_step": first, "at_step": boards.newest + first}
    durable(begin.state / _MARK, json.dumps(told).encode())
    return Begin(begin.state / _FOLDER, **told)


def regular_in(folder: Path) -> Callable[[int], Anchor | None]:
    """Step -> the regular checkpoint ``folder/step-N.pt`` of it; None: it is not there, or not whole yet."""

    def read(step: int) -> Anchor | None:
        path = folder / f"step-{step}.pt"
        try:
            found = read_anchor(path) if path.exists() else None
        except RecordsCorrupt:  # it is being written
            return None
        return found if found is None or int(found["step"]) == step else None

    return read


def first_from(folder: Path, at_step: int) -> Path | None:
    """The earliest regular checkpoint ``folder/step-N.pt`` of a step from ``at_step`` on; None: none is whole yet."""
    steps = {path.stem.removeprefix("step-") for path in folder.glob("step-*.pt")}
    wanted = sorted(int(step) for step in steps if step.isdigit() and int(step) >= at_step)
    return next((folder / f"step-{step}.pt" for step in wanted if regular_in(folder)(step) is not None), None)
