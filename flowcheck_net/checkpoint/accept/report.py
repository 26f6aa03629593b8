"""The report of a run: sums a kind, one HTML file, and JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from flowcheck_net.checkpoint.accept.words import Kind, Outcome, Report, Restored


@dataclass(frozen=True, slots=True)
class Row:
    """All experiments of a kind."""

    kind: Kind
    experiments: int
    published: int
    """Checkpoints offered."""
    unpublished: int
    """Checkpoints that were due and are not offered."""
    withdrawn: int
    """Offered once, and not any more since their files changed."""
    lives: int
    """Times that a checkpoint node was begun."""
    lost: float
    """Steps from the newest checkpoint to the trainer's last one: mean."""
    wrong: int
    """Experiments that are not passed."""


def rows(report: Report) -> tuple[Row, ...]:
    """One row a kind, in the order of the kinds."""
    return tuple(_row(kind, own) for kind in Kind if (own := [o for o in report.outcomes if o.kind is kind]))


def _row(kind: Kind, own: Sequence[Outcome]) -> Row:
    return Row(
        kind,
        len(own),
        sum(len(each.published) for each in own),
        sum(len(each.unpublished) for each in own),
        sum(len(each.withdrawn) for each in own),
        sum(each.lives for each in own),
        sum(each.training_step - each.persisted_step for each in own) / len(own),
        sum(bool(each.wrong) for each in own),
    )


def reasons(report: Report) -> tuple[tuple[str, int], ...]:
    """Why checkpoints were not published: the first words of each reason, and how often; the most frequent first."""
    found = Counter(why.partition(":")[0] for each in report.outcomes for why in each.unpublished.values())
    return tuple(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def restored(report: Report) -> tuple[tuple[Restored, int], ...]:
    """How often restoring ended in each way."""
    found = Counter(each.restored for each in report.outcomes)
    return tuple((each, found[each]) for each in Restored if found[each])


def as_json(report: Report) -> dict[str, Any]:
    """The whole report in plain words."""
    return {
        "seed": report.seed,
        "steps": report.steps,
        "every": report.every,
        "seconds": round(report.seconds, 1),
        "experiments": len(report.outcomes),
        "published": report.published,
        "unpublished": report.unpublished,
        "passed": not report.wrong,
        "kinds": [asdict(row) for row in rows(report)],
        "reasons": dict(reasons(report)),
        "restored": dict(restored(report)),
        "outcomes": [
            asdict(each) | {"unpublished": {str(step): why for step, why in each.unpublished.items()}}
            for each in report.outcomes
        ],
    }


def render_html(report: Report) -> str:
    """The report as one HTML document, without scripts and without anything to fetch."""
    from jinja2 import Environment, StrictUndefined

    text = files("flowcheck_net.checkpoint.accept").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text).render(
        report=report, rows=rows(report), reasons=reasons(report), restored=restored(report)
    )
