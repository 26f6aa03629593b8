"""One HTML file with everything: no fetch, no script, readable without colour, on paper and in the dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from flowcheck_net.audit.result import AuditReport, HopResult, RingResult
from flowcheck_net.audit.scene import Scene, point_states
from flowcheck_net.audit.svg import draw
from flowcheck_net.audit.verdict import Verdict

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
class HopSum:
    """A hop over all iterations."""

    ring: str
    label: str
    state: str
    captures: str
    qpns: str
    expected: int
    seen: int
    missing: int
    missing_reduced: int
    bytes: int
    repeats: int


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
    sums = _hop_sums(report.rings)
    return environment.from_string(source).render(
        report=report,
        meaning=MEANING,
        symbol=SYMBOL,
        good=sum(i.publishable for i in report.iterations),
        ring_names=rings,
        matrix=_matrix(report, len(rings)),
        hidden=len(report.iterations) - len(_matrix(report, len(rings))),
        lone=[ring for ring in report.rings if ring.iteration is None],
        bad=[ring for ring in report.rings if not ring.verdict.publishable],
        recovered=[ring for ring in report.rings if ring.verdict is Verdict.RECOVERED],
        hops=sums,
        idle=_idle(sums),
        points=_points(report, scene),
        drawing=draw(report, scene),
    )


def _matrix(report: AuditReport, width: int) -> list[tuple[int, Verdict, bool, list[RingResult | None]]]:
    """(iteration, verdict, publishable, one result a ring) for every iteration that is shown."""
    found = {(r.iteration, r.group, r.channel): r for r in report.rings}
    rings = sorted({(ring.group, ring.channel) for ring in report.rings})
    everything = len(report.iterations) * max(1, width) <= _CELLS
    return [
        (i.number, i.verdict, i.publishable, [found.get((i.number, group, channel)) for group, channel in rings])
        for i in report.iterations
        if everything or not i.publishable
    ]


def _hop_sums(rings: Sequence[RingResult]) -> list[HopSum]:
    found: dict[tuple[str, int, int], list[HopResult]] = {}
    for ring in rings:
        for hop in ring.hops:
            found.setdefault((ring.group, ring.channel, hop.index), []).append(hop)
    return [_hop_sum(f"{group}/{channel}", hops) for (group, channel, _), hops in sorted(found.items())]


def _idle(sums: Sequence[HopSum]) -> list[tuple[str, list[str]]]:
    """(ring, hops that nobody watches), the first few of each ring."""
    found: dict[str, list[str]] = {}
    for hop in sums:
        if hop.state == "not watched":
            found.setdefault(hop.ring, []).append(hop.label)
    return [(ring, _first(labels)) for ring, labels in found.items()]


def _first(labels: list[str]) -> list[str]:
    more = len(labels) - _LABELS
    return labels[:_LABELS] + ([f"and {more} more"] if more > 0 else [])


def _hop_sum(ring: str, hops: Sequence[HopResult]) -> HopSum:
    expected = sum(hop.expected.packets for hop in hops)
    seen = sum(hop.seen.packets for hop in hops)
    watched = any(hop.planned or hop.observed for hop in hops)
    return HopSum(
        ring=ring,
        label=hops[0].label,
        state="not watched" if not watched else "complete" if seen == expected else "incomplete",
        captures=", ".join(sorted({port for hop in hops for port in hop.captures})),
        qpns=", ".join(f"{qpn:#x}" for qpn in sorted({qpn for hop in hops for qpn in hop.qpns})),
        expected=expected,
        seen=seen,
        missing=expected - seen,
        missing_reduced=sum(hop.missing_reduced for hop in hops),
        bytes=sum(hop.seen.bytes for hop in hops),
        repeats=sum(hop.repeats for hop in hops),
    )


def _points(report: AuditReport, scene: Scene) -> list[PointRow]:
    states = point_states(report, scene)
    return [
        PointRow(point.id, point.capture, ", ".join(states[point.id][1]), str(states[point.id][0]))
        for point in scene.points
    ]
