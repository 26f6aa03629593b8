"""The answer of ``flowcheck-net capacity`` in one table: the fullest place of each kind, and what failures cost."""

from typing import TYPE_CHECKING

from flowcheck_net.cli.capacity_numbers import show

if TYPE_CHECKING:
    from rich.table import Table

    from flowcheck_net.plan.capacity_report import CapacityReport, Figure

_FULLEST = (
    ("monitor ports", "burst use", "burst rate"),
    ("receivers", "burst use", "packets a step"),
    ("memory", "memory use", "memory wanted"),
    ("storage", "storage use", "rate wanted"),
)
"""Section, the figure by which its fullest place is known, and what is asked of that place."""
_WHOLE = (
    ("state", "mirrored a step"),
    ("state", "mirrored per gradient byte"),
    ("iteration rates", "largest rate"),
    ("mirror loss", "time between lost updates"),
    ("recovery", "replica age"),
)
"""Figures of the whole job."""


def summary(report: "CapacityReport") -> "Table":
    """One row a kind of place, one a figure of the whole job; uses over 100 % are red."""
    from flowcheck_net.cli.output import table

    made = table(f"What {report.job} asks", "", "fullest place", "figure", "value", "use", numbers=("value", "use"))
    for section, use, wanted in _FULLEST:
        places = [f for f in report.figures if (f.section, f.name) == (section, use) and f.value is not None]
        if places:
            fullest = max(places, key=_value)
            asked = show(report.find(section, wanted, fullest.where), _unit(report, section, wanted))
            share = f"{_value(fullest):.2%}"
            many = f"{fullest.where} (of {len(places)})" if len(places) > 1 else fullest.where
            made.add_row(section, many, wanted, asked, f"[red]{share}[/red]" if _value(fullest) > 1 else share)
    for section, name in _WHOLE:
        made.add_row(section, "", name, show(report.find(section, name), _unit(report, section, name)), "")
    return made


def _value(figure: "Figure") -> float:
    return figure.value or 0.0


def _unit(report: "CapacityReport", section: str, name: str) -> str:
    return next(f.unit for f in report.figures if (f.section, f.name) == (section, name))
