"""The fabric as a graph. The only file that knows the graph's attribute names.

Facts about ports and devices are plain dictionaries, so that a look-up costs the same in a fabric of a hundred thousand
NICs; the networkx graph answers questions about paths.
"""

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import Address, CapturePort, HostName, NicName, NodeName, PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource, SwitchAddress
from flowcheck_net.model.platforms import on_asic
from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.topology import ForeignSession, Limits, Topology

_PORTS = "ports"
"""Edge attribute: device name -> its port on this link."""


@dataclass(frozen=True, slots=True, order=True)
class SwitchPort:
    """A port of a switch."""

    switch: SwitchName
    port: PortName


@dataclass(frozen=True, slots=True, order=True)
class Capture:
    """A capture NIC and the switch port that it hangs on."""

    at: SwitchPort
    node: NodeName
    nic: NicName
    gbps: int
    """Line rate of the NIC, Gbit/s."""
    address: Address | None = None
    """Where encapsulated copies reach it."""

    @property
    def name(self) -> CapturePort:
        """``node:nic``, as in capture files."""
        return CapturePort(f"{self.node}:{self.nic}")


@dataclass(frozen=True, slots=True)
class Crossing:
    """A link between switches in the direction of travel."""

    leaves: SwitchPort
    enters: SwitchPort


