"""Records in which marked probe packets were counted -> what is proven of each observation point. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.apply.effect import Effect, PointEffect
from flowcheck_net.ids import CapturePort
from flowcheck_net.plan.plan import Plan, Point
from flowcheck_net.receive.probe import Probe, probes
from flowcheck_net.receive.records import Flow, Records


@dataclass(frozen=True, slots=True)
class Arrived:
    """The probes of one hop as they were counted."""

    distinct: dict[CapturePort, int]
    """Different probes at each capture port."""
    copies: int
    """All of them, at all capture ports."""


def judge_probes(plan: Plan, records: Records, count: int) -> tuple[PointEffect, ...]:
    """What the probes prove, in the order of the plan's points.

    A point works when each hop that it sees shows all its probes at the point's capture port, and no more copies of
    them anywhere than planned. Where several points send copies of one hop to one capture port, they share the blame.

    Args:
        plan: whose hops were probed.
        records: of all capture ports together.
        count: probes sent for each hop.

    Raises:
        PlanError: as ``probes``.
    """
    flows = defaultdict(list)
    for flow in records.flows:
        flows[flow.source, flow.destination, flow.dest_qp].append(flow)
    dropped = {capture.name: capture.dropped or 0 for capture in records.captures}
    seen: dict[str, list[tuple[Probe, Arrived]]] = defaultdict(list)
    for probe in probes(plan):
        arrived = _arrived(flows[probe.source, probe.destination, probe.dest_qp])
        for point in {probe.hop.point, *probe.hop.also}:
            seen[point].append((probe, arrived))
    return tuple(_judge(point, seen[point.id], count, dropped) for point in plan.points)


def _arrived(flows: Sequence[Flow]) -> Arrived:
    distinct = {f.capture: sum(last - first + 1 for first, last in f.seen) for f in flows}
    return Arrived(distinct, sum(distinct.values()) + sum(extra for f in flows for _, extra in f.repeats))


def _judge(
    point: Point, of_point: Sequence[tuple[Probe, Arrived]], count: int, dropped: dict[CapturePort, int]
) -> PointEffect:
    if not of_point:
        return PointEffect(point, Effect.ACCEPTED, "no hop crosses it, so nothing was sent for it")
    here = [arrived.distinct.get(point.capture, 0) for _, arrived in of_point]
    words = f"{sum(here)} of {count * len(here)} probes at {point.capture}"
    missing = [_is_missing(each, point, count) for each in of_point]
    if not any(missing):
        if not any(here):
            return PointEffect(point, Effect.ACCEPTED, f"{words}: the probes took other paths of the same cut")
        return _exact(point, of_point, count, words)
    if lost := dropped.get(point.capture, 0):
        return PointEffect(point, Effect.UNKNOWN, f"{words}; the capture itself dropped {lost} packets")
    return PointEffect(point, Effect.TOO_FEW if any(here) else Effect.SILENT, words)


def _is_missing(each: tuple[Probe, Arrived], point: Point, count: int) -> bool:
    """Are probes of this hop missing that the point should have shown?"""
    probe, arrived = each
    if probe.hop.copies < 1 + len(probe.hop.also):
        # Its points are a cut of several paths: a packet crosses one of them, whichever the fabric chooses.
        return arrived.copies < probe.hop.copies * count
    return arrived.distinct.get(point.capture, 0) < count


def _exact(point: Point, of_point: Sequence[tuple[Probe, Arrived]], count: int, words: str) -> PointEffect:
    """All are there: are there more than planned?"""
    for probe, arrived in of_point:
        planned = probe.hop.copies * count
        if arrived.copies > planned:
            name = f"{probe.hop.group}/{probe.hop.channel}/{probe.hop.index}"
            where = ", ".join(sorted(arrived.distinct))
            return PointEffect(
                point, Effect.TOO_MANY, f"{words}; {arrived.copies} copies of hop {name} at {where}, planned {planned}"
            )
    copies = sum(arrived.copies for _, arrived in of_point)
    return PointEffect(point, Effect.WORKING, f"{words}, {copies} copies in all, as planned")
