"""Rows of the planning programme for the limits that only some platforms and policies have.

With the columns of ``linear`` (x[t,c], s[c]) and of its own::

    z[c,p,d]  the session to c has a source in slice p and direction d          binary
    u[c,p]    ... in slice p at all                                              binary
    n[c]      the session to c is limited to address pairs                       binary
    e[c,a]    address pair a is one of them                                      binary
    r[t,c,a]  tap t has a rule for it; r[t,c]: one, as its session has no pairs     binary
    v[f,h]    hop h still counts after the loss of f                             0..1

    each room             sum of z (or u, or both directions) over the sessions <= most
    each switch           sum e <= filter entries; or in each direction sum r <= filter entries
    each budget           sum rate[t,c] x[t,c] <= capacity
    exclusive captures    s[c] + s[c'] <= 1;  tap that carries copies to c: x[t,c'] + s[c] <= 1
    one session a port    x[rx,c] + x[tx,c'] <= 1 for all c' other than c
    each cut              sum_c x[t,c] is the same for all its taps
    each loss             v[f,h] <= sum of x that survive;  sum v over a ring >= hops that show everything once
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from flowcheck_net.intent import Counted, Direction
from flowcheck_net.plan.problem import Hop, PlanningProblem, SessionRoom, SwitchLimits
from flowcheck_net.plan.programme import Component, Programme

Chosen = dict[int, list[tuple[int, int]]]
"""Tap -> its (capture, column of x)."""


def add_limits(problem: PlanningProblem, component: Component, programme: Programme) -> None:
    """All of them, as far as the component has them."""
    chosen: Chosen = {}
    for (tap, capture), x in programme.choose.items():
        chosen.setdefault(tap, []).append((capture, x))
    for limits in problem.switches:
        if limits.name in component.switches:
            _rooms(problem, limits, programme)
            _filters(problem, limits, programme)
            if not limits.split:
                _one_session_a_port(problem, limits, chosen, programme)
    _shared_ways(problem, chosen, programme)
    _cuts(problem, chosen, programme)
    if problem.survive:
        _survive(problem, component, chosen, programme)


def _sources(problem: PlanningProblem, limits: SwitchLimits, programme: Programme) -> Iterator[tuple[int, int, int]]:
    """(tap, capture, column) on one switch."""
    for (tap, capture), x in programme.choose.items():
        if problem.taps[tap].switch == limits.name:
            yield tap, capture, x


def _rooms(problem: PlanningProblem, limits: SwitchLimits, programme: Programme) -> None:
    for room in limits.rooms:
        by_session: dict[tuple[int, str], list[int]] = {}
        for tap, capture, x in _sources(problem, limits, programme):
            kind = _kind(room, problem.taps[tap].direction)
            if kind is not None and room.slice in (None, problem.taps[tap].slice):
                by_session.setdefault((capture, kind), []).append(x)
        uses = [(programme.either(columns), 1) for columns in by_session.values()]
        if uses:
            programme.rooms[f"{limits.name} ({room.name})"] = programme.row(uses, upper=room.most)


def _kind(room: SessionRoom, direction: Direction) -> str | None:
    """What a source of this direction makes of its session: one use for all sources of one kind."""
    if room.counts is Counted.SESSIONS:
        return ""
    if room.counts is Counted.DIRECTIONS:
        return direction.value
    return "" if room.counts.value == direction.value else None


def _filters(problem: PlanningProblem, limits: SwitchLimits, programme: Programme) -> None:
    """A session with a filter filters all of its sources: so they must all take one, and their pairs need room."""
    sources = list(_sources(problem, limits, programme))
    filtered: dict[int, int] = {}
    for capture in {c for t, c, _ in sources if problem.taps[t].needs_filter}:
        needing = [x for t, c, x in sources if c == capture and problem.taps[t].needs_filter]
        filtered[capture] = programme.either(needing)
        for tap, other, x in sources:
            if other == capture and not problem.taps[tap].filterable:
                programme.row([(x, 1), (filtered[capture], 1)], upper=1)
    if limits.filter_entries is not None and (filtered or limits.entries_by_source):
        _entries(problem, limits, sources, filtered, programme)


def _entries(
    problem: PlanningProblem,
    limits: SwitchLimits,
    sources: Sequence[tuple[int, int, int]],
    filtered: dict[int, int],
    programme: Programme,
) -> None:
    pairs: dict[int, set[tuple[str, str]]] = {tap: set() for tap, _, _ in sources}
    for hop in problem.hops:
        for tap in problem.sites(hop):
            if tap in pairs:
                pairs[tap].add((hop.source, hop.destination))
    entries: dict[tuple[int, str, str], int] = {}
    for tap, capture, x in sources:
        for pair in sorted(pairs[tap]) if capture in filtered else ():
            key = (capture, *pair)
            entry = entries[key] if key in entries else entries.setdefault(key, programme.column())
            programme.row([(x, 1), (filtered[capture], 1), (entry, -1)], upper=1)
    most = len(entries) if limits.filter_entries is None else limits.filter_entries
    if not limits.entries_by_source:
        programme.entries[limits.name] = [programme.row(((entry, 1) for entry in entries.values()), upper=most)]
        return
    by_capture: dict[int, list[int]] = {}
    for (capture, *_), entry in entries.items():
        by_capture.setdefault(capture, []).append(entry)
    for direction in Direction:
        taken = [one for one in sources if problem.taps[one[0]].direction is direction]
        if sum(max(1, len(by_capture.get(capture, ()))) for _, capture, _ in taken) > most:
            rules = [rule for one in taken for rule in _rules(one, by_capture, filtered, programme)]
            row = programme.row(((rule, 1) for rule in rules), upper=most)
            programme.entries.setdefault(limits.name, []).append(row)


def _rules(
    source: tuple[int, int, int], entries: dict[int, list[int]], filtered: dict[int, int], programme: Programme
) -> Iterator[int]:
    """Columns that are 1 where a source takes a rule: for each pair of its session, or for all packets."""
    _, capture, x = source
    if capture not in filtered:
        yield x
        return
    whole = programme.column()
    programme.row([(x, 1), (filtered[capture], -1), (whole, -1)], upper=0)
    yield whole
    for entry in entries.get(capture, ()):
        rule = programme.column()
        programme.row([(x, 1), (entry, 1), (rule, -1)], upper=1)
        yield rule


def _one_session_a_port(problem: PlanningProblem, limits: SwitchLimits, chosen: Chosen, programme: Programme) -> None:
    port: dict[str, dict[Direction, int]] = {}
    for tap in chosen:
        if problem.taps[tap].switch == limits.name:
            port.setdefault(problem.taps[tap].port, {})[problem.taps[tap].direction] = tap
    for both in port.values():
        if len(both) == 2:
            for capture, x in chosen[both[Direction.RX]]:
                others = [(y, 1) for other, y in chosen[both[Direction.TX]] if other != capture]
                if others:
                    programme.row([(x, len(others)), *others], upper=len(others))


def _shared_ways(problem: PlanningProblem, chosen: Chosen, programme: Programme) -> None:
    to_capture: dict[int, list[tuple[int, int]]] = {}
    for tap, places in chosen.items():
        for capture, x in places:
            to_capture.setdefault(capture, []).append((tap, x))
    for number, budget in enumerate(problem.budgets):
        terms = [(x, problem.rate(t, c)) for c in budget.captures for t, x in to_capture.get(c, ())]
        if terms:
            programme.budgets[number] = programme.row(terms, upper=budget.capacity)
    session = programme.session
    for one, two in problem.exclusive:
        if one in session and two in session:
            programme.row([(session[one], 1), (session[two], 1)], upper=1)
    for tap, capture in problem.carries:
        if capture in session:
            for _, x in chosen.get(tap, ()):
                programme.row([(x, 1), (session[capture], 1)], upper=1)


def _cuts(problem: PlanningProblem, chosen: Chosen, programme: Programme) -> None:
    """All or nothing; a tap that may not be chosen at all forbids the others."""
    for cut in problem.cuts:
        sums = [[x for _, x in chosen.get(tap, ())] for tap in cut.taps]
        for one, two in pairwise(sums):
            if one or two:
                programme.row([*((x, 1) for x in one), *((x, -1) for x in two)], lower=0, upper=0)


def _survive(problem: PlanningProblem, component: Component, chosen: Chosen, programme: Programme) -> None:
    inside = set(component.rings)
    hops: dict[int, list[Hop]] = {}
    for hop in problem.hops:
        if hop.ring in inside and hop.counts:
            hops.setdefault(hop.ring, []).append(hop)
    for ring, listed in hops.items():
        usable = [
            (tap, capture)
            for tap in {tap for hop in listed for tap in problem.sites(hop)}
            for capture, _ in chosen.get(tap, ())
            if capture in problem.rings[ring].captures
        ]
        for loss in sorted({name for tap, capture in usable for name in losses(problem, tap, capture)}):
            still = _surviving(problem, usable, loss, chosen)
            terms = [(v, 1) for hop in listed for v in _left(problem, hop, still, programme)]
            need = 1 if problem.rings[ring].complete else 2
            programme.survive[ring, loss] = programme.row(terms, lower=need)


def losses(problem: PlanningProblem, tap: int, capture: int) -> tuple[str, str, str, str]:
    """What a copy depends on: its switch, that of the capture NIC, the capture port, the checkpoint node."""
    place = problem.captures[capture]
    switches = f"switch {problem.taps[tap].switch}", f"switch {problem.home(capture)}"
    return *switches, f"capture port {place.port}", f"checkpoint node {place.node}"


def _surviving(
    problem: PlanningProblem, usable: Sequence[tuple[int, int]], loss: str, chosen: Chosen
) -> dict[int, list[int]]:
    """Tap -> its columns of x that do not depend on what is lost."""
    still: dict[int, list[int]] = {}
    for tap, capture in usable:
        if loss not in losses(problem, tap, capture):
            still.setdefault(tap, []).extend(x for c, x in chosen[tap] if c == capture)
    return still


def _left(problem: PlanningProblem, hop: Hop, still: dict[int, list[int]], programme: Programme) -> Iterator[int]:
    """A column that is 1 only if the hop is still seen; none: it cannot be."""
    places = [x for tap in hop.taps for x in still.get(tap, ())]
    for cut in hop.cuts:
        members = [still.get(tap, []) for tap in problem.cuts[cut].taps]
        if all(members):
            whole = programme.column(integer=False)
            for columns in members:
                programme.row([(whole, 1), *((x, -1) for x in columns)], upper=0)
            places.append(whole)
    if places:
        seen = programme.column(integer=False)
        programme.row([(seen, 1), *((x, -1) for x in places)], upper=0)
        yield seen
