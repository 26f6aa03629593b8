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

What only some platforms and policies limit is in ``linear_limits``. A hop may also count at a cut: y[h,cut] is bound to
the choice of each of its taps. Where a switch sends a packet to one capture port once, the copies of a hop are columns
of their own.

With x integral and no copies_apart, what remains of y is a flow problem with integral vertices: no branching on y.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from flowcheck_net.plan.linear_limits import add_limits
from flowcheck_net.plan.problem import Hop, PlanningProblem, SwitchLimits
from flowcheck_net.plan.programme import TIES, Component, Programme, Terms


def components(problem: PlanningProblem) -> tuple[Component, ...]:
    """Rings grouped so that no two groups have a usable switch in common, in order of their first ring."""
    leader: dict[str, str] = {}

    def find(item: str) -> str:
        while leader.setdefault(item, item) != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for hop in problem.hops:
        for tap in problem.sites(hop):
            if not problem.taps[tap].refusals:
                leader[find(f"switch {problem.taps[tap].switch}")] = find(f"ring {hop.ring}")
    for together in _tied_switches(problem):
        for one, two in pairwise(together):
            leader[find(f"switch {one}")] = find(f"switch {two}")
    rings: dict[str, list[int]] = {}
    for ring in range(len(problem.rings)):
        rings.setdefault(find(f"ring {ring}"), []).append(ring)
    switches: dict[str, list[str]] = {}
    for limits in problem.switches:
        switches.setdefault(find(f"switch {limits.name}"), []).append(limits.name)
    return tuple(Component(tuple(r), tuple(switches.get(root, ()))) for root, r in rings.items())


def _tied_switches(problem: PlanningProblem) -> Iterable[Sequence[str]]:
    """Switches whose sessions share a budget, exclude each other, or are watched together only."""
    taps, captures = problem.taps, problem.captures
    yield from ([captures[c].switch for c in budget.captures] for budget in problem.budgets)
    yield from ([captures[one].switch, captures[two].switch] for one, two in problem.exclusive)
    yield from ([taps[tap].switch, captures[capture].switch] for tap, capture in problem.carries)
    yield from ([taps[tap].switch for tap in cut.taps] for cut in problem.cuts)


def formulate(problem: PlanningProblem, component: Component) -> Programme:
    """The programme of one component."""
    programme = Programme()
    inside = set(component.switches)
    taps = [t for t, tap in enumerate(problem.taps) if tap.switch in inside and not tap.refusals]
    captures = [c for c, one in enumerate(problem.captures) if one.switch in inside and not one.refusals]
    many = _may_repeat(problem)
    for tap in taps:
        here = [c for c in captures if problem.captures[c].switch == problem.taps[tap].switch]
        programme.choose.update({(tap, capture): programme.column() for capture in here})
        if tap not in many:
            programme.single[tap] = programme.row(((programme.choose[tap, c], 1) for c in here), upper=1)
    arrivals = _arrivals(problem, component, programme)
    duplicate = _coverage(problem, component, programme, arrivals)
    touched = _sessions(problem, component, captures, programme)
    add_limits(problem, component, programme)
    distance = () if problem.running is None else (("distance from the running plan", _distance(problem, programme)),)
    programme.stages = (
        ("duplicate bytes", duplicate),
        ("mirrored bytes", _mirrored(problem, programme, arrivals)),
        ("sessions", dict.fromkeys(programme.session.values(), 1)),
        ("switches", dict.fromkeys(touched, 1)),
        *distance,
        (TIES, _canonical(problem, programme)),
    )
    return programme


def _may_repeat(problem: PlanningProblem) -> set[int]:
    """Taps that may be in several sessions: where the switch can, and never one of a cut."""
    many = {limits.name for limits in problem.switches if limits.many}
    tied = {tap for cut in problem.cuts for tap in cut.taps}
    return {n for n, tap in enumerate(problem.taps) if tap.switch in many and n not in tied}


def _may_arrive_twice(problem: PlanningProblem, hop: Hop) -> bool:
    """Is there more than one way to see it? Else no copy of it is a second one."""
    many = {limits.name for limits in problem.switches if limits.many}
    return len(hop.taps) + len(hop.cuts) > 1 or any(problem.taps[tap].switch in many for tap in hop.taps)


