"""Plan points x wire -> what must be seen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.errors import StalePlan
from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, Qpn, Rank
from flowcheck_net.model.job import Job, Lane, Wire
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.model.wire import WireMessage

Observed = Mapping[tuple[GroupName, Channel, int], tuple[tuple[CapturePort, ...], int]]
"""(group, channel, hop index) -> (capture ports, copies of each packet at them together)."""


@dataclass(frozen=True, slots=True)
class HopWindow:
    """Which messages of a hop its switch mirrors, where it follows the queue pair."""

    period: int
    """Message ends of a loop; ``low`` to ``high`` (without) of them are mirrored."""
    low: int
    high: int
    start: int
    """PSN of the first packet of the first iteration: declared broadcasts come before it."""
    loop: int
    """Packets of its first loop."""
    inside: frozenset[int]
    """Indices of the mirrored messages of an iteration."""


@dataclass(frozen=True, slots=True)
class ExpectedHop:
    """One hop of a ring or tree and what one iteration puts on it."""

    group: GroupName
    channel: Channel
    index: int
    ring_size: int
    """Ranks in the ring or tree."""
    src_rank: Rank
    dst_rank: Rank
    source: Address
    destination: Address
    qpns: tuple[Qpn, ...]
    """Destination queue pairs where the job names them, else empty."""
    captures: tuple[CapturePort, ...]
    """Where the plan expects it; empty: not planned (or no plan was given)."""
    copies: int
    """Copies of each packet expected at those captures together."""
    messages: tuple[WireMessage, ...]
    """All that one iteration puts on the hop, mirrored or not: they give a packet its place."""
    window: HopWindow | None = None
    """None: every message is mirrored."""

    @property
    def mirrored(self) -> tuple[WireMessage, ...]:
        """The messages that must be seen."""
        if self.window is None:
            return self.messages
        return tuple(m for n, m in enumerate(self.messages) if n in self.window.inside)


@dataclass(frozen=True, slots=True)
class Expectation:
    """All hops of a job that cross the network."""

    job: str
    wire: Wire
    hops: tuple[ExpectedHop, ...]
    addresses: frozenset[Address]
    """Of all ranks: traffic between others is foreign."""
    planned: bool
    """False: no plan was given, so every hop may or may not be mirrored."""
    iteration_time: float = 0.0
    """Seconds from one iteration to the next, as the job says; 0: not known."""


def expect(job: Job, observed: Observed | None) -> Expectation:
    """What must be seen of every hop that crosses the network. Hops inside a host are left out: no switch sees them.

    Args:
        job: The job.
        observed: (group, channel, hop index) -> (capture ports, copies of each packet at them together), as planned;
            None where there is no plan.

    Raises:
        StalePlan: ``observed`` names a hop that the job does not have on the network.
    """
    hops = tuple(hop for lane in job.lanes for hop in _lane_hops(job, lane, observed or {}))
    known = {(h.group, h.channel, h.index) for h in hops}
    strange = sorted(set(observed or {}) - known)
    if strange:
        group, channel, index = strange[0]
        raise StalePlan(
            f"the plan watches hop {index} of {group} on channel {channel}, which the job has not on the network",
            hint="run plan again",
        )
    addresses = frozenset(place.address for place in job.places) | {
        address for hop in hops for address in (hop.source, hop.destination)
    }
    planned = observed is not None
    return Expectation(job.name, job.wire, hops, addresses, planned, job.iteration_time)


def _lane_hops(job: Job, lane: Lane, observed: Observed) -> Iterator[ExpectedHop]:
    for index in range(lane.hop_count):
        source, destination = job.ends(lane, index)
        if source.host == destination.host:
            continue
        captures, copies = observed.get((lane.group, lane.channel, index), ((), 0))
        yield ExpectedHop(
            group=lane.group,
            channel=lane.channel,
            index=index,
            ring_size=lane.size,
            src_rank=source.rank,
            dst_rank=destination.rank,
            source=source.address,
            destination=destination.address,
            qpns=lane.hop_qpns(index),
            captures=captures,
            copies=copies,
            messages=lane_messages(job.wire, lane, index),
        )
