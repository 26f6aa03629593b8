"""``flowcheck-net demo``: the whole path on the shipped examples, by the very commands that a user would type."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from flowcheck_net.cli.demo_cases import CASES, Case
from flowcheck_net.errors import FlowcheckError, OutputError

_ITERATIONS = 3


@click.command("demo")
@click.option(
    "--topologies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("topologies"),
    show_default=True,
    help="Folder of the shipped examples.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/demo"),
    show_default=True,
    help="Folder for plans, captures, records and reports; files of an earlier demo are overwritten.",
)
def command(topologies: Path, output: Path) -> None:
    """Plan, apply to fake switches, synthesize traffic, replay and audit; then show all verdicts.

    Nothing outside OUTPUT is written, and nothing is sent to a network.

    Example: flowcheck-net demo --output /tmp/flowcheck-demo
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise OutputError(f"{output} cannot be written: {fault.strerror}", hint="choose another place") from fault
    rows = []
    planned: set[str] = set()
    for case in CASES:
        if case.example not in planned:
            _plan_and_apply(topologies / case.example, output)
            planned.add(case.example)
        rows.append(_run_case(case, output))
    _show(rows)
    wrong = [row for row in rows if not row["as expected"]]
    if wrong:
        raise FlowcheckError(f"{len(wrong)} of {len(rows)} demo runs did not end in the expected verdict")


def _plan_and_apply(example: Path, output: Path) -> None:
    """Plan one example and program its (fake) switches, which are new ones whatever an earlier demo left."""
    plan = output / f"{example.name}.plan.json"
    _flowcheck("plan", str(example), "-o", str(plan))
    directory = output / f"{example.name}.state"  # each example is a fabric of its own
    shutil.rmtree(directory, ignore_errors=True)
    state = ("--state-dir", str(directory))
    _flowcheck("apply", str(plan), "--dry-run", *state)
    _flowcheck("apply", str(plan), *state)
    _flowcheck("verify", str(plan), *state)


def _run_case(case: Case, output: Path) -> dict[str, Any]:
    """Synthesize, replay and audit one case."""
    name = f"{case.example}-{case.title.replace(' ', '-').replace(chr(39), '')}"
    plan, capture = output / f"{case.example}.plan.json", output / f"{name}.pcapng"
    records, report = output / f"{name}.records.json", output / f"{name}.html"
    faults = [word for fault in case.faults for word in ("--fault", fault)]
    _flowcheck("synth", str(plan), "-o", str(capture), "--iterations", str(_ITERATIONS), *faults, quiet=True)
    _flowcheck("replay", str(capture), "-o", str(records), quiet=True)
    said = _flowcheck(
        "audit", str(records), "--plan", str(plan), "--html", str(report), "--json", quiet=True, accept=case.exit_code
    )
    audit = json.loads(said)
    return {
        "case": case,
        "audit": audit,
        "report": report,
        "as expected": audit["verdict"] == case.expected,
    }


def _flowcheck(*words: str, quiet: bool = False, accept: int = 0) -> str:
    """Run one command as a user would; its output. ``accept`` is the exit code that this step must end with."""
    import subprocess

    click.echo(click.style(f"$ flowcheck-net {shlex.join(words)}", bold=True))
    program = "import sys; from flowcheck_net.cli.main import run; sys.argv[0] = 'flowcheck-net'; run()"
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own words
        [sys.executable, "-P", "-c", program, *words], capture_output=True, text=True, check=False
    )
    if not quiet:
        click.echo(done.stdout, nl=False)
    if done.returncode != accept:
        said = (done.stderr or done.stdout).splitlines()[-12:]
        raise FlowcheckError(
            f"flowcheck-net {words[0]} ended with {done.returncode} instead of {accept}:\n" + "\n".join(said),
            hint="run the last command above by hand",
        )
    return done.stdout


def _show(rows: list[dict[str, Any]]) -> None:
    """The table of verdicts, and where the reports are."""
    from flowcheck_net.cli.output import console, table

    shown = table("Verdicts", "example", "what happened", "publishable", "verdict", "report")
    for row in rows:
        case, verdict = row["case"], row["audit"]["verdict"]
        shown.add_row(
            case.example,
            case.title,
            _iterations(row["audit"]),
            verdict if row["as expected"] else f"{verdict}, not {case.expected}",
            row["report"].name,
        )
    console().print(shown)
    good = sum(row["as expected"] for row in rows)
    click.echo(f"{good} of {len(rows)} runs ended in the verdict that their fault must give")
    click.echo(f"Open a report in a browser: {rows[1]['report'].resolve()} (the others are beside it)")


def _iterations(audit: dict[str, Any]) -> str:
    """Such as ``3 of 3``."""
    iterations = audit["iterations"]
    return f"{sum(i['publishable'] for i in iterations)} of {len(iterations)}"
