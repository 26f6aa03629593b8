"""NCCL logs -> a job file: the facts of the chosen communicators, with what the user states beside them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_communicators import Log, Member, listed
from flowcheck_net.importers.nccl_findings import Finding, log_findings
from flowcheck_net.importers.nccl_grammar import OLDEST_JOB
from flowcheck_net.importers.nccl_groups import GroupFacts, global_ranks
from flowcheck_net.importers.nccl_hops import HopFact, RingHops, TreeHops, tree_hops
from flowcheck_net.importers.nccl_nics import NameChoice, Namer
from flowcheck_net.importers.nccl_qps import PairTable
from flowcheck_net.importers.nccl_wire import WireChoice, WireFacts, WireReader
from flowcheck_net.spec.load import check_job_document


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A job file, and what must be said with it."""

    tree: dict[str, object]
    findings: tuple[Finding, ...]


def job_document(log: Log, groups: Sequence[GroupFacts], name: str, names: NameChoice, wire: WireChoice) -> JobDocument:
    """The job file.

    Raises:
        SpecError: Everything that the log does not say and no option states, and every name that does not fit; or what
            no job file may hold.
    """
    reader = WireReader(log, [group.communicator for group in groups], len(groups[0].rings), wire)
    facts = reader.read()
    problems = [*_version_problems(log), *_unsaid(log, wire), *reader.problems]
    if facts is None or facts.algorithm == "ring":
        problems += [problem for group in groups for problem in group.problems]
    trees = _trees(log, groups, facts, problems)
    maker = _Maker(log, groups, names, trees)
    lanes = maker.lanes(facts)
    places = maker.places()
    problems += maker.problems
    if problems or facts is None:
        raise SpecError(problems)
    tree: dict[str, object] = {
        "version": 1,
        "name": name,
        "collective": {"algorithm": facts.algorithm},
        "nccl": _nccl(log, facts),
        "mtu": facts.mtu,
        **places,
        **lanes,
        "buckets": [
            {"name": f"bucket{i}", "elements": bucket.elements, "dtype": bucket.dtype}
            for i, bucket in enumerate(wire.buckets)
        ],
        "iteration_time": wire.iteration_time,
    }
    check_job_document(_frozen(tree))
    assumed = (*reader.assumed, *maker.assumed)
    found = (*log_findings(log, groups), *maker.findings, *(Finding("assumed", words) for words in assumed))
    return JobDocument(tree, tuple(dict.fromkeys(found)))


def _frozen(value: Any) -> Any:  # noqa: ANN401 - a document
    """The document with tuples for lists, as the checks want it."""
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


def _trees(
    log: Log, groups: Sequence[GroupFacts], facts: WireFacts | None, problems: list[Problem]
) -> tuple[tuple[TreeHops, ...], ...]:
    """The trees of each group on the channels in use; empty where the job is no tree or they are not complete."""
    if facts is None or facts.algorithm != "tree":
        return ()
    found: list[tuple[TreeHops, ...]] = []
    for group in groups:
        used = [tree for tree in group.trees if tree.channel < facts.channels]
        absent = sorted(set(range(facts.channels)) - {tree.channel for tree in used})
        if absent:
            words = (
                f"communicator {group.communicator.id}: the trees of channels {listed(absent)} are cut, incomplete or "
            )
            words += "contradictory"
            cure = "log every rank with INIT,GRAPH in NCCL_DEBUG_SUBSYS"
            problems.append(Problem(log.name, 0, 0, "tree-incomplete", words, cure))
            continue
        try:
            found.append(tree_hops(group.communicator, log, used))
        except SpecError as error:
            problems += error.problems
    return tuple(found) if len(found) == len(groups) else ()


