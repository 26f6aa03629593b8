"""The limits that only some platforms and policies have, derived anew from the sessions of a plan."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from flowcheck_net.intent import Counted
from flowcheck_net.plan.plan import Plan, PlannedSession
from flowcheck_net.plan.problem import Capture, Hop, PlanningProblem, SessionRoom, SwitchLimits, Tap


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One rule that the plan breaks."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


def fine_limits(plan: Plan, problem: PlanningProblem) -> Iterator[Violation]:
    """What breaks a limit by slice, direction, filter, shared way, cut or loss."""
    view = _Sessions(plan, problem)
    for limits in problem.switches:
        yield from view.rooms(limits)
        yield from view.filters(limits)
        yield from view.ports(limits)
    yield from view.ways()
    yield from view.cuts()
    if problem.survive:
        yield from view.losses()


class _Sessions:
    """The sessions of a plan, with what the problem says of their taps and captures."""

    def __init__(self, plan: Plan, problem: PlanningProblem) -> None:
        self._problem = problem
        self._plan = plan
        self._taps: dict[tuple[str, str, str], Tap] = {(t.switch, t.port, t.direction.value): t for t in problem.taps}
        self._captures: dict[tuple[str, str], Capture] = {(c.switch, c.port): c for c in problem.captures}

    def _on(self, switch: str) -> list[PlannedSession]:
        return [planned for planned in self._plan.sessions if planned.switch == switch]

    def _sources(self, planned: PlannedSession) -> list[Tap]:
        keys = ((planned.switch, s.port, s.direction.value) for s in planned.session.sources)
        return [self._taps[key] for key in keys if key in self._taps]

    def rooms(self, limits: SwitchLimits) -> Iterator[Violation]:
        """Sessions by slice and direction."""
        for room in limits.rooms:
            used = sum(self._uses(planned, room) for planned in self._on(limits.name))
            if used > room.most:
                yield Violation("session limit", f"{limits.name}: {used} > {room.most} {room.name}")

    def _uses(self, planned: PlannedSession, room: SessionRoom) -> int:
        here = {t.direction.value for t in self._sources(planned) if room.slice is None or t.slice == room.slice}
        if room.counts is Counted.SESSIONS:
            return min(1, len(here))
        return len(here) if room.counts is Counted.DIRECTIONS else len(here & {room.counts.value})

    def filters(self, limits: SwitchLimits) -> Iterator[Violation]:
        """A filtered session has only sources that take a filter, and all pairs find room."""
        for planned in self._on(limits.name):
            if planned.session.filters:
                for tap in self._sources(planned):
                    if not tap.filterable:
                        yield Violation("filter", f"{tap.id} takes none, and its session has one")
        if limits.filter_entries is None:
            return
        used: Counter[str] = Counter()
        for planned in self._on(limits.name):
            if limits.entries_by_source:
                pairs = max(1, len(planned.session.filters))
                used.update(
                    {f" ({d})": pairs * n for d, n in Counter(s.direction for s in planned.session.sources).items()}
                )
            else:
                used[""] += len(planned.session.filters)
        for part, entries in sorted(used.items()):
            if entries > limits.filter_entries:
                yield Violation("filter entries", f"{limits.name}{part}: {entries} > {limits.filter_entries}")

    def ports(self, limits: SwitchLimits) -> Iterator[Violation]:
        """The two directions of a port are in one session where the platform wants it so."""
        if limits.split:
            return
        sessions: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        for planned in self._on(limits.name):
            for source in planned.session.sources:
                sessions[source.port].setdefault(source.direction.value, set()).add(planned.session.name)
        for port, by_direction in sessions.items():
            if len({frozenset(names) for names in by_direction.values()}) > 1:
                yield Violation("port in two sessions", f"{limits.name}:{port}")

    def ways(self) -> Iterator[Violation]:
        """Bandwidth that sessions share, mirror ports that take part in nothing else, and no mirror of a mirror."""
        load: Counter[int] = Counter()
        number = {(c.switch, c.port): n for n, c in enumerate(self._problem.captures)}
        for planned in self._plan.sessions:
            capture = self._captures.get((planned.switch, planned.capture))
            if capture is not None:
                rates = (tap.remote_rate if capture.remote else tap.rate for tap in self._sources(planned))
                load[number[capture.switch, capture.port]] += sum(rates)
        for budget in self._problem.budgets:
            used = sum(load[c] for c in budget.captures)
            if used > budget.capacity:
                yield Violation("shared bandwidth", f"{budget.name}: {used} > {budget.capacity} Mbit/s")
        for one, two in self._problem.exclusive:
            if one in load and two in load:
                yield Violation("mirror port", f"{self._problem.captures[one].port} takes copies of other switches too")
        watched = {tap.id for planned in self._plan.sessions for tap in self._sources(planned)}
        for tap, place in self._problem.carries:
            if place in load and self._problem.taps[tap].id in watched:
                yield Violation("mirror of a mirror", self._problem.taps[tap].id)

    def cuts(self) -> Iterator[Violation]:
        """A cut is watched whole or not at all."""
        watched = {tap.id for planned in self._plan.sessions for tap in self._sources(planned)}
        for cut in self._problem.cuts:
            ids = {self._problem.taps[tap].id for tap in cut.taps}
            if ids & watched and ids - watched:
                yield Violation("cut", f"{sorted(ids & watched)} are watched without {sorted(ids - watched)}")

    def losses(self) -> Iterator[Violation]:
        """Take away each switch, capture port and node in use, and see what is left."""
        places = [self._captures[p.switch, p.capture] for p in self._plan.sessions if self._known(p)]
        names: set[tuple[str, str]] = {("capture port", c.port) for c in places}
        names |= {("switch", switch) for c in places for switch in self._switches(c)}
        for kind, name in sorted(names | {("checkpoint node", c.node) for c in places}):
            left = [p for p in self._plan.sessions if self._known(p) and not self._hit(p, kind, name)]
            for number, ring in enumerate(self._problem.rings):
                hops = [h for h in self._problem.hops if h.ring == number and h.counts]
                seen = sum(self._is_seen(hop, left) for hop in hops)
                if seen < (1 if ring.complete else 2):
                    yield Violation("survive", f"{ring.name} is not complete after the loss of {kind} {name}")

    def _known(self, planned: PlannedSession) -> bool:
        return (planned.switch, planned.capture) in self._captures

    def _hit(self, planned: PlannedSession, kind: str, name: str) -> bool:
        capture = self._captures[planned.switch, planned.capture]
        if kind == "switch":
            return name in self._switches(capture)
        return name == {"capture port": capture.port, "checkpoint node": capture.node}[kind]

    def _switches(self, capture: Capture) -> set[str]:
        """The switch that watches, and those that the capture NIC itself hangs on."""
        return {capture.switch, *(c.switch for c in self._problem.captures if c.port == capture.port and not c.remote)}

    def _is_seen(self, hop: Hop, left: list[PlannedSession]) -> bool:
        """At a tap, or at a whole cut, by sessions to capture ports where its ring may count."""
        allowed = {(self._problem.captures[c].switch, self._problem.captures[c].port) for c in self._able(hop)}
        watched = {tap.id for p in left if (p.switch, p.capture) in allowed for tap in self._sources(p)}
        ways = [[tap] for tap in hop.taps] + [list(self._problem.cuts[cut].taps) for cut in hop.cuts]
        return any(all(self._problem.taps[tap].id in watched for tap in way) for way in ways)

    def _able(self, hop: Hop) -> tuple[int, ...]:
        return self._problem.rings[hop.ring].captures
