"""Slurm's grouping beside a topology: where the two disagree about which hosts share a switch."""

from collections.abc import Iterator, Sequence

from flowcheck_net.importers.cables import Finding, FindingKind
from flowcheck_net.importers.names import natural
from flowcheck_net.importers.slurm import SlurmSwitch
from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.topology import Topology

_SHOWN = 4


def compare(switches: Sequence[SlurmSwitch], topology: Topology) -> tuple[Finding, ...]:
    """Every difference, as a hint. The topology is right where the two disagree: it has the cables."""
    leaves = _leaves(topology)
    hints = [*_split_groups(switches, leaves), *_joined_groups(switches, leaves), *_absent(switches, leaves)]
    return tuple(sorted(hints))


def _leaves(topology: Topology) -> dict[str, frozenset[str]]:
    """Host -> the switches that its NICs hang on."""
    found: dict[str, set[str]] = {host.name: set() for host in topology.hosts}
    switches = {switch.name for switch in topology.switches}
    for link in topology.links:
        (one, _), (other, _) = (split_end(end) for end in link)
        for host, switch in ((one, other), (other, one)):
            if host in found and switch in switches:
                found[host].add(switch)
    return {host: frozenset(names) for host, names in found.items()}


def _split_groups(switches: Sequence[SlurmSwitch], leaves: dict[str, frozenset[str]]) -> Iterator[Finding]:
    """Nodes of one Slurm switch that share no switch of the topology."""
    for switch in switches:
        places = {node: leaves[node] for node in switch.nodes if node in leaves}
        if len(places) > 1 and not frozenset.intersection(*places.values()):
            shown = "; ".join(
                f"{node}: {', '.join(sorted(at, key=natural)) or 'none'}" for node, at in list(places.items())[:_SHOWN]
            )
            message = f"the nodes of {switch.name} share no switch in the topology ({shown})"
            yield Finding(switch.source, FindingKind.HINT, message, "correct topology.conf, or the links")


def _joined_groups(switches: Sequence[SlurmSwitch], leaves: dict[str, frozenset[str]]) -> Iterator[Finding]:
    """Two Slurm switches whose nodes hang on the very same switches."""
    first: dict[frozenset[str], SlurmSwitch] = {}
    for switch in switches:
        places = {leaves[node] for node in switch.nodes if node in leaves}
        if len(places) != 1:
            continue
        shared = next(iter(places))
        other = first.setdefault(shared, switch)
        if other is not switch and shared:
            listed = ", ".join(sorted(shared, key=natural))
            message = f"the nodes of {other.name} and of {switch.name} hang on the same switches ({listed})"
            yield Finding(switch.source, FindingKind.HINT, message, "one Slurm switch is usual for one switch")


def _absent(switches: Sequence[SlurmSwitch], leaves: dict[str, frozenset[str]]) -> Iterator[Finding]:
    """Nodes that the topology does not have, and hosts that Slurm does not have."""
    named = {node for switch in switches for node in switch.nodes}
    for switch in switches:
        missing = [node for node in switch.nodes if node not in leaves]
        if missing:
            message = f"{len(missing)} nodes of {switch.name} are no hosts of the topology: {_some(missing)}"
            yield Finding(switch.source, FindingKind.HINT, message)
    unnamed = [host for host in leaves if host not in named]
    if unnamed:
        message = f"{len(unnamed)} hosts of the topology are on no Slurm switch: {_some(unnamed)}"
        yield Finding(switches[0].source, FindingKind.HINT, message)


def _some(names: Sequence[str]) -> str:
    ordered = sorted(names, key=natural)
    return ", ".join(ordered[:_SHOWN]) + (f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else "")
