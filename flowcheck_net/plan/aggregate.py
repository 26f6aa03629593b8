"""Interchangeable taps as one integer variable: a small programme whose optimum no plan can beat, and a plan from it.

Taps of one switch that see hops of the same rings and sizes, at the same rate, are a class. The programme counts how
many of a class go to each capture port and forgets which: with x[T,c] their number,

    each class        sum_c x[T,c] <= members
    each ring         sum of (its hops that a member of T sees) * x[T,c] >= hops needed
    two classes       sum_c x[T,c] + x[T',c] <= so many as see no hop twice          (fine outlines only)
    each capture port bandwidth, sources, sessions and switches as in ``linear``

Every plan gives a solution of it with the same bytes, sessions and switches, so its optimum, stage by stage, is a bound
for every plan (docs/design/0006). Forgotten are: that two taps may see the same hop, and every limit that only some
platforms and policies have. A choice of members that meets the bound all the same is therefore optimal.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flowcheck_net.plan.decompose import Index, Region, captures_on
from flowcheck_net.plan.problem import PlanningProblem
from flowcheck_net.plan.programme import TIES, Programme


@dataclass(frozen=True, slots=True)
class TapClass:
    """Interchangeable taps. All numbers are places in the region."""

    switch: int
    rates: tuple[int, int]
    """Local and remote, Mbit/s."""
    filters: tuple[bool, bool]
    """A filter is needed; one can be had."""
    sees: tuple[tuple[int, int, bool], ...]
    """(ring, bytes, counts) of each hop that a member sees."""
    beside: tuple[int, ...] = ()
    """In a fine outline: the coarse class of each other tap that sees one of these hops, and its own direction's."""

    @property
    def size(self) -> int:
        """Bytes a step that a member mirrors."""
        return sum(size for _, size, _ in self.sees)


@dataclass(frozen=True, slots=True)
class CaptureSlot:
    """A capture port of the region."""

    switch: int
    capacity: int
    remote: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """A region without names and without members: equal outlines have equal optima."""

    classes: tuple[tuple[TapClass, int], ...]
    """With the number of members."""
    captures: tuple[CaptureSlot, ...]
    switches: tuple[tuple[int, int, bool], ...]
    """(sessions, sources a session, one tap may be in several sessions)"""
    rings: tuple[tuple[int, tuple[int, ...]], ...]
    """(hops needed, capture ports at which they may count)"""
    conflicts: tuple[tuple[int, int, int], ...] = ()
    """(class, class, most): so many of both together at most, else a hop is seen twice. Empty in a coarse outline."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An outline and who the members of its classes are."""

    outline: Outline
    members: tuple[tuple[int, ...], ...]
    """Taps of each class, in the order in which they are taken."""


def is_outlined(problem: PlanningProblem) -> bool:
    """Is the optimum of the outline a bound for this problem?

    Not where a hop may count at taps of which each packet crosses one, or where two taps together give one copy; and
    what the running plan makes dear is not in it.
    """
    once = any(limits.once for limits in problem.switches)
    return not problem.cuts and not once and problem.running is None


def aggregate(index: Index, region: Region, *, fine: bool) -> Aggregate:
    """The classes of a region.

    A coarse outline forgets which taps see the same hop. A fine one tells classes apart by what else sees their hops
    and knows how many of two classes can be taken before a hop is seen twice.
    """
    problem = index.problem
    switch: dict[str, int] = {}
    key = {tap: _tap_class(index, region, tap, switch) for tap in region.taps}
    if fine:
        key = _told_apart(index, key)
    found: dict[TapClass, list[int]] = {}
    for tap, one in key.items():
        found.setdefault(one, []).append(tap)
    captures = captures_on(problem, region, switch)
    place = {c: n for n, c in enumerate(captures)}
    ports = [problem.captures[c] for c in captures]
    needs = [problem.rings[r] for r in region.component.rings]
    limits = [index.limits[name] for name in switch]
    outline = Outline(
        classes=tuple((one, len(taps)) for one, taps in found.items()),
        captures=tuple(CaptureSlot(switch[port.switch], port.capacity, port.remote) for port in ports),
        switches=tuple((one.max_sessions, one.max_sources, one.many) for one in limits),
        rings=tuple((need.hops, tuple(place[c] for c in need.captures if c in place)) for need in needs),
        conflicts=_conflicts(index, list(found.values())) if fine else (),
    )
    return Aggregate(outline, tuple(tuple(sorted(taps)) for taps in found.values()))


