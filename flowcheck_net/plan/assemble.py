"""Choice -> the words of the plan: points, sessions, hops, coverage, cost and load."""

from dataclasses import dataclass

from flowcheck_net.intent import FlowFilter, MirrorSession, MirrorSource, session_name
from flowcheck_net.plan.plan import CaptureLoad, Cost, PlannedHop, PlannedSession, Point, RingCoverage
from flowcheck_net.plan.problem import Choice, PlanningProblem


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
    capture_of = dict(choice.taps)
    hops = _hops(problem, choice, capture_of)
    sessions = _sessions(problem, capture_of)
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
        loads=_loads(problem, capture_of),
    )


def _point(problem: PlanningProblem, tap: int, capture: int) -> Point:
    watched = problem.taps[tap]
    return Point(watched.switch, watched.port, watched.direction, problem.captures[capture].port)


def _hops(problem: PlanningProblem, choice: Choice, capture_of: dict[int, int]) -> tuple[PlannedHop, ...]:
    """Every hop that a chosen tap sees.

    Without ``copies_apart`` each hop that carries fully reduced data and reaches a capture port of its ring's own
    counts, wanted or not; with it only those do that the choice proved to be apart.
    """
    proven = dict(choice.counted)
    planned: list[PlannedHop] = []
    for number, hop in enumerate(problem.hops):
        seen = [tap for tap in hop.taps if tap in capture_of]
        if not seen:
            continue
        ring = problem.rings[hop.ring]
        able = [tap for tap in seen if hop.counts and capture_of[tap] in ring.captures]
        if problem.copies_apart:
            able = [proven[number]] if number in proven else []
        first, *others = sorted(seen, key=lambda tap: (tap not in able, tap))
        planned.append(
            PlannedHop(
                group=ring.group,
                channel=ring.channel,
                index=hop.index,
                point=problem.taps[first].id,
                copies=len(seen),
                counted=bool(able),
                also=tuple(problem.taps[tap].id for tap in others),
            )
        )
    return tuple(sorted(planned))


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


def _sessions(problem: PlanningProblem, capture_of: dict[int, int]) -> tuple[PlannedSession, ...]:
    """One session for each capture port in use."""
    planned: list[PlannedSession] = []
    for number in sorted(set(capture_of.values())):
        capture = problem.captures[number]
        taps = [tap for tap, c in capture_of.items() if c == number]
        session = MirrorSession(
            name=session_name(problem.job, capture.number),
            sources=tuple(MirrorSource(problem.taps[t].port, problem.taps[t].direction) for t in taps),
            destination=capture.switch_port,
            filters=_filters(problem, set(taps)),
        )
        planned.append(PlannedSession(capture.switch, session, capture.port))
    return tuple(sorted(planned))


def _filters(problem: PlanningProblem, taps: set[int]) -> tuple[FlowFilter, ...]:
    """The job's address pairs that cross the session's taps, if one of them may carry foreign traffic."""
    if not any(problem.taps[tap].needs_filter for tap in taps):
        return ()
    return tuple(FlowFilter(hop.source, hop.destination) for hop in problem.hops if not taps.isdisjoint(hop.taps))


def _loads(problem: PlanningProblem, capture_of: dict[int, int]) -> tuple[CaptureLoad, ...]:
    load: dict[int, int] = {}
    for tap, capture in capture_of.items():
        load[capture] = load.get(capture, 0) + problem.taps[tap].rate
    found = ((problem.captures[number], rate) for number, rate in load.items())
    return tuple(sorted(CaptureLoad(c.port, c.switch, c.switch_port, rate, c.capacity) for c, rate in found))
