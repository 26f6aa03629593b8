"""Expected against seen, for one hop in one iteration.

Offsets are packets from the first one of the iteration on a queue pair.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.number import Sighting, SlotKey
from flowcheck_net.audit.pattern import Pattern
from flowcheck_net.audit.place import Window
from flowcheck_net.audit.ranges import Ranges, clip, holes, merge, size
from flowcheck_net.audit.result import Count, HopResult, MissingRange, hop_label
from flowcheck_net.audit.survey import Survey
from flowcheck_net.ids import CapturePort
from flowcheck_net.model.expect import ExpectedHop
from flowcheck_net.model.wire import WireMessage
from flowcheck_net.receive.records import Capture, Cause

_PSN = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """One queue pair of one hop in one iteration, all capture ports together."""

    seen: Ranges
    """Offsets seen."""
    missing: tuple[MissingRange, ...]
    repeats: int
    retransmitted: int
    """Of the repeats, those that the sender sent again."""
    arrivals: int
    """Packets that arrived, copies at other capture ports and double mirroring included, retransmissions not."""
    ports: int
    """Capture ports at which it was seen."""
    mismatches: int
    placed: bool
    """False: no iteration was found on this queue pair, or not at a known place."""
    sure: Ranges = ()
    """Offsets seen whole, at a place that is no guess."""
    beyond: int = 0
    """Distinct packets outside the message window that the switch copied all the same."""
    arrivals_beyond: int = 0
    """Of the arrivals, those outside the message window."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Offsets of each message of one queue pair."""

    message: WireMessage
    first: int
    last: int
    mirrored: bool = True
    """Must it be seen? False: it is outside the message window of its hop."""


def lengths(hop: ExpectedHop, qp: int, pattern: Pattern) -> tuple[Lengths, ...]:
    """The messages of queue pair ``qp`` with their packet offsets, ends included."""
    inside = None if hop.window is None else hop.window.inside
    own = [(m, inside is None or n in inside) for n, m in enumerate(hop.messages) if m.qp == qp]
    return tuple(
        Lengths(m, at, at + m.packets - 1, mirrored) for (m, mirrored), at in zip(own, pattern.offsets, strict=True)
    )


def mirrored_offsets(rows: Iterable[Lengths]) -> Ranges:
    """Offsets of the packets that must be seen."""
    return merge((row.first, row.last) for row in rows if row.mirrored)


def slot_seen(
    sightings: Sequence[Sighting], qp: int, pattern: Pattern, iteration: int, away: Cause, wanted: Ranges | None = None
) -> SlotSeen:
    """What was seen of one queue pair in one iteration.

    Args:
        sightings: The queue pair at each capture port.
        qp: Its index.
        pattern: What one iteration puts on it.
        iteration: The number asked for.
        away: The cause to state when the iteration is not there at all.
        wanted: Offsets that must be seen; None: all.
    """
    wanted = ((0, pattern.span - 1),) if wanted is None else wanted
    placed = [(s, w) for s in sightings if (w := s.window(iteration)) is not None and w.base is not None]
    if not placed:
        qpn = sightings[0].track.flow.dest_qp if sightings else None
        gone = MissingRange(qp, qpn, None, None, size(wanted), away)
        return SlotSeen((), (gone,) if wanted else (), 0, 0, 0, 0, 0, placed=False)
    parts = [_inside(s, w, pattern) for s, w in placed]
    seen = merge(part for ranges in parts for part in ranges)
    counted = [_repeats(s, w, pattern, wanted) for s, w in placed]
    inside = [_common(ranges, wanted) for ranges in parts]
    outside = sum(size(ranges) for ranges in parts) - sum(size(ranges) for ranges in inside)
    return SlotSeen(
        seen=seen,
        missing=tuple(_missing(placed, qp, seen, wanted)),
        repeats=sum(each.extra for each in counted),
        retransmitted=sum(each.extra - each.doubled for each in counted),
        arrivals=sum(size(ranges) for ranges in parts) + sum(each.doubled for each in counted),
        ports=len({s.track.flow.capture for s, _ in placed}),
        mismatches=sum(w.conflicts for _, w in placed),
        placed=True,
        sure=merge(r for (s, w), ranges in zip(placed, parts, strict=True) if _proves(s, w) for r in ranges),
        beyond=size(seen) - size(_common(seen, wanted)),
        arrivals_beyond=outside + sum(each.doubled_beyond for each in counted),
    )


def _proves(sighting: Sighting, window: Window) -> bool:
    """Are the packets of this window there with all their bytes? A cut one is counted, but nothing can be rebuilt."""
    return not window.guess and not sighting.track.flow.truncated


def _base(window: Window) -> int:
    return window.base or 0


def _inside(sighting: Sighting, window: Window, pattern: Pattern) -> Ranges:
    base = _base(window)
    return clip(sighting.track.flow.seen, base, base + pattern.span - 1, shift=-base)


@dataclass(frozen=True, slots=True)
class _Repeats:
    """Extra arrivals inside an iteration at one capture port."""

    extra: int
    doubled: int
    """Of them, those that the flow's counters call double mirroring."""
    doubled_beyond: int
    """Of these, packets outside the message window."""


