"""How much of one limit is missing, where, and the smallest part or setting that would do.

Each question is the planning programme with that limit softened and its excess minimised. A cure that can be carried
out in the problem comes with that change, so that it can be tried.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import SwitchName
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import components, formulate
from flowcheck_net.plan.problem import Limit, PlanningProblem
from flowcheck_net.plan.programme import Programme
from flowcheck_net.plan.relax import (
    Change,
    allowing,
    lift,
    room_name,
    solvable,
    whole,
    with_captures,
    with_entries,
    with_filters,
    with_rooms,
    with_sessions,
    with_uplinks,
)
from flowcheck_net.plan.shopping import each, fitting_ports, in_gbits, more_ports, of_its_own

_ENDLESS = 10**9
_SHOWN = 6
_FASTEST = 800
"""Gbit/s"""


Rows = Callable[[Programme], dict[str, list[int]]]
"""The rows of one limit, by what they are called in a message."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is missing of one limit."""

    detail: str
    """The limit with its numbers."""
    cure: str
    change: Change | None = None
    """The cure carried out; ``None``: it is in words only, and nobody has tried it."""


def shortage(problem: PlanningProblem, limit: Limit) -> Shortage:
    """What is missing of ``limit``, given that lifting it makes ``problem`` solvable."""
    return _SHORTAGES[limit](problem, limit)


def _least(problem: PlanningProblem, rows: Rows) -> tuple[dict[str, int], list[int]]:
    """The least total excess over the rows, by name (those with none left out), and the taps chosen.

    Part by part: together they take the solver minutes, alone an instant.
    """
    excess: dict[str, int] = {}
    taps: list[int] = []
    for part in components(problem):
        programme = formulate(problem, part)
        slack: dict[str, list[int]] = {}
        for name, numbers in rows(programme).items():
            for row in numbers:
                column = programme.column(upper=_ENDLESS)
                programme.loosen(row, column, -1)
                slack.setdefault(name, []).append(column)
        values = _minimum(programme, [column for columns in slack.values() for column in columns])
        found = {name: sum(round(values[c]) for c in columns) for name, columns in slack.items()}
        excess.update({name: amount for name, amount in found.items() if amount > 0})
        taps += [tap for (tap, _), column in programme.choose.items() if values[column] > 0.5]
    return excess, taps


def _minimum(programme: Programme, columns: Iterable[int]) -> tuple[float, ...]:
    """The solution with the smallest sum of these columns, and among those the fewest taps, first by name.

    Raises:
        PlanError: There is none: the limit asked about does not explain the problem.
    """
    solver = Solver(programme)
    values: tuple[float, ...] = ()
    _, canonical = programme.stages[-1]
    for terms in (dict.fromkeys(columns, 1), dict.fromkeys(programme.choose.values(), 1), canonical):
        found = solver.settle(terms)
        if found is None:
            raise PlanError("no plan exists, and the limit that forbids it could not be found")
        values = found.columns
    return values


def _bandwidth(problem: PlanningProblem, limit: Limit) -> Shortage:
    def rows(programme: Programme) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for capture, row in programme.carry.items():
            found.setdefault(problem.captures[capture].switch, []).append(row)
        for number, row in programme.budgets.items():
            if problem.budgets[number].limit is limit:
                found.setdefault(problem.captures[problem.budgets[number].captures[0]].switch, []).append(row)
        return found

    excess, taps = _least(problem, rows)
    has = {s: sum(c.capacity for c in problem.captures if c.switch == s) for s in excess}
    needs = dict.fromkeys(excess, 0)
    for tap in taps:
        if problem.taps[tap].switch in needs:
            needs[problem.taps[tap].switch] += problem.taps[tap].rate
    words = [
        f"{limit} at {s}: needs {in_gbits(needs[s])}, has {in_gbits(has[s])}"
        + ("" if needs[s] > has[s] else f" in ports of which one is {in_gbits(amount)} too small")
        for s, amount in excess.items()
    ]
    return Shortage(", ".join(words), *more_ports(problem, tuple(excess)))


def _sessions(problem: PlanningProblem, limit: Limit) -> Shortage:
    excess, _ = _least(problem, lambda programme: {switch: [row] for switch, row in programme.slots.items()})
    has = {str(limits.name): limits.max_sessions for limits in problem.switches}
    detail = ", ".join(f"{limit} at {s}: needs {has[s] + more}, has {has[s]}" for s, more in excess.items())
    wanted = ", ".join(f"{more} more on {s}" for s, more in excess.items())
    return Shortage(detail, f"mirror sessions: {wanted}", lambda p: with_sessions(p, excess))


def _sources(problem: PlanningProblem, limit: Limit) -> Shortage:
    def rows(programme: Programme) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for capture, row in programme.hold.items():
            found.setdefault(problem.captures[capture].switch, []).append(row)
        return found

    excess, _ = _least(problem, rows)
    has = {str(limits.name): limits.max_sources for limits in problem.switches}
    detail = ", ".join(f"{limit} at {s}: has {has[s]} a session, {more} too few" for s, more in excess.items())
    cure = f"one more capture port of {_FASTEST}G{of_its_own(problem)}, and with it a session, on {each(excess)}"
    new = tuple(excess)
    return Shortage(detail, cure, lambda p: with_sessions(with_captures(p, new, _FASTEST, 1), dict.fromkeys(new, 1)))


