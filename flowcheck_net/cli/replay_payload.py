"""The options of ``flowcheck-net replay`` that lay gradients: ``--payload`` and what belongs to it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.payload import PayloadReport, Written
    from flowcheck_net.model.expect import Expectation
    from flowcheck_net.receive.native import Settings
    from flowcheck_net.receive.records import Records

_SHOWN = 30


@dataclass(frozen=True, slots=True)
class PayloadArguments:
    """As given on the command line."""

    plan: Path | None
    payload: Path | None
    iterations: tuple[int, int | None] | None
    trust_order: bool


class _Range(click.ParamType[tuple[int, int | None]]):
    """``A:B`` as in Python: from A to B (without); either may be left out."""

    name = "A:B"

    def convert(
        self, value: str | tuple[int, int | None], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        """Both ends, or click's error."""
        if isinstance(value, tuple):
            return value
        first, colon, stop = value.partition(":")
        ends = (first or "0", stop or "0")
        if not colon or not all(end.isdecimal() for end in ends) or (stop and int(stop) <= int(ends[0])):
            self.fail(f"{value!r} is not A:B, such as 10:20, with A below B", param, ctx)
        return int(ends[0]), int(stop) if stop else None


_OPTIONS = (
    click.option(
        "--plan",
        type=click.Path(path_type=Path),
        metavar="PLAN|DIR",
        help="--payload: the plan in force, or without one a directory with topology, job and policy.",
    ),
    click.option(
        "--payload",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="OUT",
        help="Lay the fully reduced bytes into gradient files, OUT/iteration-000012/GROUP.gradient.",
    ),
    click.option("--iterations", type=_Range(), help="--payload: only these, B not included. Default: all"),
    click.option(
        "--trust-order",
        is_flag=True,
        help="--payload: equal channels, whose queue pairs the job does not name, use them in ascending order.",
    ),
)
_NOT_GIVEN = PayloadArguments(None, None, None, trust_order=False)


def payload_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as one ``laying``: None without --payload."""

    @functools.wraps(function)
    def collected(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's
        given = PayloadArguments(**{name: kwargs.pop(name) for name in PayloadArguments.__dataclass_fields__})
        if given.payload is None and given != _NOT_GIVEN:
            raise click.UsageError("options that are marked --payload in the help need --payload")
        if given.payload is not None and given.plan is None:
            raise click.UsageError("--payload needs --plan: what is expected decides where each byte belongs")
        function(*args, laying=given if given.payload is not None else None, **kwargs)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def lay(
    files: Sequence[Path],
    given: PayloadArguments,
    records: "Records",
    captures: Mapping[str, str],
    settings: "Settings",
) -> "PayloadReport":
    """The second pass over the capture."""
    from flowcheck_net.checkpoint.payload import Wanted, write_gradients
    from flowcheck_net.receive.feed import feeder
    from flowcheck_net.receive.native import Core

    expectation, digest = _expectation(given.plan or Path())
    first, stop = given.iterations or (0, None)
    wanted = Wanted(given.payload or Path(), first, stop, given.trust_order, digest)
    return write_gradients(expectation, records, wanted, feeder(files, captures), lambda: Core(settings))


def _expectation(plan: Path) -> "tuple[Expectation, str | None]":
    """From a plan with its digest, or from the files of a directory."""
    from flowcheck_net.cli.inputs import read_plan_and_digest
    from flowcheck_net.model.build import build_job
    from flowcheck_net.model.expect import expect
    from flowcheck_net.plan.plan import expectation
    from flowcheck_net.spec.load import load_specs, spec_paths

    if not plan.is_dir():
        made, digest = read_plan_and_digest(plan)
        return expectation(made), digest
    specs = load_specs(*spec_paths(plan))
    return expect(build_job(specs.job, specs.topology), None), None


def show(report: "PayloadReport") -> None:
    """A line for each iteration, and why it is not complete."""
    from flowcheck_net.cli.output import console, table

    shown = table(
        "Gradients", "iteration", "verdict", "packets missing", "recovered", "directory", numbers=("iteration",)
    )
    order = sorted(report.written, key=lambda each: each.complete)
    for each in sorted(order[:_SHOWN], key=lambda each: each.iteration):
        missing = ", ".join(f"{group}: {count:,}" for group, count in each.missing.items()) or "0"
        recovered = ", ".join(f"{r.units:,} lost on {r.hop}" for r in each.recovered) or "0"
        shown.add_row(str(each.iteration), each.verdict.value, missing, recovered, str(each.directory))
    if len(order) > _SHOWN:
        shown.caption = f"{len(order) - _SHOWN} more in the manifests"
    console().print(shown)
    for text in dict.fromkeys(why for each in report.written for why in each.why):
        click.echo(f"not complete: {text}")
    for kind, count in report.laid.counts.items():
        click.echo(f"contradictions: {count:,} {kind} (in the manifests, by packet)")


def as_json(report: "PayloadReport") -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "iterations": [_written(each) for each in report.written],
        "places": report.laid.places,
        "lays": report.laid.lays,
        "contradictions": report.laid.counts,
    }


def _written(each: "Written") -> dict[str, Any]:
    return {
        "iteration": each.iteration,
        "directory": str(each.directory),
        "verdict": each.verdict.value,
        "complete": each.complete,
        "why": list(each.why),
        "missing_units": dict(each.missing),
        "recovered": [{"hop": r.hop, "units": r.units, "only_from": dict(r.given)} for r in each.recovered],
    }


def refuse_incomplete(report: "PayloadReport") -> None:
    """Set the exit code.

    Raises:
        CoverageGap: Bytes are missing.
        CoverageUnknown: None is missing, but something is not proven.
    """
    from flowcheck_net.errors import CoverageGap, CoverageUnknown

    if not report.written:
        raise CoverageUnknown(
            "no iteration of the planned job was found in the capture, and nothing was laid",
            hint="is it the plan of the job that sent this? `flowcheck-net audit` says what each flow is",
        )
    whole = sum(each.complete for each in report.written)
    text = f"{whole} of {len(report.written)} iterations are complete"
    hint = "the others keep names that end in .partial; their manifest.json says what is missing and why"
    if any(each.missing for each in report.written):
        raise CoverageGap(text, hint=hint)
    if whole < len(report.written):
        raise CoverageUnknown(text, hint=hint)
