"""What ``plan --explain``, ``plan --from`` and ``plan-diff`` say of points and of differences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from flowcheck_net.plan.compare import Change, Comparison

_HOPS_SHOWN = 6
_POINTS_SHOWN = 40


def show_reasons(out: "Console", reasons: Sequence[str]) -> None:
    """Why each point is there."""
    out.print("why these points:")
    for line in reasons:
        out.print(f"  {line}", highlight=False)


def comparison_lines(found: "Comparison", before: str, after: str) -> list[str]:
    """The differences, a line each; ``before`` and ``after`` are words for the two plans."""
    lines = [f"changed input: {', '.join(found.inputs[:_HOPS_SHOWN])}{_more(found.inputs)}"] if found.inputs else []
    lines.append(f"points: {found.kept} kept, {len(found.gone)} only in {before}, {len(found.new)} only in {after}")
    signed = [*(f"  - {point}" for point in found.gone), *(f"  + {point}" for point in found.new)]
    lines += signed[:_POINTS_SHOWN]
    if len(signed) > _POINTS_SHOWN:
        lines.append(f"  ... {len(signed) - _POINTS_SHOWN} more")
    for switch, steps in found.steps:
        lines.append(f"{switch}: " + ", ".join(f"{step.kind} {step.session.name}" for step in steps))
    lines += [_change("copies of " + change.name, change) for change in found.coverage]
    lines += [_change(change.name.replace("_", " "), change) for change in found.cost]
    if found.same:
        lines.append("no switch would change")
    return lines


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _HOPS_SHOWN} more" if len(names) > _HOPS_SHOWN else ""


def _change(name: str, change: "Change") -> str:
    part = f" ({change.after / change.before - 1:+.0%})" if change.before else ""
    return f"{name}: {change.before:,} -> {change.after:,}{part}"