def _taps(problem: PlanningProblem, limit: Limit) -> Shortage:
    """The fewest refused taps that would have to be allowed."""
    programme = whole(lift(problem, limit))
    refused = {x: problem.taps[t].id for (t, _), x in programme.choose.items() if limit in problem.taps[t].refusals}
    values = _minimum(programme, refused)
    used = sorted({tap for x, tap in refused.items() if values[x] > 0.5})
    shown = ", ".join(used[:_SHOWN]) + (f" and {len(used) - _SHOWN} more" if len(used) > _SHOWN else "")
    facts, cure = _REFUSED[limit]

    def change(before: PlanningProblem) -> PlanningProblem:
        return with_filters(before, used) if limit is Limit.TENANT else allowing(before, limit, used)

    return Shortage(f"{limit}: {facts.format(taps=shown)}", cure.format(taps=", ".join(used)), change)


_REFUSED: dict[Limit, tuple[str, str]] = {
    Limit.DIRECTION: ("the platform cannot mirror {taps}", "a platform that can mirror {taps}"),
    Limit.TENANT: (
        "foreign traffic may cross {taps}, and the platform has no filter for mirror sessions",
        "a platform with filters there, or ports without foreign traffic in place of {taps}",
    ),
    Limit.ALLOWED: ("the policy leaves out {taps}", "allow {taps} in allowed_ports"),
    Limit.WINDOW: (
        "the platform of {taps} cannot follow the messages of a queue pair",
        "strategy: port in the policy, or a platform with message windows for {taps}",
    ),
}


def _capture(problem: PlanningProblem, limit: Limit) -> Shortage:
    """The fewest switches that would have to get a capture port."""
    load = _on_new_ports(lift(problem, limit), len(problem.captures))
    detail = f"{limit}: {each(load)} {'has' if len(load) == 1 else 'have'} none"
    return Shortage(detail, *fitting_ports(problem, load, of_its_own(problem), "new"))


def _on_new_ports(problem: PlanningProblem, known: int) -> dict[str, int]:
    """Mbit/s by switch on capture ports from number ``known`` on, when sessions to as few of them as will do are made.

    Raises:
        PlanError: They do not help.
    """
    programme = whole(problem)
    new = {c: s for c, s in programme.session.items() if c >= known}
    values = _minimum(programme, new.values())
    load: dict[str, int] = {}
    for (tap, capture), column in programme.choose.items():
        if capture in new and values[column] > 0.5:
            switch = problem.taps[tap].switch
            load[switch] = load.get(switch, 0) + problem.taps[tap].rate
    return load


def _checkpoint_apart(problem: PlanningProblem, limit: Limit) -> Shortage:
    every = range(len(problem.captures))
    barred = sorted({problem.captures[c].node for ring in problem.rings for c in every if c not in ring.captures})
    detail = f"{limit}: {', '.join(barred)} shares a failure domain with hosts of these rings"
    cure = f"{', '.join(barred)} in another failure domain, or checkpoint_apart: false in the policy"
    return Shortage(detail, cure, lambda p: lift(p, limit))


def _copies_apart(problem: PlanningProblem, limit: Limit) -> Shortage:
    domains = sorted({domain for limits in problem.switches for domain in limits.apart})
    detail = f"{limit}: the hops of a ring can be watched in too few of the failure domains {', '.join(domains)}"
    cure = "fewer globs under copies_apart, or hosts and capture ports in more of these domains"
    return Shortage(detail, cure, lambda p: lift(p, limit))


def _rooms(problem: PlanningProblem, limit: Limit) -> Shortage:
    excess, _ = _least(problem, lambda programme: {name: [row] for name, row in programme.rooms.items()})
    has = {room_name(s, room): room.most for s in problem.switches for room in s.rooms}
    detail = ", ".join(f"{limit} at {name}: needs {has[name] + more}, has {has[name]}" for name, more in excess.items())
    wanted = ", ".join(f"{more} more at {name}" for name, more in excess.items())
    return Shortage(detail, f"room for mirror sessions: {wanted}", lambda p: with_rooms(p, excess))


def _filters(problem: PlanningProblem, limit: Limit) -> Shortage:
    excess, _ = _least(problem, lambda programme: dict(programme.entries))
    has = {str(s.name): s.filter_entries or 0 for s in problem.switches}
    rules = {str(s.name) for s in problem.switches if s.entries_by_source}
    detail = ", ".join(f"{limit} at {s}: needs {has[s] + more}, has {has[s]}" for s, more in excess.items())
    entries = {s: has[s] + more for s, more in excess.items()}
    wanted = ", ".join(
        f"room for {most} {'rules in each direction' if s in rules else 'address pairs'} on {s}"
        for s, most in entries.items()
    )
    return Shortage(detail, wanted, lambda p: with_entries(p, entries))


