"""Message windows: which messages of each loop a switch that can follow a queue pair mirrors.

On a ring hop every loop is 2 (N - 1) s message ends (s slices a chunk; one chunk more with the extra step), the first
(N - 1) s of them partial sums and the rest fully reduced: the chunks i, i - 1, ..., i + 2 of hop i (domain/p4-facts.md,
``model.collectives.ring``). So the reduced half is one window of the count, and a chunk is a window of s messages. On a
tree every message that goes down is fully reduced and none that goes up is.

* ``reduced``: the fully reduced messages of every hop that a plan sees.
  Of a hop that carries none (up a tree) the window is empty.
* ``exact``: of a ring that is seen at just as many hops as it needs, the last hop only shows what the others lack: each
  of them lacks one chunk, and the window runs from the first of those chunks to the last.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol as Shape

from flowcheck_net.ids import Address, Channel, GroupName, Qpn
from flowcheck_net.intent import WindowRule
from flowcheck_net.model.job import Job, Lane, Protocol, Ring
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.model.wire import WireMessage, broadcast_wire_sizes
from flowcheck_net.model.wire_qps import has_closing_write, packets
from flowcheck_net.plan.problem import PlanningProblem

LONGEST_PERIOD = 32_767
"""Message ends of a loop that a switch can count (p4/README.md)."""


@dataclass(frozen=True, slots=True, order=True)
class MessageWindow:
    """Mirror only message ends ``low`` to ``high`` (without) of each ``period`` on the queue pairs of one hop."""

    group: GroupName
    channel: Channel
    index: int
    """Number of the hop in its ring or tree."""
    destination: Address
    qpns: tuple[Qpn, ...]
    """Destination queue pairs where the job names them, else empty."""
    period: int
    """Message ends of one loop."""
    low: int
    high: int
    slices: int
    """Messages of one chunk."""

    def holds(self, message: WireMessage, lane: Lane) -> bool:
        """Is the message mirrored?"""
        if not message.reduced:
            return False
        if not isinstance(lane, Ring):
            return True
        first = (lane.size - 1 + (self.index - message.chunk) % lane.size) * self.slices
        return self.low <= first < self.high


class Seen(Shape):
    """A hop that a plan sees."""

    @property
    def group(self) -> GroupName: ...  # noqa: D102
    @property
    def channel(self) -> Channel: ...  # noqa: D102
    @property
    def index(self) -> int: ...  # noqa: D102
    @property
    def counted(self) -> bool: ...  # noqa: D102
    @property
    def point(self) -> str: ...  # noqa: D102
    @property
    def also(self) -> tuple[str, ...]: ...  # noqa: D102


def message_windows(job: Job, hops: Iterable[Seen], *, exact: bool) -> tuple[MessageWindow, ...]:
    """A window for each hop, sorted."""
    lanes = {(lane.group, lane.channel): lane for lane in job.lanes}
    seen: dict[tuple[GroupName, Channel], list[Seen]] = {}
    for hop in hops:
        seen.setdefault((hop.group, hop.channel), []).append(hop)
    found = [window for key, listed in seen.items() for window in _of_lane(job, lanes[key], listed, exact=exact)]
    return tuple(sorted(found))


def _of_lane(job: Job, lane: Lane, hops: list[Seen], *, exact: bool) -> Iterable[MessageWindow]:
    slices = 2 if job.wire.nccl.protocol is Protocol.SIMPLE else 1
    extra = job.wire.nccl.extra_step
    counted = sorted(hop.index for hop in hops if hop.counted)
    last = counted[-1] if exact and isinstance(lane, Ring) and not extra and len(counted) > 1 else None
    for hop in hops:
        if isinstance(lane, Ring):
            half = (lane.size - 1) * slices
            period = 2 * half + (slices if extra else 0)
            low, high = half, period
            if hop.index == last:
                lacking = [(last - (other + 1)) % lane.size for other in counted[:-1]]
                low, high = half + min(lacking) * slices, half + (max(lacking) + 1) * slices
        else:
            period, low, high = 1, 0, 1 if lane.is_down(hop.index) else 0
        _, target = job.ends(lane, hop.index)
        qpns = lane.hop_qpns(hop.index)
        yield MessageWindow(lane.group, lane.channel, hop.index, target.address, qpns, period, low, high, slices)


def rules_by_point(
    job: Job, windows: Iterable[MessageWindow], hops: Iterable[Seen]
) -> dict[str, tuple[WindowRule, ...]]:
    """By ``Point.id``: what a session that watches it is told of the windows of the hops that it sees."""
    lanes = {(lane.group, lane.channel): lane for lane in job.lanes}
    rules = {(w.group, w.channel, w.index): tuple(_rules(job, lanes[w.group, w.channel], w)) for w in windows}
    found: dict[str, tuple[WindowRule, ...]] = {}
    for hop in hops if rules else ():
        for point in {hop.point, *hop.also}:
            found[point] = (*found.get(point, ()), *rules.get((hop.group, hop.channel, hop.index), ()))
    return found


def _rules(job: Job, lane: Lane, window: MessageWindow) -> Iterable[WindowRule]:
    """Turned by the messages that the queue pair carries before the first loop: declared broadcasts."""
    turn = before_first_loop(job, lane, window.index).messages % window.period
    low, high = window.low, window.high
    if 0 < high - low < window.period:
        low, high = (low + turn) % window.period, (high + turn) % window.period or window.period
    return (WindowRule(window.destination, qpn, window.period, low, high) for qpn in window.qpns)


@dataclass(frozen=True, slots=True)
class Prologue:
    """What a queue pair carries before the first loop: declared broadcasts."""

    messages: int
    packets: int


def before_first_loop(job: Job, lane: Lane, index: int) -> Prologue:
    """For a connection of one queue pair. Nothing goes into the root of a broadcast (ring rank 0), nor down a tree."""
    if not isinstance(lane, Ring) or index == lane.size - 1:
        return Prologue(0, 0)
    wire = job.wire
    sizes = [size for each in wire.broadcasts for size in broadcast_wire_sizes(wire, each, lane.channel)]
    return Prologue(len(sizes), sum(packets(size, wire.mtu) + has_closing_write(wire.nccl, size) for size in sizes))


def window_bytes(job: Job, windows: Iterable[MessageWindow]) -> dict[tuple[GroupName, Channel, int], int]:
    """(group, channel, hop) -> RDMA payload bytes a step inside its window."""
    lanes = {(lane.group, lane.channel): lane for lane in job.lanes}
    sizes = {}
    for window in windows:
        lane = lanes[window.group, window.channel]
        inside = (m.wire_bytes for m in lane_messages(job.wire, lane, window.index) if window.holds(m, lane))
        sizes[window.group, window.channel, window.index] = sum(inside)
    return sizes


def trimmed(problem: PlanningProblem, job: Job, windows: Iterable[MessageWindow]) -> PlanningProblem:
    """The problem with each hop as large as what its window mirrors."""
    sizes = window_bytes(job, windows)
    hops = []
    for hop in problem.hops:
        ring = problem.rings[hop.ring]
        hops.append(replace(hop, size=sizes.get((ring.group, ring.channel, hop.index), hop.size)))
    return replace(problem, hops=tuple(hops))
