"""From a survey to what placing the payload needs: which queue pair carries what, and where its iterations lie."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from flowcheck_net.audit.arithmetic import lengths, slot_seen
from flowcheck_net.audit.number import SlotKey
from flowcheck_net.audit.pattern import pattern_of
from flowcheck_net.audit.place import Window
from flowcheck_net.audit.ranges import Ranges, clip, holes, merge, size
from flowcheck_net.audit.result import hop_label
from flowcheck_net.audit.survey import Survey
from flowcheck_net.ids import GroupName
from flowcheck_net.model.expect import Expectation, ExpectedHop
from flowcheck_net.receive.lay import Followed, Run
from flowcheck_net.receive.layout import Layout, buffer_of
from flowcheck_net.receive.records import Cause


@dataclass(frozen=True, slots=True)
class Recovered:
    """Fully reduced units that a watched hop lost and others gave."""

    hop: str
    """Where they are missing."""
    units: int
    given: tuple[tuple[str, int], ...]
    """(hop, units of these that it alone gave)"""


@dataclass(frozen=True, slots=True)
class Anchors:
    """What a second pass over the capture is to follow."""

    followed: tuple[Followed, ...]
    doubts: tuple[str, ...]
    """Queue pairs whose place is not certain: they are not followed."""
    assumptions: dict[GroupName, tuple[str, ...]]
    """By group: what is taken for true and cannot be seen."""


def anchors(sighted: Survey) -> Anchors:
    """Everything that is certain of the flows of a job."""
    followed: list[Followed] = []
    doubts: list[str] = []
    for shown in sighted.shown:
        assigned = shown.assigned
        if assigned.matters:
            doubts.append(f"{assigned.name}: {assigned.doubt}")
            continue
        runs, parts = _runs(shown.windows, shown.start, len(assigned.slot.rounds), sighted.iterations)
        if runs:
            flow = shown.track.flow
            ends = (flow.source, flow.destination)
            followed.append(Followed(flow.capture, ends, flow.dest_qp, assigned.slot.hop, parts, runs))
    return Anchors(tuple(followed), tuple(dict.fromkeys(doubts)), _assumptions(sighted))


def _assumptions(sighted: Survey) -> dict[GroupName, tuple[str, ...]]:
    found: dict[GroupName, list[str]] = {}
    for slots in sighted.classes:
        if any(any(slot.pattern.sizes) for slot in slots):
            names = ", ".join(f"{s.hop.group}/{s.hop.channel}/{s.hop.index} queue pair {s.qp}" for s in slots)
            text = f"equal messages are on {names}: their queue pairs are taken to ascend in this order"
            for group in {buffer_of(slot.hop.group) for slot in slots}:
                found.setdefault(group, []).append(text)
    return {group: tuple(texts) for group, texts in found.items()}


def _runs(windows: Sequence[Window], start: int, rounds: int, count: int) -> tuple[tuple[Run, ...], tuple[int, ...]]:
    """Iterations that follow one another without a break, and which part is in iteration n, by n modulo ``rounds``.

    Left out is what begins at a position before another run (a connection that began anew from a lower number), or
    on another queue pair than the first run tells.
    """
    parts: dict[int, int] = {}
    runs: list[Run] = []
    end = None
    for number, window in enumerate(windows, start):
        usable = window.base is not None and not window.guess and number in range(count)
        if not usable or parts.setdefault(number % rounds, window.qp) != window.qp:
            end = None
            continue
        base = window.base or 0
        if end == base:
            runs[-1] = replace(runs[-1], iterations=runs[-1].iterations + 1)
        elif not runs or base > runs[-1].position:
            runs.append(Run(base, number, 1))
        else:
            continue
        end = base + window.span
    return tuple(runs), tuple(parts.get(n, -1) for n in range(rounds))


def recovered(expectation: Expectation, sighted: Survey, layout: Layout, iteration: int) -> tuple[Recovered, ...]:
    """Units that a watched hop should have shown fully reduced and did not, and which hops gave them."""
    seen: dict[GroupName, dict[str, Ranges]] = {}
    wanted: dict[str, tuple[GroupName, Ranges]] = {}
    for hop in expectation.hops:
        own = list(_units(hop, sighted, layout, iteration))
        label, group = hop_label(hop), buffer_of(hop.group)
        seen.setdefault(group, {})[label] = merge(each for _, found in own for each in found)
        if any((hop.group, hop.channel, hop.index, part) in sighted.sightings for part in {m.qp for m in hop.messages}):
            wanted[label] = (group, merge(whole for whole, _ in own if whole is not None))
    found = []
    for label, (group, whole) in wanted.items():
        others = {other: ranges for other, ranges in seen[group].items() if other != label}
        gone = merge(r for first, last in whole for r in holes(seen[group][label], first, last))
        filled = _common(gone, merge(r for ranges in others.values() for r in ranges))
        if filled:
            found.append(Recovered(label, size(filled), tuple(_alone(filled, others))))
    return tuple(found)


def _alone(filled: Ranges, others: dict[str, Ranges]) -> Iterator[tuple[str, int]]:
    for label, ranges in others.items():
        rest = merge(r for other, each in others.items() if other != label for r in each)
        alone = size(r for first, last in _common(filled, ranges) for r in holes(rest, first, last))
        if alone:
            yield label, alone


def _common(one: Ranges, two: Ranges) -> Ranges:
    return merge(r for first, last in one for r in clip(two, first, last))


def _units(
    hop: ExpectedHop, sighted: Survey, layout: Layout, iteration: int
) -> Iterator[tuple[tuple[int, int] | None, Ranges]]:
    """Of each fully reduced message with data: the units that must be seen, and those that surely were on this hop."""
    for part in sorted({m.qp for m in hop.messages}):
        key: SlotKey = (hop.group, hop.channel, hop.index, part)
        pattern = pattern_of(hop.messages, (part,), immediates=False)
        found = slot_seen(sighted.sightings.get(key, ()), part, pattern, iteration, Cause.LOST)
        for row in lengths(hop, part, pattern):
            if row.message.reduced and row.message.data_bytes and not row.message.closes:
                unit = layout.place(hop, row.message).unit
                inside = clip(found.sure, row.first, row.last, shift=unit - row.first)
                yield (unit, unit + row.message.packets - 1) if row.mirrored else None, inside
