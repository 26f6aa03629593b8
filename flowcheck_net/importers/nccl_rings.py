"""A communicator's rings and trees: complete and closed, or refused by name.

Rings come from every rank's own ``Ring NN : previous -> rank -> next`` (from 2.10 on). Rank 0's ``Channel NN/MM : 0 7 6
...`` is cut after 20 ranks (up to 2.22) or 127 characters, so it counts alone only where it holds every rank once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_communicators import Communicator, Log, Member, listed
from flowcheck_net.importers.nccl_records import Channels, Record, RingLink, RingList, TreeLink, TreeLinks

_R = TypeVar("_R", bound=Record)
_GRAPH = "log every rank with INIT,GRAPH in NCCL_DEBUG_SUBSYS"
_MAX_CHANNELS = 64
"""``MAXCHANNELS`` (``src/include/device.h``)."""


@dataclass(frozen=True, slots=True)
class RingFact:
    """The ring of one channel."""

    channel: int
    order: tuple[int, ...]
    """Ranks of the communicator in ring order, from rank 0."""
    source: str
    """``ring lines`` of every rank, or rank 0's ``ring list``."""

    @property
    def hops(self) -> tuple[tuple[int, int], ...]:
        """(sender, receiver) of each hop."""
        return tuple(zip(self.order, self.order[1:] + self.order[:1], strict=True))


@dataclass(frozen=True, slots=True)
class TreeFact:
    """The tree of one channel."""

    channel: int
    parents: tuple[int, ...]
    """Parent of each rank; -1 for the root."""


def own_records(log: Log, member: Member, kind: type[_R]) -> Iterator[_R]:
    """What the rank wrote at its start; what stands loose in its process too, where only it can be meant."""
    for one in member.said:
        if isinstance(one.record, kind):
            yield one.record
    if log.namesakes[member.process, member.rank] == 1:
        for one in log.loose.get(member.process, ()):
            if isinstance(one.record, kind):
                yield one.record


def whole(communicator: Communicator, log: Log) -> None:
    """Refuse a communicator of which a rank's log is missing, or which cannot be told from another.

    Raises:
        SpecError: The ranks are named.
    """
    name = f"communicator {communicator.id} of {communicator.size} ranks"
    if communicator.missing:
        words = f"{name}: the logs of ranks {listed(communicator.missing)} are missing"
        if communicator.begun:
            words += f"; ranks {listed(communicator.begun)} began and never wrote 'Init COMPLETE'"
        raise SpecError([Problem(log.name, 0, 0, "rank-logs-missing", words, "give the log of every rank")])
    ranks = [member.rank for member in communicator.members]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1}) if len(ranks) > communicator.size else []
    if twice:
        words = f"{name}: ranks {listed(twice)} are there more than once; this log has no commId to tell them apart"
        raise SpecError(
            [Problem(log.name, 0, 0, "communicators-not-told-apart", words, "give the logs of one job only")]
        )


def ring_facts(communicator: Communicator, log: Log) -> tuple[RingFact, ...]:
    """The ring of every channel.

    Raises:
        SpecError: Ranks are missing, or a ring is cut, incomplete or not one closed cycle: every fault, with the
            channels and ranks.
    """
    whole(communicator, log)
    links: defaultdict[int, dict[int, set[RingLink]]] = defaultdict(lambda: defaultdict(set))
    for member in communicator.members:
        for link in own_records(log, member, RingLink):
            if link.rank == member.rank:
                links[link.channel][member.rank].add(link)
    first = communicator.members[0]
    lists: defaultdict[int, set[RingList]] = defaultdict(set)
    for one in own_records(log, first, RingList):
        lists[one.channel].add(one)
    count = max(
        [1 + max(links, default=-1), *(one.channels for found in lists.values() for one in found)]
        + [one.count for one in own_records(log, first, Channels)]
    )
    if not 1 <= count <= _MAX_CHANNELS:
        words = f"{count} channels of rings" if count else "no ring is in the log"
        raise SpecError([Problem(log.name, 0, 0, "rings-missing", words, _GRAPH)])
    reader = _Reader(communicator, log)
    rings: list[RingFact] = []
    faults: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for channel in range(count):
        try:
            rings.append(reader.ring(channel, links.get(channel, {}), lists.get(channel, set())))
        except _Fault as fault:
            faults[fault.key].append(channel)
    if faults:
        raise SpecError(
            [
                Problem(log.name, 0, 0, name, f"{_channels(where, count)}: {words}", cure)
                for (name, words, cure), where in faults.items()
            ]
        )
    return tuple(rings)


class _Fault(Exception):
    """What is wrong with the ring of one channel."""

    def __init__(self, name: str, words: str, cure: str = "give the logs of one run only") -> None:
        super().__init__(name, words, cure)
        self.key = (name, words, cure)