def _uplink(problem: PlanningProblem, limit: Limit) -> Shortage:
    def rows(programme: Programme) -> dict[str, list[int]]:
        own = ((problem.budgets[n], row) for n, row in programme.budgets.items())
        return {budget.name: [row] for budget, row in own if budget.limit is limit}

    excess, _ = _least(problem, rows)
    has = {budget.name: budget.capacity for budget in problem.budgets}
    words = {name: f"needs {in_gbits(has[name] + more)}, has {in_gbits(has[name])}" for name, more in excess.items()}
    detail = ", ".join(f"{limit} at {name}: {text}" for name, text in words.items())
    wanted = ", ".join(f"{in_gbits(has[name] + more)} of {name}" for name, more in excess.items())
    return Shortage(detail, f"a larger uplink_share in the policy ({wanted})", lambda p: with_uplinks(p, excess))


def _foreign(problem: PlanningProblem, limit: Limit) -> Shortage:
    """The fewest switches whose other sessions would have to go."""
    free = lift(problem, limit)
    needed = sorted({tap.switch for tap in problem.taps if limit in tap.refusals})
    needed = sorted({*needed, *(s.name for s in problem.switches if s.foreign)})
    for name in tuple(needed):
        kept = [other for other in needed if other != name]
        if solvable(_only_there(problem, free, set(kept))):
            needed = kept
    detail = f"{limit}: sessions of others on {each(needed)} take what is needed"
    cure = f"ask the owners of the other mirror sessions on {each(needed)} to end or move them"
    return Shortage(detail, cure, lambda p: _only_there(p, lift(p, limit), set(needed)))


def _only_there(problem: PlanningProblem, free: PlanningProblem, switches: set[SwitchName]) -> PlanningProblem:
    """The problem with the facts of ``free`` on some switches only."""
    taps = tuple(f if f.switch in switches else p for p, f in zip(problem.taps, free.taps, strict=True))
    captures = tuple(f if f.switch in switches else p for p, f in zip(problem.captures, free.captures, strict=True))
    limits = tuple(f if f.name in switches else p for p, f in zip(problem.switches, free.switches, strict=True))
    return replace(problem, taps=taps, captures=captures, switches=limits)


def _mirror(problem: PlanningProblem, limit: Limit) -> Shortage:
    taps = {tap.id for tap in problem.taps if limit in tap.refusals} | {problem.taps[t].id for t, _ in problem.carries}
    ports = {problem.captures[one].port for one, _ in problem.exclusive}
    facts = [f"{_some(taps)} carry copies, or would"] if taps else []
    facts += [f"{_some(ports)} cannot take copies of its own switch and of others"] if ports else []
    detail = f"{limit}: {'; '.join(facts)}"
    return Shortage(detail, "a capture port on the switch of the watched ports, or other ways for the copies")


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


def _sharing(problem: PlanningProblem, limit: Limit) -> Shortage:
    del problem
    detail = f"{limit}: a port would have to be watched by two sessions, which the platform refuses"
    return Shortage(detail, "a capture port that takes all directions of a port and serves all rings that cross it")


def _survive(problem: PlanningProblem, limit: Limit) -> Shortage:
    programme = whole(problem)
    rows = {f"{problem.rings[ring].name} after the loss of {loss}": r for (ring, loss), r in programme.survive.items()}
    slack = {name: programme.column(upper=2) for name in rows}
    for name, row in rows.items():
        programme.loosen(row, slack[name], 1)
    values = _minimum(programme, slack.values())
    lost = [name for name, column in slack.items() if values[column] > 0.5]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    detail = f"{limit}: not complete any more: {', '.join(lost[:_SHOWN])}{more}"
    return Shortage(detail, *_another_node(problem))


def _another_node(problem: PlanningProblem) -> tuple[str, Change | None]:
    """The fewest capture ports of one more checkpoint node that would do; in words only where none of it would."""
    switches = tuple(sorted({tap.switch for tap in problem.taps}))
    lifted = with_captures(problem, switches, None, 1, "another")
    try:
        load = _on_new_ports(lifted, len(problem.captures))
    except PlanError:
        return "capture ports of two more checkpoint nodes, on switches that these rings cross", None
    ports, change = fitting_ports(problem, load, "", "another")
    return f"another checkpoint node with {ports}", change


_SHORTAGES: dict[Limit, Callable[[PlanningProblem, Limit], Shortage]] = {
    Limit.BANDWIDTH: _bandwidth,
    Limit.SESSIONS: _sessions,
    Limit.SOURCES: _sources,
    Limit.DIRECTION: _taps,
    Limit.TENANT: _taps,
    Limit.ALLOWED: _taps,
    Limit.WINDOW: _taps,
    Limit.CAPTURE: _capture,
    Limit.CHECKPOINT_APART: _checkpoint_apart,
    Limit.COPIES_APART: _copies_apart,
    Limit.ROOMS: _rooms,
    Limit.FILTERS: _filters,
    Limit.UPLINK: _uplink,
    Limit.FOREIGN: _foreign,
    Limit.MIRROR: _mirror,
    Limit.SHARING: _sharing,
    Limit.SURVIVE: _survive,
}
