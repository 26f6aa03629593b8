"""Two records of what should be the same traffic: what differs, by capture port and flow."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.compare import FlowLoss, compare
from flowcheck_net.receive.records import Flow, Records

Pair = tuple[int | None, int | None]
"""A number in the first and the second records; None: unknown."""
_FlowKey = tuple[CapturePort, Address, Address, Qpn]


@dataclass(frozen=True, slots=True)
class CaptureDifference:
    """A capture port that only one side has, or whose counters differ."""

    name: CapturePort
    only_in: str
    """``first``, ``second``, or empty: in both."""
    counters: dict[str, Pair]
    """Those that differ."""


@dataclass(frozen=True, slots=True)
class FlowDifference:
    """A flow that only one side has, or that is not the same in both."""

    capture: CapturePort
    source: Address
    destination: Address
    dest_qp: Qpn
    only_in: str
    loss: FlowLoss | None
    """Copies of request packets; None: there are none, or they are the same."""
    counters: dict[str, Pair]
    messages: tuple[int, int]
    """Messages that only the first, only the second side has: by PSN, length, packets, immediate and ICRC sum."""


@dataclass(frozen=True, slots=True)
class Difference:
    """All that differs; empty where nothing does."""

    captures: tuple[CaptureDifference, ...]
    flows: tuple[FlowDifference, ...]

    @property
    def missed(self) -> int:
        """Copies of request packets that the first has and the second misses."""
        return sum(flow.loss.lost for flow in self.flows if flow.loss)

    def __bool__(self) -> bool:
        return bool(self.captures or self.flows)


def diff(first: Records, second: Records) -> Difference:
    """Compare records. Times, files and warnings do not count; positions are compared modulo their wraps."""
    return Difference(tuple(_captures(first, second)), tuple(_flows(first, second)))


def _unequal(one: Mapping[str, int | None], two: Mapping[str, int | None]) -> dict[str, Pair]:
    return {
        name: (one.get(name, 0), two.get(name, 0)) for name in {**one, **two} if one.get(name, 0) != two.get(name, 0)
    }


def _captures(first: Records, second: Records) -> Iterator[CaptureDifference]:
    sides = [{capture.name: capture for capture in records.captures} for records in (first, second)]
    for name in sorted({**sides[0], **sides[1]}):
        counters = [
            {
                "packets": capture.packets,
                "bytes": capture.bytes,
                "dropped": capture.dropped,
                **capture.frames,
                **capture.attributes,
                **{f"loss {name}": count for name, count in capture.loss.items()},
            }
            if (capture := side.get(name))
            else {}
            for side in sides
        ]
        unequal = _unequal(*counters)
        if unequal or not all(counters):
            yield CaptureDifference(name, _only_in(*counters), unequal)


def _only_in(one: object, two: object) -> str:
    if one and two:
        return ""
    return "first" if one else "second"


def _flows(first: Records, second: Records) -> Iterator[FlowDifference]:
    sides = [{_key(flow): flow for flow in records.flows} for records in (first, second)]
    losses = dict(_losses(first, second))
    for key in sorted({**sides[0], **sides[1]}):
        one, two = sides[0].get(key), sides[1].get(key)
        counters = _unequal(_counters(one), _counters(two))
        loss = losses.get(key)
        messages = _messages(one, two)
        if one is None or two is None or counters or loss or any(messages):
            yield FlowDifference(*key, _only_in(one, two), loss, counters, messages)


def _key(flow: Flow) -> _FlowKey:
    return flow.capture, flow.source, flow.destination, flow.dest_qp


def _losses(first: Records, second: Records) -> Iterator[tuple[_FlowKey, FlowLoss]]:
    """By flow, where copies differ. Capture ports are not added up here."""
    for name in sorted({flow.capture for records in (first, second) for flow in records.flows}):
        for loss in compare(_of(first, name), _of(second, name)):
            if loss.lost or loss.added:
                yield (name, loss.source, loss.destination, loss.dest_qp), loss


def _of(records: Records, name: CapturePort) -> Records:
    return Records((), (), (), tuple(flow for flow in records.flows if flow.capture == name))


def _counters(flow: Flow | None) -> dict[str, int | None]:
    if flow is None:
        return {}
    return {
        **flow.packets,
        "bytes": flow.bytes,
        "mtu": flow.mtu,
        "truncated": flow.truncated,
        "retransmitted": flow.retransmitted,
        "duplicated": flow.duplicated,
        "reordered": flow.reordered,
    }


def _messages(one: Flow | None, two: Flow | None) -> tuple[int, int]:
    if one is not None and two is not None and one.messages == two.messages:
        return 0, 0
    found = [
        Counter(
            (each.first_psn, each.bytes, each.packets, each.immediate, each.icrc_sum)
            for each in (flow.messages if flow else ())
        )
        for flow in (one, two)
    ]
    return (found[0] - found[1]).total(), (found[1] - found[0]).total()
