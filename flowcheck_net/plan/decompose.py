"""Parts of a planning problem as problems of their own, with every name replaced by its place.

Two parts that look the same are then equal values, and one answer serves both. What is ordered by name in the whole
problem is ordered here by first appearance along the rings, so that equal pods look equal whatever they are called.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, NodeName, PortName, SwitchName
from flowcheck_net.plan.linear import components
from flowcheck_net.plan.problem import Budget, Choice, Hop, PlanningProblem, SwitchLimits
from flowcheck_net.plan.programme import Component


@dataclass(frozen=True, slots=True)
class Region:
    """A component and everything in it, by place in the whole problem."""

    component: Component
    hops: tuple[int, ...]
    taps: tuple[int, ...]
    """Those that may be chosen, switch by switch in the order in which the hops meet these."""
    captures: tuple[int, ...]
    """Those that may be used."""


@dataclass(frozen=True, slots=True)
class Part:
    """A problem of its own, and what its numbers are in the whole."""

    problem: PlanningProblem
    taps: tuple[int, ...]
    captures: tuple[int, ...]
    hops: tuple[int, ...]

    def whole(self, choice: Choice) -> Choice:
        """A choice of the part in the numbers of the whole problem."""
        return Choice(
            tuple((self.taps[tap], self.captures[capture]) for tap, capture in choice.taps),
            tuple((self.hops[hop], self.taps[tap]) for hop, tap in choice.counted),
        )


class Index:
    """What is asked of a problem again and again, looked up once."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.limits: dict[str, SwitchLimits] = {limits.name: limits for limits in problem.switches}
        self.crossing: list[list[int]] = [[] for _ in problem.taps]
        """Tap -> the hops that cross it for certain."""
        for number, hop in enumerate(problem.hops):
            for tap in hop.taps:
                self.crossing[tap].append(number)


def regions(problem: PlanningProblem) -> tuple[Region, ...]:
    """The components in order of their first ring, each with what belongs to it."""
    parts = components(problem)
    of_ring = {ring: n for n, part in enumerate(parts) for ring in part.rings}
    of_switch = {switch: n for n, part in enumerate(parts) for switch in part.switches}
    hops: list[list[int]] = [[] for _ in parts]
    taps: list[dict[int, None]] = [{} for _ in parts]
    captures: list[list[int]] = [[] for _ in parts]
    for number, hop in enumerate(problem.hops):
        here = of_ring[hop.ring]
        hops[here].append(number)
        taps[here].update((tap, None) for tap in problem.sites(hop) if not problem.taps[tap].refusals)
    for number, capture in enumerate(problem.captures):
        if capture.switch in of_switch and not capture.refusals:
            captures[of_switch[capture.switch]].append(number)
    return tuple(
        Region(part, tuple(h), _by_switch(problem, t), tuple(c))
        for part, h, t, c in zip(parts, hops, taps, captures, strict=True)
    )


def _by_switch(problem: PlanningProblem, taps: Iterable[int]) -> tuple[int, ...]:
    found: dict[str, list[int]] = {}
    for tap in taps:
        found.setdefault(problem.taps[tap].switch, []).append(tap)
    return tuple(tap for here in found.values() for tap in sorted(here))


def extract(index: Index, region: Region, taps: Sequence[int]) -> Part:
    """The problem of a region in which only ``taps`` may be chosen.

    Cuts and a running plan are not taken along: the caller keeps problems with them whole.
    """
    problem = index.problem
    switch = _Numbers()
    for tap in taps:
        switch.of(problem.taps[tap].switch)
    captures = captures_on(problem, region, switch)
    hops = sorted({hop for tap in taps for hop in index.crossing[tap]})
    new = _Renaming(index, region, switch, {c: n for n, c in enumerate(captures)}, {t: n for n, t in enumerate(taps)})
    return Part(new.problem(taps, captures, hops), tuple(taps), tuple(captures), tuple(hops))


