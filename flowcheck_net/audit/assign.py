"""Which flow is which queue pair of which hop: by the job's numbers where it gives them, else by the pattern."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from flowcheck_net.audit.pattern import Pattern, Track, pattern_of
from flowcheck_net.audit.place import Placement, place
from flowcheck_net.audit.result import hop_label
from flowcheck_net.ids import Address, Channel, GroupName, Qpn
from flowcheck_net.model.expect import ExpectedHop
from flowcheck_net.model.job import Wire
from flowcheck_net.model.wire import WireMessage
from flowcheck_net.model.wire_turns import rounds, takes_turns, turns_before

Pair = tuple[Address, Address]


@dataclass(frozen=True, slots=True)
class Slot:
    """One queue pair of one hop."""

    hop: ExpectedHop
    qp: int
    """Its number in the connection, 0 .. Q-1."""
    pattern: Pattern
    rounds: tuple[int, ...]
    """Which part (``WireMessage.qp``) of an iteration it carries, one iteration of the pattern after the other."""

    @property
    def messages(self) -> tuple[WireMessage, ...]:
        """What it carries until that repeats."""
        return tuple(m for part in self.rounds for m in self.hop.messages if m.qp == part)

    @property
    def family(self) -> tuple[object, ...]:
        """What queue pairs that carry the same parts in another order have in common."""
        return (self.hop.group, self.hop.channel, self.hop.index, frozenset(self.rounds))

    @property
    def turning(self) -> bool:
        """Does it carry another part in the next iteration?"""
        return len(self.rounds) > 1


@dataclass(frozen=True, slots=True)
class Assigned:
    """A slot and what was seen of it, at each capture port."""

    slot: Slot
    qpn: Qpn
    flows: tuple[tuple[Track, Placement], ...]
    doubt: str = ""
    """Why it may be another queue pair's or lie elsewhere; empty: certain."""

    @property
    def name(self) -> str:
        """Such as ``dp0/0/1 (1->0), queue pair 0x514``."""
        return f"{hop_label(self.slot.hop)}, queue pair {self.qpn:#x}"

    @property
    def matters(self) -> bool:
        """Is there a doubt about data? Of empty messages nothing can be lost that anyone needs."""
        return bool(self.doubt) and any(self.slot.pattern.sizes)


@dataclass(frozen=True, slots=True)
class Assignment:
    """All slots between one pair of addresses."""

    assigned: tuple[Assigned, ...]
    empty: tuple[Slot, ...]
    """Slots without a queue pair that fits."""
    classes: tuple[tuple[Slot, ...], ...]
    """Slots of equal pattern that were filled in an arbitrary (ascending) order."""
    left: tuple[Track, ...]
    """Data flows that are no slot's."""
    surplus: tuple[Track, ...]
    """Data flows that carry whole iterations of a pattern all of whose slots are taken."""


def slots_of(hops: Iterable[ExpectedHop], wire: Wire, immediates: bool) -> tuple[Slot, ...]:
    """Every queue pair of the hops that carries at least one message, in canonical order.

    Args:
        hops: Of the job.
        wire: The job's.
        immediates: Are the immediates lengths, and known beforehand?
    """
    ordered = sorted(hops, key=lambda h: (h.group, h.channel, h.index))
    return tuple(slot for hop in ordered for slot in _slots(hop, wire, immediates))


def _slots(hop: ExpectedHop, wire: Wire, immediates: bool) -> Iterator[Slot]:
    parts = {m.qp for m in hop.messages}
    before = turns_before(wire, hop.channel, hop.index, hop.ring_size, hop.messages)
    for qp in range(wire.nccl.qps_per_connection):
        order = rounds(wire, hop.messages, qp, before)
        if parts.intersection(order):
            yield Slot(hop, qp, pattern_of(hop.messages, order, immediates), order)


def assign(
    slots: Sequence[Slot], tracks: Sequence[Track], broadcasts: frozenset[int], wire: Wire, period: float
) -> Assignment:
    """Match the data flows of one address pair to the slots of the same pair.

    Args:
        slots: Of the pair.
        tracks: Its flows.
        broadcasts: Sizes of declared messages that may stand between iterations.
        wire: The job's.
        period: Nanoseconds of an iteration by the job; 0: not known.
    """
    by_qpn: dict[Qpn, list[Track]] = defaultdict(list)
    for track in tracks:
        by_qpn[track.flow.dest_qp].append(track)
    named = {qpn: slot for slot in slots if (qpn := _named(slot)) is not None}
    assigned = [
        _place_all(slot, qpn, by_qpn[qpn], broadcasts, period)
        for qpn, slot in named.items()
        if qpn in by_qpn and not takes_turns(wire)
    ]
    if takes_turns(wire):  # the job tells whose they are; on which of them an iteration begins, their messages tell
        for _, own in groupby(named.items(), key=lambda each: _hop_key(each[1])):
            pool = dict(own)
            found = {qpn: by_qpn[qpn] for qpn in pool if qpn in by_qpn}
            order = {qpn: slot.qp for qpn, slot in pool.items()}
            assigned += _by_pattern(list(pool.values()), found, broadcasts, period, order)[0]
    free = [slot for slot in slots if _named(slot) is None]
    rest = {qpn: found for qpn, found in by_qpn.items() if qpn not in named}
    chosen, surplus = _by_pattern(free, rest, broadcasts, period)
    assigned.extend(chosen)
    taken = {(a.slot.hop.group, a.slot.hop.channel, a.slot.hop.index, a.slot.qp) for a in assigned}
    used = {a.qpn for a in assigned} | surplus
    return Assignment(
        assigned=tuple(assigned),
        empty=tuple(s for s in slots if (s.hop.group, s.hop.channel, s.hop.index, s.qp) not in taken),
        classes=_classes(free, chosen),
        left=tuple(t for t in tracks if t.flow.dest_qp not in used),
        surplus=tuple(t for t in tracks if t.flow.dest_qp in surplus),
    )


