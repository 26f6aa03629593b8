"""Where a hop may be seen, and where it is certain to be.

With several equal paths a packet may take any of them (UDP source ports differ by queue pair and are not predicted), so
a place is certain only when every shortest path crosses it. Otherwise all places of a stage together are: the paths go
through the same number of links, and each takes exactly one of every stage. Bonds and bundles of parallel links are
stages like others; a breakout is a port like others.
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

    The sender's leaf port (rx) and the receiver's (tx), if they are not bonds; inter-switch ports only where no other
    path is as short. None where both ranks run on one host: NVLink and shared memory are invisible.

    Raises:
        PlanError: no path joins the two leaf switches.
    """
    if src.host == dst.host:
        return ()
    first = fabric.attachments(src.host, src.nic)
    last = fabric.attachments(dst.host, dst.nic)
    sites = [_site(first[0], Direction.RX)] if len(first) == 1 else []
    leaves = _leaves(first, last)
    if leaves is not None:
        for crossing in fabric.certain_crossings(*leaves):
            sites += [_site(crossing.leaves, Direction.TX), _site(crossing.enters, Direction.RX)]
    if len(last) == 1:
        sites.append(_site(last[0], Direction.TX))
    return tuple(sites)


def hop_stages(fabric: Fabric, src: RankPlace, dst: RankPlace) -> tuple[tuple[Site, ...], ...]:
    """Stage by stage, in the order of travel, the places of which every packet crosses exactly one.

    A stage of one place is certain. Between bonds that end on several switches paths differ in length, so only the
    first and the last stage are given. None where both ranks run on one host.

    Raises:
        PlanError: no path joins the two leaf switches.
    """
    if src.host == dst.host:
        return ()
    first = fabric.attachments(src.host, src.nic)
    last = fabric.attachments(dst.host, dst.nic)
    stages = [tuple(_site(at, Direction.RX) for at in first)]
    leaves = _leaves(first, last)
    if leaves is not None:
        for links in fabric.crossings(*leaves):
            stages.append(tuple(sorted({_site(link.leaves, Direction.TX) for link in links})))
            stages.append(tuple(sorted({_site(link.enters, Direction.RX) for link in links})))
    stages.append(tuple(_site(at, Direction.TX) for at in last))
    return tuple(stages)


def possible_crossings(fabric: Fabric, src: RankPlace, dst: RankPlace) -> frozenset[Site]:
    """The places between switches that a packet from ``src`` to ``dst`` may cross: those of every shortest path.

    Raises:
        PlanError: no path joins two leaf switches.
    """
    if src.host == dst.host:
        return frozenset()
    sources = {at.switch for at in fabric.attachments(src.host, src.nic)}
    targets = {at.switch for at in fabric.attachments(dst.host, dst.nic)}
    pairs = ((source, target) for source in sources for target in targets if source != target)
    links = {link for pair in pairs for stage in fabric.crossings(*pair) for link in stage}
    leave = {_site(link.leaves, Direction.TX) for link in links}
    return frozenset(leave | {_site(link.enters, Direction.RX) for link in links})


def _leaves(first: tuple[SwitchPort, ...], last: tuple[SwitchPort, ...]) -> tuple[SwitchName, SwitchName] | None:
    """The two leaf switches, if there is one at each end and they differ."""
    sources, targets = {at.switch for at in first}, {at.switch for at in last}
    if len(sources) != 1 or len(targets) != 1 or sources == targets:
        return None
    return sources.pop(), targets.pop()


def _site(at: SwitchPort, direction: Direction) -> Site:
    return Site(at.switch, at.port, direction)