def captures_on(problem: PlanningProblem, region: Region, switch: Mapping[str, int]) -> list[int]:
    """The region's capture ports on some switches, in the order of those."""
    found = [c for c in region.captures if problem.captures[c].switch in switch]
    return sorted(found, key=lambda c: (switch[problem.captures[c].switch], c))


class _Numbers(dict[str, int]):
    """Name -> its number by first appearance."""

    def of(self, name: str) -> int:
        """Its number; the next one for a new name."""
        return self.setdefault(name, len(self))


class _Renaming:
    def __init__(
        self,
        index: Index,
        region: Region,
        switch: _Numbers,
        capture: dict[int, int],
        tap: dict[int, int],
    ) -> None:
        self._old = index.problem
        self._limits = index.limits
        self._region = region
        self._switch = switch
        self._capture = capture
        self._tap = tap
        self._ports, self._nics, self._nodes = _Numbers(), _Numbers(), _Numbers()
        self._domains, self._addresses = _Numbers(), _Numbers()

    def problem(self, taps: Sequence[int], captures: Sequence[int], hops: Sequence[int]) -> PlanningProblem:
        """Everything renamed."""
        old = self._old
        rings = {ring: n for n, ring in enumerate(self._region.component.rings)}
        return PlanningProblem(
            job="",
            extra_step=old.extra_step,
            copies_apart=old.copies_apart,
            taps=tuple(
                replace(
                    old.taps[t],
                    switch=self._switch_name(old.taps[t].switch),
                    port=PortName(f"p{self._ports.of(f'{old.taps[t].switch}:{old.taps[t].port}')}"),
                )
                for t in taps
            ),
            captures=tuple(
                replace(
                    old.captures[c],
                    switch=self._switch_name(old.captures[c].switch),
                    switch_port=PortName(f"m{n}"),
                    port=CapturePort(f"c{self._nics.of(old.captures[c].port)}"),
                    node=NodeName(f"n{self._nodes.of(old.captures[c].node)}"),
                )
                for n, c in enumerate(captures)
            ),
            switches=tuple(
                replace(
                    self._limits[name],
                    name=self._switch_name(name),
                    apart=tuple(f"d{self._domains.of(domain)}" for domain in self._limits[name].apart),
                )
                for name in self._switch
            ),
            rings=tuple(
                replace(
                    old.rings[ring],
                    group=GroupName(f"g{n}"),
                    channel=Channel(0),
                    captures=tuple(self._capture[c] for c in old.rings[ring].captures if c in self._capture),
                )
                for ring, n in rings.items()
            ),
            hops=tuple(self._hop(old.hops[h], n, rings) for n, h in enumerate(hops)),
            gradient_bytes=0,
            headroom=0.0,
            budgets=tuple(self._budget(b, n) for n, b in enumerate(self._budgets())),
            exclusive=tuple(
                (self._capture[one], self._capture[two])
                for one, two in old.exclusive
                if one in self._capture and two in self._capture
            ),
            carries=tuple(
                (self._tap[tap], self._capture[c]) for tap, c in old.carries if tap in self._tap and c in self._capture
            ),
            survive=old.survive,
        )

    def _switch_name(self, name: str) -> SwitchName:
        return SwitchName(f"s{self._switch[name]}")

    def _hop(self, hop: Hop, number: int, rings: dict[int, int]) -> Hop:
        return replace(
            hop,
            ring=rings[hop.ring],
            index=number,
            source=Address(f"a{self._addresses.of(hop.source)}"),
            destination=Address(f"a{self._addresses.of(hop.destination)}"),
            taps=tuple(self._tap[tap] for tap in hop.taps if tap in self._tap),
        )

    def _budgets(self) -> list[Budget]:
        return [b for b in self._old.budgets if any(c in self._capture for c in b.captures)]

    def _budget(self, budget: Budget, number: int) -> Budget:
        inside = tuple(self._capture[c] for c in budget.captures if c in self._capture)
        return replace(budget, name=f"b{number}", captures=inside)
