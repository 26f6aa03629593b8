"""One flow that two captures of the same port saw, one after the other: as one capture would have seen it.

What records do not tell cannot be joined exactly: ``Joined.repeated`` counts it (docs/records-format.md, "Merging").
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from flowcheck_net.receive.records import Cause, Flow, Gap, Message, Missing
from flowcheck_net.receive.records_ranges import Ranges, covered, intersection, next_in, positions, size, union
from flowcheck_net.receive.records_rows import MessageRows
from flowcheck_net.receive.records_seam import sew, side

PSN_COUNT = 1 << 24
_HALF = PSN_COUNT // 2


@dataclass(frozen=True, slots=True)
class Joined:
    """A flow, and what is in doubt about it."""

    flow: Flow
    repeated: int
    """Packets of the earlier capture that the later one saw again."""


def join_flows(one: Flow, two: Flow) -> Joined:
    """Join a flow of an earlier capture with what a later one saw of it. Keys must be equal."""
    sums = replace(
        one,
        packets={name: one.packets.get(name, 0) + two.packets.get(name, 0) for name in {**one.packets, **two.packets}},
        truncated=one.truncated + two.truncated,
        mtu=two.mtu or one.mtu,
    )
    if not two.seen:
        return Joined(sums, 0)
    if not one.seen:
        return Joined(replace(two, packets=sums.packets, truncated=sums.truncated), 0)
    return _join_seen(one, two, sums)


def _join_seen(one: Flow, two: Flow, sums: Flow) -> Joined:
    """Both captures saw requests."""
    highest = one.seen[-1][1]
    shift = _shift(highest, two.seen[0][0])
    later = tuple((first + shift, last + shift) for first, last in two.seen)
    seen = union(one.seen, later)
    both = intersection(one.seen, later)
    again = size(both)
    seam = sew(
        side(one.seen, one.messages, 0, open_end=_open_end(one)),
        side(later, two.messages, shift, open_end=_open_end(two)),
        seen,
    )
    fills = covered(later, later[0][0], highest) - again
    joined = replace(
        sums,
        bytes=one.bytes + two.bytes - sum(_payload(at, seam.near, sums.mtu) for at in positions(both)),
        seen=seen,
        repeats=_repeats(one, two, shift, both),
        retransmitted=one.retransmitted + two.retransmitted + again,
        duplicated=one.duplicated + two.duplicated,
        reordered=one.reordered + two.reordered + (0 if again else fills),
        missing=_missing(one, two, seen, seam.to_come),
        gaps=_gaps(one, two, shift, later, seen),
        messages=MessageRows.of(seam.rows) if seam.rows else (),
    )
    return Joined(joined, again)


def _shift(highest: int, first: int) -> int:
    """What brings ``first`` nearest to the highest position, as a PSN is unwrapped: half the PSNs each way."""
    return -((first - highest + _HALF) // PSN_COUNT) * PSN_COUNT


def _open_end(flow: Flow) -> bool:
    return any(each.cause is Cause.CAPTURE_END for each in flow.missing)


def _payload(position: int, near: tuple[Message, ...], mtu: int | None) -> int:
    """Payload of a packet: all of a write but the last are as long as the MTU. 0, where it is not known, of others."""
    for message in near:
        behind = position - message.position
        if not 0 <= behind < (message.expected_packets or message.packets):
            continue
        if message.bytes is None or mtu is None:
            return mtu or 0
        return max(0, min(mtu, message.bytes - behind * mtu))
    return 0


def _repeats(one: Flow, two: Flow, shift: int, both: Ranges) -> tuple[tuple[int, int], ...]:
    if not two.repeats and not both:
        return one.repeats
    extras = dict(one.repeats)
    for position, extra in two.repeats:
        extras[position + shift] = extras.get(position + shift, 0) + extra
    for position in positions(both):
        extras[position] = extras.get(position, 0) + 1
    return tuple(sorted(extras.items()))


def _gap(first: int, last: int, seen: Ranges) -> Gap:
    return Gap(first, first % PSN_COUNT, last % PSN_COUNT, last - first + 1, covered(seen, first, last))


def _gaps(one: Flow, two: Flow, shift: int, later: Ranges, seen: Ranges) -> tuple[Gap, ...]:
    """Jumps forward: of both sides and at the seam, but not what lies behind the earlier side's highest position."""
    front = one.seen[-1][1] + 1
    found = [_gap(gap.position, gap.position + gap.packets - 1, seen) for gap in one.gaps]
    jumps = [(gap.position + shift, gap.position + shift + gap.packets - 1) for gap in two.gaps]
    ahead = next_in(later, front)
    behind = later[0][0] < front  # then the jump to what is ahead is among the later side's own
    if ahead is not None and ahead > front and not behind:
        jumps.insert(0, (front, ahead - 1))
    found += [_gap(max(first, front), last, seen) for first, last in jumps if last >= front]
    return tuple(sorted(found))


def _missing(one: Flow, two: Flow, seen: Ranges, to_come: int | None) -> tuple[Missing, ...]:
    begun = one if one.seen[0][0] == seen[0][0] else two  # whose message at the front it is
    found = [
        _missing_between(seen[0][0] - 1, seen[0][0] - 1, each.cause)
        for each in begun.missing
        if each.cause is Cause.CAPTURE_START
    ]
    for (_, before), (after, _) in pairwise(seen):
        found.append(_missing_between(before + 1, after - 1, Cause.LOST))
    last = seen[-1][1]
    if to_come is None:  # the message at the end is one side's alone
        whose = one if last == one.seen[-1][1] else two
        to_come = sum(each.packets for each in whose.missing if each.cause is Cause.CAPTURE_END)
    if to_come:
        found.append(_missing_between(last + 1, last + to_come, Cause.CAPTURE_END))
    return tuple(found)


def _missing_between(first: int, last: int, cause: Cause) -> Missing:
    return Missing(first, first % PSN_COUNT, last % PSN_COUNT, last - first + 1, cause)
