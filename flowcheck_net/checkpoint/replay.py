"""A run: laid gradients of many iterations onto an anchor, until the end or the first step that is not proven."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, StepRefused
from flowcheck_net.checkpoint.gradient import Proof
from flowcheck_net.checkpoint.guarded import Guarded
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.optimizer import Replay
from flowcheck_net.checkpoint.shard import Decision
from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.receive.gradient import PARTIAL


@dataclass(frozen=True, slots=True)
class Applied:
    """One step that was applied, or skipped as the trainer did."""

    decision: Decision
    proof: Proof


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What became of a run."""

    begun_at: int
    """The anchor's step."""
    step: int
    """The step whose state the replica now is."""
    applied: tuple[Applied, ...]
    refused: StepIncomplete | StepRefused | None
    """Why it went no further; None: all iterations were used."""

    @property
    def request(self) -> CheckpointRequest | None:
        """What is asked of the trainer."""
        return self.refused.request if self.refused else None


def iterations_of(places: Sequence[Path]) -> list[tuple[Path, int]]:
    """All iterations of the directories one behind another; numbers missing in one are among them.

    Raises:
        RecordsCorrupt: A directory without iterations.
    """
    found = []
    for place in places:
        numbers = [
            int(path.name.removeprefix("iteration-").removesuffix(PARTIAL)) for path in place.glob("iteration-[0-9]*")
        ]
        if not numbers:
            hint = "`flowcheck-net replay FILES --plan PLAN --payload DIR` writes them"
            raise RecordsCorrupt(f"{place} holds no iterations", hint=hint)
        found += [(place, number) for number in range(min(numbers), max(numbers) + 1)]
    return found


def read_values(path: Path) -> dict[int, StepValues]:
    """What the side channel said, one JSON object a line; by step. Raises RecordsCorrupt."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            told = json.loads(line)
            if "learning_rates" in told:
                told["learning_rates"] = tuple(map(float, told["learning_rates"]))
            values = StepValues(**told)
        except (ValueError, TypeError) as error:
            raise RecordsCorrupt(f"{path}:{number}: not the values of a step: {error}") from error
        found[values.step] = values
    return found


def run_replay(
    replay: Replay | Guarded,
    assembly: Assembly,
    iterations: Sequence[tuple[Path, int]],
    *,
    from_step: int,
    first: bool = False,
    values: Mapping[int, StepValues] | None = None,
) -> ReplayReport:
    """Advance the replica as far as it can be proven.

    Args:
        replay: The replica.
        assembly: How gradients are put together.
        iterations: Directory and number of each.
        from_step: The step that the first of them completes; those up to the replica's step are passed over.
        first: Is the first of them the first iteration of a training process?
        values: Of the side channel, by step.
    """
    begun = replay.step
    applied: list[Applied] = []
    refused: StepIncomplete | StepRefused | None = None
    for offset, (place, number) in enumerate(iterations):
        step = from_step + offset
        if step <= begun:
            continue
        try:
            gradient = assembly.assemble(place, number, step, first=first and offset == 0)
            decision = replay.advance(gradient, (values or {}).get(step))
        except (StepIncomplete, StepRefused) as error:
            refused = error
            break
        applied.append(Applied(decision, gradient.proof))
    return ReplayReport(begun, replay.step, tuple(applied), refused)
