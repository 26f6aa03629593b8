"""Which packets cross a watched port: the way of a flow through the fabric that the plan pictures.

Equal shortest ways are chosen by a hash of the flow, as ECMP does: one queue pair and direction keeps one way.
This shares no code with the planner's routing, so that synthesized traffic is a test of it.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import Address, CapturePort
from flowcheck_net.intent import Direction, WindowRule
from flowcheck_net.model.job import RankPlace
from flowcheck_net.plan.plan import Picture, Plan


@dataclass(frozen=True, slots=True, order=True)
class Tap:
    """One source of a mirror session: what passes here is copied to ``capture``."""

    capture: CapturePort
    switch: str
    port: str
    direction: Direction
    filters: frozenset[tuple[Address, Address]]
    """Address pairs (source, destination) that are mirrored; empty: all."""
    windows: tuple[WindowRule, ...] = ()
    """What the switch mirrors of the queue pairs that it follows; empty: whole ports."""

    def mirrors(self, source: Address, destination: Address) -> bool:
        """Does the session's filter let a packet of these addresses through?"""
        return not self.filters or (source, destination) in self.filters


def taps_of(plan: Plan) -> tuple[Tap, ...]:
    """Every source of every planned session, in canonical order."""
    found = (
        Tap(
            planned.capture,
            planned.switch,
            source.port,
            source.direction,
            frozenset((one.source, one.destination) for one in planned.session.filters),
            planned.session.windows,
        )
        for planned in plan.sessions
        for source in planned.session.sources
    )
    return tuple(sorted(found, key=lambda tap: (tap.capture, tap.switch, tap.port, tap.direction, sorted(tap.filters))))


def sender_taps(picture: Picture, places: Iterable[RankPlace]) -> tuple[Tap, ...]:
    """One tap at the network card of each of these places, for all that it sends; named ``host:nic``."""
    routes = Routes(picture)
    taps = set()
    for place in places:
        nic, switch, port = routes.uplink(place)
        taps.add(Tap(CapturePort(f"{place.host}:{nic}"), switch, port, Direction.RX, frozenset()))
    return tuple(sorted(taps, key=lambda tap: tap.capture))


@dataclass(frozen=True, slots=True)
class Crossing:
    """A port that a flow crosses."""

    switch: str
    port: str
    direction: Direction
    depth: int
    """Switches already crossed: 0 at the sender's leaf."""


class Routes:
    """Shortest ways between network cards over the switches of a picture."""

    def __init__(self, picture: Picture) -> None:
        self._switches = frozenset(picture.switches)
        self._links: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for device, port, peer, peer_port in sorted(picture.links):
            self._links[device].append((port, peer, peer_port))
            self._links[peer].append((peer_port, device, port))
        self._distances = cache(self._distances_to)

    def way(self, source: RankPlace, destination: RankPlace, flow: str) -> tuple[Crossing, ...]:
        """The ports that packets of ``flow`` cross, in order.

        Raises:
            PlanError: The picture has no way between the two.
        """
        _, switch, enters = self.uplink(source)
        _, last, leaves = self.uplink(destination)
        distances = self._distances(last)
        if switch not in distances:
            raise PlanError(
                f"no way from {source.host}:{source.nic} to {destination.host}:{destination.nic} in the plan's picture",
                hint="make the plan again: its picture must hold the links between the hosts of the job",
            )
        crossings: list[Crossing] = []
        for depth in range(distances[switch] + 1):
            crossings.append(Crossing(switch, enters, Direction.RX, depth))
            if switch == last:
                crossings.append(Crossing(switch, leaves, Direction.TX, depth))
                break
            nearer = [link for link in self._links[switch] if distances.get(link[1], -1) == distances[switch] - 1]
            port, peer, enters = nearer[_hash(f"{flow}/{switch}") % len(nearer)]
            crossings.append(Crossing(switch, port, Direction.TX, depth))
            switch = peer
        return tuple(crossings)

    def uplink(self, place: RankPlace) -> tuple[str, str, str]:
        """(nic, switch, switch port) of a rank's network card."""
        for link in self._links[place.host]:
            if link[0] == place.nic and link[1] in self._switches:
                return link
        raise PlanError(
            f"the plan's picture has no link of {place.host}:{place.nic}, where rank {place.rank} runs",
            hint="make the plan again: its picture must hold the links of the hosts of the job",
        )

    def _distances_to(self, switch: str) -> dict[str, int]:
        """Links from every switch to this one; hosts and checkpoint nodes pass nothing on."""
        distances = {switch: 0}
        queue = deque([switch])
        while queue:
            near = queue.popleft()
            for _, peer, _ in self._links[near]:
                if peer in self._switches and peer not in distances:
                    distances[peer] = distances[near] + 1
                    queue.append(peer)
        return distances


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def seen_at(way: Iterable[Crossing], tap: Tap) -> Crossing | None:
    """Where on its way a flow passes the tap, if it does."""
    for crossing in way:
        if (crossing.switch, crossing.port, crossing.direction) == (tap.switch, tap.port, tap.direction):
            return crossing
    return None
