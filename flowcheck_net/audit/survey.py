"""All flows of the records: what each one is, which slot it fills, and which numbers its iterations have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.assign import Assigned, Pair, Slot, assign, slots_of
from flowcheck_net.audit.immediate import Immediates, immediates_of
from flowcheck_net.audit.number import Sighting, SlotKey, number_iterations, part_keys
from flowcheck_net.audit.pattern import Track
from flowcheck_net.audit.result import FlowUse
from flowcheck_net.audit.turns import Shown
from flowcheck_net.ids import Address
from flowcheck_net.model.expect import Expectation
from flowcheck_net.model.job import Wire
from flowcheck_net.model.wire import broadcast_wire_sizes
from flowcheck_net.model.wire_qps import pieces
from flowcheck_net.receive.records import Flow, Records


@dataclass(frozen=True, slots=True)
class Survey:
    """The records, sorted out."""

    iterations: int
    """How many any flow shows."""
    sightings: dict[SlotKey, tuple[Sighting, ...]]
    assigned: tuple[Assigned, ...]
    """Queue pairs that were found, in canonical order."""
    shown: tuple[Shown, ...]
    """What each flow shows of them, its iterations numbered."""
    carriers: dict[SlotKey, tuple[Assigned, ...]]
    """By part: the queue pairs that carry it, in some iteration at least."""
    empty: tuple[Slot, ...]
    classes: tuple[tuple[Slot, ...], ...]
    equal: dict[SlotKey, tuple[SlotKey, ...]]
    """For each part on queue pairs of these classes, all parts that may be meant."""
    surplus: tuple[Track, ...]
    mistakable: frozenset[SlotKey]
    """Parts without a queue pair although an unexplained flow shows messages of their sizes."""
    left: dict[Pair, tuple[Track, ...]]
    """Data flows between addresses of the job that are no ring's."""
    uses: tuple[FlowUse, ...]
    """For each flow of the records."""
    immediates: Immediates
    """What the immediates of the run are."""
    times: tuple[tuple[int | None, int | None], ...]
    """For each iteration, nanoseconds of its first and last message on all flows that show it."""


def survey(expectation: Expectation, records: Records) -> Survey:
    """Sort out all flows."""
    broadcasts = broadcast_sizes(expectation)
    immediates = immediates_of(expectation, records)
    tracks: dict[Pair, list[Track]] = defaultdict(list)
    for flow in records.flows:
        if has_data(flow):
            tracks[flow.source, flow.destination].append(Track(flow, immediates.read))
    slots: dict[Pair, list[Slot]] = defaultdict(list)
    for slot in slots_of(expectation.hops, expectation.wire, immediates.are_lengths):
        slots[slot.hop.source, slot.hop.destination].append(slot)
    period = expectation.iteration_time * 1e9
    assignments = [
        (pair, assign(found, tracks.get(pair, []), broadcasts, expectation.wire, period))
        for pair, found in sorted(slots.items())
    ]
    numbered = number_iterations([a for _, one in assignments for a in one.assigned], period)
    ring_flows = {id(t.flow) for a in numbered.assigned for t, p in a.flows if p.windows}
    classes = tuple(c for _, one in assignments for c in one.classes)
    left = {pair: one.left for pair, one in assignments if one.left}
    return Survey(
        iterations=numbered.count,
        sightings=numbered.sightings,
        assigned=numbered.assigned,
        shown=numbered.shown,
        carriers=_carriers(numbered.assigned),
        empty=tuple(s for _, one in assignments for s in one.empty),
        classes=classes,
        equal=_equal(classes),
        surplus=tuple(t for _, one in assignments for t in one.surplus),
        mistakable=frozenset(
            key for _, one in assignments for s in one.empty if _mistakable(s, one.left) for key in part_keys(s)
        ),
        left=left,
        immediates=immediates,
        times=_times(numbered.sightings, numbered.count),
        uses=tuple(_use(flow, ring_flows, expectation.addresses) for flow in records.flows),
    )


def _carriers(assigned: Iterable[Assigned]) -> dict[SlotKey, tuple[Assigned, ...]]:
    found: dict[SlotKey, list[Assigned]] = defaultdict(list)
    for one in assigned:
        for key in part_keys(one.slot):
            found[key].append(one)
    return {key: tuple(many) for key, many in found.items()}


def _equal(classes: Iterable[Sequence[Slot]]) -> dict[SlotKey, tuple[SlotKey, ...]]:
    """Parts that stand at the same place of equal patterns; what is equal to one of them is equal to all."""
    groups: dict[SlotKey, set[SlotKey]] = {}
    for slots in classes:
        for keys in zip(*map(part_keys, slots), strict=True):
            joined = set(keys).union(*(groups.get(key, ()) for key in keys))
            groups.update(dict.fromkeys(joined, joined))
    return {key: tuple(sorted(joined)) for key, joined in groups.items() if len(joined) > 1}


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


def _times(sightings: Mapping[SlotKey, Sequence[Sighting]], count: int) -> tuple[tuple[int | None, int | None], ...]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for sighting in (s for many in sightings.values() for s in many):
        for number, window in enumerate(sighting.windows, start=sighting.start):
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
