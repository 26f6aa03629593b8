"""NCCL's NIC numbers -> the names of the topology.

``NET/IB : Using [0]mlx5_0:1/RoCE ...`` gives the name of each number, ``NET/IB: ... GID (...)`` its address. Plug-ins
such as libfabric name nothing: then the order of the host's NICs in the topology, or ``--nic``, must serve.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem
from flowcheck_net.importers.nccl_communicators import Log, listed
from flowcheck_net.importers.nccl_records import NetDevices, QueuePair, VirtualDevice
from flowcheck_net.spec.topology import Host, Topology


@dataclass(frozen=True, slots=True)
class NicTable:
    """What the log says of one host's NICs."""

    names: Mapping[int, frozenset[str]]
    """NCCL's number -> its name; more than one where the processes of the host disagree."""
    addresses: Mapping[int, frozenset[str]]


def nic_tables(log: Log) -> dict[str, NicTable]:
    """The NICs of every host that the log names."""
    names: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    addresses: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in log.everything:
        host, record = one.line.process.host, one.record
        if isinstance(record, NetDevices):
            for number, name in enumerate(record.names):
                names[host][number].add(name)
        elif isinstance(record, VirtualDevice):
            names[host][record.number].add(record.name)
        elif isinstance(record, QueuePair) and record.address:
            addresses[host][record.device].add(record.address)
    return {
        host: NicTable(
            {number: frozenset(found) for number, found in names.get(host, {}).items()},
            {number: frozenset(found) for number, found in addresses.get(host, {}).items()},
        )
        for host in {*names, *addresses}
    }


@dataclass(frozen=True, slots=True)
class NameChoice:
    """How the user wants hosts and NICs named."""

    topology: Topology | None = None
    hosts: Mapping[str, str] | None = None
    """Host in the log -> host in the topology."""
    nics: Mapping[int, str] | None = None
    """NCCL's NIC number -> NIC name, on every host."""


class Namer:
    """Names hosts and NICs; keeps what it cannot name, and what it had to assume."""

    def __init__(self, log: Log, choice: NameChoice) -> None:
        self._log = log
        self._tables = nic_tables(log)
        self._choice = choice
        self._known = {host.name: host for host in choice.topology.hosts} if choice.topology is not None else {}
        self._done: dict[tuple[str, int], str] = {}
        self.problems: dict[Problem, None] = {}
        self.assumed: dict[str, None] = {}
        """What was not said by the log, in words."""

    def host(self, name: str) -> str:
        """The topology's name of a host of the log."""
        stated = (self._choice.hosts or {}).get(name)
        if stated is not None:
            return self._checked_host(stated)
        if not self._known or name in self._known:
            return name
        short = name.partition(".")[0]
        same = [known for known in self._known if known.partition(".")[0] == short]
        if len(same) == 1:
            return same[0]
        return self._checked_host(name)

    def nic(self, host: str, device: int) -> str:
        """The topology's name of NIC number ``device`` of a host of the log."""
        key = (host, device)
        if key not in self._done:
            self._done[key] = self._nic(host, device)
        return self._done[key]

    def _nic(self, host: str, device: int) -> str:
        stated = (self._choice.nics or {}).get(device)
        table = self._tables.get(host)
        names = table.names.get(device, frozenset()) if table is not None else frozenset()
        if stated is None and len(names) > 1:
            words = f"NIC {device} of {host} has several names: {listed(sorted(names))}"
            self._refuse("nic-contradicts", words, f"say which one is right: --nic {device}=NAME")
            return f"net{device}"
        logged = stated or next(iter(names), "")
        if "+" in logged:
            words = f"NIC {device} of {host} is {logged}, merged by NCCL: a hop over two NICs cannot be planned"
            self._refuse("nic-merged", words, "run with NCCL_NET_MERGE_LEVEL=LOC (NCCL_IB_MERGE_NICS=0)")
            return logged
        known = self._known.get(self.host(host))
        if known is None:
            return logged or self._invented(device)
        addresses = table.addresses.get(device, frozenset()) if table is not None else frozenset()
        return self._in_topology(known, device, logged, addresses)

    def _in_topology(self, host: Host, device: int, logged: str, addresses: frozenset[str]) -> str:
        nics = [nic.name for nic in host.nics]
        by_address = sorted({nic.name for nic in host.nics if addresses.intersection(nic.addresses)})
        if len(by_address) == 1 and by_address[0] != logged:
            if logged in nics:
                words = f"NIC {device} of {host.name} is {logged}, but its address is that of {by_address[0]}"
                self._refuse("nic-contradicts", words, "correct the addresses in the topology")
            return by_address[0]
        if logged in nics:
            return logged
        if logged:
            words = f"host {host.name} has no NIC '{logged}' in the topology (NIC {device} of the log)"
            self._refuse("nic-unknown", words, f"it has {listed(nics)}; name it with --nic {device}=NAME")
            return logged
        if device >= len(nics):
            words = f"host {host.name} has {len(nics)} NICs in the topology, but the log uses NIC {device}"
            self._refuse("nic-unknown", words, f"name it with --nic {device}=NAME")
            return self._invented(device)
        self.assumed["NIC numbers count the host's NICs in the order of the topology (the log gives no names)"] = None
        return nics[device]

    def _invented(self, device: int) -> str:
        self.assumed["the log gives no NIC names: NIC 0 is called net0, and so on (--nic NUMBER=NAME names them)"] = (
            None
        )
        return f"net{device}"

    def _checked_host(self, name: str) -> str:
        if self._known and name not in self._known:
            words = f"there is no host '{name}' in the topology"
            self._refuse("host-unknown", words, f"it has {listed(self._known)}; name it with --host {name}=NAME")
        return name

    def _refuse(self, name: str, words: str, cure: str) -> None:
        self.problems[Problem(self._log.name, 0, 0, name, words, cure)] = None


def mtu_found(log: Log, hosts: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Path MTU in bytes -> the hosts whose queue pairs have it."""
    found: defaultdict[int, dict[str, None]] = defaultdict(dict)
    wanted = set(hosts)
    for one in log.everything:
        if isinstance(one.record, QueuePair) and one.record.mtu and one.line.process.host in wanted:
            found[one.record.mtu][one.line.process.host] = None
    return {mtu: tuple(where) for mtu, where in sorted(found.items())}
