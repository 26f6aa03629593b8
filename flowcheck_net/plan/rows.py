"""The hops of a job that leave a host, with the places where each may be seen."""

from collections.abc import Iterable
from dataclasses import dataclass

from flowcheck_net.ids import Address
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.model.job import Job, Lane, RankPlace, Ring, Tree, Wire
from flowcheck_net.model.lanes import gives_copy, lane_messages
from flowcheck_net.model.routing import Site, hop_sites, hop_stages
from flowcheck_net.model.wire import Totals, hop_totals
from flowcheck_net.model.wire_totals import CarriedTotals, ring_totals

_FRAME = 14 + 4 + 20 + 8 + 12 + 4
"""Bytes a packet beside payload and IP header: Ethernet 14, FCS 4, preamble and gap 20, UDP 8, BTH 12, ICRC 4."""
_MESSAGE = 16 + 4
"""Bytes a message beside them: RETH 16, immediate 4."""
_IP_HEADER = {4: 20, 6: 40}


@dataclass(frozen=True, slots=True)
class HopRow:
    """One hop that leaves a host."""

    ring: int
    index: int
    source: Address
    destination: Address
    totals: Totals
    sites: tuple[Site, ...]
    """Certain, in the order of travel."""
    stages: tuple[tuple[Site, ...], ...]
    """Places of which it crosses exactly one; only where there are several, and only where cuts are asked for."""
    counts: bool
    """It carries fully reduced data."""
    ends: tuple[RankPlace, RankPlace]
    """Sender and receiver."""

    @property
    def one_path(self) -> bool:
        """Do the certain sites join up to a whole path? Then it crosses these places and no other."""
        if not self.sites or len(self.sites) % 2:
            return False
        inside = zip(self.sites[0::2], self.sites[1::2], strict=True)
        return all(enters.switch == leaves.switch for enters, leaves in inside)

    @property
    def everywhere(self) -> tuple[Site, ...]:
        """Certain sites and those of the stages."""
        return (*self.sites, *(site for stage in self.stages for site in stage))

    @property
    def family(self) -> int:
        """IP version."""
        return 6 if ":" in self.source else 4

    @property
    def bytes_on_the_wire(self) -> int:
        """Of one iteration, frames and gaps included."""
        header = _FRAME + _IP_HEADER[self.family]
        return self.totals.wire_bytes + self.totals.packets * header + self.totals.messages * _MESSAGE


def hop_rows(fabric: Fabric, job: Job, *, cuts: bool, reduced: bool) -> list[HopRow]:
    """All hops between hosts, by lane and index.

    Args:
        fabric: Where the ranks hang.
        job: Rings and trees.
        cuts: Find the stages of several places too.
        reduced: Count only the fully reduced messages of each hop: what message windows mirror.

    Raises:
        PlanError: Two hosts are not connected.
    """
    sizes = _Sizes(job.wire)
    rows: list[HopRow] = []
    for number, lane in enumerate(job.lanes):
        for index in range(lane.hop_count):
            source, destination = job.ends(lane, index)
            if source.host == destination.host:
                continue
            totals = sizes.of(lane, index)
            several = (s for s in hop_stages(fabric, source, destination) if len(s) > 1) if cuts else ()
            rows.append(
                HopRow(
                    ring=number,
                    index=index,
                    source=source.address,
                    destination=destination.address,
                    totals=totals.reduced if reduced else totals.total,
                    sites=hop_sites(fabric, source, destination),
                    stages=tuple(several),
                    counts=gives_copy(lane, index),
                    ends=(source, destination),
                )
            )
    return rows


def packet_share(rows: Iterable[HopRow]) -> tuple[int, int]:
    """(packets, bytes on the wire) of one iteration of some hops."""
    listed = list(rows)
    return sum(row.totals.packets for row in listed), sum(row.bytes_on_the_wire for row in listed)


class _Sizes:
    """Totals of hops, each worked out once: groups of one size are alike."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._known: dict[tuple[object, ...], CarriedTotals] = {}

    def of(self, lane: Lane, index: int) -> CarriedTotals:
        """All messages of one iteration on one hop. Edges of a tree differ only by direction."""
        key: tuple[object, ...] = (lane.size, lane.channel, index, lane.carries)
        if isinstance(lane, Tree):
            shape = (lane.members, lane.hosts, lane.head, lane.heads)
            key = (*shape, lane.channel, lane.carries, lane.is_down(index))
        if key not in self._known:
            self._known[key] = self._sum(lane, index)
        return self._known[key]

    def _sum(self, lane: Lane, index: int) -> CarriedTotals:
        if isinstance(lane, Ring):
            return ring_totals(self._wire, lane, index)
        totals = hop_totals(lane_messages(self._wire, lane, index))
        return CarriedTotals(totals.reduced, totals.total)
