"""From packet counts to what is proven of each observation point. Pure.

Each switch is read four times: twice, then a window of time, then twice. What a counter gained between the two inner
readings passed for certain while every other counter was between its two outer ones. So with ``inner <= true <= outer``
of copies and of packets, copies that are more than the outer packets, or less than the inner ones, are a proven fault
however the readings fell, and where traffic rests at both ends the two are equal and the proof is exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Counters, MirrorSession, MirrorSource, SessionSource
from flowcheck_net.plan.plan import Plan, PlannedSession, Point


class Effect(StrEnum):
    """What is known of an observation point."""

    WORKING = "working"
    """Counted: one copy of each packet, and neither none nor two can be meant."""
    ACCEPTED = "accepted"
    """The configuration was read back; that it works was not counted."""
    SILENT = "silent"
    """Packets passed and no copy was made."""
    TOO_FEW = "too few"
    TOO_MANY = "too many"
    UNKNOWN = "unknown"
    """The counts contradict themselves or could not be read."""

    @property
    def fault(self) -> bool:
        """Is it proven that the copies are not as planned?"""
        return self in (Effect.SILENT, Effect.TOO_FEW, Effect.TOO_MANY)


@dataclass(frozen=True, slots=True)
class PointEffect:
    """One observation point and the words for it."""

    point: Point
    effect: Effect
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """What a counter gained: at least ``low``, at most ``high``."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"

    def of(self, one: str, many: str) -> str:
        """With what was counted: ``1 copy``, ``1 to 2 copies``."""
        return f"{self} {one if self.high == 1 and self.low == 1 else many}"


@dataclass(frozen=True, slots=True)
class Window:
    """The four readings of one switch."""

    readings: tuple[Counters, Counters, Counters, Counters]
    one_copy: bool
    """``Capabilities.one_copy_per_output``: a packet that two sources of a session select is copied once."""


class _Backwards(Exception):
    """A counter is lower than it was: it was cleared, or the switch restarted."""


def judge_counters(plan: Plan, windows: Mapping[SwitchName, Window | str]) -> tuple[PointEffect, ...]:
    """What the counters prove, in the order of the plan's points.

    Args:
        plan: what is programmed.
        windows: the readings of each switch, or why there are none.
    """
    found: dict[Point, PointEffect] = {}
    spans: dict[Point, Span] = {}
    for planned in plan.sessions:
        window = windows[planned.switch]
        if isinstance(window, str):
            judged: Iterable[PointEffect] = [_at(planned, s, Effect.UNKNOWN, window) for s in planned.session.sources]
        else:
            try:
                spans |= _point_spans(planned, window)
                judged = _judge_session(planned, window)
            except _Backwards as back:
                judged = [_at(planned, s, Effect.UNKNOWN, str(back)) for s in planned.session.sources]
        found |= {each.point: each for each in judged}
    peers = _peers(plan)
    return tuple(_with_peers(found[p], spans, peers.get(p, ())) for p in plan.points)


def _judge_session(planned: PlannedSession, window: Window) -> list[PointEffect]:
    """Point by point where the switch counts sources apart, else the session as a whole."""
    session = planned.session
    apart = all(SessionSource(session.name, s) in window.readings[0].sources for s in session.sources)
    parts = [(s,) for s in session.sources] if apart else [session.sources]
    return [each for part in parts for each in _judge_part(planned, part, window)]


def _judge_part(planned: PlannedSession, part: Sequence[MirrorSource], window: Window) -> list[PointEffect]:
    copies = _copies(planned.session, part, window)
    if copies is None:
        effect, text = Effect.ACCEPTED, "the switch does not count its copies"
    else:
        effect, text = _verdict(planned.session, copies, _packets(part, window))
    if len(part) > 1:
        text += f" (session {planned.session.name} as a whole: the switch does not count its sources apart)"
    return [_at(planned, source, effect, text) for source in part]


