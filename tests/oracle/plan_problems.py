"""Small random planning problems without a fabric behind them, and their optimum by trying everything."""

import random
from collections.abc import Iterator
from itertools import combinations

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Direction
from flowcheck_net.plan.problem import Capture, Hop, Limit, PlanningProblem, RingNeed, SwitchLimits, Tap

Cost = tuple[int, int, int, int]
"""Duplicate bytes, mirrored bytes, sessions, switches."""


def random_problem(seed: int, *, apart: bool = False) -> PlanningProblem:
    """At most seven taps on two switches, three capture ports, three rings; sizes are large and irregular."""
    dice = random.Random(seed)
    switches = [SwitchName(f"s{n}") for n in range(dice.choice([2, 3] if apart else [1, 2]))]
    captures = tuple(
        sorted(
            Capture(
                switch=dice.choice(switches),
                switch_port=PortName(f"m{n}"),
                port=CapturePort(f"node:cap{n}"),
                node=NodeName("node"),
                capacity=dice.choice([200, 400, 800]),
                number=n + 1,
            )
            for n in range(dice.choice([2, 3]))
        )
    )
    taps = tuple(
        sorted(
            Tap(
                switch=dice.choice(switches),
                port=PortName(f"p{n}"),
                direction=dice.choice(list(Direction)),
                rate=dice.choice([50, 100, 150]),
                needs_filter=dice.random() < 0.2,
                refusals=(dice.choice([Limit.DIRECTION, Limit.ALLOWED]),) if dice.random() < 0.15 else (),
            )
            for n in range(dice.randint(4, 7))
        )
    )
    rings, hops = _rings(dice, len(taps), len(captures), most=1 if apart else 2)
    return PlanningProblem(
        job="job",
        extra_step=False,
        copies_apart=apart,
        taps=taps,
        captures=captures,
        switches=tuple(
            SwitchLimits(s, dice.choice([1, 2, 2]), dice.choice([2, 3, 9]), (f"rack-{s}",)) for s in switches
        ),
        rings=rings,
        hops=hops,
        gradient_bytes=12345,
        headroom=0.0,
    )


def _rings(dice: random.Random, taps: int, captures: int, most: int) -> tuple[tuple[RingNeed, ...], tuple[Hop, ...]]:
    rings: list[RingNeed] = []
    hops: list[Hop] = []
    for number in range(dice.choice([1, 2, 3])):
        size = dice.randint(2, 5)
        copies = 1 if size == 2 else dice.choice([1, 1, most])
        allowed = tuple(c for c in range(captures) if dice.random() < 0.85)
        rings.append(RingNeed(GroupName(f"dp{number}"), Channel(0), size, 2, copies, copies + 1, size, allowed))
        for index in range(size):
            sites = tuple(sorted(dice.sample(range(taps), dice.choice([1, 2, 2, 3]))))
            # around 2 GB, differing in the last few kB, as the hops of one ring do
            length = 2 * 10**9 + 64 * dice.randint(0, 50)
            hops.append(
                Hop(number, index, Address(f"10.{number}.0.{index}"), Address(f"10.{number}.1.{index}"), length, sites)
            )
    return tuple(rings), tuple(hops)


def best_cost(problem: PlanningProblem) -> Cost | None:
    """The least cost over every assignment of usable taps to capture ports of their switch; ``None``: none is valid."""
    usable = [n for n, tap in enumerate(problem.taps) if not tap.refusals]
    valid = (taps for taps in _assignments(problem, usable, {}) if _covers(problem, taps))
    return min((assignment_cost(problem, taps) for taps in valid), default=None)


def _assignments(problem: PlanningProblem, rest: list[int], taps: dict[int, int]) -> Iterator[dict[int, int]]:
    if not _fits(problem, taps):
        return
    if not rest:
        yield taps
        return
    yield from _assignments(problem, rest[1:], taps)
    for number, capture in enumerate(problem.captures):
        if capture.switch == problem.taps[rest[0]].switch:
            yield from _assignments(problem, rest[1:], {**taps, rest[0]: number})


def _fits(problem: PlanningProblem, taps: dict[int, int]) -> bool:
    limits = {s.name: s for s in problem.switches}
    for number, capture in enumerate(problem.captures):
        here = [t for t, c in taps.items() if c == number]
        if sum(problem.taps[t].rate for t in here) > capture.capacity or len(here) > limits[capture.switch].max_sources:
            return False
    used = {(problem.captures[c].switch, c) for c in taps.values()}
    return all(sum(s == name for s, _ in used) <= limit.max_sessions for name, limit in limits.items())


def _covers(problem: PlanningProblem, taps: dict[int, int]) -> bool:
    for number, ring in enumerate(problem.rings):
        sites = [
            [t for t in hop.taps if taps.get(t, -1) in ring.captures] for hop in problem.hops if hop.ring == number
        ]
        seen = [places for places in sites if places]
        if len(seen) < ring.hops or (problem.copies_apart and not _apart(problem, seen, ring.hops)):
            return False
    return True


def _apart(problem: PlanningProblem, seen: list[list[int]], wanted: int) -> bool:
    """Are there ``wanted`` hops that can be counted on as many different switches?"""
    places = [{problem.taps[t].switch for t in taps} for taps in seen]

    def pick(rest: list[set[SwitchName]], used: set[SwitchName]) -> bool:
        return not rest or any(pick(rest[1:], used | {s}) for s in rest[0] - used)

    return any(pick(list(chosen), set()) for chosen in combinations(places, wanted))


def assignment_cost(problem: PlanningProblem, taps: dict[int, int]) -> Cost:
    """The four stages, from the assignment alone."""
    arrived = [(hop.size, sum(t in taps for t in hop.taps)) for hop in problem.hops]
    return (
        sum(size * max(0, n - 1) for size, n in arrived),
        sum(size * n for size, n in arrived),
        len(set(taps.values())),
        len({problem.taps[t].switch for t in taps}),
    )
