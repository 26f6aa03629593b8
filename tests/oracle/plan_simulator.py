"""What a set of observation points really shows: an independent model of fabric, collective and mirrors.

It shares nothing with the planner. It reads the raw spec dicts, walks every shortest path of every hop by its own
search, runs the ring all-reduce with sets of contributions in place of numbers, and copies what crosses a tap. ``best``
tries every assignment of taps to capture ports.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

Raw = Mapping[str, Any]
Tap = tuple[str, str, str]
"""(switch, port, rx or tx)"""
Assignment = dict[Tap, str]
"""Tap -> capture port ``node:nic``."""
Cost = tuple[int, int, int, int]
"""Duplicate bytes, mirrored bytes, sessions, switches."""


@dataclass(frozen=True)
class Limits:
    """The platform, as the test states it."""

    sessions: int = 4
    sources: int = 8
    directions: tuple[str, ...] = ("rx", "tx")
    filters: bool = True
    rooms: tuple[tuple[str, int, bool], ...] = ()
    """(sessions, rx, tx or directions; most; per slice)"""
    split: bool = True
    """The directions of a port may be watched by two sessions."""
    once: bool = False
    """A packet goes to one capture port once."""
    filter_directions: tuple[str, ...] = ("rx", "tx")
    entries: int | None = None
    """Address pairs of all filters of a switch."""
    by_source: bool = False
    """``entries`` are rules of one direction: one for each source and pair."""


@dataclass(frozen=True)
class Flow:
    """One hop of one ring."""

    ring: int
    hop: int
    paths: tuple[frozenset[Tap], ...]
    """The taps of every path that it may take; empty: it stays inside a host."""
    stages: tuple[frozenset[Tap], ...]
    """The taps at the first, second, ... place of all paths."""
    pair: tuple[str, str]
    """Sender and receiver."""
    reduced: tuple[int, ...]
    """Chunks that cross it with the contributions of all ranks."""
    size: int

    @property
    def certain(self) -> frozenset[Tap]:
        return frozenset.intersection(*self.paths) if self.paths else frozenset()

    @property
    def possible(self) -> frozenset[Tap]:
        return frozenset().union(*self.paths)


class Simulator:
    """One fabric, one job, one policy."""

    def __init__(self, topology: Raw, job: Raw, policy: Raw, limits: Limits) -> None:
        self.limits = limits
        self._topology, self._job, self._policy = topology, job, policy
        self._cable = {a: b for one, two in topology["links"] for a, b in ((one, two), (two, one))}
        self._switch_ports = {f"{s['name']}:{p['name']}": p for s in topology["switches"] for p in s["ports"]}
        self._switches = {s["name"] for s in topology["switches"]}
        self._domains: dict[str, set[str]] = {
            d["name"]: set(d.get("failure_domains", ()))
            for kind in ("switches", "hosts", "checkpoint_nodes")
            for d in topology[kind]
        }
        self.captures = {
            f"{n['name']}:{c['name']}": (self._cable[f"{n['name']}:{c['name']}"], self._gbps(c["speed"]))
            for n in topology["checkpoint_nodes"]
            for c in n["nics"]
        }
        self.rings = self._find_rings()
        self.flows = tuple(self._find_flows())

    @staticmethod
    def _gbps(speed: str) -> Fraction:
        return Fraction(speed.removesuffix("G"))

    def _find_rings(self) -> list[list[str]]:
        """Hosts in ring order, for each group and channel."""
        host = {r["rank"]: r["host"] for r in self._job["ranks"]}
        stated = {(r["group"], r["channel"]): r["order"] for r in self._job["rings"]}
        return [
            [host[rank] for rank in stated.get((f"dp{g}", channel), ranks)]
            for g, ranks in enumerate(self._job["groups"])
            for channel in range(self._job["nccl"]["channels"])
        ]

    def _find_flows(self) -> Iterator[Flow]:
        total = sum(b["elements"] * 4 for b in self._job["buckets"])
        for number, hosts in enumerate(self.rings):
            count = len(hosts)
            chunk = Fraction(total, count * self._job["nccl"]["channels"])
            sent = all_reduce(count, self._job["collective"]["extra_step"])
            for hop, messages in enumerate(sent):
                pair = (hosts[hop], hosts[(hop + 1) % count])
                ordered = self._paths(*pair)
                paths = tuple(frozenset(path) for path in ordered)
                stages = tuple(frozenset(places) for places in zip(*ordered, strict=True))
                reduced = tuple(k for k, ranks in messages if len(ranks) == count)
                size = chunk * len(messages)
                assert size.denominator == 1
                yield Flow(number, hop, paths, stages, pair, reduced, int(size))

    def _paths(self, source: str, target: str) -> tuple[tuple[Tap, ...], ...]:
        """Every shortest path, breadth first over cables."""
        if source == target:
            return ()
        first, goal = self._cable[f"{source}:nic0"], self._cable[f"{target}:nic0"]
        partial = [[(*first.split(":"), "rx")]]
        while partial:
            here = [(*p, (*goal.split(":"), "tx")) for p in partial if p[-1][0] == goal.split(":")[0]]
            if here:
                return tuple(tuple(p) for p in here)
            partial = [longer for p in partial for longer in self._longer(p)]
        raise AssertionError("not connected")

    def _longer(self, path: list[Any]) -> Iterator[list[Any]]:
        visited = {tap[0] for tap in path}
        for port in (p for p in self._switch_ports if p.split(":")[0] == path[-1][0]):
            peer = self._cable.get(port, "none:none")
            if peer in self._switch_ports and peer.split(":")[0] not in visited:
                yield [*path, (*port.split(":"), "tx"), (*peer.split(":"), "rx")]

    def rate(self, tap: Tap) -> Fraction:
        """Gbit/s that its copies may reach."""
        monitor = self._policy["monitor"]
        line = self._gbps(self._switch_ports[f"{tap[0]}:{tap[1]}"]["speed"])
        if monitor.get("rate_model") == "measured":
            stated = monitor["measured"].get(":".join(tap))
            return line if stated is None else self._gbps(stated)
        return line

    def candidates(self) -> list[Tap]:
        """Taps that see something and that nothing forbids."""
        sees = [flow.possible if self._policy.get("cuts") else flow.certain for flow in self.flows]
        every = sorted(frozenset().union(*sees))
        return [tap for tap in every if self._permitted(tap)]

    def _permitted(self, tap: Tap) -> bool:
        port = f"{tap[0]}:{tap[1]}"
        vague = not self._policy.get("cuts") and any(tap in flow.possible - flow.certain for flow in self.flows)
        watched = {source for session in self._foreign(tap[0]) for source in session["sources"]}
        ports = {source.rpartition(":")[0] for source in watched}
        taken = f"{tap[1]}:{tap[2]}" in watched or f"{tap[1]}:both" in watched
        return (
            tap[2] in self.limits.directions
            and (self._filterable(tap) or not self._needs_filter(tap))
            and any(fnmatchcase(port, glob) for glob in self._policy["allowed_ports"])
            and not vague
            and not taken
            and tap[1] not in {session["destination"] for session in self._foreign(tap[0])}
            and (self.limits.split or tap[1] not in ports)
        )

    def _foreign(self, switch: str) -> list[Any]:
        return [x for s in self._topology["switches"] if s["name"] == switch for x in s.get("foreign_sessions", ())]

    def _needs_filter(self, tap: Tap) -> bool:
        port = f"{tap[0]}:{tap[1]}"
        return self._cable[port] in self._switch_ports or self._switch_ports[port].get("shared", False)

    def _filterable(self, tap: Tap) -> bool:
        return self.limits.filters and tap[2] in self.limits.filter_directions

    def _may_count(self, ring: int, capture: str) -> bool:
        if not self._policy["failure_domains"]["checkpoint_apart"]:
            return True
        at_risk = set().union(*(self._domains[host] for host in self.rings[ring]))
        return not at_risk & self._domains[capture.split(":")[0]]

    def _sees(self, flow: Flow, taps: Assignment) -> bool:
        """Does every packet of the flow reach a capture port at which its ring may count?"""
        able = {t for t, c in taps.items() if self._may_count(flow.ring, c)}
        return bool(flow.paths) and all(able & path for path in flow.paths)

    def copies(self, ring: int, taps: Assignment) -> int:
        """Copies of the rarest fully reduced chunk of a ring, by hops that may count."""
        size = len(self.rings[ring])
        seen = dict.fromkeys(range(size), 0)
        for flow in self._counted(ring, taps):
            for chunk in flow.reduced:
                seen[chunk] += 1
        return min(seen.values())

    def _counted(self, ring: int, taps: Assignment) -> list[Flow]:
        flows = [flow for flow in self.flows if flow.ring == ring and self._sees(flow, taps)]
        globs = self._policy["failure_domains"]["copies_apart"]
        return self._largest_apart(flows, taps, globs) if globs else flows

    def _largest_apart(self, flows: list[Flow], taps: Assignment, globs: list[str]) -> list[Flow]:
        """The most hops whose points share no domain that a glob names: every way is tried."""

        def grow(rest: list[Flow], used: frozenset[str]) -> list[Flow]:
            if not rest:
                return []
            best = grow(rest[1:], used)
            for tap, capture in taps.items():
                if tap in rest[0].certain and self._may_count(rest[0].ring, capture):
                    named = {d for d in self._domains[tap[0]] if any(fnmatchcase(d, g) for g in globs)}
                    if not named & used:
                        best = max(best, [rest[0], *grow(rest[1:], used | named)], key=len)
            return best

        return grow(flows, frozenset())

    def wanted(self, ring: int) -> int:
        """What the policy asks of the ring, or all that its network hops can give."""
        outside = sum(bool(flow.paths) for flow in self.flows if flow.ring == ring)
        most = outside if self._job["collective"]["extra_step"] else outside - 1
        return max(1, min(int(self._policy["copies"]), most))

    def fits(self, taps: Assignment) -> bool:
        """Bandwidth, sources and sessions."""
        free = 1 - Fraction(str(self._policy["monitor"].get("headroom", 0)))
        for capture in set(taps.values()):
            here = [tap for tap, c in taps.items() if c == capture]
            if sum(map(self.rate, here)) > self.captures[capture][1] * free or len(here) > self.limits.sources:
                return False
        return all(self._fits_switch(switch, taps) for switch in self._switches)

    def _fits_switch(self, switch: str, taps: Assignment) -> bool:
        here = {tap: capture for tap, capture in taps.items() if tap[0] == switch}
        sessions = {c: [tap for tap, other in here.items() if other == c] for c in set(here.values())}
        taken = {f"{switch}:{session['destination']}" for session in self._foreign(switch)}
        return (
            (not sessions or len(sessions) + len(self._foreign(switch)) <= self.limits.sessions)
            and not any(self.captures[c][0] in taken for c in sessions)
            and (self.limits.split or all(len({c for t, c in here.items() if t[1] == tap[1]}) == 1 for tap in here))
            and self._fits_rooms(switch, list(sessions.values()))
            and self._fits_filters(list(sessions.values()))
        )

    def _fits_rooms(self, switch: str, sessions: list[list[Tap]]) -> bool:
        others = [
            [(switch, *place.rsplit(":", 1)) for place in session["sources"]] for session in self._foreign(switch)
        ]
        spread = [
            [(s, p, d) for s, p, word in session for d in (("rx", "tx") if word == "both" else (word,))]
            for session in others
        ]
        slices = {
            p["name"]: p.get("slice", "") for s in self._topology["switches"] if s["name"] == switch for p in s["ports"]
        }
        for counts, most, per_slice in self.limits.rooms:
            for part in set(slices.values()) if per_slice else {None}:
                ours, others_use = (
                    sum(
                        {"sessions": min(1, len(directions)), "directions": len(directions)}.get(
                            counts, int(counts in directions)
                        )
                        for session in group
                        for directions in [{t[2] for t in session if part is None or slices[t[1]] == part}]
                    )
                    for group in (sessions, spread)
                )
                if ours and ours + others_use > most:  # what others alone take beyond a limit is not ours to judge
                    return False
        return True

    def _fits_filters(self, sessions: list[list[Tap]]) -> bool:
        pairs = 0
        rules = {"rx": 0, "tx": 0}
        for session in sessions:
            mine = 1
            if any(self._needs_filter(tap) for tap in session):
                if not all(self._filterable(tap) for tap in session):
                    return False
                mine = len({flow.pair for flow in self.flows if flow.possible & set(session)})
                pairs += mine
            for _, _, direction in session:
                rules[direction] += mine
        used = max(rules.values()) if self.limits.by_source else pairs
        return self.limits.entries is None or used <= self.limits.entries

    def arrived(self, flow: Flow, taps: Assignment) -> int:
        """Copies of each packet of a flow, path by path; every path gives the same number or the taps prove nothing."""
        counts = set()
        for path in flow.paths:
            copies = [(tap[0], capture) for tap, capture in taps.items() if tap in path]
            counts.add(len(set(copies)) if self.limits.once else len(copies))
        assert len(counts) <= 1, f"the copies of {flow.pair} depend on the path"
        return counts.pop() if counts else 0

    def cost(self, taps: Assignment) -> Cost:
        """Bytes by replaying every flow over the taps."""
        arrived = [(flow.size, self.arrived(flow, taps)) for flow in self.flows]
        sessions = {(tap[0], capture) for tap, capture in taps.items()}
        return (
            sum(size * max(0, n - 1) for size, n in arrived),
            sum(size * n for size, n in arrived),
            len(sessions),
            len({tap[0] for tap in taps}),
        )

    def foreseeable(self, taps: Assignment) -> bool:
        """Of the places of a stage all are watched or none."""
        stages = {stage for flow in self.flows for stage in flow.stages}
        return all(not stage & taps.keys() or stage <= taps.keys() for stage in stages)

    def survives(self, taps: Assignment) -> bool:
        """Is every ring still complete after any one loss, if the policy wants it so?"""
        if not self._policy.get("survive"):
            return True
        losses = [lambda t, c, s=s: t[0] == s for s in {tap[0] for tap in taps}]
        losses += [lambda t, c, p=p: c == p for p in set(taps.values())]
        losses += [lambda t, c, n=n: c.split(":")[0] == n for n in {c.split(":")[0] for c in taps.values()}]
        for lost in losses:
            left = {tap: capture for tap, capture in taps.items() if not lost(tap, capture)}
            for ring in range(len(self.rings)):
                chunks = [
                    chunk
                    for flow in self.flows
                    if flow.ring == ring and self._sees(flow, left)
                    for chunk in flow.reduced
                ]
                if set(chunks) != set(range(len(self.rings[ring]))):
                    return False
        return True

    def covers(self, taps: Assignment) -> bool:
        rings = range(len(self.rings))
        return self.survives(taps) and all(self.copies(ring, taps) >= self.wanted(ring) for ring in rings)

    def best(self) -> Cost | None:
        """The least cost of all assignments that cover every ring; ``None``: no assignment does."""
        found: Cost | None = None
        for taps in self._assignments(self.candidates(), {}):
            if not self.foreseeable(taps):
                continue
            cost = self.cost(taps)
            if (found is None or cost < found) and self.covers(taps):
                found = cost
        return found

    def _assignments(self, rest: list[Tap], taps: Assignment) -> Iterator[Assignment]:
        if not self.fits(taps):
            return
        if not rest:
            yield taps
            return
        yield from self._assignments(rest[1:], taps)
        for capture, (port, _) in self.captures.items():
            if port.split(":")[0] == rest[0][0]:
                yield from self._assignments(rest[1:], {**taps, rest[0]: capture})


def all_reduce(count: int, extra_step: bool) -> list[list[tuple[int, frozenset[int]]]]:
    """Run the ring all-reduce: for each hop, (chunk, ranks whose gradients are in it) of each message in order.

    Every rank starts with its own contribution to every chunk. In each step all ranks send at once; what arrives is
    added in the first half and stored in the second.
    """
    held = [[frozenset({rank}) for _ in range(count)] for rank in range(count)]
    sent: list[list[tuple[int, frozenset[int]]]] = [[] for _ in range(count)]
    for step in range(2 * count - 2 + extra_step):
        messages = [((rank - 1 - step) % count, rank) for rank in range(count)]
        parcels = [(chunk, held[rank][chunk]) for chunk, rank in messages]
        for rank, (chunk, content) in enumerate(parcels):
            sent[rank].append((chunk, content))
            after = (rank + 1) % count
            held[after][chunk] = held[after][chunk] | content
    return sent