class _Reader:
    """Reads the ring of one channel from what the ranks say."""

    def __init__(self, communicator: Communicator, log: Log) -> None:
        self._communicator = communicator
        self._size = communicator.size
        self._log = log

    def ring(self, channel: int, links: dict[int, set[RingLink]], lists: set[RingList]) -> RingFact:
        """The ring, or a fault."""
        stated = {one.ranks for one in lists}
        if len(stated) > 1 or any(len(said) > 1 for said in links.values()):
            raise _Fault("ring-contradicts", "the log of one rank holds two rings")
        order = next(iter(stated), ())
        single = {rank: next(iter(said)) for rank, said in links.items()}
        if len(single) == self._size:
            followed = _follow(single)
            self._compare(followed, order)
            return RingFact(channel, followed, "ring lines")
        if sorted(order) == list(range(self._size)):
            return RingFact(channel, _from_list(order, single), "ring list")
        raise self._incomplete(order, single)

    def _compare(self, followed: tuple[int, ...], order: tuple[int, ...]) -> None:
        """Rank 0's list must begin as the ring does."""
        if self._log.grammar.ring_list_width is not None and len(followed) > 999:
            return  # four-digit ranks run into one another in the list of these versions
        if followed[: len(order)] != order:
            words = f"rank 0 lists {listed(order)}, but the 'Ring' lines give {listed(followed)}"
            raise _Fault("ring-contradicts", words)

    def _incomplete(self, order: tuple[int, ...], links: dict[int, RingLink]) -> _Fault:
        size = self._size
        if not order and not links:
            return _Fault("ring-missing", f"no ring of the {size} ranks is in the log", _GRAPH)
        twice = sorted({rank for rank in order if order.count(rank) > 1 or rank >= size})
        if twice:
            left = sorted(set(range(size)) - set(order))
            words = f"rank 0's list holds ranks {listed(twice)} twice or outside 0 to {size - 1}"
            return _Fault("ring-not-one-cycle", words + (f", and not {listed(left)}" if left else ""))
        words = f"rank 0's list is cut at {len(order)} of {size} ranks" if order else "rank 0's list is not there"
        if links:
            absent = [member for member in self._communicator.members if member.rank not in links]
            hosts = listed(dict.fromkeys(member.process.host for member in absent))
            words += f", and ranks {listed(member.rank for member in absent)} (on {hosts}) have no 'Ring' line"
            return _Fault("ring-lines-missing", words, _GRAPH)
        old = self._log.version < (2, 10, 0)
        cure = "NCCL before 2.10 writes no 'Ring' lines: state the rings by hand" if old else _GRAPH
        return _Fault("ring-cut", f"{words}, and no rank has a 'Ring' line", cure)


def _follow(links: dict[int, RingLink]) -> tuple[int, ...]:
    """The ring from rank 0 along the links of all ranks."""
    for rank, link in links.items():
        back = links[link.next].previous if link.next in links else None
        if back != rank:
            other = f"there is no rank {link.next}" if back is None else f"rank {link.next} receives from {back}"
            raise _Fault("ring-broken", f"rank {rank} sends to rank {link.next}, but {other}")
    order = [0]
    while (following := links[order[-1]].next) != 0:
        order.append(following)
    if len(order) != len(links):
        raise _Fault("ring-not-one-cycle", f"the ring from rank 0 closes after {len(order)} of {len(links)} ranks")
    return tuple(order)


def _from_list(order: tuple[int, ...], links: dict[int, RingLink]) -> tuple[int, ...]:
    """Rank 0's whole list, which the links that there are must confirm."""
    start = order.index(0)
    order = order[start:] + order[:start]
    after = dict(zip(order, order[1:] + order[:1], strict=True))
    for rank, link in links.items():
        if after[rank] != link.next:
            words = f"rank 0 lists {after[rank]} after {rank}, but rank {rank} sends to {link.next}"
            raise _Fault("ring-contradicts", words)
    return order


def tree_facts(communicator: Communicator, log: Log) -> tuple[TreeFact, ...]:
    """The trees that are complete and whose ends agree; the others are left out."""
    links: defaultdict[int, dict[int, TreeLink]] = defaultdict(dict)
    for member in communicator.members:
        found: list[TreeLink] = list(own_records(log, member, TreeLink))
        found += [link for one in own_records(log, member, TreeLinks) for link in one.links]
        for link in found:
            if link.rank == member.rank:
                links[link.channel].setdefault(member.rank, link)
    complete = [channel for channel, said in sorted(links.items()) if _is_tree(said, communicator.size)]
    return tuple(
        TreeFact(channel, tuple(links[channel][rank].up for rank in range(communicator.size))) for channel in complete
    )


def _is_tree(links: dict[int, TreeLink], size: int) -> bool:
    """Every rank is there, parents and children name each other, and all hang on one root."""
    if len(links) != size:
        return False
    pairs = {(link.up, rank) for rank, link in links.items() if link.up >= 0}
    if pairs != {(rank, child) for rank, link in links.items() for child in link.down}:
        return False
    seen = [rank for rank, link in links.items() if link.up < 0]
    if len(seen) != 1:
        return False
    for rank in seen:
        seen.extend(links[rank].down)  # grows while it is read: breadth first; every rank has one parent, so it ends
    return len(seen) == size


def _channels(numbers: Sequence[int], count: int) -> str:
    if len(numbers) == count and count > 1:
        return f"all {count} channels"
    return ("channel " if len(numbers) == 1 else "channels ") + listed(_two_digits(numbers))


def _two_digits(numbers: Iterable[int]) -> Iterator[str]:
    """As NCCL writes channels."""
    return (f"{number:02d}" for number in numbers)
