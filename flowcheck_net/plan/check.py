"""Plan x problem -> violations. Every rule is derived here anew; no code is shared with what makes plans.

It reads the plan as an operator would: from the sessions that will be programmed, not from the choice behind them.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from flowcheck_net.intent import is_owned
from flowcheck_net.plan.check_limits import Violation, fine_limits
from flowcheck_net.plan.check_windows import windows_hold
from flowcheck_net.plan.plan import Plan, PlannedHop, PlannedSession
from flowcheck_net.plan.problem import Capture, Hop, PlanningProblem, RingNeed, SwitchLimits, Tap


def check(plan: Plan, problem: PlanningProblem) -> tuple[Violation, ...]:
    """Every rule that the plan breaks, sorted; empty: it is valid."""
    known = {limits.name for limits in problem.switches}
    strange = sorted({planned.switch for planned in plan.sessions} - known)
    if strange:
        return tuple(Violation("unknown switch", name) for name in strange)
    view = _View(plan, problem)
    found = [
        *fine_limits(plan, problem),
        *view.references(),
        *view.limits(),
        *view.isolation(),
        *view.points(),
        *view.hops(),
        *view.rings(),
        *view.cost(),
        *windows_hold(plan),
    ]
    return tuple(sorted(set(found)))


class _View:
    """The plan and the problem by name."""

    def __init__(self, plan: Plan, problem: PlanningProblem) -> None:
        self._plan = plan
        self._problem = problem
        self._taps: dict[str, Tap] = {tap.id: tap for tap in problem.taps}
        self._captures: dict[tuple[str, str], Capture] = {(c.switch, c.port): c for c in problem.captures}
        self._switches: dict[str, SwitchLimits] = {s.name: s for s in problem.switches}
        self._capture_number = {(c.switch, c.port): n for n, c in enumerate(problem.captures)}
        self._watched: dict[str, list[PlannedSession]] = {}
        """Tap id -> the sessions that mirror it."""
        for planned in plan.sessions:
            for source in planned.session.sources:
                tap = f"{planned.switch}:{source.port}:{source.direction}"
                self._watched.setdefault(tap, []).append(planned)

    def _sources(self, planned: PlannedSession) -> list[str]:
        return [f"{planned.switch}:{s.port}:{s.direction}" for s in planned.session.sources]

    def references(self) -> Iterator[Violation]:
        """Taps, capture ports and names exist and may be used."""
        for tap, sessions in self._watched.items():
            if tap not in self._taps:
                yield Violation("unknown tap", f"{tap} sees no hop of the job for certain")
            elif self._taps[tap].refusals:
                yield Violation("refused tap", f"{tap}: {', '.join(self._taps[tap].refusals)}")
            if len(sessions) > 1 and not self._shares(tap):
                yield Violation("source in two sessions", tap)
        for planned in self._plan.sessions:
            capture = self._captures.get((planned.switch, planned.capture))
            if capture is None or capture.switch_port != planned.session.destination:
                detail = f"{planned.switch}: {planned.session.destination} does not lead to {planned.capture}"
                yield Violation("wrong destination", detail)
            elif capture.refusals:
                yield Violation("refused destination", f"{planned.capture}: {', '.join(capture.refusals)}")
            if not is_owned(planned.session.name, self._problem.job):
                yield Violation("name without our mark", planned.session.name)
        programmed = sorted({planned.switch for planned in self._plan.sessions})
        if [switch.name for switch in self._plan.switches] != programmed:
            yield Violation("switches", "the list of switches is not that of the sessions")

    def _shares(self, tap: str) -> bool:
        """May the tap be a source of several sessions?"""
        return tap in self._taps and self._switches[self._taps[tap].switch].many

    def _load(self, planned: PlannedSession, tap: str) -> int:
        """Mbit/s of the copies of a tap, with their headers where they leave the switch."""
        capture = self._captures.get((planned.switch, planned.capture))
        remote = capture is not None and capture.remote
        return self._taps[tap].remote_rate if remote else self._taps[tap].rate

    def limits(self) -> Iterator[Violation]:
        """Bandwidth, sources and sessions."""
        load: Counter[tuple[str, str]] = Counter()
        for planned in self._plan.sessions:
            known = [self._load(planned, tap) for tap in self._sources(planned) if tap in self._taps]
            load[planned.switch, planned.capture] += sum(known)
            limit = self._switches[planned.switch].max_sources
            if len(planned.session.sources) > limit:
                yield Violation(
                    "sources", f"{planned.switch} {planned.session.name}: {len(planned.session.sources)} > {limit}"
                )
        for key, rate in load.items():
            if key in self._captures and rate > self._captures[key].capacity:
                yield Violation("bandwidth", f"{key[1]}: {rate} > {self._captures[key].capacity} Mbit/s")
        shown = {(item.switch, item.capture): item.load for item in self._plan.loads}
        if shown != dict(load):
            yield Violation("loads", "the loads shown are not those of the sessions")
        names = [(planned.switch, planned.session.name) for planned in self._plan.sessions]
        if len(set(names)) != len(names):
            yield Violation("session name", "a name is given twice on one switch")
        for switch, count in Counter(planned.switch for planned in self._plan.sessions).items():
            if count > self._switches[switch].max_sessions:
                yield Violation("sessions", f"{switch}: {count} > {self._switches[switch].max_sessions}")

    def isolation(self) -> Iterator[Violation]:
        """A session that foreign traffic may reach lets through the job's own address pairs, all and only."""
        pairs: dict[str, set[tuple[str, str]]] = {tap: set() for tap in self._watched}
        for hop in self._problem.hops:
            for tap in self._sites(hop) & pairs.keys():
                pairs[tap].add((hop.source, hop.destination))
        for planned in self._plan.sessions:
            sources = set(self._sources(planned))
            crossing = set[tuple[str, str]]().union(*(pairs[tap] for tap in sources))
            wanted = crossing if any(self._taps[t].needs_filter for t in sources if t in self._taps) else set()
            given = {(f.source, f.destination) for f in planned.session.filters}
            if given != wanted:
                yield Violation("isolation", f"{planned.switch} {planned.session.name}: wrong address pairs")

    def _sites(self, hop: Hop) -> set[str]:
        """Every place that it crosses or may cross."""
        within = {tap for cut in hop.cuts for tap in self._problem.cuts[cut].taps}
        return {self._problem.taps[tap].id for tap in {*hop.taps, *within}}

    def _copies(self, hop: Hop) -> int:
        """Copies of each packet, counted capture port by capture port."""
        arriving: Counter[tuple[str, str]] = Counter()
        for tap in hop.taps:
            for planned in self._watched.get(self._problem.taps[tap].id, ()):
                arriving[planned.switch, planned.capture] += 1
        certain = sum(1 if self._switches[switch].once else n for (switch, _), n in arriving.items())
        whole = [all(self._problem.taps[t].id in self._watched for t in self._problem.cuts[c].taps) for c in hop.cuts]
        return certain + sum(whole)

    def points(self) -> Iterator[Violation]:
        """The points are the sources of the sessions, no more and no less."""
        shown = sorted((point.id, point.capture) for point in self._plan.points)
        programmed = sorted((tap, planned.capture) for tap, sessions in self._watched.items() for planned in sessions)
        if shown != programmed:
            yield Violation("points", "the points are not the sources of the sessions")

    def hops(self) -> Iterator[Violation]:
        """Exactly the hops that the sessions see are planned, each with its true number of copies."""
        planned = {(hop.group, hop.channel, hop.index): hop for hop in self._plan.hops}
        if len(planned) != len(self._plan.hops):
            yield Violation("hops", "a hop stands twice")
        for hop in self._problem.hops:
            ring = self._problem.rings[hop.ring]
            seen = sorted(tap for tap in self._sites(hop) for _ in self._watched.get(tap, ()))
            stated = planned.pop((ring.group, ring.channel, hop.index), None)
            told = sorted((stated.point, *stated.also)) if stated is not None else []
            if stated is not None and stated.counted and not hop.counts:
                yield Violation("partial sums", f"{ring.name} counts hop {hop.index}, which is never fully reduced")
            if seen != told or (stated is not None and stated.copies != self._copies(hop)):
                yield Violation("hops", f"{ring.name} hop {hop.index}: seen at {seen}, planned at {told}")
        for group, channel, index in planned:
            yield Violation("hops", f"ring {group}/{channel} hop {index} is on no switch")

    def rings(self) -> Iterator[Violation]:
        """Every ring has its copies, by hops that may count for it."""
        stated = {(c.group, c.channel): c for c in self._plan.coverage}
        for ring in self._problem.rings:
            counted = [h for h in self._plan.hops if (h.group, h.channel) == (ring.group, ring.channel) and h.counted]
            copies = len({h.index for h in counted}) - (0 if ring.complete else 1)
            if copies < ring.copies:
                yield Violation("coverage", f"{ring.name}: {max(copies, 0)} copies, {ring.copies} needed")
            line = stated.get((ring.group, ring.channel))
            if line is None or (line.copies, line.wanted) != (max(copies, 0), ring.wanted):
                yield Violation("coverage", f"{ring.name}: the line shown is not true")
            yield from self._may_count(ring, counted)
        if len(stated) != len(self._problem.rings):
            yield Violation("coverage", "not exactly one line a ring")

    def _may_count(self, ring: RingNeed, counted: list[PlannedHop]) -> Iterator[Violation]:
        for hop in counted:
            at = [self._capture_number.get((p.switch, p.capture)) for p in self._watched.get(hop.point, ())]
            if set(ring.captures).isdisjoint(at):
                yield Violation("checkpoint_apart", f"{ring.name} counts hop {hop.index} at a node that it must not")
        if self._problem.copies_apart:
            domains = [
                (h.index, set(self._switches[self._taps[h.point].switch].apart))
                for h in counted
                if h.point in self._taps
            ]
            for (one, here), (two, there) in combinations(domains, 2):
                if here & there:
                    yield Violation(
                        "copies_apart", f"{ring.name}: hops {one} and {two} share {', '.join(sorted(here & there))}"
                    )

    def cost(self) -> Iterator[Violation]:
        """The cost shown is the cost of the sessions."""
        mirrored = duplicate = 0
        for hop in self._problem.hops:
            copies = self._copies(hop)
            mirrored += copies * hop.size
            duplicate += max(0, copies - 1) * hop.size
        cost = self._plan.cost
        switches = {planned.switch for planned in self._plan.sessions}
        true = (0, duplicate, mirrored, self._problem.gradient_bytes, len(self._plan.sessions), len(switches))
        shown = (
            cost.unmet,
            cost.duplicate_bytes,
            cost.mirrored_bytes,
            cost.gradient_bytes,
            cost.sessions,
            cost.switches,
        )
        if shown != true:
            yield Violation("cost", f"shown {shown}, true {true}")