def _repeats(sighting: Sighting, window: Window, pattern: Pattern, wanted: Ranges) -> _Repeats:
    flow, base = sighting.track.flow, _base(window)
    own = [(p - base, copies) for p, copies in sighting.track.repeats(base, base + pattern.span)]
    extra = sum(copies for _, copies in own)
    inside = sum(copies for offset, copies in own if clip(wanted, offset, offset))
    doubled = min(extra, flow.duplicated)
    return _Repeats(extra, doubled, doubled - min(inside, doubled))


def _common(one: Ranges, two: Ranges) -> Ranges:
    return merge(r for first, last in one for r in clip(two, first, last))


def _surplus(parts: Sequence[tuple[SlotSeen, Sequence[Lengths]]], copies: int) -> int:
    """Arrivals above the planned copies; what is outside a message window need not come, but no more often either."""
    inside = sum(part.arrivals - part.arrivals_beyond - copies * (size(part.seen) - part.beyond) for part, _ in parts)
    beyond = sum(part.arrivals_beyond - copies * part.beyond for part, _ in parts)
    return max(0, inside) + max(0, beyond)


def _missing(
    placed: Sequence[tuple[Sighting, Window]], qp: int, seen: Ranges, wanted: Ranges
) -> Iterable[MissingRange]:
    first = min(s.track.first - _base(w) for s, w in placed)
    last = max(s.track.last - _base(w) for s, w in placed)
    sighting, window = placed[0]
    for low, high in (hole for first_wanted, last_wanted in wanted for hole in holes(seen, first_wanted, last_wanted)):
        cause = Cause.CAPTURE_START if high < first else Cause.CAPTURE_END if low > last else Cause.LOST
        base = _base(window)
        yield MissingRange(
            qp, sighting.track.flow.dest_qp, (base + low) & _PSN, (base + high) & _PSN, high - low + 1, cause
        )


def absence(captures: Sequence[Capture], start: int | None, end: int | None) -> Cause:
    """Why an iteration that others show from ``start`` to ``end`` is wholly absent at these captures."""
    if captures and end is not None and all(c.first_time > end for c in captures):
        return Cause.CAPTURE_START
    if captures and start is not None and all(c.last_time < start for c in captures):
        return Cause.CAPTURE_END
    return Cause.LOST


def hop_result(
    hop: ExpectedHop, parts: Sequence[tuple[SlotSeen, Sequence[Lengths]]], sighted: Survey, mtu: int, planned: bool
) -> HopResult:
    """Add up the queue pairs of a hop."""
    keys: list[SlotKey] = [(hop.group, hop.channel, hop.index, qp) for qp in sorted({m.qp for m in hop.messages})]
    sightings = [s for key in keys for s in sighted.sightings.get(key, ())]
    captures: tuple[CapturePort, ...] = tuple(sorted({s.track.flow.capture for s in sightings})) or hop.captures
    watched = planned and bool(hop.captures)
    reduced, partial = _gone(parts)
    arrivals = sum(part.arrivals for part, _ in parts)
    copies = hop.copies if watched else max((part.ports for part, _ in parts), default=1)
    return HopResult(
        index=hop.index,
        label=hop_label(hop),
        src_rank=hop.src_rank,
        dst_rank=hop.dst_rank,
        source=hop.source,
        destination=hop.destination,
        planned=watched,
        observed=bool(sightings),
        captures=captures,
        qpns=tuple(sorted({s.track.flow.dest_qp for s in sightings})),
        expected=expected_count(hop.mirrored),
        seen=_seen_count(parts, mtu),
        missing_reduced=reduced,
        missing_partial=partial,
        missing=tuple(gone for part, _ in parts for gone in part.missing),
        raw=arrivals + sum(part.retransmitted for part, _ in parts),
        repeats=sum(part.repeats for part, _ in parts),
        retransmitted=sum(part.retransmitted for part, _ in parts),
        surplus=_surplus(parts, max(1, copies)),
        beyond=sum(part.beyond for part, _ in parts),
        mismatches=sum(part.mismatches for part, _ in parts),
    )


def _gone(parts: Sequence[tuple[SlotSeen, Sequence[Lengths]]]) -> tuple[int, int]:
    """Packets never seen: of fully reduced chunks, of partial sums."""
    reduced = partial = 0
    for part, table in parts:
        for row in (r for r in table if r.mirrored) if part.missing else ():
            gone = row.message.packets - size(clip(part.seen, row.first, row.last))
            reduced += gone if row.message.reduced else 0
            partial += 0 if row.message.reduced else gone
    return reduced, partial


def expected_count(messages: Sequence[WireMessage]) -> Count:
    """What one iteration puts on a hop."""
    return Count(len(messages), sum(m.packets for m in messages), sum(m.wire_bytes for m in messages))


def _seen_count(parts: Sequence[tuple[SlotSeen, Sequence[Lengths]]], mtu: int) -> Count:
    if not any(part.missing for part, _ in parts):
        return expected_count([row.message for _, table in parts for row in table if row.mirrored])
    messages = packets = payload = 0
    for part, table in parts:
        for row in (r for r in table if r.mirrored):
            inside = clip(part.seen, row.first, row.last)
            count = size(inside)
            packets += count
            messages += count == row.message.packets
            payload += _payload(row, inside, mtu)
    return Count(messages, packets, payload)


def _payload(row: Lengths, inside: Ranges, mtu: int) -> int:
    """Bytes of the seen packets of a message: every packet is full but the last one."""
    full = size(inside) * mtu
    ends = bool(inside) and inside[-1][1] == row.last
    return full - (row.message.packets * mtu - row.message.wire_bytes if ends else 0)
