"""New capture ports as a list to buy: tried in the problem and found to do."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial

from flowcheck_net.plan.problem import PlanningProblem, capacity
from flowcheck_net.plan.relax import Change, solvable, with_captures

_SPEEDS = (10, 25, 40, 50, 100, 200, 400, 800)
"""Gbit/s of ports that exist."""
_MOST_PORTS = 8
"""More new capture ports than this on a switch are named as bandwidth, not as ports."""
_OFFERS = [(1, gbps) for gbps in _SPEEDS] + [(count, _SPEEDS[-1]) for count in range(2, _MOST_PORTS + 1)]
"""(count, Gbit/s)"""


def more_ports(problem: PlanningProblem, short: tuple[str, ...]) -> tuple[str, Change | None]:
    """New capture ports that were tried and found to do: where it is short, or everywhere; as few as will do.

    Of the speeds that the site has already; else one more a switch of the slowest speed that will do, else of the
    fastest there is.
    """
    everywhere = tuple(sorted({capture.switch for capture in problem.captures}))
    for switches in dict.fromkeys((short, everywhere)):
        for offers in (*_of_the_site(problem, switches), _OFFERS):
            first = bisect_left(
                offers, True, key=lambda o: solvable(_with(problem, dict.fromkeys(switches, o[0]), o[1]))
            )
            if first < len(offers):
                count, gbps = offers[first]
                counts = _fewest(problem, dict.fromkeys(switches, count), gbps)
                return _shopping_list(problem, counts, gbps), partial(_with, counts=counts, gbps=gbps)
    return f"more capture bandwidth and the sessions for it on {each(short)}", None


def _of_the_site(problem: PlanningProblem, switches: tuple[str, ...]) -> Iterator[list[tuple[int, int]]]:
    """(count, Gbit/s) for each speed of the capture ports that are there, the slowest first."""
    has = {capture.capacity for capture in problem.captures if capture.switch in switches and not capture.remote}
    for gbps in _SPEEDS:
        if capacity(gbps, problem.headroom) in has:
            yield [(count, gbps) for count in range(1, _MOST_PORTS + 1)]


def _with(problem: PlanningProblem, counts: dict[str, int], gbps: int) -> PlanningProblem:
    for switch, count in counts.items():
        problem = with_captures(problem, (switch,), gbps, count)
    return problem


def _fewest(problem: PlanningProblem, counts: dict[str, int], gbps: int) -> dict[str, int]:
    """The same number everywhere will do: switch by switch, so many are left out as can be."""
    for switch in counts:
        while counts[switch] and solvable(_with(problem, {**counts, switch: counts[switch] - 1}, gbps)):
            counts[switch] -= 1
    return counts


def _shopping_list(problem: PlanningProblem, counts: dict[str, int], gbps: int) -> str:
    own = of_its_own(problem)
    by_count: dict[int, list[str]] = {}
    for switch, count in counts.items():
        if count:
            by_count.setdefault(count, []).append(switch)
    return ", ".join(
        (
            f"one more {gbps}G capture port{own} on {each(names)}"
            if n == 1
            else f"{n} more {gbps}G capture ports{own} on {each(names)}"
        )
        for n, names in by_count.items()
    )


def of_its_own(problem: PlanningProblem) -> str:
    """Where it matters on which checkpoint node a new port is: it was tried on one that shares nothing."""
    barred = any(len(ring.captures) < len(problem.captures) for ring in problem.rings)
    return " of a new checkpoint node" if problem.survive or barred else ""


def fitting_ports(problem: PlanningProblem, load: dict[str, int], own: str, node: str) -> tuple[str, Change | None]:
    """A port on each switch that takes its load in Mbit/s."""
    speeds = {s: next((g for g in _SPEEDS if capacity(g, problem.headroom) >= rate), None) for s, rate in load.items()}
    words = (
        f"a {gbps}G capture port{own} on {s}" if gbps else f"capture ports for {in_gbits(load[s])} together{own} on {s}"
        for s, gbps in speeds.items()
    )

    def change(before: PlanningProblem) -> PlanningProblem:
        for switch, gbps in speeds.items():
            before = with_captures(before, (switch,), gbps, 1, node)
        return before

    return ", ".join(words), change if all(speeds.values()) else None


def each(switches: Iterable[str]) -> str:
    """For messages."""
    named = list(switches)
    return named[0] if len(named) == 1 else f"each of {', '.join(named)}"


def in_gbits(mbps: int) -> str:
    """For messages."""
    return f"{mbps // 1000}G" if mbps % 1000 == 0 else f"{mbps / 1000:.1f}G"
