"""What a plan's observation points, capture ports and checkpoint nodes receive in one step."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName
from flowcheck_net.model.job import Lane
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.plan.plan import Plan, PlannedHop

FRAME_BYTES = 14 + 4 + 20 + 8 + 12 + 4
"""Of a packet on the link, beside IP header and payload: Ethernet, FCS, preamble and gap, UDP, BTH, ICRC."""
MESSAGE_BYTES = 16 + 4
"""Of a message beside them: RETH and immediate."""


@dataclass(slots=True)
class Load:
    """Bytes (on the link, headers and gaps included) and packets a step."""

    bytes: int = 0
    packets: int = 0

    def add(self, other: "Load") -> None:
        """Add the traffic of another."""
        self.bytes += other.bytes
        self.packets += other.packets


@dataclass(frozen=True, slots=True)
class Traffic:
    """What arrives where in one step."""

    points: dict[str, Load] = field(default_factory=lambda: defaultdict(Load))
    """``Point.id`` ->"""
    captures: dict[CapturePort, Load] = field(default_factory=lambda: defaultdict(Load))
    nodes: dict[str, Load] = field(default_factory=lambda: defaultdict(Load))
    homes: dict[str, str] = field(default_factory=dict)
    """Data-parallel group -> the checkpoint node that sees most of its hops: there its state lives."""
    packets_by_copies: Counter[int] = field(default_factory=Counter)
    """Counted copies of a fully reduced packet -> packets of all groups together, each once."""


def base_group(group: GroupName) -> str:
    """``dp0`` of ``dp0.head3``: the heads of a group share its state."""
    return group.partition(".")[0]


def traffic(plan: Plan) -> Traffic:
    """Add up every planned hop at every point that sees it."""
    result = Traffic()
    capture = {point.id: point.capture for point in plan.points}
    lanes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    watched: dict[tuple[GroupName, Channel], list[PlannedHop]] = defaultdict(list)
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for hop in plan.hops:
        watched[hop.group, hop.channel].append(hop)
        load = _hop_load(plan, lanes[hop.group, hop.channel], hop.index)
        for point in (hop.point, *hop.also):
            node = capture[point].partition(":")[0]
            result.points[point].add(load)
            result.captures[capture[point]].add(load)
            result.nodes[node].add(load)
            votes[base_group(hop.group)][node] += 1
    for key, hops in watched.items():
        result.packets_by_copies.update(_copies(plan, lanes[key], [hop.index for hop in hops if hop.counted]))
    for group, found in votes.items():
        result.homes[group] = min(found, key=lambda node: (-found[node], node))
    return result


def _hop_load(plan: Plan, lane: Lane, index: int) -> Load:
    messages = lane_messages(plan.job.wire, lane, index)
    source, _ = plan.job.ends(lane, index)
    packets = sum(m.packets for m in messages)
    payload = sum(m.wire_bytes for m in messages)
    return Load(payload + packets * (FRAME_BYTES + _ip_header(source.address)) + len(messages) * MESSAGE_BYTES, packets)


def _ip_header(address: Address) -> int:
    return 40 if ":" in address else 20


def _copies(plan: Plan, lane: Lane, hops: list[int]) -> Counter[int]:
    """Copies -> fully reduced packets of one lane. The same part of a bucket is the same packets on every hop."""
    seen: Counter[tuple[int, int, int]] = Counter()
    packets: dict[tuple[int, int, int], int] = {}
    for index in hops:
        here: Counter[tuple[int, int, int]] = Counter()
        for message in lane_messages(plan.job.wire, lane, index):
            if message.reduced:
                here[message.bucket, message.loop, message.chunk] += message.packets
        packets.update(here)
        seen.update(here.keys())
    result: Counter[int] = Counter()
    for part, count in packets.items():
        result[seen[part]] += count
    return result
