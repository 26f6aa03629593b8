"""NCCL logs -> a job file: the facts of the chosen communicators, with what the user states beside them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_communicators import Communicator, Log, Member, listed
from flowcheck_net.importers.nccl_grammar import OLDEST_JOB
from flowcheck_net.importers.nccl_hops import HopFact, RingHops, hop_facts
from flowcheck_net.importers.nccl_nics import NameChoice, Namer
from flowcheck_net.importers.nccl_qps import PairTable
from flowcheck_net.importers.nccl_records import NetDevices, QueuePair
from flowcheck_net.importers.nccl_rings import TreeFact, ring_facts, tree_facts
from flowcheck_net.importers.nccl_wire import WireChoice, WireFacts, WireReader


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the job file rests on, or that it does not say."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A chosen communicator: one data-parallel group."""

    communicator: Communicator
    rings: tuple[RingHops, ...]
    trees: tuple[TreeFact, ...]


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A job file, and what must be said with it."""

    tree: dict[str, object]
    findings: tuple[Finding, ...]


def choose(log: Log, ids: Sequence[str], size: int | None) -> tuple[Communicator, ...]:
    """The communicators that carry gradients: the named ones, those of a size, or the only one.

    Raises:
        SpecError: None or several fit and none was named, or two of them share a process.
    """
    known = log.communicators
    chosen = [one for one in known if (not ids or one.id in ids) and size in (None, one.size)]
    unknown = [one for one in ids if one not in {communicator.id for communicator in known}]
    cure = "--comm ID (once for each data-parallel group) or --nranks N"
    table = "; ".join(f"{one.id} of {one.size} ranks on {len(one.hosts)} hosts" for one in known[:16])
    if unknown or not chosen:
        words = f"no communicator {listed(unknown)}" if unknown else "no communicator fits"
        raise SpecError([Problem(log.name, 0, 0, "communicator-unknown", f"{words}; the log has {table}", cure)])
    if len(chosen) > 1 and not ids and size is None:
        words = f"{len(known)} communicators: {table}"
        raise SpecError([Problem(log.name, 0, 0, "communicator-not-chosen", words, cure)])
    places = Counter((member.process, member.cuda_device) for one in chosen for member in one.members)
    shared = sum(count > 1 for count in places.values())
    if len(chosen) > 1 and shared:
        words = f"{shared} processes are in two of the chosen communicators; data-parallel groups share none"
        raise SpecError([Problem(log.name, 0, 0, "communicators-overlap", words, cure)])
    return tuple(chosen)


def group_facts(log: Log, chosen: Sequence[Communicator]) -> tuple[GroupFacts, ...]:
    """Rings, hops and trees of the chosen communicators.

    Raises:
        SpecError: Every fault of every communicator.
    """
    problems: list[Problem] = []
    groups: list[GroupFacts] = []
    for one in chosen:
        try:
            rings = hop_facts(one, log, ring_facts(one, log))
            groups.append(GroupFacts(one, rings, tree_facts(one, log)))
        except SpecError as error:
            problems += error.problems
    if len({len(group.rings) for group in groups}) > 1:
        words = "; ".join(f"{group.communicator.id} has {len(group.rings)}" for group in groups)
        problems.append(Problem(log.name, 0, 0, "channels-differ", f"channels: {words}", "choose groups of one kind"))
    if problems:
        raise SpecError(problems)
    return tuple(groups)


def job_document(log: Log, groups: Sequence[GroupFacts], name: str, names: NameChoice, wire: WireChoice) -> JobDocument:
    """The job file.

    Raises:
        SpecError: Everything that the log does not say and no option states, and every name that does not fit.
    """
    maker = _Maker(log, groups, names, wire)
    return maker.make(name)


class _Maker:
    """Makes the document step by step; faults of all steps are shown together."""

    def __init__(self, log: Log, groups: Sequence[GroupFacts], names: NameChoice, wire: WireChoice) -> None:
        self._log = log
        self._groups = groups
        self._namer = Namer(log, names)
        self._choice = wire
        chosen = [group.communicator for group in groups]
        self._wire = WireReader(log, chosen, len(groups[0].rings), wire)
        self._numbers = global_ranks(log, chosen)
        self._pairs = PairTable(log)
        self._findings: list[Finding] = []

    def make(self, name: str) -> JobDocument:
        """The document, or all problems."""
        problems = list(_version_problems(self._log)) + list(self._unsaid())
        facts = self._wire.read()
        nics = self._own_nics()
        members = [member for group in self._groups for member in group.communicator.members]
        channels = facts.channels if facts is not None else len(self._groups[0].rings)
        rings = [
            self._ring(f"dp{number}", group, ring, nics, facts)
            for number, group in enumerate(self._groups)
            for ring in group.rings[:channels]
        ]
        problems += [*self._wire.problems, *self._namer.problems]
        if problems or facts is None:
            raise SpecError(problems)
        tree: dict[str, object] = {
            "version": 1,
            "name": name,
            "collective": {"algorithm": facts.algorithm, "extra_step": False},
            "nccl": self._nccl(facts),
            "mtu": facts.mtu,
            "groups": [[self._number(member) for member in group.communicator.members] for group in self._groups],
            "ranks": [self._rank(member, nics) for member in sorted(members, key=self._number)],
            "rings": rings,
            "buckets": [
                {"name": f"bucket{i}", "elements": bucket.elements, "dtype": bucket.dtype}
                for i, bucket in enumerate(self._choice.buckets)
            ],
            "iteration_time": self._choice.iteration_time,
        }
        return JobDocument(tree, self._all_findings())

    def _unsaid(self) -> list[Problem]:
        """What no log says."""
        found = []
        if not self._choice.buckets:
            words = "no NCCL log says the sizes of the all-reduces"
            found.append(Problem(self._log.name, 0, 0, "buckets", words, "--bucket ELEMENTS:DTYPE, one for each"))
        if self._choice.iteration_time is None:
            words = "no NCCL log says how long an iteration takes"
            found.append(Problem(self._log.name, 0, 0, "iteration_time", words, "--iteration-time SECONDS"))
        return found

    def _number(self, member: Member) -> int:
        return self._numbers[member.process, member.cuda_device, member.pointer]

    def _rank(self, member: Member, nics: dict[int, str]) -> dict[str, object]:
        host = self._namer.host(member.process.host)
        return {"rank": self._number(member), "host": host, "nic": nics[self._number(member)]}

    def _own_nics(self) -> dict[int, str]:
        """The NIC that each rank uses most, sending before receiving; for a rank that uses none, one of its host's."""
        found: dict[int, str] = {}
        for group in self._groups:
            members = group.communicator.members
            used: dict[int, Counter[tuple[bool, int]]] = {member.rank: Counter() for member in members}
            for hop in (hop for ring in group.rings for hop in ring.hops):
                if hop.send is not None and hop.receive is not None:
                    used[hop.source][True, hop.send.device] += 1
                    used[hop.target][False, hop.receive.device] += 1
            for member in members:
                found[self._number(member)] = self._own_nic(member, used, members)
        return found

    def _own_nic(self, member: Member, used: dict[int, Counter[tuple[bool, int]]], members: Sequence[Member]) -> str:
        host = member.process.host
        own = used[member.rank]
        if not own:
            words = f"rank {member.rank} on {host} has no network hop: its nic is another rank's of that host"
            self._findings.append(Finding("nic-placeholder", words))
            own = sum((used[other.rank] for other in members if other.process.host == host), Counter())
        best = min(own, key=lambda end: (not end[0], -own[end], end[1]), default=(True, 0))
        return self._namer.nic(host, best[1])

    def _ring(
        self,
        name: str,
        group: GroupFacts,
        ring: RingHops,
        nics: dict[int, str],
        facts: WireFacts | None,
    ) -> dict[str, object]:
        members = group.communicator.members
        order = [self._number(members[rank]) for rank in ring.ring.order]
        pairs = [self._nic_pair(members, hop) for hop in ring.hops]
        own = [
            [nics[self._number(members[end])] for end in (hop.source, hop.target)] if pair else []
            for hop, pair in zip(ring.hops, pairs, strict=True)
        ]
        entry: dict[str, object] = {"group": name, "channel": ring.ring.channel, "order": order}
        if pairs != own:
            entry["nics"] = pairs
        qpns = self._pairs.of_ring(members, ring, facts.qps) if facts is not None else None
        if qpns is not None:
            entry["qpns"] = qpns
        return entry

    def _nic_pair(self, members: Sequence[Member], hop: HopFact) -> list[str]:
        """[sender's, receiver's]; empty within a host."""
        if hop.send is None or hop.receive is None:
            return []
        return [
            self._namer.nic(members[hop.source].process.host, hop.send.device),
            self._namer.nic(members[hop.target].process.host, hop.receive.device),
        ]

    def _nccl(self, facts: WireFacts) -> dict[str, object]:
        nccl: dict[str, object] = {
            "version": ".".join(str(part) for part in self._log.version),
            "protocol": facts.protocol,
            "channels": facts.channels,
            "threads": facts.threads,
            "qps_per_connection": facts.qps,
        }
        for key, value in (
            ("split_data_on_qps", facts.split_data_on_qps),
            ("adaptive_routing", facts.adaptive_routing),
            ("adaptive_routing_threshold", facts.adaptive_routing_threshold),
        ):
            if value is not None:
                nccl[key] = value
        return nccl

    def _all_findings(self) -> tuple[Finding, ...]:
        found = list(log_findings(self._log, self._groups)) + self._findings
        found += [Finding("assumed", words) for words in (*self._wire.assumed, *self._namer.assumed)]
        return tuple(dict.fromkeys(found))


