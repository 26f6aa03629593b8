"""Choice -> the words of the plan: points, sessions, hops, coverage, cost and load."""

from dataclasses import dataclass

from flowcheck_net.intent import FlowFilter, MirrorSession, MirrorSource, session_name
from flowcheck_net.plan.plan import CaptureLoad, Cost, PlannedHop, PlannedSession, Point, RingCoverage
from flowcheck_net.plan.problem import Choice, Hop, PlanningProblem

Captures = dict[int, list[int]]
"""Tap -> the capture ports that it is mirrored to."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of a plan that follow from the choice alone."""

    points: tuple[Point, ...]
    sessions: tuple[PlannedSession, ...]
    hops: tuple[PlannedHop, ...]
    coverage: tuple[RingCoverage, ...]
    cost: Cost
    loads: tuple[CaptureLoad, ...]


def assemble(problem: PlanningProblem, choice: Choice) -> Assembled:
    """Write the choice out."""
    captures_of: Captures = {}
    for tap, capture in choice.taps:
        captures_of.setdefault(tap, []).append(capture)
    hops = _hops(problem, choice, captures_of)
    sessions = _sessions(problem, choice)
    sizes = {(problem.rings[h.ring].group, problem.rings[h.ring].channel, h.index): h.size for h in problem.hops}
    bytes_seen = [(sizes[hop.group, hop.channel, hop.index], hop.copies) for hop in hops]
    coverage = _coverage(problem, hops)
    return Assembled(
        points=tuple(sorted(_point(problem, t, c) for t, c in choice.taps)),
        sessions=sessions,
        hops=hops,
        coverage=coverage,
        cost=Cost(
            unmet=sum(c.copies < ring.copies for c, ring in zip(coverage, problem.rings, strict=True)),
            duplicate_bytes=sum(size * (copies - 1) for size, copies in bytes_seen),
            mirrored_bytes=sum(size * copies for size, copies in bytes_seen),
            gradient_bytes=problem.gradient_bytes,
            sessions=len(sessions),
            switches=len({s.switch for s in sessions}),
        ),
        loads=_loads(problem, choice),
    )


def _point(problem: PlanningProblem, tap: int, capture: int) -> Point:
    watched = problem.taps[tap]
    return Point(watched.switch, watched.port, watched.direction, problem.captures[capture].port)


def _hops(problem: PlanningProblem, choice: Choice, captures_of: Captures) -> tuple[PlannedHop, ...]:
    """Every hop that a chosen tap sees.

    Without ``copies_apart`` each hop that carries fully reduced data and reaches a capture port of its ring's own
    counts, wanted or not; with it only those do that the choice proved to be apart.
    """
    proven = dict(choice.counted)
    planned: list[PlannedHop] = []
    for number, hop in enumerate(problem.hops):
        seen = [tap for tap in problem.sites(hop) for _ in captures_of.get(tap, ())]
        if not seen:
            continue
        ring = problem.rings[hop.ring]
        able = [tap for tap in seen if hop.counts and not set(ring.captures).isdisjoint(captures_of[tap])]
        if problem.copies_apart:
            able = [proven[number]] if number in proven else []
        first, *others = sorted(seen, key=lambda tap: (tap not in able, tap))
        planned.append(
            PlannedHop(
                group=ring.group,
                channel=ring.channel,
                index=hop.index,
                point=problem.taps[first].id,
                copies=_copies(problem, hop, captures_of),
                counted=bool(able),
                also=tuple(problem.taps[tap].id for tap in others),
            )
        )
    return tuple(sorted(planned))


def _copies(problem: PlanningProblem, hop: Hop, captures_of: Captures) -> int:
    """Copies of each packet: by the rule of each switch, and one for each cut, whichever of its taps it crosses."""
    once = {limits.name for limits in problem.switches if limits.once}
    arriving = [(problem.taps[tap].switch, tap, c) for tap in hop.taps for c in captures_of.get(tap, ())]
    merged = {(switch, capture) for switch, _, capture in arriving if switch in once}
    whole = sum(problem.cuts[cut].taps[0] in captures_of for cut in hop.cuts)
    return len(merged) + sum(switch not in once for switch, _, _ in arriving) + whole


def _coverage(problem: PlanningProblem, hops: tuple[PlannedHop, ...]) -> tuple[RingCoverage, ...]:
    counted: dict[tuple[str, int], list[int]] = {}
    for hop in hops:
        if hop.counted:
            counted.setdefault((hop.group, hop.channel), []).append(hop.index)
    return tuple(
        RingCoverage(
            group=ring.group,
            channel=ring.channel,
            copies=max(0, len(counted.get((ring.group, ring.channel), ())) - (0 if ring.complete else 1)),
            wanted=ring.wanted,
        )
        for ring in problem.rings
    )


def _sessions(problem: PlanningProblem, choice: Choice) -> tuple[PlannedSession, ...]:
    """One session for each capture port in use."""
    planned: list[PlannedSession] = []
    crossing = _crossing(problem, {tap for tap, _ in choice.taps})
    for number in sorted({capture for _, capture in choice.taps}):
        capture = problem.captures[number]
        taps = [tap for tap, c in choice.taps if c == number]
        session = MirrorSession(
            name=session_name(problem.job, capture.number),
            sources=tuple(MirrorSource(problem.taps[t].port, problem.taps[t].direction) for t in taps),
            destination=capture.switch_port,
            filters=_filters(problem, taps, crossing),
        )
        planned.append(PlannedSession(capture.switch, session, capture.port))
    return tuple(sorted(planned))


def _crossing(problem: PlanningProblem, taps: set[int]) -> dict[int, list[int]]:
    """Tap -> the hops that cross it or may."""
    found: dict[int, list[int]] = {tap: [] for tap in taps}
    for number, hop in enumerate(problem.hops):
        for tap in problem.sites(hop):
            if tap in found:
                found[tap].append(number)
    return found


def _filters(problem: PlanningProblem, taps: list[int], crossing: dict[int, list[int]]) -> tuple[FlowFilter, ...]:
    """The job's address pairs that cross the session's taps, if one of them may carry foreign traffic."""
    if not any(problem.taps[tap].needs_filter for tap in taps):
        return ()
    hops = (problem.hops[n] for n in sorted({n for tap in taps for n in crossing[tap]}))
    return tuple(FlowFilter(hop.source, hop.destination) for hop in hops)


def _loads(problem: PlanningProblem, choice: Choice) -> tuple[CaptureLoad, ...]:
    load: dict[int, int] = {}
    for tap, capture in choice.taps:
        load[capture] = load.get(capture, 0) + problem.rate(tap, capture)
    found = ((problem.captures[number], rate) for number, rate in load.items())
    return tuple(sorted(CaptureLoad(c.port, c.switch, c.switch_port, rate, c.capacity) for c, rate in found))
