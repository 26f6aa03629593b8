"""The planner at 1 024 to 131 072 GPUs, beside one plain MILP over the whole problem.

8 GPUs a host, TP 8, PP 16, DP the rest, 2 channels, rail-optimised. Every case is a process of its own, on one core, in
CPU seconds. The MILP is ``plan.linear`` over the whole problem at once, with the same objective, stage by stage; only
the solver's own time counts there.
"""

import json
import subprocess
import sys
from typing import Any

from tests.bench.measure import ROOT, Result, pinned

_SIZES = (1024, 8192, 32768, 131072)
_PATIENCE = 240
"""Seconds of wall clock that the MILP gets for a size; a larger size is not tried after one that needs more."""


def bench() -> list[Result]:
    """All sizes, then the ratios."""
    results: list[Result] = []
    whole = {gpus: _case("whole", gpus) for gpus in _SIZES}
    gaps = [found["gap"] for found in whole.values()]
    for gpus, found in whole.items():
        size = _case("variables", gpus)
        note = (
            f"peak {found['gib']:.2f} GiB, wall {found['wall']:.1f} s, {found['points']} points, gap {found['gap']:g}"
        )
        results.append(Result(f"plan_seconds_{gpus}", found["seconds"], "s CPU", note=note))
        results.append(
            Result(f"plan_variables_{gpus}", size["merged"], "", note=f"merged; {size['choices']:,} choices before")
        )
    growth = whole[_SIZES[-1]]["seconds"] / whole[8192]["seconds"]
    results.append(Result("plan_growth", growth, "x", 20, higher_is_better=False, note="131 072 over 8 192 GPUs"))
    peak = max(found["gib"] for found in whole.values())
    results.append(Result("plan_peak_gib", peak, "GiB", 4, higher_is_better=False))
    results.append(_against_monolith(gaps))
    results.append(_ratio("plan_shuffled_vs_monolith", 5, 8192, "-shuffled", gaps))
    results.append(Result("plan_gap", max(gaps), "", 0, higher_is_better=False, note="of all of these"))
    return results


def _against_monolith(gaps: list[float]) -> Result:
    """The ratio at the largest size that the MILP solves in time."""
    best = Result("plan_vs_monolith", None, "x", 50, note="the MILP solved none")
    for gpus in _SIZES:
        found = _ratio("plan_vs_monolith", 50, gpus, "", gaps)
        if found.value is None:
            break
        best = found
    return best


def _ratio(name: str, bar: float, gpus: int, how: str, gaps: list[float]) -> Result:
    """Time of the MILP over ours for one and the same planning problem; both must find the same costs."""
    ours = _case(f"ours{how}", gpus)
    gaps.append(ours["gap"])
    try:
        other = _case(f"monolith{how}", gpus, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return Result(name, None, "x", bar, note=f"the MILP took over {_PATIENCE} s at {gpus:,} GPUs")
    if other["stages"] != ours["stages"]:
        raise SystemExit(f"{name}: the costs differ: {ours['stages']} and {other['stages']}")
    note = f"{gpus:,} GPUs: MILP {other['seconds']:.1f} s, ours {ours['seconds']:.2f} s"
    return Result(name, other["seconds"] / ours["seconds"], "x", bar, note=note)


def _case(kind: str, gpus: int, timeout: float | None = None) -> dict[str, Any]:
    command = pinned([sys.executable, "-m", "tests.bench.plan_cases", kind, str(gpus)])
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