def _hop_key(slot: Slot) -> tuple[GroupName, Channel, int]:
    return slot.hop.group, slot.hop.channel, slot.hop.index


def _named(slot: Slot) -> Qpn | None:
    return slot.hop.qpns[slot.qp] if slot.qp < len(slot.hop.qpns) else None


def _place_all(slot: Slot, qpn: Qpn, tracks: Sequence[Track], broadcasts: frozenset[int], period: float) -> Assigned:
    flows = tuple((t, place(t, slot.pattern, broadcasts, slot.hop.window, period)) for t in tracks)
    return Assigned(slot, qpn, flows, next((p.ambiguous for _, p in flows if p.ambiguous), ""))


def _by_pattern(
    free: Sequence[Slot],
    tracks: Mapping[Qpn, Sequence[Track]],
    broadcasts: frozenset[int],
    period: float,
    order_of: Mapping[Qpn, int] | None = None,
) -> tuple[list[Assigned], set[Qpn]]:
    """Best fit first; among equal ones ascending queue pairs (by ``order_of``, else by number) take ascending slots."""
    rank = order_of or {qpn: int(qpn) for qpn in tracks}
    waiting: dict[Pattern, list[Slot]] = defaultdict(list)
    for slot in free:
        waiting[slot.pattern].append(slot)
    scored: list[tuple[bool, int, Qpn, int, Assigned]] = []
    for qpn, found in tracks.items():
        for order, (pattern, equal) in enumerate(waiting.items()):
            trial = _place_all(equal[0], qpn, found, broadcasts, period)
            whole = any(p.whole(pattern) for _, p in trial.flows)
            matches, strange = _evidence(trial, broadcasts)
            if matches and (whole or matches >= strange):
                scored.append((whole, matches - strange, qpn, order, trial))
    scored.sort(key=lambda s: (not s[0], -s[1], rank[s[2]], s[3]))
    chosen: dict[Qpn, Assigned] = {}
    room = {pattern: len(equal) for pattern, equal in waiting.items()}
    for _, _, qpn, _, trial in scored:
        if qpn not in chosen and room[trial.slot.pattern]:
            room[trial.slot.pattern] -= 1
            chosen[qpn] = replace(trial, doubt=trial.doubt or _rivals(trial, scored))
    in_order = (chosen[qpn] for qpn in sorted(chosen, key=lambda qpn: rank[qpn]))
    ascending = [replace(a, slot=waiting[a.slot.pattern].pop(0)) for a in in_order]
    return ascending, {qpn for whole, _, qpn, _, _ in scored if whole and qpn not in chosen}


def _evidence(trial: Assigned, broadcasts: frozenset[int]) -> tuple[int, int]:
    """Messages that confirm the places, and messages that nothing explains.

    Empty messages prove nothing, except of a slot that carries no others, on a flow that shows nothing else.
    """
    pattern = trial.slot.pattern
    empty = not any(pattern.sizes)
    matches = strange = 0
    for track, placement in trial.flows:
        strange += sum(m.bytes not in broadcasts for m in placement.others)
        if empty and (strange or placement.unplaced):
            return 0, strange
        for window in placement.windows:
            if window.base is not None:
                inside = track.between(window.base, window.base + pattern.span)
                matches += sum(empty or bool(m.bytes) for m in inside) - window.conflicts
    return max(0, matches), strange


def _rivals(trial: Assigned, scored: Sequence[tuple[bool, int, Qpn, int, Assigned]]) -> str:
    """A queue pair that showed no whole iteration may fit several patterns equally well."""
    if any(p.whole(trial.slot.pattern) for _, p in trial.flows):
        return ""
    score = next(found for _, found, _, _, other in scored if other is trial)
    count = len({other.slot.family for _, found, qpn, _, other in scored if qpn == trial.qpn and found == score})
    return f"the few messages seen fit {count} different patterns equally well" if count > 1 else ""


def _classes(free: Sequence[Slot], chosen: Sequence[Assigned]) -> tuple[tuple[Slot, ...], ...]:
    """Groups of two or more equal slots of which at least one was filled."""
    equal: dict[Pattern, list[Slot]] = defaultdict(list)
    for slot in free:
        equal[slot.pattern].append(slot)
    filled = {a.slot.pattern for a in chosen}
    return tuple(tuple(group) for pattern, group in equal.items() if len(group) > 1 and pattern in filled)
