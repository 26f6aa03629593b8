"""The planning problem as a mixed-integer programme: columns, rows and the objective in its stages. No solver here.

For one component (rings and the switches that their taps and capture ports stand on)::

    x[t,c]  tap t is mirrored to capture port c of its switch          binary
    y[h,t]  hop h counts for its ring, as seen at tap t                0..1 (binary with copies_apart)
    d[h]    copies of hop h beyond the first                           integer
    s[c]    a session to capture port c exists                         binary
    w[s]    switch s has a session                                     binary

    each tap          sum_c x[t,c] <= 1                   a source belongs to one session
    each y[h,t]       y[h,t] <= sum of x[t,c] over the capture ports at which the ring may count
    each hop          sum_t y[h,t] <= 1                   one site a hop
    each ring         sum y >= hops needed
    each ring, domain sum y[h,t] over t in the domain <= 1               (copies_apart)
    each capture port sum_t rate[t] x[t,c] <= capacity s[c];  sum_t x[t,c] <= max sources s[c];  x[t,c] <= s[c]
    each switch       sum_c s[c] <= max sessions;  sum_c s[c] <= n w[s];  of two equal capture ports the first is first
    each hop          d[h] >= sum of x[t,c] over its taps - 1

With x integral and no copies_apart, what remains of y is a flow problem with integral vertices: no branching on y.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from flowcheck_net.plan.problem import PlanningProblem, SwitchLimits

Terms = dict[int, int]
"""Column -> coefficient."""


@dataclass(frozen=True, slots=True)
class Row:
    """``lower <= sum(coefficient * column) <= upper``."""

    terms: tuple[tuple[int, int], ...]
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Component:
    """Rings that share no switch with the rings outside of it."""

    rings: tuple[int, ...]
    switches: tuple[str, ...]


@dataclass(slots=True)
class Programme:
    """A mixed-integer programme under construction."""

    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    choose: dict[tuple[int, int], int] = field(default_factory=dict)
    """(tap, capture) -> column of x."""
    count: dict[tuple[int, int], int] = field(default_factory=dict)
    """(hop, tap) -> column of y."""
    need: dict[int, int] = field(default_factory=dict)
    """Ring -> its coverage row."""
    carry: dict[int, int] = field(default_factory=dict)
    """Capture -> its bandwidth row."""
    hold: dict[int, int] = field(default_factory=dict)
    """Capture -> the row of its session's sources."""
    slots: dict[str, int] = field(default_factory=dict)
    """Switch -> the row of its sessions."""
    session: dict[int, int] = field(default_factory=dict)
    """Capture -> column of s."""
    stages: tuple[tuple[str, Terms], ...] = ()
    """(name, terms to minimise), first things first."""

    def column(self, *, upper: float = 1, integer: bool = True) -> int:
        """A new column from 0 to ``upper``."""
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.upper) - 1

    def row(self, terms: Iterable[tuple[int, int]], *, lower: float = -inf, upper: float = inf) -> int:
        """A new row."""
        self.rows.append(Row(tuple(terms), lower, upper))
        return len(self.rows) - 1

    def loosen(self, row: int, column: int, coefficient: int) -> None:
        """Add ``coefficient * column`` to a row: a slack that an objective can price."""
        old = self.rows[row]
        self.rows[row] = Row((*old.terms, (column, coefficient)), old.lower, old.upper)


def components(problem: PlanningProblem) -> tuple[Component, ...]:
    """Rings grouped so that no two groups have a usable switch in common, in order of their first ring."""
    leader: dict[str, str] = {}

    def find(item: str) -> str:
        while leader.setdefault(item, item) != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for hop in problem.hops:
        for tap in hop.taps:
            if not problem.taps[tap].refusals:
                leader[find(f"switch {problem.taps[tap].switch}")] = find(f"ring {hop.ring}")
    rings: dict[str, list[int]] = {}
    for ring in range(len(problem.rings)):
        rings.setdefault(find(f"ring {ring}"), []).append(ring)
    switches: dict[str, list[str]] = {}
    for limits in problem.switches:
        switches.setdefault(find(f"switch {limits.name}"), []).append(limits.name)
    return tuple(Component(tuple(r), tuple(switches.get(root, ()))) for root, r in rings.items())