def _tap_class(index: Index, region: Region, tap: int, switch: dict[str, int]) -> TapClass:
    problem, one = index.problem, index.problem.taps[tap]
    first = region.component.rings
    seen = [(bisect_left(first, h.ring), h.size, h.counts) for h in (problem.hops[n] for n in index.crossing[tap])]
    return TapClass(
        switch=switch.setdefault(one.switch, len(switch)),
        rates=(one.rate, one.remote_rate),
        filters=(one.needs_filter, one.filterable),
        sees=tuple(sorted(seen)),
    )


def _told_apart(index: Index, key: dict[int, TapClass]) -> dict[int, TapClass]:
    """Classes by direction and by the classes of the taps beside them."""
    numbers: dict[tuple[TapClass, str], int] = {}
    coarse = {t: numbers.setdefault((k, index.problem.taps[t].direction), len(numbers)) for t, k in key.items()}
    return {
        tap: replace(one, beside=(coarse[tap], *sorted(coarse[other] for other in _others(index, tap, coarse))))
        for tap, one in key.items()
    }


def _others(index: Index, tap: int, known: Container[int]) -> set[int]:
    """The other taps that see a hop that ``tap`` sees."""
    return {t for h in index.crossing[tap] for t in index.problem.hops[h].taps if t != tap and t in known}