class Fabric:
    """What is cabled to what."""

    def __init__(self, topology: Topology) -> None:
        self._switches = {
            SwitchName(s.name): SwitchAddress(SwitchName(s.name), on_asic(s.platform, s.asic), s.management)
            for s in topology.switches
        }
        self._gbps = {_port(s.name, p.name): p.gbps for s in topology.switches for p in s.ports}
        self._shared = {_port(s.name, p.name) for s in topology.switches for p in s.ports if p.shared}
        self._slices = {_port(s.name, p.name): p.slice or "" for s in topology.switches for p in s.ports}
        self._ports = {SwitchName(s.name): frozenset(PortName(p.name) for p in s.ports) for s in topology.switches}
        self._limits = {SwitchName(s.name): s.limits for s in topology.switches}
        self._foreign = {SwitchName(s.name): tuple(map(_foreign, s.foreign_sessions)) for s in topology.switches}
        self._bonds = {
            (HostName(h.name), NicName(nic.name)): tuple(NicName(n.name) for n in h.nics if n.lag == nic.lag)
            for h in topology.hosts
            for nic in h.nics
            if nic.lag is not None
        }
        self._domains = {
            device.name: frozenset(device.failure_domains)
            for devices in (topology.switches, topology.hosts, topology.checkpoint_nodes)
            for device in devices
        }
        self._attachment: dict[tuple[HostName, NicName], SwitchPort] = {}
        self._captures: dict[SwitchName, list[Capture]] = {name: [] for name in self._switches}
        self._peers: dict[SwitchPort, tuple[str, str]] = {}
        self._core: nx.MultiGraph[str] = nx.MultiGraph()
        self._core.add_nodes_from(self._switches)
        self._crossings: dict[tuple[SwitchName, SwitchName], tuple[Crossing, ...]] = {}
        self._stages: dict[tuple[SwitchName, SwitchName], tuple[tuple[Crossing, ...], ...]] = {}
        self._connect(topology)

    @classmethod
    def from_spec(cls, topology: Topology) -> "Fabric":
        """The fabric that a checked topology file describes."""
        return cls(topology)

    @property
    def switches(self) -> tuple[SwitchName, ...]:
        """All switches, in name order."""
        return tuple(sorted(self._switches))

    def is_switch(self, device: str) -> bool:
        """Is there a switch of this name?"""
        return device in self._switches

    def address(self, switch: SwitchName) -> SwitchAddress:
        """Platform and management reference of a switch."""
        return self._switches[switch]

    def gbps(self, at: SwitchPort) -> int:
        """Line rate of a switch port, Gbit/s in each direction."""
        return self._gbps[at]

    def is_shared(self, at: SwitchPort) -> bool:
        """Does traffic of other tenants cross this port? So the file says of the port or of the host on it."""
        return at in self._shared

    def slice(self, at: SwitchPort) -> str:
        """The slice of the switch's ASIC that serves a port; ports that name none share one."""
        return self._slices[at]

    def ports(self, switch: SwitchName) -> frozenset[PortName]:
        """The ports of a switch that the topology names."""
        return self._ports[switch]

    def limits(self, switch: SwitchName) -> Limits:
        """What the site says of this very switch."""
        return self._limits[switch]

    def foreign_sessions(self, switch: SwitchName) -> tuple[MirrorSession, ...]:
        """Mirror sessions of other owners."""
        return self._foreign[switch]

    def failure_domains(self, device: str) -> frozenset[str]:
        """What fails together with a switch, host or checkpoint node."""
        return self._domains[device]

    def attachments(self, host: HostName, nic: NicName) -> tuple[SwitchPort, ...]:
        """The switch ports that traffic of a NIC may use: those of all NICs of its bond, sorted."""
        return tuple(sorted(self._attachment[host, member] for member in self._bonds.get((host, nic), (nic,))))

    def peer(self, at: SwitchPort) -> tuple[str, str] | None:
        """(device, port or NIC) at the other end of the cable; None: nothing is plugged in."""
        return self._peers.get(at)

    def captures(self, switch: SwitchName) -> tuple[Capture, ...]:
        """The capture NICs on a switch, sorted by port."""
        return tuple(sorted(self._captures[switch]))

    def certain_crossings(self, source: SwitchName, target: SwitchName) -> tuple[Crossing, ...]:
        """The inter-switch links that every shortest path from ``source`` to ``target`` takes, in order.

        Raises:
            PlanError: there is no path.
        """
        key = (source, target)
        found = self._crossings.get(key)
        if found is None:
            found = self._crossings[key] = self._find_crossings(source, target)
        return found

    def crossings(self, source: SwitchName, target: SwitchName) -> tuple[tuple[Crossing, ...], ...]:
        """Stage by stage the links that the shortest paths from ``source`` to ``target`` may take.

        Every path takes exactly one link of each stage: equal-cost paths and the members of a link bundle alike.

        Raises:
            PlanError: there is no path.
        """
        key = (source, target)
        if key not in self._stages:
            levels = self._levels(source, target)
            self._stages[key] = tuple(self._stage(near, far) for near, far in pairwise(levels))
        return self._stages[key]

    def _stage(self, near: set[str], far: set[str]) -> tuple[Crossing, ...]:
        links = ((out, into) for out in sorted(near) for into in sorted(far) if self._core.has_edge(out, into))
        return tuple(
            Crossing(_port(out, edge[_PORTS][out]), _port(into, edge[_PORTS][into]))
            for out, into in links
            for edge in self._core[out][into].values()
        )

    def _connect(self, topology: Topology) -> None:
        shared_hosts = {h.name for h in topology.hosts if h.shared}
        capture_nics = {(n.name, nic.name): nic for n in topology.checkpoint_nodes for nic in n.nics}
        hosts = {h.name for h in topology.hosts}
        for link in topology.links:
            first, second = split_end(link[0]), split_end(link[1])
            if first[0] in self._switches and second[0] in self._switches:
                self._core.add_edges_from([(first[0], second[0], {_PORTS: dict((first, second))})])
            for (near, near_port), far in ((first, second), (second, first)):
                if near not in self._switches:
                    continue
                at = _port(near, near_port)
                self._peers[at] = far
                if far in capture_nics:
                    nic = capture_nics[far]
                    address = Address(nic.address) if nic.address is not None else None
                    self._captures[at.switch].append(Capture(at, NodeName(far[0]), NicName(far[1]), nic.gbps, address))
                elif far[0] in hosts:
                    self._attachment[HostName(far[0]), NicName(far[1])] = at
                    if far[0] in shared_hosts:
                        self._shared.add(at)

    def _find_crossings(self, source: SwitchName, target: SwitchName) -> tuple[Crossing, ...]:
        levels = self._levels(source, target)
        result = []
        for near, far in pairwise(levels):
            if len(near) == 1 == len(far):
                (out,), (into,) = near, far
                if self._core.number_of_edges(out, into) == 1:
                    ports = self._core.edges[out, into, 0][_PORTS]
                    result.append(Crossing(_port(out, ports[out]), _port(into, ports[into])))
        return tuple(result)

    def _levels(self, source: str, target: str) -> list[set[str]]:
        """The switches of all shortest paths by their distance from ``source``.

        Searches half the distance from each end, which spares a walk over the whole fabric.
        """
        try:
            distance = len(nx.bidirectional_shortest_path(self._core, source, target)) - 1
        except nx.NetworkXNoPath:
            raise PlanError(
                f"no path from switch {source} to switch {target}",
                hint="add the missing links to topology.yaml; if --without took them away: the job needs them",
            ) from None
        half = distance // 2
        before = nx.single_source_shortest_path_length(self._core, source, cutoff=half)
        after = nx.single_source_shortest_path_length(self._core, target, cutoff=distance - half)
        middle = {n for n, d in before.items() if d == half and after.get(n) == distance - half}
        up = [middle]
        for wanted in range(half - 1, -1, -1):
            up.append(self._next(up[-1], before, wanted))
        down = [middle]
        for wanted in range(distance - half - 1, -1, -1):
            down.append(self._next(down[-1], after, wanted))
        return up[::-1] + down[1:]

    def _next(self, level: set[str], distances: dict[str, int], wanted: int) -> set[str]:
        nearer = (n for n, d in distances.items() if d == wanted)
        # Not the neighbours of the level: a spine has thousands, nearly all of them elsewhere.
        return {n for n in nearer if any(self._core.has_edge(n, switch) for switch in level)}


def _foreign(session: ForeignSession) -> MirrorSession:
    """``port:both`` is two sources."""
    sources: list[MirrorSource] = []
    for text in session.sources:
        port, _, word = text.rpartition(":")
        directions = tuple(Direction) if word == "both" else (Direction(word),)
        sources += [MirrorSource(PortName(port), direction) for direction in directions]
    return MirrorSession(SessionName(session.name), tuple(sources), PortName(session.destination))


def _port(switch: str, port: str) -> SwitchPort:
    return SwitchPort(SwitchName(switch), PortName(port))