def _verdict(session: MirrorSession, copies: Span, packets: Span | None) -> tuple[Effect, str]:
    if packets is None:
        return Effect.ACCEPTED, f"{copies.of('copy', 'copies')} counted; the switch does not count what passes the port"
    counted = f"{copies.of('copy', 'copies')} of {packets.of('packet', 'packets')}"
    if copies.low > packets.high:
        return Effect.TOO_MANY, counted
    if session.filters:
        seen = f"{copies.of('copy', 'copies')} counted"
        return Effect.ACCEPTED, f"{seen}; how many of {packets} packets pass the filter is not known"
    if session.windows:
        return Effect.ACCEPTED, f"{counted}: how many of them are in the message windows the audit tells"
    if not packets.high:
        return Effect.ACCEPTED, "no packet passed while we counted"
    if not copies.high and packets.low:
        return Effect.SILENT, counted
    if copies.high < packets.low:
        return Effect.TOO_FEW, counted
    if 2 * packets.low <= copies.high or 2 * copies.low <= packets.high:
        return Effect.ACCEPTED, f"{counted}: too little passed to tell one copy from none or two; count for longer"
    return Effect.WORKING, counted


def _with_peers(found: PointEffect, spans: Mapping[Point, Span], peers: Sequence[Point]) -> PointEffect:
    """A filtered point against others that see the same hops and no other: they must have counted the same."""
    mine = spans.get(found.point)
    others = [(peer, spans[peer]) for peer in peers if peer in spans and spans[peer].high]
    if found.effect is not Effect.ACCEPTED or mine is None or not others:
        return found
    peer, most = max(others, key=lambda each: (each[1].low, each[0]))
    words = f"{mine} copies, {most} at {peer.id} of the same hops"
    if not mine.high and most.low:
        return PointEffect(found.point, Effect.SILENT, words)
    if mine.high < most.low:
        return PointEffect(found.point, Effect.TOO_FEW, words)
    if 2 * most.low <= mine.high or 2 * mine.low <= most.high:
        return found
    return PointEffect(found.point, Effect.WORKING, words)


def _peers(plan: Plan) -> dict[Point, tuple[Point, ...]]:
    """Point -> the other points that see exactly the same hops, where all their sessions are filtered."""
    hops: dict[str, set[tuple[str, int, int]]] = {}
    for hop in plan.hops:
        for name in {hop.point, *hop.also}:
            hops.setdefault(name, set()).add((hop.group, hop.channel, hop.index))
    filtered = [
        point
        for planned in plan.sessions
        if planned.session.filters
        for source in planned.session.sources
        if (point := _point(planned, source)).id in hops
    ]
    return {
        point: tuple(o for o in sorted(filtered) if o != point and hops[o.id] == hops[point.id]) for point in filtered
    }


def _point_spans(planned: PlannedSession, window: Window) -> dict[Point, Span]:
    """Copies of each point that can be told apart."""
    every = {s: _copies(planned.session, (s,), window) for s in planned.session.sources}
    return {_point(planned, source): span for source, span in every.items() if span is not None}


def _copies(session: MirrorSession, part: Sequence[MirrorSource], window: Window) -> Span | None:
    places = [SessionSource(session.name, source) for source in part]
    if all(place in window.readings[0].sources for place in places):
        return _sum([_span([r.sources.get(place) for r in window.readings], place.source.port) for place in places])
    if tuple(part) != session.sources or session.name not in window.readings[0].sessions:
        return None
    return _span([r.sessions.get(session.name) for r in window.readings], session.name)


def _packets(part: Sequence[MirrorSource], window: Window) -> Span | None:
    if not all(source in window.readings[0].ports for source in part):
        return None
    spans = [_span([r.ports.get(source) for r in window.readings], source.port) for source in part]
    total = _sum(spans)
    return Span(max(s.low for s in spans), total.high) if window.one_copy else total


def _span(values: Sequence[int | None], name: str) -> Span:
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or numbers != sorted(numbers):
        raise _Backwards(f"the counter of {name} went back while we counted: cleared, or the switch restarted")
    return Span(numbers[2] - numbers[1], numbers[3] - numbers[0])


def _sum(spans: Sequence[Span]) -> Span:
    return Span(sum(s.low for s in spans), sum(s.high for s in spans))


def _point(planned: PlannedSession, source: MirrorSource) -> Point:
    return Point(planned.switch, source.port, source.direction, planned.capture)


def _at(planned: PlannedSession, source: MirrorSource, effect: Effect, text: str) -> PointEffect:
    return PointEffect(_point(planned, source), effect, text)