class _Maker:
    """Names ranks, hosts and NICs, and writes down what connects them."""

    def __init__(
        self,
        log: Log,
        groups: Sequence[GroupFacts],
        names: NameChoice,
        trees: Sequence[Sequence[TreeHops]],
    ) -> None:
        self._groups = groups
        self._trees = trees
        self._namer = Namer(log, names)
        self._numbers = global_ranks(log, [group.communicator for group in groups])
        self._pairs = PairTable(log)
        self.findings: list[Finding] = []
        self._nics = self._own_nics()

    @property
    def problems(self) -> list[Problem]:
        """What could not be named."""
        return list(self._namer.problems)

    @property
    def assumed(self) -> list[str]:
        """What the log did not say of names."""
        return list(self._namer.assumed)

    def places(self) -> dict[str, object]:
        """``groups`` and ``ranks``."""
        members = sorted((m for group in self._groups for m in group.communicator.members), key=self._number)
        return {
            "groups": [[self._number(member) for member in group.communicator.members] for group in self._groups],
            "ranks": [
                {
                    "rank": self._number(member),
                    "host": self._namer.host(member.process.host),
                    "nic": self._nics[self._number(member)],
                }
                for member in members
            ],
        }

    def lanes(self, facts: WireFacts | None) -> dict[str, object]:
        """``rings`` or ``trees``, on the channels in use."""
        if facts is not None and facts.algorithm == "tree":
            entries = [
                self._tree(f"dp{number}", group.communicator.members, tree)
                for number, (group, trees) in enumerate(zip(self._groups, self._trees, strict=False))
                for tree in trees
            ]
            return {"trees": entries}
        return {
            "rings": [
                self._ring(f"dp{number}", group.communicator.members, ring, facts)
                for number, group in enumerate(self._groups)
                for ring in group.rings[: None if facts is None else facts.channels]
            ]
        }

    def _number(self, member: Member) -> int:
        return self._numbers[member.process, member.cuda_device, member.pointer]

    def _own_nics(self) -> dict[int, str]:
        """The NIC that each rank uses most, sending before receiving; for a rank that uses none, one of its host's."""
        found: dict[int, str] = {}
        for number, group in enumerate(self._groups):
            members = group.communicator.members
            used: dict[int, Counter[tuple[bool, int]]] = {member.rank: Counter() for member in members}
            lanes = [ring.hops for ring in group.rings]
            if self._trees:
                lanes = [(*tree.down, *tree.up) for tree in self._trees[number]]
            for hop in (hop for hops in lanes for hop in hops):
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
            self.findings.append(Finding("nic-placeholder", words))
            own = sum((used[other.rank] for other in members if other.process.host == host), Counter())
        best = min(own, key=lambda end: (not end[0], -own[end], end[1]), default=(True, 0))
        return self._namer.nic(host, best[1])

    def _ring(self, name: str, members: Sequence[Member], ring: RingHops, facts: WireFacts | None) -> dict[str, object]:
        order = [self._number(members[rank]) for rank in ring.ring.order]
        entry: dict[str, object] = {"group": name, "channel": ring.ring.channel, "order": order}
        self._add_nics(entry, members, ring.hops)
        qpns = self._pairs.of_ring(members, ring, facts.qps) if facts is not None else None
        if qpns is not None:
            entry["qpns"] = qpns
        return entry

    def _tree(self, name: str, members: Sequence[Member], tree: TreeHops) -> dict[str, object]:
        edges = [[self._number(members[rank]) for rank in (hop.source, hop.target)] for hop in tree.down]
        entry: dict[str, object] = {"group": name, "channel": tree.tree.channel, "edges": edges}
        self._add_nics(entry, members, tree.down)
        return entry

    def _add_nics(self, entry: dict[str, object], members: Sequence[Member], hops: Sequence[HopFact]) -> None:
        """``nics``, where a hop uses others than its ranks' own."""
        pairs = [self._nic_pair(members, hop) for hop in hops]
        own = [
            [self._nics[self._number(members[end])] for end in (hop.source, hop.target)] if pair else []
            for hop, pair in zip(hops, pairs, strict=True)
        ]
        if pairs != own:
            entry["nics"] = pairs

    def _nic_pair(self, members: Sequence[Member], hop: HopFact) -> list[str]:
        """[sender's, receiver's]; empty within a host."""
        if hop.send is None or hop.receive is None:
            return []
        return [
            self._namer.nic(members[hop.source].process.host, hop.send.device),
            self._namer.nic(members[hop.target].process.host, hop.receive.device),
        ]


def _nccl(log: Log, facts: WireFacts) -> dict[str, object]:
    nccl: dict[str, object] = {
        "version": ".".join(str(part) for part in log.version),
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


def _unsaid(log: Log, wire: WireChoice) -> list[Problem]:
    """What no log says and no option states."""
    found = []
    if not wire.buckets:
        words = "no NCCL log says which all-reduces make an iteration"
        found.append(Problem(log.name, 0, 0, "buckets", words, "--bucket ELEMENTS:DTYPE, one for each"))
    if wire.iteration_time is None:
        words = "no NCCL log says how long an iteration takes"
        found.append(Problem(log.name, 0, 0, "iteration_time", words, "--iteration-time SECONDS"))
    return found


def _version_problems(log: Log) -> list[Problem]:
    if log.version[:2] >= OLDEST_JOB:
        return []
    words = f"NCCL {'.'.join(map(str, log.version))}: what it puts on the wire is not known"
    return [Problem(log.name, 0, 0, "version-too-old", words, f"known from {OLDEST_JOB[0]}.{OLDEST_JOB[1]} on")]
