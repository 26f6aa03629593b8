"""All flows of the records: what each one is, which slot it fills, and which numbers its iterations have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.align import shifts
from flowcheck_net.audit.assign import Assigned, Pair, Slot, assign, slots_of
from flowcheck_net.audit.pattern import Track
from flowcheck_net.audit.place import Placement, Window
from flowcheck_net.audit.result import FlowUse
from flowcheck_net.ids import Address, Channel, GroupName
from flowcheck_net.model.expect import Expectation
from flowcheck_net.model.job import Wire
from flowcheck_net.model.wire import broadcast_wire_sizes, turns_untold
from flowcheck_net.model.wire_qps import pieces
from flowcheck_net.receive.records import Flow, Records

SlotKey = tuple[GroupName, Channel, int, int]
"""(group, channel, hop index, queue pair index)"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One slot at one capture port, its iterations numbered."""

    track: Track
    placement: Placement
    start: int
    """Number of its first window."""

    def window(self, iteration: int) -> Window | None:
        """The window of an iteration, None where the flow shows none."""
        at = iteration - self.start
        return self.placement.windows[at] if 0 <= at < len(self.placement.windows) else None


@dataclass(frozen=True, slots=True)
class Survey:
    """The records, sorted out."""

    iterations: int
    """How many any flow shows."""
    sightings: dict[SlotKey, tuple[Sighting, ...]]
    assigned: dict[SlotKey, Assigned]
    empty: tuple[Slot, ...]
    classes: tuple[tuple[Slot, ...], ...]
    equal: dict[SlotKey, tuple[SlotKey, ...]]
    """For each slot of these classes, all slots that it may be."""
    surplus: tuple[Track, ...]
    mistakable: frozenset[SlotKey]
    """Slots without a queue pair although an unexplained flow shows messages of their sizes."""
    left: dict[Pair, tuple[Track, ...]]
    """Data flows between addresses of the job that are no ring's."""
    uses: tuple[FlowUse, ...]
    """For each flow of the records."""
    times: tuple[tuple[int | None, int | None], ...]
    """For each iteration, nanoseconds of its first and last message on all flows that show it."""


def slot_key(slot: Slot) -> SlotKey:
    """The identity of a slot."""
    return slot.hop.group, slot.hop.channel, slot.hop.index, slot.qp


def survey(expectation: Expectation, records: Records) -> Survey:
    """Sort out all flows."""
    broadcasts = broadcast_sizes(expectation)
    tracks: dict[Pair, list[Track]] = defaultdict(list)
    for flow in records.flows:
        if has_data(flow):
            tracks[flow.source, flow.destination].append(Track(flow))
    slots: dict[Pair, list[Slot]] = defaultdict(list)
    told = [hop for hop in expectation.hops if not turns_untold(expectation.wire, hop.channel, hop.messages)]
    for slot in slots_of(told, expectation.wire):
        slots[slot.hop.source, slot.hop.destination].append(slot)
    assignments = [(pair, assign(found, tracks.get(pair, []), broadcasts)) for pair, found in sorted(slots.items())]
    assigned = {slot_key(a.slot): a for _, one in assignments for a in one.assigned}
    sightings, count = _number(assigned, expectation.iteration_time * 1e9)
    ring_flows = {id(t.flow) for a in assigned.values() for t, p in a.flows if p.windows}
    untold = {(hop.source, hop.destination) for hop in expectation.hops} - {(h.source, h.destination) for h in told}
    ring_flows |= {id(track.flow) for pair in untold for track in tracks.get(pair, ())}
    classes = tuple(c for _, one in assignments for c in one.classes)
    left = {pair: one.left for pair, one in assignments if one.left}
    return Survey(
        iterations=count,
        sightings=sightings,
        assigned=assigned,
        empty=tuple(s for _, one in assignments for s in one.empty),
        classes=classes,
        equal=_equal(classes),
        surplus=tuple(t for _, one in assignments for t in one.surplus),
        mistakable=frozenset(slot_key(s) for _, one in assignments for s in one.empty if _mistakable(s, one.left)),
        left=left,
        times=_times(sightings, count),
        uses=tuple(_use(flow, ring_flows, expectation.addresses) for flow in records.flows),
    )


