"""What a topology must fulfil beyond the form of its values: names, links and addresses fit together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.spec.base import split_end
from flowcheck_net.spec.explain import Words, did_you_mean
from flowcheck_net.spec.topology import CheckpointNode, Host, Topology
from flowcheck_net.spec.yamlpos import DocPath, Fault

_LISTS = {"switches": "ports", "hosts": "nics", "checkpoint_nodes": "nics"}


@dataclass(frozen=True, slots=True)
class Device:
    """A switch, host or checkpoint node: the speeds of its ports or NICs, and where the file says so."""

    kind: str
    """``switches``, ``hosts`` or ``checkpoint_nodes``."""
    name: str
    path: DocPath
    ports: Mapping[str, str]
    """Port or NIC name -> speed, such as ``400G``."""
    failure_domains: tuple[str, ...] = ()

    @property
    def port_word(self) -> str:
        """What its ports are called."""
        return "port" if self.kind == "switches" else "NIC"


def devices(topology: Topology) -> dict[str, Device]:
    """Every device by name (the first of a name that is there twice)."""
    found: dict[str, Device] = {}
    for device in _listed(topology):
        found.setdefault(device.name, device)
    return found


def check_topology(topology: Topology) -> Iterator[Fault]:
    """Every fault of the topology by itself."""
    yield from _duplicate_devices(topology)
    yield from _duplicate_ports(topology)
    yield from _duplicate_addresses(topology)
    yield from _bonds(topology)
    yield from _foreign_sessions(topology)
    yield from _links(topology)
    yield from _unlinked(topology)


def _listed(topology: Topology) -> Iterator[Device]:
    for i, switch in enumerate(topology.switches):
        speeds = {port.name: port.speed for port in switch.ports}
        yield Device("switches", switch.name, ("switches", i), speeds, switch.failure_domains)
    ends: tuple[tuple[str, tuple[Host | CheckpointNode, ...]], ...] = (
        ("hosts", topology.hosts),
        ("checkpoint_nodes", topology.checkpoint_nodes),
    )
    for kind, items in ends:
        for i, end in enumerate(items):
            yield Device(kind, end.name, (kind, i), {nic.name: nic.speed for nic in end.nics}, end.failure_domains)


def _duplicate_devices(topology: Topology) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for device in _listed(topology):
        if device.name in first:
            yield Fault((*device.path, "name"), f"the name '{device.name}' is taken by {first[device.name]}")
        first.setdefault(device.name, ".".join(str(part) for part in device.path))


def _duplicate_ports(topology: Topology) -> Iterator[Fault]:
    for kind, key in _LISTS.items():
        for i, device in enumerate(getattr(topology, kind)):
            seen: set[str] = set()
            for j, port in enumerate(getattr(device, key)):
                if port.name in seen:
                    word = "port" if key == "ports" else "NIC"
                    yield Fault((kind, i, key, j, "name"), f"{device.name} has a {word} '{port.name}' already")
                seen.add(port.name)


def _duplicate_addresses(topology: Topology) -> Iterator[Fault]:
    owner: dict[str, str] = {}
    for i, host in enumerate(topology.hosts):
        for j, nic in enumerate(host.nics):
            for k, address in enumerate(nic.addresses):
                if address in owner:
                    path = ("hosts", i, "nics", j, "addresses", k)
                    yield Fault(path, f"the address {address} belongs to {owner[address]} already")
                owner.setdefault(address, f"{host.name}:{nic.name}")

    for i, node in enumerate(topology.checkpoint_nodes):
        for j, capture in enumerate(node.nics):
            if capture.address is not None:
                if capture.address in owner:
                    words = f"the address {capture.address} belongs to {owner[capture.address]} already"
                    yield Fault(("checkpoint_nodes", i, "nics", j, "address"), words)
                owner.setdefault(capture.address, f"{node.name}:{capture.name}")


def _bonds(topology: Topology) -> Iterator[Fault]:
    """The NICs of a bond are several, and alike."""
    for i, host in enumerate(topology.hosts):
        members: dict[str, list[int]] = {}
        for j, nic in enumerate(host.nics):
            if nic.lag is not None:
                members.setdefault(nic.lag, []).append(j)
        for lag, numbers in members.items():
            path = ("hosts", i, "nics", numbers[-1], "lag")
            if len(numbers) == 1:
                yield Fault(
                    path, f"{host.name} has no second NIC in {lag}", "give the same name to all NICs of the bond"
                )
            elif len({host.nics[j].speed for j in numbers}) > 1:
                yield Fault(
                    path, f"the NICs of {host.name} in {lag} differ in speed", "the links of a bond run at one speed"
                )


def _foreign_sessions(topology: Topology) -> Iterator[Fault]:
    for i, switch in enumerate(topology.switches):
        seen: set[str] = set()
        for j, session in enumerate(switch.foreign_sessions):
            path = ("switches", i, "foreign_sessions", j)
            if session.name in seen:
                yield Fault((*path, "name"), f"{switch.name} has a session '{session.name}' already")
            seen.add(session.name)
            for k, source in enumerate(session.sources):
                if source.rpartition(":")[0] == session.destination:
                    yield Fault((*path, "sources", k), f"{session.destination} would be mirrored to itself")


def _links(topology: Topology) -> Iterator[Fault]:
    known = devices(topology)
    names = Words(known)
    used: dict[str, int] = {}
    for i, link in enumerate(topology.links):
        faults = [fault for side, end in enumerate(link) for fault in _link_end(end, ("links", i, side), known, names)]
        yield from faults
        for side, end in enumerate(link):
            if end in used:
                yield Fault(("links", i, side), f"{end} is in links.{used[end]} already", "one cable a port")
            used.setdefault(end, i)
        if not faults:
            yield from _cable(link, ("links", i), known)


def _link_end(end: str, path: DocPath, known: dict[str, Device], names: Words) -> Iterator[Fault]:
    name, port = split_end(end)
    device = known.get(name)
    if device is None:
        yield Fault(path, f"there is no device '{name}'", names.cure(name))
    elif port not in device.ports:
        yield Fault(path, f"{name} has no {device.port_word} '{port}'", did_you_mean(port, device.ports))


def _cable(link: tuple[str, str], path: DocPath, known: dict[str, Device]) -> Iterator[Fault]:
    ends = [split_end(end) for end in link]
    kinds = [known[device].kind for device, _ in ends]
    speeds = [known[device].ports[port] for device, port in ends]
    if "switches" not in kinds:
        yield Fault(path, f"{link[0]} and {link[1]} are both end devices", "link each of them to a switch port")
    if speeds[0] != speeds[1]:
        yield Fault(
            path, f"speeds differ: {link[0]} has {speeds[0]}, {link[1]} has {speeds[1]}", "both ends run at one speed"
        )


def _unlinked(topology: Topology) -> Iterator[Fault]:
    linked = {end for link in topology.links for end in link}
    for kind in ("hosts", "checkpoint_nodes"):
        for i, device in enumerate(getattr(topology, kind)):
            for j, nic in enumerate(device.nics):
                if f"{device.name}:{nic.name}" not in linked:
                    yield Fault(
                        (kind, i, "nics", j, "name"), f"{device.name}:{nic.name} is in no link", "add it to links"
                    )