def _by_tap(programme: Programme) -> dict[int, list[tuple[int, int]]]:
    """Tap -> its (capture, column of x)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for (tap, capture), x in programme.choose.items():
        found.setdefault(tap, []).append((capture, x))
    return found


def _arrivals(problem: PlanningProblem, component: Component, programme: Programme) -> dict[int, list[int]]:
    """Hop -> columns, each of which is one copy of it.

    Mostly the x of its certain taps. A switch that sends a packet to one capture port once, however many taps see it,
    gets a column for both; a cut is one copy, whichever of its taps a packet crosses.
    """
    inside = set(component.rings)
    once = {limits.name for limits in problem.switches if limits.once}
    chosen = _by_tap(programme)
    found: dict[int, list[int]] = {}
    for number, hop in enumerate(problem.hops):
        if hop.ring not in inside:
            continue
        copies: list[int] = []
        merged: dict[int, list[int]] = {}
        for tap in hop.taps:
            for capture, x in chosen.get(tap, ()):
                if problem.taps[tap].switch in once:
                    merged.setdefault(capture, []).append(x)
                else:
                    copies.append(x)
        for columns in merged.values():
            copies.append(columns[0] if len(columns) == 1 else programme.either(columns))
        for cut in hop.cuts:
            whole = [x for _, x in chosen.get(problem.cuts[cut].taps[0], ())]
            copies.extend(whole)
        found[number] = copies
    return found


def _distance(problem: PlanningProblem, programme: Programme) -> Terms:
    """Sources that the running plan has not, and those of it that would go."""
    running = set(problem.running or ())
    terms: Terms = {}
    for key, x in programme.choose.items():
        if key in running:
            gone = programme.column()
            programme.row([(x, 1), (gone, 1)], lower=1, upper=1)
            terms[gone] = 1
        else:
            terms[x] = 1
    return terms


def _coverage(
    problem: PlanningProblem, component: Component, programme: Programme, arrivals: dict[int, list[int]]
) -> Terms:
    """The rows of hops and rings; returns the terms of the duplicate bytes."""
    chosen = _by_tap(programme)
    duplicate: Terms = {}
    seen: dict[int, list[tuple[tuple[int, ...], int]]] = {ring: [] for ring in component.rings}
    for number, hop in enumerate(problem.hops):
        if hop.ring not in seen:
            continue
        copies = [(column, 1) for column in arrivals[number]]
        if hop.size and _may_arrive_twice(problem, hop):
            extra = programme.column(upper=max(1, len(copies)))
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
) -> list[tuple[tuple[int, ...], int]]:
    """The y columns of one hop as (taps, column), each bound to the choice of all these taps."""
    allowed = set(problem.rings[problem.hops[hop].ring].captures)
    counts: list[tuple[tuple[int, ...], int]] = []
    for tap in problem.hops[hop].taps:
        places = [x for capture, x in chosen.get(tap, ()) if capture in allowed]
        if places:
            y = programme.column(integer=problem.copies_apart)
            programme.row([(y, 1), *((x, -1) for x in places)], upper=0)
            programme.count[hop, tap] = y
            counts.append(((tap,), y))
    for cut in problem.hops[hop].cuts:
        members = [[x for c, x in chosen.get(tap, ()) if c in allowed] for tap in problem.cuts[cut].taps]
        if all(members):
            first = problem.cuts[cut].taps[0]
            y = programme.column(integer=problem.copies_apart)
            for places in members:
                programme.row([(y, 1), *((x, -1) for x in places)], upper=0)
            programme.count[hop, first] = y
            counts.append((problem.cuts[cut].taps, y))
    return counts


def _apart(problem: PlanningProblem, counts: Sequence[tuple[tuple[int, ...], int]], programme: Programme) -> None:
    """At most one counted hop of a ring in each failure domain."""
    domains = {limits.name: limits.apart for limits in problem.switches}
    inside: dict[str, list[tuple[int, int]]] = {}
    for taps, y in counts:
        for domain in {domain for tap in taps for domain in domains[problem.taps[tap].switch]}:
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
        for one, two in pairwise(used) if problem.running is None else ():
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
    rates = [(x, problem.rate(tap, capture)) for tap, x in sources]
    room = min(problem.captures[capture].capacity, sum(rate for _, rate in rates))
    most = min(limits.max_sources, len(sources))
    programme.carry[capture] = programme.row([*rates, (session, -room)], upper=0)
    programme.hold[capture] = programme.row([*((x, 1) for _, x in sources), (session, -most)], upper=0)
    for _, x in sources:
        programme.row([(x, 1), (session, -1)], upper=0)


def _twins(problem: PlanningProblem, one: int, two: int) -> bool:
    """May the two capture ports change places in any plan? Then the first is used first."""
    first, second = problem.captures[one], problem.captures[two]
    alike = (first.capacity, first.node, first.remote) == (second.capacity, second.node, second.remote)
    tied = {c for budget in problem.budgets for c in budget.captures}
    if not alike or one in tied or two in tied:
        return False
    return all((one in ring.captures) == (two in ring.captures) for ring in problem.rings)


def _mirrored(problem: PlanningProblem, programme: Programme, arrivals: dict[int, list[int]]) -> Terms:
    """Bytes a step of every copy of a hop."""
    terms: Terms = dict.fromkeys(programme.choose.values(), 0)
    for number, columns in arrivals.items():
        for column in columns:
            terms[column] = terms.get(column, 0) + problem.hops[number].size
    return terms


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
