"""Where a hop of a ring is certain to be seen.

With several equal paths a packet may take any of them (UDP source ports differ by queue pair and are not predicted), so
a place counts only when every shortest path crosses it.
"""

from dataclasses import dataclass

from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction
from flowcheck_net.model.fabric import Fabric, SwitchPort
from flowcheck_net.model.job import RankPlace


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A switch port and a direction, seen from the switch."""

    switch: SwitchName
    port: PortName
    direction: Direction

    @property
    def at(self) -> SwitchPort:
        """The port alone."""
        return SwitchPort(self.switch, self.port)


def hop_sites(fabric: Fabric, src: RankPlace, dst: RankPlace) -> tuple[Site, ...]:
    """The places that every packet from ``src`` to ``dst`` crosses, in the order of travel.

    Always the sender's leaf port (rx) and the receiver's (tx); inter-switch ports only where no other path is as short.
    None where both ranks run on one host: NVLink and shared memory are invisible.

    Raises:
        PlanError: no path joins the two leaf switches.
    """
    if src.host == dst.host:
        return ()
    first = fabric.attachment(src.host, src.nic)
    last = fabric.attachment(dst.host, dst.nic)
    sites = [_site(first, Direction.RX)]
    if first.switch != last.switch:
        for crossing in fabric.certain_crossings(first.switch, last.switch):
            sites += [_site(crossing.leaves, Direction.TX), _site(crossing.enters, Direction.RX)]
    sites.append(_site(last, Direction.TX))
    return tuple(sites)


def _site(at: SwitchPort, direction: Direction) -> Site:
    return Site(at.switch, at.port, direction)
