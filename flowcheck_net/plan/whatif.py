"""The input files as they would be without a device or a link, or with a stricter policy."""

from collections.abc import Iterable
from difflib import get_close_matches

from flowcheck_net.errors import PlanError
from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.load import Specs
from flowcheck_net.spec.topology import Limits, Switch, Topology

_UNUSED = Limits(max_sessions=0)
"""A switch that forwards and mirrors nothing."""


def without_devices(specs: Specs, names: Iterable[str]) -> Specs:
    """The inputs without some switches, checkpoint nodes or capture ports (``node:nic``).

    A switch that hosts of the job hang on goes on forwarding and mirrors nothing; any other is gone with its links.

    Raises:
        PlanError: There is no such device, or it is a host, or no checkpoint node is left.
    """
    for name in names:
        specs = Specs(_without(specs, name), specs.job, specs.policy)
    return specs


def without_links(specs: Specs, ends: Iterable[str]) -> Specs:
    """The inputs without the links that have one of these ``device:port`` as an end.

    Raises:
        PlanError: No link has this end, or a NIC of a host hangs on it.
    """
    topology = specs.topology
    hosts = {host.name for host in topology.hosts}
    for end in ends:
        gone = [link for link in topology.links if end in link]
        if not gone:
            raise PlanError(
                f"no link ends at {end}", hint="write device:port as it stands under links in topology.yaml"
            )
        if any(split_end(side)[0] in hosts for side in gone[0]):
            message = f"the link at {end} joins a host of the fabric: without it the job cannot run"
            raise PlanError(message, hint="take away a link between switches or of a checkpoint node")
        topology = _cut(topology, {side for link in gone for side in link})
    return Specs(topology, specs.job, specs.policy)


def surviving(specs: Specs, losses: int) -> Specs:
    """The inputs with coverage that holds after so many losses (0 or 1)."""
    return Specs(specs.topology, specs.job, specs.policy.model_copy(update={"survive": losses}))


def _without(specs: Specs, name: str) -> Topology:
    topology = specs.topology
    device, port = split_end(name)
    if port:
        return _cut(topology, {name})
    if any(node.name == device for node in topology.checkpoint_nodes):
        return _cut(
            topology, {f"{n.name}:{nic.name}" for n in topology.checkpoint_nodes if n.name == device for nic in n.nics}
        )
    if not any(switch.name == device for switch in topology.switches):
        raise PlanError(f"there is no switch, checkpoint node or capture port {name}", hint=_meant(topology, device))
    hosts = {host.name for host in topology.hosts}
    ends = [[split_end(end)[0] for end in link] for link in topology.links]
    if any(device in pair and hosts.intersection(pair) for pair in ends):
        return topology.model_copy(update={"switches": tuple(_muted(switch, device) for switch in topology.switches)})
    kept = tuple(switch for switch in topology.switches if switch.name != device)
    attached = {end for link in topology.links for end in link if device in [split_end(side)[0] for side in link]}
    return _cut(topology.model_copy(update={"switches": kept}), attached)


def _meant(topology: Topology, name: str) -> str:
    if any(host.name == name for host in topology.hosts):
        return "a host of the job cannot be taken away: change the job instead"
    known = [*(switch.name for switch in topology.switches), *(node.name for node in topology.checkpoint_nodes)]
    close = get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else "write its name as in topology.yaml"


def _muted(switch: Switch, name: str) -> Switch:
    return switch.model_copy(update={"limits": _UNUSED}) if switch.name == name else switch


def _cut(topology: Topology, ends: set[str]) -> Topology:
    """Without the links at these ends, and without the capture NICs that are left loose.

    Raises:
        PlanError: One of the ends is not there, or no checkpoint node is left.
    """
    links = tuple(link for link in topology.links if ends.isdisjoint(link))
    if len(links) == len(topology.links):
        raise PlanError(f"no link ends at {', '.join(sorted(ends))}", hint="write node:nic as in topology.yaml")
    linked = {end for link in links for end in link}
    nodes = []
    for node in topology.checkpoint_nodes:
        nics = tuple(nic for nic in node.nics if f"{node.name}:{nic.name}" in linked)
        if nics:
            nodes.append(node.model_copy(update={"nics": nics}))
    if not nodes:
        raise PlanError("no checkpoint node would be left", hint="take away less")
    return topology.model_copy(update={"links": links, "checkpoint_nodes": tuple(nodes)})