def _equal(classes: Iterable[Sequence[Slot]]) -> dict[SlotKey, tuple[SlotKey, ...]]:
    result: dict[SlotKey, tuple[SlotKey, ...]] = {}
    for slots in classes:
        keys = tuple(map(slot_key, slots))
        result.update(dict.fromkeys(keys, keys))
    return result


def _mistakable(slot: Slot, left: Sequence[Track]) -> bool:
    """May one of the flows that are nobody's be this slot's, too torn to be recognised?"""
    sized = any(message.bytes and slot.pattern.indices_of(message) for track in left for message in track.known)
    return sized or any(track.headless and not track.known for track in left)


def has_data(flow: Flow) -> bool:
    """Does the flow write data, rather than only clear-to-send writes, acknowledgements or setup?"""
    return flow.packets.get("write", 0) > 0


def broadcast_sizes(expectation: Expectation) -> frozenset[int]:
    """RDMA payload sizes that a declared broadcast may show, on any channel, whole or cut over queue pairs."""
    wire = expectation.wire
    channels = {hop.channel for hop in expectation.hops}
    whole = {size for b in wire.broadcasts for channel in channels for size in broadcast_wire_sizes(wire, b, channel)}
    return frozenset(whole | _cut(wire, whole))


def _cut(wire: Wire, sizes: Iterable[int]) -> set[int]:
    return {piece.length for size in sizes for piece in pieces(wire.nccl, size, 0)}


def _number(assigned: dict[SlotKey, Assigned], period: float) -> tuple[dict[SlotKey, tuple[Sighting, ...]], int]:
    """Give every flow's iterations their common numbers.

    Only flows with data decide how many there are, by what their messages confirm: empty messages are too alike to
    tell where an iteration begins, and a guess may be no iteration at all.
    """
    data = {key for key, a in assigned.items() if any(a.slot.pattern.sizes)} or set(assigned)
    every = [(key, track, placement) for key, a in sorted(assigned.items()) for track, placement in a.flows]
    starts = shifts([placement.windows for _, _, placement in every], period)
    seen = [(each, start) for each, start in zip(every, starts, strict=True) if each[2].windows]
    firm = [number for (key, _, p), start in seen if key in data for number in _firm(p.windows, start)]
    first = min(firm, default=0)
    end = max(firm, default=first - 1) + 1
    found: dict[SlotKey, list[Sighting]] = defaultdict(list)
    for (key, track, placement), start in seen:
        found[key].append(Sighting(track, placement, start - first))
    return {key: tuple(many) for key, many in found.items()}, end - first


def _firm(windows: Sequence[Window], start: int) -> list[int]:
    """Numbers of the windows that are no guess, where the first of all is ``start``."""
    return [number for number, window in enumerate(windows, start) if not window.guess]


def _times(sightings: Mapping[SlotKey, Sequence[Sighting]], count: int) -> tuple[tuple[int | None, int | None], ...]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for sighting in (s for many in sightings.values() for s in many):
        for number, window in enumerate(sighting.placement.windows, start=sighting.start):
            if number in range(count) and window.first_time is not None and window.last_time is not None:
                first[number] = min(first.get(number, window.first_time), window.first_time)
                last[number] = max(last.get(number, window.last_time), window.last_time)
    return tuple((first.get(number), last.get(number)) for number in range(count))


def _use(flow: Flow, ring_flows: set[int], job: frozenset[Address]) -> FlowUse:
    if flow.source not in job and flow.destination not in job:
        return FlowUse.FOREIGN
    if id(flow) in ring_flows:
        return FlowUse.RING
    if has_data(flow) or flow.packets.get("send", 0):
        return FlowUse.OTHER
    if flow.packets.get("setup", 0):
        return FlowUse.SETUP
    return FlowUse.CONTROL