def _conflicts(index: Index, classes: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    """For any matching of M pairs that see one hop, all but M of two classes can be taken without a duplicate."""
    of_tap = {tap: n for n, taps in enumerate(classes) for tap in taps}
    matched: dict[tuple[int, int], set[int]] = {}
    for one, here in of_tap.items():
        for two in _others(index, one, of_tap):
            there = of_tap[two]
            if (here, one) < (there, two):
                used = matched.setdefault((here, there), set())
                if one not in used and two not in used:
                    used |= {one, two}
    sizes = [len(taps) for taps in classes]
    return tuple(
        (one, two, (sizes[one] if one == two else sizes[one] + sizes[two]) - len(used) // 2)
        for (one, two), used in sorted(matched.items())
    )


class OutlineProgramme:
    """The programme of an outline; columns of x by (class, capture port)."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self.programme = Programme()
        self._session = [self.programme.column() for _ in outline.captures]
        self._on_switch: list[list[int]] = [[] for _ in outline.switches]
        for number, port in enumerate(outline.captures):
            self._on_switch[port.switch].append(number)
        self._allowed = [frozenset(captures) for _, captures in outline.rings]
        self._choose()
        self._keep_apart()
        self._cover()
        self._carry()
        touched = self._touch()
        choose = self.programme.choose
        self.programme.stages = (
            ("mirrored bytes", {x: outline.classes[t][0].size for (t, _), x in choose.items()}),
            ("sessions", dict.fromkeys(self._session, 1)),
            ("switches", dict.fromkeys(touched, 1)),
            (TIES, {session: n for n, session in enumerate(self._session, start=1)}),
        )

    def _choose(self) -> None:
        for number, (one, members) in enumerate(self._outline.classes):
            columns = []
            for capture in self._on_switch[one.switch]:
                columns.append(self.programme.column(upper=members))
                self.programme.choose[number, capture] = columns[-1]
                most = self._most(one, members, capture)
                self.programme.row([(columns[-1], 1), (self._session[capture], -most)], upper=0)
            if columns and not self._outline.switches[one.switch][2]:
                self.programme.row(((x, 1) for x in columns), upper=members)

    def _most(self, one: TapClass, members: int, capture: int) -> int:
        """How many of a class one session may have."""
        port = self._outline.captures[capture]
        rate = one.rates[port.remote]
        return min(members, self._outline.switches[one.switch][1], port.capacity // rate if rate else members)

    def _keep_apart(self) -> None:
        columns: list[list[int]] = [[] for _ in self._outline.classes]
        for (number, _), x in self.programme.choose.items():
            columns[number].append(x)
        for one, two, most in self._outline.conflicts:
            both = columns[one] if one == two else [*columns[one], *columns[two]]
            self.programme.row(((x, 1) for x in both), upper=most)

    def _cover(self) -> None:
        terms: list[dict[int, int]] = [{} for _ in self._outline.rings]
        for (number, capture), x in self.programme.choose.items():
            for ring, _, counts in self._outline.classes[number][0].sees:
                if counts and capture in self._allowed[ring]:
                    terms[ring][x] = terms[ring].get(x, 0) + 1
        for (hops, _), row in zip(self._outline.rings, terms, strict=True):
            self.programme.row(row.items(), lower=hops)

    def _carry(self) -> None:
        sources: list[list[tuple[int, int]]] = [[] for _ in self._outline.captures]
        for (number, capture), x in self.programme.choose.items():
            sources[capture].append((x, number))
        for capture, port in enumerate(self._outline.captures):
            session, most = self._session[capture], self._outline.switches[port.switch][1]
            rates = [(x, self._outline.classes[t][0].rates[port.remote]) for x, t in sources[capture]]
            self.programme.row([*rates, (session, -port.capacity)], upper=0)
            self.programme.row([*((x, 1) for x, _ in rates), (session, -most)], upper=0)

    def _touch(self) -> list[int]:
        touched = []
        for captures, (sessions, _, _) in zip(self._on_switch, self._outline.switches, strict=True):
            switch = self.programme.column()
            touched.append(switch)
            here = [self._session[capture] for capture in captures]
            self.programme.row(((s, 1) for s in here), upper=sessions)
            for session in here:
                self.programme.row([(session, 1), (switch, -1)], upper=0)
            for one, two in pairwise(captures):
                if self._alike(one, two):
                    self.programme.row([(self._session[two], 1), (self._session[one], -1)], upper=0)
        return touched

    def _alike(self, one: int, two: int) -> bool:
        """May they change places in any solution? Then the first is used first."""
        alike = self._outline.captures[one] == self._outline.captures[two]
        return alike and all((one in allowed) == (two in allowed) for allowed in self._allowed)


def choose_members(index: Index, found: Aggregate, counts: Mapping[int, int]) -> tuple[int, ...] | None:
    """So many taps of each class that no hop is seen twice; ``None`` when these simple ways find none.

    First by number, which gives both directions of one port; then those that watch what comes in (rx) before those that
    watch what goes out, for two taps of one direction on host ports never see the same hop.
    """
    by_number = _first_free(index, found.members, counts)
    if by_number is not None:
        return by_number
    rx_first = [sorted(taps, key=lambda t: (index.problem.taps[t].direction, t)) for taps in found.members]
    return _first_free(index, rx_first, counts)


def _first_free(index: Index, classes: Iterable[Sequence[int]], counts: Mapping[int, int]) -> tuple[int, ...] | None:
    seen: set[int] = set()
    taken: list[int] = []
    for number, members in enumerate(classes):
        left = counts.get(number, 0)
        for tap in members:
            if not left:
                break
            if seen.isdisjoint(index.crossing[tap]):
                seen.update(index.crossing[tap])
                taken.append(tap)
                left -= 1
        if left:
            return None
    return tuple(taken)
