"""The hops of a ring and the NICs at both ends: the sender's from its own log, the receiver's from its own.

The two may be on different rails, and another channel may use others (pitfall P38); GPU numbers decide nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_communicators import Communicator, Log, Member, Said, listed
from flowcheck_net.importers.nccl_records import Connection
from flowcheck_net.importers.nccl_rings import RingFact, TreeFact

_NET = "log every rank with INIT,NET in NCCL_DEBUG_SUBSYS until the first all-reduce is done"


@dataclass(frozen=True, slots=True)
class NetworkEnd:
    """One end of a network connection."""

    network: str
    """``IB``, ``AWS Libfabric``, ..."""
    device: int
    """NCCL's number of the NIC on that host."""
    proxy: int
    """Rank of the same host whose process serves it (PXN); -1: the rank itself."""
    gpu_direct: bool


@dataclass(frozen=True, slots=True)
class HopFact:
    """One hop of a ring."""

    source: int
    target: int
    send: NetworkEnd | None
    """None within a host."""
    receive: NetworkEnd | None


@dataclass(frozen=True, slots=True)
class RingHops:
    """A ring with its hops."""

    ring: RingFact
    hops: tuple[HopFact, ...]
    """In ring order; empty where not every hop's NICs are known."""


@dataclass(frozen=True, slots=True)
class TreeHops:
    """A tree with its edges, each in both directions."""

    tree: TreeFact
    down: tuple[HopFact, ...]
    """Parent to child, children in order of rank."""
    up: tuple[HopFact, ...]
    """Child to parent, in the same order."""


_Key = tuple[int, int, int, str]
"""(channel, source, target, direction)"""


def hop_facts(communicator: Communicator, log: Log, rings: Sequence[RingFact]) -> tuple[RingHops, ...]:
    """The hops of every ring with their NICs.

    Raises:
        SpecError: A hop between two hosts has no connection line at one of its ends, two that differ, or one that is no
            network connection.
    """
    finder = _Finder(communicator, log)
    found = tuple(
        RingHops(ring, tuple(finder.hop(ring.channel, source, target) for source, target in ring.hops))
        for ring in rings
    )
    finder.finish()
    return found


def tree_hops(communicator: Communicator, log: Log, trees: Sequence[TreeFact]) -> tuple[TreeHops, ...]:
    """The edges of every tree with their NICs.

    Raises:
        SpecError: As ``hop_facts``, or an edge uses other NICs upwards than downwards.
    """
    finder = _Finder(communicator, log)
    found: list[TreeHops] = []
    crossed: list[str] = []
    for tree in trees:
        edges = [(parent, child) for child, parent in enumerate(tree.parents) if parent >= 0]
        down = tuple(finder.hop(tree.channel, parent, child) for parent, child in edges)
        up = tuple(finder.hop(tree.channel, child, parent) for parent, child in edges)
        found.append(TreeHops(tree, down, up))
        crossed += [
            f"channel {tree.channel:02d} edge {one.source} - {one.target}"
            for one, other in zip(down, up, strict=True)
            if (_nic(one.send), _nic(one.receive)) != (_nic(other.receive), _nic(other.send))
        ]
    finder.finish()
    if crossed:
        words = f"tree edges that go up through other NICs than down: {listed(crossed)}"
        raise SpecError([Problem(log.name, 0, 0, "tree-nics-differ", words, "a job file has one pair of NICs an edge")])
    return tuple(found)


def _nic(end: NetworkEnd | None) -> int:
    return -1 if end is None else end.device


class _Finder:
    """Looks connections up, and collects what cannot be found."""

    def __init__(self, communicator: Communicator, log: Log) -> None:
        self._log = log
        self._members = communicator.members
        self._own = {member.rank: _connections(member.said) for member in self._members}
        self._loose = {process: _connections(said) for process, said in log.loose.items()}
        self._faults: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def hop(self, channel: int, source: int, target: int) -> HopFact:
        """One hop; what is wrong with it is kept for ``finish``."""
        sender, receiver = self._members[source], self._members[target]
        if sender.process.host == receiver.process.host:
            return HopFact(source, target, None, None)
        key = (channel, source, target)
        return HopFact(source, target, self._end(sender, (*key, "send")), self._end(receiver, (*key, "receive")))

    def finish(self) -> None:
        """Raises SpecError where a hop was not found."""
        problems = [
            Problem(self._log.name, 0, 0, name, f"{words}: {listed(hops)}", _NET)
            for (name, words), hops in self._faults.items()
        ]
        if problems:
            raise SpecError(problems)

    def _end(self, member: Member, key: _Key) -> NetworkEnd | None:
        here, loose = self._own[member.rank], self._loose.get(member.process, {})
        ends = here.get(key, set())
        if not ends or self._log.namesakes[member.process, member.rank] == 1:
            ends = ends | loose.get(key, set())
        if len(ends) == 1:
            return next(iter(ends))
        channel, source, target, direction = key
        hop = f"channel {channel:02d} hop {source} -> {target}"
        local = (channel, source, target, "")
        if ends:
            numbers = listed(sorted(end.device for end in ends))
            self._faults["nic-contradicts", f"two NICs at the same end ({direction})"].append(f"{hop} ({numbers})")
        elif local in here or local in loose:
            words = "hops between two hosts that do not use the network, so that no switch sees them"
            self._faults["hop-not-on-network", words].append(hop)
        else:
            host = member.process.host
            words = f"no '[{direction}] via NET' line of hops in the log of rank {member.rank} on {host}"
            self._faults["nic-not-logged", words].append(hop)
        return None


def _connections(said: Sequence[Said]) -> dict[_Key, set[NetworkEnd]]:
    """Ring and tree connections by channel, ranks and direction; those within a host with direction ``""``."""
    found: defaultdict[_Key, set[NetworkEnd]] = defaultdict(set)
    for record in _ring_connections(said):
        key = (record.channel, record.source, record.target, record.direction)
        found[key].add(NetworkEnd(record.network, record.device, record.proxy, record.gpu_direct))
    return dict(found)


def _ring_connections(said: Sequence[Said]) -> Iterator[Connection]:
    """Without point-to-point connections, which have an index or shared buffers."""
    for one in said:
        if isinstance(one.record, Connection) and one.record.index == 0 and not one.record.shared:
            yield one.record
