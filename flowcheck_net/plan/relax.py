"""A problem with one limit lifted: the question behind every explanation of why there is no plan."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from flowcheck_net.ids import CapturePort, NodeName, PortName
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import formulate
from flowcheck_net.plan.problem import Budget, Capture, Limit, PlanningProblem, SessionRoom, SwitchLimits, capacity
from flowcheck_net.plan.programme import Component, Programme

Change = Callable[[PlanningProblem], PlanningProblem]
"""A cure, carried out."""

_ENDLESS = 10**9
"""More than any switch has: sessions, sources, Mbit/s."""


def lift(problem: PlanningProblem, limit: Limit) -> PlanningProblem:
    """The same problem without ``limit``.

    Raises:
        KeyError: ``limit`` is a fact of the job or the fabric (hops, paths) that no setting lifts.
    """
    return _LIFTS[limit](problem)


LIFTABLE: tuple[Limit, ...] = (
    Limit.FOREIGN,
    Limit.SESSIONS,
    Limit.ROOMS,
    Limit.SOURCES,
    Limit.SHARING,
    Limit.FILTERS,
    Limit.SURVIVE,
    Limit.COPIES_APART,
    Limit.CHECKPOINT_APART,
    Limit.UPLINK,
    Limit.BANDWIDTH,
    Limit.WINDOW,
    Limit.MIRROR,
    Limit.DIRECTION,
    Limit.TENANT,
    Limit.ALLOWED,
    Limit.CAPTURE,
)
"""In the order in which they are named when several would do."""


def without_refusal(problem: PlanningProblem, limit: Limit) -> PlanningProblem:
    """Taps refused for ``limit`` may be chosen (unless something else refuses them)."""
    return allowing(problem, limit, {tap.id for tap in problem.taps})


def allowing(problem: PlanningProblem, limit: Limit, taps: Collection[str]) -> PlanningProblem:
    """The same for some taps, by ``Tap.id``."""
    changed = (
        replace(tap, refusals=tuple(r for r in tap.refusals if r is not limit)) if tap.id in taps else tap
        for tap in problem.taps
    )
    return replace(problem, taps=tuple(changed))


def with_captures(
    problem: PlanningProblem, switches: tuple[str, ...], gbps: int | None, count: int, node: str = "new"
) -> PlanningProblem:
    """``count`` new capture ports of ``gbps`` (``None``: endless) on each of the switches, open to every ring."""
    room = _ENDLESS if gbps is None else capacity(gbps, problem.headroom)
    known = len(problem.captures)
    names = [(s.name, known + n) for s in problem.switches if s.name in switches for n in range(1, count + 1)]
    new = tuple(
        Capture(switch, PortName(f"new{n}"), CapturePort(f"{node}:{switch}:{n}"), NodeName(node), room, _ENDLESS + n)
        for switch, n in names
    )
    problem = allowing(problem, Limit.CAPTURE, {tap.id for tap in problem.taps if tap.switch in switches})
    numbers = tuple(range(known, known + len(new)))
    rings = tuple(replace(ring, captures=(*ring.captures, *numbers)) for ring in problem.rings)
    return replace(problem, captures=(*problem.captures, *new), rings=rings)


def with_copies(problem: PlanningProblem, copies: int) -> PlanningProblem:
    """The problem with at most ``copies`` copies asked of each ring."""
    lowered = ((ring, min(ring.copies, copies), 0 if ring.complete else 1) for ring in problem.rings)
    rings = tuple(replace(ring, copies=c, hops=min(ring.hops, c + beside)) for ring, c, beside in lowered)
    return replace(problem, rings=rings)


def _without_capture_limit(problem: PlanningProblem) -> PlanningProblem:
    switches = tuple({tap.switch for tap in problem.taps if Limit.CAPTURE in tap.refusals})
    return with_captures(problem, switches, None, 1)


def with_filters(problem: PlanningProblem, taps: Collection[str]) -> PlanningProblem:
    """Foreign traffic at some taps, by ``Tap.id``, can be told apart."""
    lifted = allowing(problem, Limit.TENANT, taps)
    return replace(lifted, taps=tuple(replace(t, filterable=t.filterable or t.id in taps) for t in lifted.taps))


def with_sessions(problem: PlanningProblem, more: Mapping[str, int]) -> PlanningProblem:
    """Room for more sessions on some switches."""
    return _switches(problem, lambda s: replace(s, max_sessions=s.max_sessions + more.get(s.name, 0)))


def with_rooms(problem: PlanningProblem, more: Mapping[str, int]) -> PlanningProblem:
    """More in some session rooms, each by ``room_name``."""

    def roomier(limits: SwitchLimits) -> SwitchLimits:
        rooms = tuple(replace(r, most=r.most + more.get(room_name(limits, r), 0)) for r in limits.rooms)
        return replace(limits, rooms=rooms)

    return _switches(problem, roomier)


def room_name(limits: SwitchLimits, room: SessionRoom) -> str:
    """As ``Programme.rooms`` has it."""
    return f"{limits.name} ({room.name})"


def with_entries(problem: PlanningProblem, entries: Mapping[str, int]) -> PlanningProblem:
    """Room for so many address pairs on some switches."""
    return _switches(problem, lambda s: replace(s, filter_entries=entries.get(s.name, s.filter_entries)))


def with_uplinks(problem: PlanningProblem, more: Mapping[str, int]) -> PlanningProblem:
    """So many Mbit/s more for copies on some ways, by name."""
    changed = (
        replace(b, capacity=b.capacity + more.get(b.name, 0)) if b.limit is Limit.UPLINK else b for b in problem.budgets
    )
    return replace(problem, budgets=tuple(changed))


def _everywhere(problem: PlanningProblem) -> PlanningProblem:
    every = tuple(range(len(problem.captures)))
    return replace(problem, rings=tuple(replace(ring, captures=every) for ring in problem.rings))


def _without_bandwidth(problem: PlanningProblem) -> PlanningProblem:
    captures = tuple(replace(c, capacity=_ENDLESS) for c in problem.captures)
    return replace(problem, captures=captures, budgets=_endless(problem, Limit.BANDWIDTH))


def _endless(problem: PlanningProblem, limit: Limit) -> tuple[Budget, ...]:
    return tuple(replace(b, capacity=_ENDLESS) if b.limit is limit else b for b in problem.budgets)


def _without_tenants(problem: PlanningProblem) -> PlanningProblem:
    return with_filters(problem, {tap.id for tap in problem.taps})


def _without_foreign(problem: PlanningProblem) -> PlanningProblem:
    lifted = without_refusal(problem, Limit.FOREIGN)
    captures = tuple(replace(c, refusals=()) for c in problem.captures)
    switches = tuple(
        replace(
            limits,
            max_sessions=limits.max_sessions + limits.foreign,
            rooms=tuple(replace(room, most=room.most + room.foreign) for room in limits.rooms),
        )
        for limits in problem.switches
    )
    return replace(lifted, captures=captures, switches=switches)


def _switches(problem: PlanningProblem, change: Callable[[SwitchLimits], SwitchLimits]) -> PlanningProblem:
    return replace(problem, switches=tuple(map(change, problem.switches)))


_LIFTS: dict[Limit, Callable[[PlanningProblem], PlanningProblem]] = {
    Limit.BANDWIDTH: _without_bandwidth,
    Limit.SESSIONS: lambda p: _switches(p, lambda s: replace(s, max_sessions=_ENDLESS)),
    Limit.SOURCES: lambda p: _switches(p, lambda s: replace(s, max_sources=_ENDLESS)),
    Limit.DIRECTION: lambda p: without_refusal(p, Limit.DIRECTION),
    Limit.TENANT: _without_tenants,
    Limit.ALLOWED: lambda p: without_refusal(p, Limit.ALLOWED),
    Limit.CAPTURE: _without_capture_limit,
    Limit.CHECKPOINT_APART: _everywhere,
    Limit.COPIES_APART: lambda p: replace(p, copies_apart=False),
    Limit.FOREIGN: _without_foreign,
    Limit.MIRROR: lambda p: replace(without_refusal(p, Limit.MIRROR), carries=(), exclusive=()),
    Limit.SHARING: lambda p: _switches(p, lambda s: replace(s, many=True, split=True)),
    Limit.ROOMS: lambda p: _switches(p, lambda s: replace(s, rooms=())),
    Limit.FILTERS: lambda p: _switches(p, lambda s: replace(s, filter_entries=None)),
    Limit.UPLINK: lambda p: replace(p, budgets=_endless(p, Limit.UPLINK)),
    Limit.SURVIVE: lambda p: replace(p, survive=False),
    Limit.WINDOW: lambda p: without_refusal(p, Limit.WINDOW),
}


def whole(problem: PlanningProblem) -> Programme:
    """The programme of all rings at once."""
    switches = tuple(limits.name for limits in problem.switches)
    return formulate(problem, Component(tuple(range(len(problem.rings))), switches))


def solvable(problem: PlanningProblem) -> bool:
    """Whether any plan exists."""
    return Solver(whole(problem)).minimise({}) is not None
