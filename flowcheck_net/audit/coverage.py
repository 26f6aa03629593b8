"""Records against expectation: a verdict for every ring in every iteration, with the arithmetic."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.arithmetic import Lengths, SlotSeen, absence, hop_result, lengths, mirrored_offsets, slot_seen
from flowcheck_net.audit.chunks import Carrier, Union, unite
from flowcheck_net.audit.copies import Difference, differences
from flowcheck_net.audit.findings import collect
from flowcheck_net.audit.flows import flow_results
from flowcheck_net.audit.judge import Facts, judge
from flowcheck_net.audit.loss import unexplained_drops
from flowcheck_net.audit.number import SlotKey
from flowcheck_net.audit.pattern import Pattern, pattern_of
from flowcheck_net.audit.ranges import Ranges, holes, merge
from flowcheck_net.audit.result import AuditReport, HopResult, IterationResult, RingResult, hop_label
from flowcheck_net.audit.survey import Survey, survey
from flowcheck_net.audit.unseen import unseen
from flowcheck_net.audit.verdict import Verdict, worst
from flowcheck_net.audit.window import window_gaps
from flowcheck_net.ids import CapturePort, Channel, GroupName
from flowcheck_net.model.expect import Expectation, ExpectedHop
from flowcheck_net.receive.records import Capture, Cause, Records


def audit(expectation: Expectation, records: Records, sighted: Survey | None = None) -> AuditReport:
    """Decide what ``records`` prove of every ring and iteration of ``expectation``.

    Args:
        expectation: What must be seen.
        records: What was seen.
        sighted: The survey of both, where it was made already.
    """
    sighted = sighted or survey(expectation, records)
    drops = unexplained_drops(records, window_gaps(sighted))
    captures = {capture.name: capture for capture in records.captures}
    copies = differences(sighted)
    run = _Run(expectation, captures, sighted, _Alike(sighted), drops, _by_ring(copies))
    rings: list[RingResult] = []
    for (group, channel), hops in _rings(expectation.hops):
        rings.extend(_Ring(group, channel, hops, run).results())
    flows = flow_results(records, sighted, expectation)
    findings = collect(expectation.wire, sighted, drops, copies, rings, flows)
    verdicts = [ring.verdict for ring in rings] + [f.verdict for f in findings if f.verdict is not None]
    return AuditReport(
        job=expectation.job,
        planned=expectation.planned,
        sources=records.sources,
        verdict=worst(verdicts),
        iterations=_iterations(rings),
        rings=tuple(rings),
        findings=findings,
        flows=flows,
        warnings=records.warnings,
    )


def _by_ring(copies: Sequence[Difference]) -> dict[tuple[GroupName, Channel, int], tuple[str, ...]]:
    found: dict[tuple[GroupName, Channel, int], list[str]] = defaultdict(list)
    for each in copies:
        found[each.key[0], each.key[1], each.iteration].append(str(each))
    return {key: tuple(texts) for key, texts in found.items()}


def _rings(hops: Sequence[ExpectedHop]) -> list[tuple[tuple[GroupName, Channel], list[ExpectedHop]]]:
    found: dict[tuple[GroupName, Channel], list[ExpectedHop]] = defaultdict(list)
    for hop in sorted(hops, key=lambda h: (h.group, h.channel, h.index)):
        found[hop.group, hop.channel].append(hop)
    return sorted(found.items())


def _iterations(rings: Sequence[RingResult]) -> tuple[IterationResult, ...]:
    found: dict[int, list[RingResult]] = defaultdict(list)
    for ring in rings:
        if ring.iteration is not None:
            found[ring.iteration].append(ring)
    every = len({(ring.group, ring.channel) for ring in rings})
    return tuple(
        IterationResult(
            number=number,
            verdict=worst(ring.verdict for ring in many),
            publishable=len(many) == every and all(ring.verdict.publishable for ring in many),
        )
        for number, many in sorted(found.items())
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """One queue pair of one hop, prepared once for all iterations."""

    key: SlotKey
    hop: ExpectedHop
    qp: int
    pattern: Pattern
    rows: tuple[Lengths, ...]
    wanted: Ranges
    """Offsets that must be seen."""


class _Alike:
    """What slots that may stand for one another show together. Worked out once an iteration, for all their rings."""

    def __init__(self, sighted: Survey) -> None:
        self._sighted = sighted
        self._known: dict[tuple[SlotKey, int], tuple[Ranges, Ranges]] = {}

    def seen(self, keys: Sequence[SlotKey], pattern: Pattern, iteration: int) -> tuple[Ranges, Ranges]:
        """Offsets seen on every one of them, and on any."""
        name = (keys[0], iteration)
        if name not in self._known:
            found = self._sighted.sightings
            every = [slot_seen(found.get(key, ()), key[3], pattern, iteration, Cause.LOST) for key in keys]
            gone = merge(r for each in every for r in holes(each.sure, 0, pattern.span - 1))
            self._known[name] = holes(gone, 0, pattern.span - 1), merge(r for each in every for r in each.seen)
        return self._known[name]


@dataclass(frozen=True, slots=True)
class _Run:
    """What all rings share."""

    expectation: Expectation
    captures: Mapping[CapturePort, Capture]
    sighted: Survey
    alike: _Alike
    drops: Mapping[CapturePort, int]
    copies: Mapping[tuple[GroupName, Channel, int], tuple[str, ...]]
    """By (group, channel, iteration): messages whose copies differ."""


class _Ring:
    """All iterations of one ring."""

    def __init__(self, group: GroupName, channel: Channel, hops: Sequence[ExpectedHop], run: _Run) -> None:
        self.group = group
        self.channel = channel
        self.hops = hops
        self.run = run
        self.tables = {hop.index: _tables(hop) for hop in hops}
        self.doubts = self._doubts()
        self.truncated = self._truncated()
        self.blank: dict[object, HopResult] = {}
        self.unions: dict[object, Union] = {}

    def results(self) -> list[RingResult]:
        """One result an iteration; a single one without number where no iteration of the whole run was found."""
        keys = {table.key for tables in self.tables.values() for table in tables}
        verdict, reason = unseen(self.hops, self.run.sighted, self.run.expectation.planned)
        idle = not any(hop.messages for hop in self.hops)
        silent = verdict is Verdict.STALE or not (idle or self._watched())
        if (silent or self.run.sighted.iterations == 0) and not keys & self.run.sighted.sightings.keys():
            return [RingResult(self.group, self.channel, None, verdict, reason, (), (), 0, 0)]
        return [self._result(number) for number in range(self.run.sighted.iterations)]

    def _watched(self) -> bool:
        return self.run.expectation.planned and any(hop.captures for hop in self.hops)

    def _result(self, iteration: int) -> RingResult:
        parts = {
            hop.index: [(self._seen(table, iteration), table.rows) for table in self.tables[hop.index]]
            for hop in self.hops
        }
        hops = tuple(self._hop(hop, parts[hop.index]) for hop in self.hops)
        union = self._union(parts, iteration)
        ports = {port for hop in hops if hop.planned or hop.observed for port in hop.captures}
        facts = Facts(
            hops=hops,
            union=union,
            doubts=self.doubts,
            drops={port: self.run.drops[port] for port in sorted(ports & self.run.drops.keys())},
            truncated=self.truncated,
            copies=self.run.copies.get((self.group, self.channel, iteration), ()),
        )
        verdict, reason = judge(facts)
        return RingResult(
            self.group, self.channel, iteration, verdict, reason, hops, union.missing, union.packets, union.seen
        )

    def _truncated(self) -> dict[CapturePort, int]:
        """Packets of this ring's flows that were not captured whole, by capture port."""
        found: Counter[CapturePort] = Counter()
        for table in (table for tables in self.tables.values() for table in tables):
            for sighting in self.run.sighted.sightings.get(table.key, ()):
                found[sighting.track.flow.capture] += sighting.track.flow.truncated
        return {port: count for port, count in sorted(found.items()) if count}

    def _hop(self, hop: ExpectedHop, parts: Sequence[tuple[SlotSeen, Sequence[Lengths]]]) -> HopResult:
        """The arithmetic of a hop; computed once for all iterations of which nothing was seen for the same cause."""
        key = None if any(part.placed for part, _ in parts) else (hop.index, tuple(part.missing for part, _ in parts))
        if key is not None and key in self.blank:
            return self.blank[key]
        found = hop_result(hop, parts, self.run.sighted, self.run.expectation.wire.mtu, self.run.expectation.planned)
        if key is not None:
            self.blank[key] = found
        return found

    def _seen(self, table: _Table, iteration: int) -> SlotSeen:
        sightings = self.run.sighted.sightings.get(table.key, ())
        away = self._absence(table, iteration)
        return slot_seen(sightings, table.qp, table.pattern, iteration, away, table.wanted)

    def _absence(self, table: _Table, iteration: int) -> Cause:
        """Why a queue pair shows nothing of an iteration, judged by when the others show it."""
        sightings = self.run.sighted.sightings.get(table.key, ())
        if any((w := s.window(iteration)) is not None and w.base is not None for s in sightings):
            return Cause.LOST
        start, end = self.run.sighted.times[iteration]
        ports = {s.track.flow.capture for s in sightings} or set(table.hop.captures)
        captures: list[Capture] = [self.run.captures[port] for port in sorted(ports) if port in self.run.captures]
        return absence(captures, start, end)

    def _union(self, parts: Mapping[int, Sequence[tuple[SlotSeen, Sequence[Lengths]]]], iteration: int) -> Union:
        carriers = []
        for hop in self.hops:
            for table, (part, rows) in zip(self.tables[hop.index], parts[hop.index], strict=True):
                sure, possible = self._sure(table, part, iteration)
                observed = table.key in self.run.sighted.sightings
                carriers.append(Carrier(hop_label(hop), observed, tuple(rows), part.seen, sure, possible))
        key = tuple((c.observed, c.sure, c.possible) for c in carriers)
        if key not in self.unions:
            self.unions[key] = unite(carriers, self.run.expectation.wire.buckets)
        return self.unions[key]

    def _sure(self, table: _Table, part: SlotSeen, iteration: int) -> tuple[Ranges, Ranges]:
        """What is seen whichever of the equal queue pairs is this one's, and what may be seen at best.

        Of a queue pair whose place is in doubt, or that was not found while an unexplained flow may be it, everything
        may have been seen, and nothing is sure.
        """
        equal = self.run.sighted.equal.get(table.key, ())
        pattern = table.pattern
        doubtful = any(a.matters for a in self.run.sighted.carriers.get(table.key, ()))
        if doubtful or (table.key in self.run.sighted.mistakable and not part.placed):
            return (), ((0, pattern.span - 1),)
        if not equal:
            return part.sure, part.seen
        return self.run.alike.seen(equal, pattern, iteration)

    def _doubts(self) -> tuple[str, ...]:
        """Why the places of this ring's queue pairs are not certain."""
        keys = [table.key for tables in self.tables.values() for table in tables]
        own = {id(a): a for key in keys for a in self.run.sighted.carriers.get(key, ()) if a.matters}
        return tuple(f"hop {assigned.name}: {assigned.doubt}" for assigned in own.values())


def _tables(hop: ExpectedHop) -> tuple[_Table, ...]:
    tables = []
    for part in sorted({m.qp for m in hop.messages}):
        pattern = pattern_of(hop.messages, (part,), immediates=False)
        key = (hop.group, hop.channel, hop.index, part)
        rows = lengths(hop, part, pattern)
        tables.append(_Table(key, hop, part, pattern, rows, mirrored_offsets(rows)))
    return tuple(tables)
