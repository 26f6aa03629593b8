"""The comparison as rows and as plain values."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from flowcheck_net.checkpoint.baselines.arithmetic import (
    LostWork,
    Overhead,
    Recovery,
    StepTime,
    joined_recovery,
    lost_work,
    overhead,
    step_time,
)
from flowcheck_net.checkpoint.baselines.run import Comparison
from flowcheck_net.checkpoint.baselines.words import Channel, Method, Stretch


@dataclass(frozen=True, slots=True)
class Row:
    """All that was found of one method."""

    method: Method
    time: StepTime
    overhead: Overhead
    recovery: Recovery | None
    """None: nothing was ever restorable."""
    lost: LostWork | None
    moved: dict[Channel, float]
    """Bytes a step."""
    spent: dict[str, float]
    """Seconds a step; ``tail``: seconds a stretch."""
    missed: int


def rows(found: Comparison) -> list[Row]:
    """One for each method, the control first."""
    return [_row(found, method) for method in Method]


def _row(found: Comparison, method: Method) -> Row:
    mine = [each for each in found.stretches if each.method is method]
    failures = [each for each in found.failures if each.method is method]
    spent = {what: _a_step(mine, what) for what in ("tap", "wait", "node-cpu")}
    spent["tail"] = fmean(each.spent.get("tail", 0.0) for each in mine)
    steps = sum(len(each.steps) for each in mine)
    return Row(
        method,
        step_time(mine),
        overhead(found.stretches, method),
        None if method is Method.CONTROL else joined_recovery(mine),
        lost_work(failures),
        {channel: sum(each.moved.get(channel, 0) for each in mine) / steps for channel in Channel},
        spent,
        sum(each.missed for each in mine),
    )


def _a_step(stretches: Sequence[Stretch], what: str) -> float:
    return sum(each.spent.get(what, 0.0) for each in stretches) / sum(len(each.steps) for each in stretches)


def as_json(found: Comparison) -> dict[str, Any]:
    """Plain values: seconds and bytes."""
    setup = {name: value for name, value in asdict(found.setup).items() if name != "place"}
    methods = []
    for row in rows(found):
        told = asdict(row)
        told["method"] = row.method.value
        told["overhead"]["below_noise"] = row.overhead.below_noise
        told["moved"] = {channel.value: size for channel, size in row.moved.items()}
        methods.append(told)
    failures = [asdict(each) | {"method": each.method.value, "lost_steps": each.lost_steps} for each in found.failures]
    return {
        "setup": setup,
        "machine": asdict(found.machine),
        "methods": methods,
        "failures": failures,
        "wrong": len(found.wrong),
    }
