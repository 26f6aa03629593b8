"""What the report draws beside the verdicts: the fabric, where ranks live, and which port watches which hop."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.audit.result import AuditReport, HopResult
from flowcheck_net.ids import Channel, GroupName
from flowcheck_net.model.job import RankPlace
from flowcheck_net.plan.plan import Picture, Plan, Point


@dataclass(frozen=True, slots=True)
class Scene:
    """The fabric and the plan, as far as the report shows them."""

    picture: Picture
    places: tuple[RankPlace, ...]
    points: tuple[Point, ...] = ()
    """Empty without a plan."""
    watched: tuple[tuple[GroupName, Channel, int, str], ...] = ()
    """(group, channel, hop index, ``Point.id``)"""


def scene_of_plan(plan: Plan) -> Scene:
    """The scene of a plan."""
    watched = tuple((hop.group, hop.channel, hop.index, point) for hop in plan.hops for point in (hop.point, *hop.also))
    return Scene(plan.picture, plan.job.places, plan.points, watched)


class State(StrEnum):
    """What is known of a hop, all iterations and all rings between the same two boxes together."""

    COVERED = "covered"
    MISSING = "missing"
    UNOBSERVED = "not watched"


@dataclass(frozen=True, slots=True)
class Arrow:
    """Ring hops from one box to another; in a box of several hosts they may stay inside."""

    source: str
    target: str
    state: State
    label: str
    """Such as ``0→1``, or ``3 hops``."""
    detail: str
    """Such as ``all 40 seen`` or ``12 of 40 missing`` (packets)."""


def arrows(report: AuditReport, places: Sequence[RankPlace], home: Mapping[str, str]) -> tuple[Arrow, ...]:
    """The hops of all rings, joined by the boxes of the drawing in which their hosts stand, in canonical order."""
    host = {place.rank: home.get(place.host, place.host) for place in places}
    found: dict[tuple[str, str], list[HopResult]] = defaultdict(list)
    for ring in report.rings:
        for hop in ring.hops:
            found[host[hop.src_rank], host[hop.dst_rank]].append(hop)
    return tuple(_arrow(source, target, hops) for (source, target), hops in sorted(found.items()))


def _arrow(source: str, target: str, hops: Sequence[HopResult]) -> Arrow:
    watched = [hop for hop in hops if hop.planned or hop.observed]
    labels = sorted({(hop.src_rank, hop.dst_rank) for hop in hops})
    label = f"{labels[0][0]}→{labels[0][1]}" if len(labels) == 1 else f"{len(labels)} hops"
    expected = sum(hop.expected.packets for hop in watched)
    missing = expected - sum(hop.seen.packets for hop in watched)
    if not watched:
        return Arrow(source, target, State.UNOBSERVED, label, "not watched")
    if missing:
        return Arrow(source, target, State.MISSING, label, f"{missing:,} of {expected:,} missing")
    return Arrow(source, target, State.COVERED, label, f"all {expected:,} seen")


def point_states(report: AuditReport, scene: Scene) -> dict[str, tuple[State, tuple[str, ...]]]:
    """For each observation point, by ``Point.id``: its state and the hops that it watches."""
    missing: dict[tuple[str, int, int], bool] = {}
    labels: dict[tuple[str, int, int], str] = {}
    for ring in report.rings:
        for hop in ring.hops:
            key = (ring.group, ring.channel, hop.index)
            missing[key] = missing.get(key, False) or bool(hop.missing)
            labels[key] = hop.label
    result: dict[str, tuple[State, tuple[str, ...]]] = {}
    for point in scene.points:
        keys = [(group, channel, index) for group, channel, index, where in scene.watched if where == point.id]
        known = [key for key in keys if key in missing]
        state = State.UNOBSERVED if not known else State.MISSING if any(missing[k] for k in known) else State.COVERED
        result[point.id] = (state, tuple(sorted({labels[key] for key in known})))
    return result