def global_ranks(log: Log, chosen: Sequence[Communicator]) -> dict[tuple[object, int, str], int]:
    """(process, GPU, communicator pointer) -> rank in the job.

    Ranks of the communicator that holds exactly the processes of the chosen ones; where there is none, the chosen ones'
    ranks, one communicator after the other.
    """
    places = [(member.process, member.cuda_device) for one in chosen for member in one.members]
    keys = [(member.process, member.cuda_device, member.pointer) for one in chosen for member in one.members]
    for one in log.communicators:
        world = {(member.process, member.cuda_device): member.rank for member in one.members}
        if one.size == len(places) == len(world) and not one.missing and world.keys() == set(places):
            return {key: world[place] for key, place in zip(keys, places, strict=True)}
    return {key: number for number, key in enumerate(keys)}


def _version_problems(log: Log) -> list[Problem]:
    if log.version[:2] >= OLDEST_JOB:
        return []
    words = f"NCCL {'.'.join(map(str, log.version))}: what it puts on the wire is not known"
    return [Problem(log.name, 0, 0, "version-too-old", words, f"known from {OLDEST_JOB[0]}.{OLDEST_JOB[1]} on")]


def log_findings(log: Log, groups: Sequence[GroupFacts]) -> tuple[Finding, ...]:
    """What the log itself gives cause to say."""
    found: list[Finding] = []
    networks = sorted(
        {
            end.network
            for group in groups
            for ring in group.rings
            for hop in ring.hops
            for end in (hop.send, hop.receive)
            if end is not None
        }
    )
    foreign = [network for network in networks if network != "IB"]
    if foreign:
        words = f"the network is {listed(foreign)}, not RoCEv2 RC"
        words += " (EFA sends SRD packets)" if any("Libfabric" in network for network in foreign) else ""
        words += ": the plan's places hold, its packet counts and the audit do not"
        found.append(Finding("not-rocev2", words))
    elif _has_infiniband(log, groups):
        words = (
            "the NICs are InfiniBand, not RoCEv2: the plan's places hold for its switches only if they mirror RoCEv2"
        )
        found.append(Finding("not-rocev2", words))
    if log.unread:
        first = log.unread[0]
        words = f"{len(log.unread)} lines are none that NCCL {'.'.join(map(str, log.version))} writes: "
        words += f"the first is {first.source}:{first.number}"
        found.append(Finding("lines-unread", words))
    return tuple(found)


def _has_infiniband(log: Log, groups: Sequence[GroupFacts]) -> bool:
    hosts = {host for group in groups for host in group.communicator.hosts}
    return any(
        one.line.process.host in hosts
        and (
            (isinstance(one.record, NetDevices) and "IB" in one.record.links)
            or (isinstance(one.record, QueuePair) and one.record.infiniband)
        )
        for one in log.everything
    )