def formulate(problem: PlanningProblem, component: Component) -> Programme:
    """The programme of one component."""
    programme = Programme()
    inside = set(component.switches)
    taps = [t for t, tap in enumerate(problem.taps) if tap.switch in inside and not tap.refusals]
    captures = [c for c, capture in enumerate(problem.captures) if capture.switch in inside]
    for tap in taps:
        here = [c for c in captures if problem.captures[c].switch == problem.taps[tap].switch]
        programme.choose.update({(tap, capture): programme.column() for capture in here})
        programme.row(((programme.choose[tap, capture], 1) for capture in here), upper=1)
    duplicate = _coverage(problem, component, programme)
    touched = _sessions(problem, component, captures, programme)
    programme.stages = (
        ("duplicate bytes", duplicate),
        ("mirrored bytes", _mirrored(problem, programme)),
        ("sessions", dict.fromkeys(programme.session.values(), 1)),
        ("switches", dict.fromkeys(touched, 1)),
        ("canonical order", _canonical(problem, programme)),
    )
    return programme


def _by_tap(programme: Programme) -> dict[int, list[tuple[int, int]]]:
    """Tap -> its (capture, column of x)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for (tap, capture), x in programme.choose.items():
        found.setdefault(tap, []).append((capture, x))
    return found


def _coverage(problem: PlanningProblem, component: Component, programme: Programme) -> Terms:
    """The rows of hops and rings; returns the terms of the duplicate bytes."""
    chosen = _by_tap(programme)
    duplicate: Terms = {}
    seen: dict[int, list[tuple[int, int]]] = {ring: [] for ring in component.rings}
    for number, hop in enumerate(problem.hops):
        if hop.ring not in seen:
            continue
        copies = [(x, 1) for tap in hop.taps for _, x in chosen.get(tap, ())]
        if len(hop.taps) > 1 and hop.size:
            extra = programme.column(upper=len(hop.taps))
            programme.row([*copies, (extra, -1)], upper=1)
            duplicate[extra] = hop.size
        if hop.counts:
            counts = _count(problem, number, chosen, programme)
            programme.row(((y, 1) for _, y in counts), upper=1)
            seen[hop.ring].extend(counts)
    for ring, counts in seen.items():
        programme.need[ring] = programme.row(((y, 1) for _, y in counts), lower=problem.rings[ring].hops)
        if problem.copies_apart:
            _apart(problem, counts, programme)
    return duplicate


def _count(
    problem: PlanningProblem, hop: int, chosen: dict[int, list[tuple[int, int]]], programme: Programme
) -> list[tuple[int, int]]:
    """The y columns of one hop as (tap, column), each bound to the tap's choice."""
    allowed = set(problem.rings[problem.hops[hop].ring].captures)
    counts: list[tuple[int, int]] = []
    for tap in problem.hops[hop].taps:
        places = [x for capture, x in chosen.get(tap, ()) if capture in allowed]
        if places:
            y = programme.column(integer=problem.copies_apart)
            programme.row([(y, 1), *((x, -1) for x in places)], upper=0)
            programme.count[hop, tap] = y
            counts.append((tap, y))
    return counts


def _apart(problem: PlanningProblem, counts: Sequence[tuple[int, int]], programme: Programme) -> None:
    """At most one counted hop of a ring in each failure domain."""
    domains = {limits.name: limits.apart for limits in problem.switches}
    inside: dict[str, list[tuple[int, int]]] = {}
    for tap, y in counts:
        for domain in domains[problem.taps[tap].switch]:
            inside.setdefault(domain, []).append((y, 1))
    for terms in inside.values():
        programme.row(terms, upper=1)


