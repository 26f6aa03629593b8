"""What a plan mirrors for each gradient byte, by the way of mirroring, beside the bound that no way can beat."""

from dataclasses import dataclass

from flowcheck_net.model.job import Job, Lane, Protocol, Ring
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.model.wire import hop_totals
from flowcheck_net.model.wire_totals import CarriedTotals, ring_totals
from flowcheck_net.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """One way of mirroring."""

    name: str
    bytes: int
    """RDMA payload a step."""
    ratio: float
    """For each gradient byte."""


def strategies(plan: Plan) -> tuple[StrategyCost, ...]:
    """Whole port, reduced half and exact cover at the hops and with the copies of the plan.

    * Whole port: every message of every hop that the plan sees.
    * Reduced half: the fully reduced ones of them.
    * Exact cover: each fully reduced chunk as often as the plan gives copies, and nothing else. For one copy of a ring
      it is one hop's reduced half, and from a second hop the one chunk that the first lacks.
    """
    job = plan.job
    lanes = {(lane.group, lane.channel): lane for lane in job.lanes}
    sizes = _Sizes(job)
    port = reduced = 0
    for hop in plan.hops:
        totals = sizes.of(lanes[hop.group, hop.channel], hop.index)
        port += hop.copies * totals.total.wire_bytes
        reduced += hop.copies * totals.reduced.wire_bytes
    exact = sum(line.copies * sizes.share(lanes[line.group, line.channel]) for line in plan.coverage)
    gradient = plan.cost.gradient_bytes
    named = (("whole port", port), ("reduced half", reduced), ("exact cover", exact))
    return tuple(StrategyCost(name, size, size / gradient) for name, size in named)


def bound(job: Job) -> float:
    """Wire bytes for each gradient byte of one copy and nothing else: LL sends 2 for 1, LL128 16 for 15."""
    return {Protocol.LL: 2.0, Protocol.LL128: 16 / 15, Protocol.SIMPLE: 1.0}[job.wire.nccl.protocol]


class _Sizes:
    """Totals by shape: groups of one size are alike."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._hops: dict[tuple[object, ...], CarriedTotals] = {}
        self._shares: dict[tuple[object, ...], int] = {}

    def of(self, lane: Lane, index: int) -> CarriedTotals:
        """What one iteration puts on one hop."""
        key = (*_shape(lane), index if isinstance(lane, Ring) else lane.is_down(index))
        if key not in self._hops:
            self._hops[key] = self._sum(lane, index)
        return self._hops[key]

    def _sum(self, lane: Lane, index: int) -> CarriedTotals:
        if isinstance(lane, Ring):
            return ring_totals(self._job.wire, lane, index)
        totals = hop_totals(lane_messages(self._job.wire, lane, index))
        return CarriedTotals(totals.reduced, totals.total)

    def share(self, lane: Lane) -> int:
        """Bytes of every fully reduced chunk of a lane, each once.

        Without the extra step each hop of a ring lacks one chunk and each chunk is lacking on one hop, so N hops
        together show each of them N - 1 times. A hop that leads down a tree shows all.
        """
        key = _shape(lane)
        if key not in self._shares:
            if isinstance(lane, Ring) and not self._job.wire.nccl.extra_step:
                every = sum(self.of(lane, hop).reduced.wire_bytes for hop in range(lane.size))
                self._shares[key] = every // (lane.size - 1)
            else:
                self._shares[key] = self.of(lane, 0).reduced.wire_bytes
        return self._shares[key]


def _shape(lane: Lane) -> tuple[object, ...]:
    if isinstance(lane, Ring):
        return ("ring", lane.size, lane.channel, lane.carries)
    return ("tree", lane.members, lane.hosts, lane.head, lane.heads, lane.channel, lane.carries)
