"""The same traffic seen at two places: which copies were lost between them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flowcheck_net.ids import Address, Qpn
from flowcheck_net.receive.records import Flow, Records

PSN_COUNT = 1 << 24
"""PSNs have 24 bits."""


@dataclass(frozen=True, slots=True, order=True)
class LostRange:
    """Consecutive packets with the same number of lost copies each. Both ends included."""

    position: int
    """Unwrapped PSN of the first one, in the numbering of the flow before."""
    first_psn: int
    last_psn: int
    packets: int
    copies: int
    """Lost copies of each of them."""


@dataclass(frozen=True, slots=True)
class FlowLoss:
    """One direction of one queue pair, before and after."""

    source: Address
    destination: Address
    dest_qp: Qpn
    before: int
    """Copies of request packets: distinct ones and repeats."""
    after: int
    lost: int
    """Sum over all positions of the copies that are fewer after than before."""
    added: int
    """Sum over all positions of the copies that are more after than before."""
    lost_ranges: tuple[LostRange, ...]


_Key = tuple[Address, Address, Qpn]


def _by_key(records: Records) -> dict[_Key, list[Flow]]:
    found: dict[_Key, list[Flow]] = defaultdict(list)
    for flow in records.flows:
        if flow.seen:
            found[flow.source, flow.destination, flow.dest_qp].append(flow)
    return found


def _ends(flow: Flow) -> tuple[int, int]:
    return flow.seen[0][0], flow.seen[-1][1]


def _shift(flow: Flow, first: int, last: int) -> int:
    """What brings the positions of a flow to those from ``first`` to ``last``.

    The same PSN is the same packet, but each flow counts its wraps from its own first packet. Taken is where both have
    most in common, and of such places the one where they begin nearest to each other.
    """
    begin, end = _ends(flow)
    near = round((first - begin) / PSN_COUNT)
    shifts = [PSN_COUNT * wraps for wraps in (near, near - 1, near + 1)]
    return max(shifts, key=lambda shift: min(last, end + shift) - max(first, begin + shift))


def _steps(flows: Iterable[Flow], whole: tuple[int, int], sign: int) -> Iterable[tuple[int, int]]:
    """Where the number of copies changes, and by how much."""
    for flow in flows:
        shift = _shift(flow, *whole)
        for first, last in flow.seen:
            yield first + shift, sign
            yield last + 1 + shift, -sign
        for position, extra in flow.repeats:
            yield position + shift, sign * extra
            yield position + 1 + shift, -sign * extra


def _copies(flows: Iterable[Flow]) -> int:
    return sum(
        sum(last - first + 1 for first, last in flow.seen) + sum(extra for _, extra in flow.repeats) for flow in flows
    )


def _differences(before: Sequence[Flow], after: Sequence[Flow]) -> list[tuple[int, int, int]]:
    """Maximal stretches (position, packets, copies before minus after), without those where they are equal."""
    whole = max(map(_ends, before or after), key=lambda ends: ends[1] - ends[0])
    changes: dict[int, int] = defaultdict(int)
    for flows, sign in ((before, 1), (after, -1)):
        for position, change in _steps(flows, whole, sign):
            changes[position] += change
    places = sorted(position for position, change in changes.items() if change)
    stretches = []
    level = 0
    for here, there in pairwise(places):
        level += changes[here]
        if level:
            stretches.append((here, there - here, level))
    return stretches


def _flow_loss(key: _Key, before: Sequence[Flow], after: Sequence[Flow]) -> FlowLoss:
    source, destination, dest_qp = key
    differences = _differences(before, after)
    return FlowLoss(
        source=source,
        destination=destination,
        dest_qp=dest_qp,
        before=_copies(before),
        after=_copies(after),
        lost=sum(packets * copies for _, packets, copies in differences if copies > 0),
        added=-sum(packets * copies for _, packets, copies in differences if copies < 0),
        lost_ranges=tuple(
            LostRange(
                position=position,
                first_psn=position % PSN_COUNT,
                last_psn=(position + packets - 1) % PSN_COUNT,
                packets=packets,
                copies=copies,
            )
            for position, packets, copies in differences
            if copies > 0
        ),
    )


def compare(before: Records, after: Records) -> tuple[FlowLoss, ...]:
    """Count, for every flow of either side, the copies of request packets that did not arrive.

    A copy is one sighting of a packet: a retransmission is a second copy of the same PSN. Capture ports are added up,
    so each side should hold one sighting of each copy.

    Returns:
        One entry a flow, sorted. A flow that was never seen after has ``after`` 0: it may well go another way.
    """
    earlier, later = _by_key(before), _by_key(after)
    return tuple(_flow_loss(key, earlier.get(key, []), later.get(key, [])) for key in sorted({*earlier, *later}))