def _sessions(
    problem: PlanningProblem, component: Component, captures: Sequence[int], programme: Programme
) -> list[int]:
    """The rows of capture ports and switches; returns the columns of the switches touched."""
    touched: list[int] = []
    to_capture: dict[int, list[tuple[int, int]]] = {}
    for (tap, capture), x in programme.choose.items():
        to_capture.setdefault(capture, []).append((tap, x))
    for limits in problem.switches:
        used = [c for c in captures if problem.captures[c].switch == limits.name and c in to_capture]
        if limits.name not in component.switches or not used:
            continue
        switch = programme.column()
        touched.append(switch)
        for capture in used:
            programme.session[capture] = programme.column()
            _session(problem, programme, capture, to_capture[capture], limits)
        here = [(programme.session[capture], 1) for capture in used]
        programme.slots[limits.name] = programme.row(here, upper=limits.max_sessions)
        programme.row([*here, (switch, -len(here))], upper=0)
        for one, two in pairwise(used):
            if _twins(problem, one, two):
                programme.row([(programme.session[two], 1), (programme.session[one], -1)], upper=0)
    return touched


def _session(
    problem: PlanningProblem,
    programme: Programme,
    capture: int,
    sources: Sequence[tuple[int, int]],
    limits: SwitchLimits,
) -> None:
    """Bandwidth and sources of one capture port, as (tap, column of x).

    Both limits hold for the session's column times the limit, not for the limit alone: so half a session has half the
    room, and the solver's first bound is close to the truth.
    """
    session = programme.session[capture]
    rates = [(x, problem.taps[tap].rate) for tap, x in sources]
    room = min(problem.captures[capture].capacity, sum(rate for _, rate in rates))
    most = min(limits.max_sources, len(sources))
    programme.carry[capture] = programme.row([*rates, (session, -room)], upper=0)
    programme.hold[capture] = programme.row([*((x, 1) for _, x in sources), (session, -most)], upper=0)
    for _, x in sources:
        programme.row([(x, 1), (session, -1)], upper=0)


def _twins(problem: PlanningProblem, one: int, two: int) -> bool:
    """May the two capture ports change places in any plan? Then the first is used first."""
    alike = problem.captures[one].capacity == problem.captures[two].capacity
    return alike and all((one in ring.captures) == (two in ring.captures) for ring in problem.rings)


def _mirrored(problem: PlanningProblem, programme: Programme) -> Terms:
    """Bytes a step of every hop that crosses a chosen tap."""
    size: dict[int, int] = {}
    for hop in problem.hops:
        for tap in hop.taps:
            size[tap] = size.get(tap, 0) + hop.size
    return {x: size.get(tap, 0) for (tap, _), x in programme.choose.items()}


def _canonical(problem: PlanningProblem, programme: Programme) -> Terms:
    """Prefer what comes first by name, with weights so irregular that two choices hardly ever tie.

    Three parts, each weighing less than a step of the part before: the place of the candidate in the order (64 * 64),
    a reward for giving later taps later capture ports, so that neither sequence jumps (64), and a scatter. Should two
    choices tie all the same, the solver's fixed seed decides, and decides the same each time.
    """
    taps = sorted({tap for tap, _ in programme.choose})
    rank = {tap: n for n, tap in enumerate(taps, start=1)}
    most = max((problem.captures[c].number for _, c in programme.choose), default=1) * max(1, len(taps))
    weights: Terms = {}
    for n, ((tap, capture), column) in enumerate(sorted(programme.choose.items()), start=1):
        reward = 63 - 63 * rank[tap] * problem.captures[capture].number // most
        weights[column] = (n * 64 + reward) * 64 + _scatter(n)
    for n, (_, column) in enumerate(sorted(programme.count.items()), start=1):
        weights[column] = n * 64 + _scatter(n)
    return weights


def _scatter(number: int) -> int:
    """0 .. 63, without pattern: Knuth's multiplicative hash."""
    return number * 2654435761 % 2**32 >> 26
