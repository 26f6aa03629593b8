"""One HTML file with everything: no fetch, no script, readable without colour, on paper and in the dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from flowcheck_net.audit.result import AuditReport, RingResult
from flowcheck_net.audit.scene import Scene, point_states
from flowcheck_net.audit.sums import HopSum, hop_sums
from flowcheck_net.audit.svg import draw
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.ids import Channel, GroupName

MEANING = {
    Verdict.COVERED: "every expected packet of every watched hop was seen, and the counts are equal",
    Verdict.RECOVERED: "every fully reduced byte was seen, although a watched hop has gaps",
    Verdict.GAP: "fully reduced bytes were never seen; they are named below",
    Verdict.DUPLICATE: "complete, but packets arrived more often than planned",
    Verdict.UNPLANNED: "traffic that the job does not know was mirrored",
    Verdict.UNKNOWN: "something could not be proven either way",
    Verdict.STALE: "the traffic is not what the plan or the job says",
}
SYMBOL = {
    Verdict.COVERED: "✓",
    Verdict.RECOVERED: "✓+",
    Verdict.GAP: "✗",
    Verdict.DUPLICATE: "x2",
    Verdict.UNPLANNED: "!",
    Verdict.UNKNOWN: "?",
    Verdict.STALE: "≠",
}
_LABELS = 8
_CELLS = 4000
"""Cells of the matrix at most; beyond it only iterations with a bad ring are shown."""


@dataclass(frozen=True, slots=True)
class PointRow:
    """An observation point, for the table under the drawing."""

    id: str
    capture: str
    hops: str
    state: str


def render_html(report: AuditReport, scene: Scene) -> str:
    """The report as one HTML document."""
    from jinja2 import Environment, StrictUndefined

    source = files("flowcheck_net.audit").joinpath("templates", "report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    rings = sorted({(ring.group, ring.channel) for ring in report.rings})
    sums = hop_sums(report.rings)
    matrix = _matrix(report, rings)
    return environment.from_string(source).render(
        report=report,
        meaning=MEANING,
        symbol=SYMBOL,
        good=sum(i.publishable for i in report.iterations),
        ring_names=rings,
        matrix=matrix,
        hidden=len(report.iterations) - len(matrix),
        lone=[ring for ring in report.rings if ring.iteration is None],
        bad=[ring for ring in report.rings if not ring.verdict.publishable],
        recovered=[ring for ring in report.rings if ring.verdict is Verdict.RECOVERED],
        hops=sums,
        idle=_idle(sums),
        points=_points(report, scene),
        drawing=draw(report, scene),
    )


def _matrix(
    report: AuditReport, rings: Sequence[tuple[GroupName, Channel]]
) -> list[tuple[int, Verdict, bool, list[RingResult | None]]]:
    """(iteration, verdict, publishable, one result a ring) for every iteration that is shown."""
    found = {(r.iteration, r.group, r.channel): r for r in report.rings}
    everything = len(report.iterations) * len(rings) <= _CELLS
    return [
        (i.number, i.verdict, i.publishable, [found.get((i.number, group, channel)) for group, channel in rings])
        for i in report.iterations
        if everything or not i.publishable
    ]


def _idle(sums: Sequence[HopSum]) -> list[list[str]]:
    """For each ring the first few hops that nobody watches."""
    found: dict[str, list[str]] = {}
    for hop in sums:
        if not hop.watched:
            found.setdefault(hop.ring, []).append(hop.label)
    return [_first(labels) for labels in found.values()]


def _first(labels: list[str]) -> list[str]:
    more = len(labels) - _LABELS
    return labels[:_LABELS] + ([f"and {more} more"] if more > 0 else [])


def _points(report: AuditReport, scene: Scene) -> list[PointRow]:
    states = point_states(report, scene)
    return [
        PointRow(point.id, point.capture, ", ".join(states[point.id][1]), str(states[point.id][0]))
        for point in scene.points
    ]
