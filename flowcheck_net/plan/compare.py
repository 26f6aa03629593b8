"""Two plans side by side: what would change on the switches, in coverage and in cost."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Step, SwitchState
from flowcheck_net.plan.diff import diff
from flowcheck_net.plan.plan import Cost, Plan, RingCoverage
from flowcheck_net.spec.fields import changed_fields


@dataclass(frozen=True, slots=True)
class Change:
    """A value before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two plans."""

    inputs: tuple[str, ...]
    """Fields of the input files that changed."""
    gone: tuple[str, ...]
    """Points of the first plan only, as ``switch:port:direction to node:nic``."""
    new: tuple[str, ...]
    """Points of the second plan only."""
    kept: int
    """Points of both."""
    steps: tuple[tuple[SwitchName, tuple[Step, ...]], ...]
    """What ``apply`` would do on each switch to go from the first plan to the second."""
    coverage: tuple[Change, ...]
    """Rings whose copies differ; 0 where a plan does not know the ring."""
    cost: tuple[Change, ...]
    """Figures of the cost that differ."""

    @property
    def same(self) -> bool:
        """Would nothing change on any switch?"""
        return not self.gone and not self.new and not self.steps


def compare(before: Plan, after: Plan) -> Comparison:
    """What differs, everything sorted."""
    first, second = _points(before), _points(after)
    return Comparison(
        inputs=changed_fields(before.fingerprint.fields, after.fingerprint.fields),
        gone=tuple(sorted(first - second)),
        new=tuple(sorted(second - first)),
        kept=len(first & second),
        steps=_steps(before, after),
        coverage=_coverage(before.coverage, after.coverage),
        cost=_cost(before.cost, after.cost),
    )


def _points(plan: Plan) -> set[str]:
    return {f"{point.id} to {point.capture}" for point in plan.points}


def _steps(before: Plan, after: Plan) -> tuple[tuple[SwitchName, tuple[Step, ...]], ...]:
    found = []
    for switch in sorted({planned.switch for plan in (before, after) for planned in plan.sessions}):
        had = SwitchState(tuple(p.session for p in before.sessions if p.switch == switch), ())
        steps = diff([p.session for p in after.sessions if p.switch == switch], had)
        if steps:
            found.append((switch, steps))
    return tuple(found)


def _coverage(before: Iterable[RingCoverage], after: Iterable[RingCoverage]) -> tuple[Change, ...]:
    first = {f"{line.group}/{line.channel}": line.copies for line in before}
    second = {f"{line.group}/{line.channel}": line.copies for line in after}
    return _changes(first, second)


def _cost(before: Cost, after: Cost) -> tuple[Change, ...]:
    names = [field.name for field in fields(Cost)]
    return _changes({name: getattr(before, name) for name in names}, {name: getattr(after, name) for name in names})


def _changes(before: dict[str, int], after: dict[str, int]) -> tuple[Change, ...]:
    every = (Change(name, before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after}))
    return tuple(change for change in every if change.before != change.after)
