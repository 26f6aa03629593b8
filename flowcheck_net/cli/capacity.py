"""``flowcheck-net capacity``: what a plan asks of ports, receivers, memory and storage, and what failures cost."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.capacity_numbers import show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from flowcheck_net.plan.capacity_given import Givens
    from flowcheck_net.plan.capacity_report import CapacityReport, Figure
    from flowcheck_net.plan.plan import Plan

_PLACES_SHOWN = 4
_EXCEEDED_SHOWN = 8


@click.command("capacity")
@click.argument("source", metavar="DIRECTORY|PLAN", type=click.Path(path_type=Path))
@click.option("--assume", multiple=True, metavar="NAME=VALUE", help="Take another number as given, in base units.")
@click.option("--measured", multiple=True, metavar="NAME=VALUE", help="The same, for a number that you measured.")
@click.option(
    "--tables", is_flag=True, help="Show every figure with its ground, formula and source, and what is given."
)
@click.option("--all", "every", is_flag=True, help="The same, with every place, not only the first of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every figure.")
def command(
    source: Path, assume: tuple[str, ...], measured: tuple[str, ...], *, tables: bool, every: bool, as_json: bool
) -> None:
    """Reckon what a plan asks of ports, receivers, memory and storage, and what failures leave of training time.

    Printed are the fullest place of each kind and what the whole job can do; what is exceeded comes last. --tables
    shows every figure, labelled measured, computed or assumed, and every number that --assume and --measured can
    replace. Units are decimal: bytes, bits, seconds.

    \b
    Examples:
      flowcheck-net capacity plan.json
      flowcheck-net capacity plan.json --measured restart=240 --assume mirror_loss=1e-7 --tables
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.capacity_summary import summary
    from flowcheck_net.cli.output import console, emit_json
    from flowcheck_net.plan.capacity import capacity

    given = _givens(assume, measured)
    report = capacity(_plan(source), given)
    if as_json:
        emit_json({**asdict(report), "exceeded": [asdict(figure) for figure in report.exceeded]})
        return
    out = console()
    if tables or every:
        for section, figures in groupby(report.figures, key=lambda figure: figure.section):
            out.print(_figures(section, list(figures), every=every))
        out.print(_given(report))
    else:
        out.print(summary(report))
    _conclude(out, report)
    if not (tables or every):
        out.print("--tables shows each figure with its ground (measured, computed, assumed) and formula")


def _conclude(out: "Console", report: "CapacityReport") -> None:
    """The answer in a few lines, last, where it is read first on a terminal."""
    share = report.find("recovery", "effective training time")
    training, most = (report.find("iteration rates", name) for name in ("training", "largest rate"))
    out.print(f"{report.job}: trains {_steps(training)} a second, can be followed up to {_steps(most)}")
    out.print(f"effective training time: {'unknown: a backlog grows' if share is None else f'{share:.2%}'}")
    for figure in report.exceeded[:_EXCEEDED_SHOWN]:
        out.print(
            f"[red]exceeded[/red]: {figure.section}, {figure.where}: {figure.name} {show(figure.value, figure.unit)}"
        )
    if len(report.exceeded) > _EXCEEDED_SHOWN:
        out.print(f"[red]exceeded[/red]: {len(report.exceeded) - _EXCEEDED_SHOWN} more")


def _plan(source: Path) -> "Plan":
    """The plan in a file, or the one that the three files of a directory give."""
    from flowcheck_net.cli.inputs import read_plan
    from flowcheck_net.plan.make import make_plan
    from flowcheck_net.spec.load import load_specs, spec_paths

    if source.is_dir():
        return make_plan(load_specs(*spec_paths(source)))
    return read_plan(source)


def _givens(assume: Iterable[str], measured: Iterable[str]) -> "Givens":
    from flowcheck_net.plan.capacity_given import Givens, Ground

    given = Givens()
    stated = [(text, Ground.ASSUMED) for text in assume] + [(text, Ground.MEASURED) for text in measured]
    for text, ground in stated:
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise ValueError(f"write NAME=VALUE (found {text!r})")
            given = given.with_value(name, float(value), ground, "command line")
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    return given


def _figures(section: str, figures: "list[Figure]", *, every: bool) -> "Table":
    """One table a section; of many alike places the first few."""
    from flowcheck_net.cli.output import table

    made = table(section, "", "figure", "value", "ground", "formula", "from", numbers=("value",))
    places = list(dict.fromkeys(figure.where for figure in figures))
    shown = set(places if every else places[:_PLACES_SHOWN])
    for figure in figures:
        if figure.where in shown:
            value = show(figure.value, figure.unit)
            made.add_row(figure.where, figure.name, value, figure.ground.value, figure.formula, figure.source)
    if len(places) > len(shown):
        made.add_row(f"and {len(places) - len(shown)} more places (--all)", "", "", "", "", "")
    return made


def _given(report: "CapacityReport") -> "Table":
    from flowcheck_net.cli.output import table

    made = table("given", "name", "value", "ground", "what it is", "source", numbers=("value",))
    for given in report.given:
        made.add_row(given.name, show(given.value, given.unit), given.ground.value, given.words, given.source)
    return made


def _steps(rate: float | None) -> str:
    """Steps a second."""
    if rate is None:
        return "any number of steps"
    return f"{rate:,.0f} steps" if rate >= 100 else f"{rate:.4g} step{'' if rate == 1 else 's'}"
