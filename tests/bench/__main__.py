"""``python -m tests.bench [NAME]``: run the benches, print a table, write build/bench.json.

A number below its bar is marked and does not change the exit code: times on a busy machine prove nothing by themselves.
"""

import importlib
import json
import sys

from tests.bench.measure import BUILD, ROOT, Result

BENCHES = {
    "startup": "tests.bench.bench_startup",
    "synth": "tests.bench.bench_synth",
    "replay": "tests.bench.bench_replay",
    "receiver": "tests.bench.bench_receiver",
    "placement": "tests.bench.bench_placement",
    "receiver-placement": "tests.bench.bench_receiver_placement",
    "tcpdump": "tests.bench.bench_tcpdump",
    "plan": "tests.bench.bench_plan",
    "apply": "tests.bench.bench_apply",
    "checkpoint": "tests.bench.bench_checkpoint",
}


def main(arguments: list[str]) -> int:
    """Run all benches or the named one; 2 for an unknown name."""
    only = arguments[0].removeprefix("ONLY=") if arguments else ""
    if only and only not in BENCHES:
        print(f"no bench {only!r}; there are {', '.join(BENCHES)}", file=sys.stderr)  # noqa: T201
        return 2
    results: list[Result] = []
    for name in [only] if only else BENCHES:
        results.extend(importlib.import_module(BENCHES[name]).bench())
    BUILD.mkdir(parents=True, exist_ok=True)
    (ROOT / "build" / "bench.json").write_text(json.dumps([r.as_json() for r in results], indent=2) + "\n")
    show(results)
    return 0


def show(results: list[Result]) -> None:
    """A table, one number a line."""
    from rich.console import Console
    from rich.table import Table

    table = Table("bench", "value", "unit", "bar", "", "note", box=None)
    for result in results:
        value = "not measured" if result.value is None else _number(result.value)
        sign = "" if result.bar is None else f"{'>=' if result.higher_is_better else '<='} {_number(result.bar)}"
        verdict = {True: "ok", False: "below the bar" if result.higher_is_better else "over the bar", None: ""}
        table.add_row(result.name, value, result.unit, sign, verdict[result.passes()], result.note)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
