"""A topology -> what must be made: nodes, cables, and for each switch which address leaves by which port."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from flowcheck_net.errors import LabError
from flowcheck_net.ids import Address
from flowcheck_net.receive.synth_frames import mac_of
from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.topology import Topology

OVS, BMV2 = "ovs", "bmv2"
"""Platforms of which a lab can make switches."""
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
"""What Linux takes as the name of an interface and Open vSwitch as that of a port or bridge."""


@dataclass(frozen=True, slots=True, order=True)
class End:
    """One end of a cable."""

    node: str
    interface: str


@dataclass(frozen=True, slots=True)
class Guest:
    """Another tenant's machine behind a NIC of a host: what it sends crosses the ports of the job."""

    at: End
    address: Address


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything that is made."""

    hosts: tuple[str, ...]
    platforms: Mapping[str, str]
    """By switch."""
    nodes: tuple[str, ...]
    """Checkpoint nodes."""
    cables: tuple[tuple[End, End], ...]
    cards: Mapping[End, tuple[Address, ...]]
    """Host NICs and their addresses."""
    collectors: Mapping[End, Address]
    """Capture NICs that tunnels lead to."""
    guests: tuple[Guest, ...]
    """One for each host, behind its first NIC."""
    ways: Mapping[str, Mapping[Address, str]]
    """By switch: the port by which frames to an address leave."""

    @property
    def switches(self) -> tuple[str, ...]:
        """By name."""
        return tuple(self.platforms)

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """Everything that gets a namespace."""
        return self.hosts + self.switches + self.nodes

    def ports(self, switch: str) -> tuple[str, ...]:
        """The ports of a switch that have a cable."""
        return tuple(sorted(end.interface for cable in self.cables for end in cable if end.node == switch))

    def far(self, end: End) -> End:
        """The other end of a cable."""
        return next(cable[cable[0] == end] for cable in self.cables if end in cable)

    def captures(self, node: str) -> tuple[str, ...]:
        """The capture NICs of a checkpoint node."""
        return tuple(sorted(end.interface for cable in self.cables for end in cable if end.node == node))


def blueprint(topology: Topology) -> Blueprint:
    """What a checked topology asks for.

    Raises:
        LabError: a switch that a lab cannot make, a name that Linux does not take, more than 254 hosts.
    """
    cables = tuple((End(*split_end(one)), End(*split_end(two))) for one, two in topology.links)
    _check(topology, cables)
    cards = {
        End(host.name, nic.name): tuple(map(Address, nic.addresses)) for host in topology.hosts for nic in host.nics
    }
    guests = tuple(
        Guest(End(host.name, host.nics[0].name), _guest_address(number, ":" in host.nics[0].addresses[0]))
        for number, host in enumerate(topology.hosts, 1)
    )
    collectors = {
        End(node.name, nic.name): Address(nic.address)
        for node in topology.checkpoint_nodes
        for nic in node.nics
        if nic.address is not None
    }
    switches = tuple(switch.name for switch in topology.switches)
    homes = {address: end for end, addresses in cards.items() for address in addresses}
    homes |= {guest.address: guest.at for guest in guests}
    homes |= {address: end for end, address in collectors.items()}
    return Blueprint(
        hosts=tuple(host.name for host in topology.hosts),
        platforms={switch.name: switch.platform for switch in topology.switches},
        nodes=tuple(node.name for node in topology.checkpoint_nodes),
        cables=cables,
        cards=cards,
        collectors=collectors,
        guests=guests,
        ways=_ways(switches, cables, homes),
    )


def _guest_address(number: int, six: bool) -> Address:
    """Of TEST-NET-2 (RFC 5737), as what synth takes for foreign, or of 2001:db8::/32 (RFC 3849): no job has these."""
    return Address(f"2001:db8::{number:x}" if six else f"198.51.100.{number}")


def _check(topology: Topology, cables: Sequence[tuple[End, End]]) -> None:
    for switch in topology.switches:
        if switch.platform not in (OVS, BMV2):
            raise LabError(
                f"{switch.name} is of platform {switch.platform!r}: a lab makes Open vSwitch and BMv2 switches only",
                hint="write `platform: ovs` in a copy of the topology; topologies/lab-leaf-spine is an example",
            )
    names = [switch.name for switch in topology.switches]
    for name in (*names, *(end.interface for cable in cables for end in cable)):
        if not _INTERFACE.fullmatch(name):
            raise LabError(
                f"{name!r} cannot be the name of a Linux interface",
                hint="give switches, ports and NICs of a lab names of 1 to 15 letters, digits, dots and dashes",
            )
    if len(topology.hosts) > 254:
        raise LabError("a lab has 254 hosts at the most", hint="leave hosts out of a copy of the topology")


def _ways(
    switches: Sequence[str], cables: Sequence[tuple[End, End]], homes: Mapping[Address, End]
) -> dict[str, dict[Address, str]]:
    """Shortest ways; of several equal links a hash of the address chooses one."""
    links: dict[str, list[tuple[str, str]]] = {switch: [] for switch in switches}
    for one, other in (*cables, *((b, a) for a, b in cables)):
        if one.node in links:
            links[one.node].append((one.interface, other.node))
    leaf = {far: (near.node, near.interface) for near, far in _directed(cables) if near.node in links}
    found: dict[str, dict[Address, str]] = {switch: {} for switch in switches}
    for address, home in homes.items():
        last, port = leaf[home]
        found[last][address] = port
        distances = _distances(links, last)
        for switch in distances.keys() - {last}:
            nearer = sorted(p for p, peer in links[switch] if distances.get(peer, -1) == distances[switch] - 1)
            found[switch][address] = nearer[_hash(f"{address}/{switch}") % len(nearer)]
    return found


def _directed(cables: Sequence[tuple[End, End]]) -> Iterator[tuple[End, End]]:
    for one, other in cables:
        yield one, other
        yield other, one


def _distances(links: Mapping[str, Sequence[tuple[str, str]]], target: str) -> dict[str, int]:
    """Links from every switch to this one."""
    distances = {target: 0}
    queue = deque([target])
    while queue:
        near = queue.popleft()
        for _, peer in links[near]:
            if peer in links and peer not in distances:
                distances[peer] = distances[near] + 1
                queue.append(peer)
    return distances


def _hash(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def mac_text(address: Address) -> str:
    """The hardware address that frames to an address bear."""
    return ":".join(f"{byte:02x}" for byte in mac_of(address))
