"""A plan -> the connections of its job and what each tap sees of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.model.job import Job, Lane, RankPlace
from flowcheck_net.plan.plan import Plan, expectation
from flowcheck_net.receive.synth_connection import Connection
from flowcheck_net.receive.synth_faults import Fault, FaultKind
from flowcheck_net.receive.synth_payload import Gradients
from flowcheck_net.receive.synth_route import Crossing, Routes, Tap, seen_at
from flowcheck_net.receive.synth_streams import AnswerStream, DataStream, Sight

_FIRST_QPN = 0x0100


class _QueuePairs:
    """Gives out queue pair numbers: unique at an address, ascending, none that the job file names."""

    def __init__(self, job: Job) -> None:
        self._next: Counter[Address] = Counter()
        self._named: defaultdict[Address, set[int]] = defaultdict(set)
        for lane in job.lanes:
            for hop in range(lane.hop_count):
                self._named[job.ends(lane, hop)[1].address].update(lane.hop_qpns(hop))

    def take(self, address: Address) -> Qpn:
        """The next one."""
        while True:
            number = _FIRST_QPN + self._next[address]
            self._next[address] += 1
            if number not in self._named[address]:
                return Qpn(number)


def connections_of(job: Job, start_psn: int) -> tuple[Connection, ...]:
    """One connection for each hop that leaves a host, in order of (group, channel, hop)."""
    numbers = _QueuePairs(job)
    found: list[Connection] = []
    for lane in job.lanes:
        for hop in range(lane.hop_count):
            source, destination = job.ends(lane, hop)
            if source.host != destination.host:
                found.append(_connection(job, lane, hop, (source, destination), numbers, start_psn))
    return tuple(found)


def _connection(
    job: Job, lane: Lane, hop: int, ends: tuple[RankPlace, RankPlace], numbers: _QueuePairs, start_psn: int
) -> Connection:
    source, destination = ends
    count = job.wire.nccl.qps_per_connection
    named = lane.hop_qpns(hop)
    qpns = named or tuple(numbers.take(destination.address) for _ in range(count))
    name = f"{lane.group}/{lane.channel}/{hop}"
    base = 0x7F00_0000_0000 + (_number(name) & 0xFFF) * (1 << 28)
    return Connection(
        lane=lane,
        hop=hop,
        source=source,
        destination=destination,
        qpns=qpns,
        reverse_qpns=tuple(numbers.take(source.address) for _ in qpns),
        ports=tuple(0xC000 | _number(f"{name}/port/{qp}") & 0x3FFF for qp in range(len(qpns))),
        base=base + (1 << 27),
        keys=(_number(f"{name}/data") & 0xFFFFFF, _number(f"{name}/fifo") & 0xFFFFFF),
        start_psn=start_psn,
    )


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class Observed:
    """A connection and the streams of copies that taps take of it."""

    connection: Connection
    data: tuple[DataStream, ...]
    answers: tuple[AnswerStream, ...]


def observe(
    plan: Plan, taps: Sequence[Tap], connections: Sequence[Connection], gradients: Gradients
) -> tuple[Observed, ...]:
    """What the taps see of each connection; stream numbers count from 0.

    Raises:
        PlanError: The plan's picture lacks a link that traffic needs.
    """
    routes = Routes(plan.picture)
    number = 0
    found: list[Observed] = []
    for connection in connections:
        ends = connection.source, connection.destination
        data: list[DataStream] = []
        for sight in _sights(routes, taps, ends, connection):
            data.append(DataStream(number, sight, connection, plan.job.wire, gradients))
            number += 1
        answers: list[AnswerStream] = []
        for sight in _sights(routes, taps, (ends[1], ends[0]), connection):
            answers.append(AnswerStream(number, sight, connection, plan.job.wire))
            number += 1
        found.append(Observed(connection, tuple(data), tuple(answers)))
    return tuple(found)


def _sights(
    routes: Routes, taps: Sequence[Tap], ends: tuple[RankPlace, RankPlace], connection: Connection
) -> Iterator[Sight]:
    """One for each tap that packets from ``ends[0]`` to ``ends[1]`` cross, on any queue pair."""
    ways = [routes.way(*ends, f"{ends[0].address}/{port}/{ends[1].address}") for port in connection.ports]
    for tap in taps:
        if not tap.mirrors(ends[0].address, ends[1].address):
            continue
        crossings: dict[int, Crossing] = {}
        for queue_pair, way in enumerate(ways):
            crossing = seen_at(way, tap)
            if crossing is not None:
                crossings[queue_pair] = crossing
        if crossings:
            routed = any(crossing.depth for crossing in ways[0])
            yield Sight.at(tap, frozenset(crossings), next(iter(crossings.values())), routed=routed)


@dataclass(frozen=True, slots=True)
class Limits:
    """What faults may name."""

    seen: Mapping[str, bool]
    """Hops that cross the network, and whether a tap sees their data."""
    packets: Mapping[str, int]
    """Data packets of an iteration, of the hops that taps see in any direction."""
    captures: Sequence[CapturePort]
    iterations: int
    mirrored: Mapping[str, frozenset[int]]
    """Of hops with message windows only: the packets of an iteration that are inside, where the sender repeats none."""


def mirrored_packets(plan: Plan, faults: Sequence[Fault]) -> dict[str, frozenset[int]]:
    """See ``Limits.mirrored``."""
    rules = {rule.flow for planned in plan.sessions for rule in planned.session.windows}
    repeated = {fault.hop for fault in faults if fault.kind is FaultKind.RETRANSMIT}
    found = {}
    for hop in expectation(plan).hops if rules else ():
        name = f"{hop.group}/{hop.channel}/{hop.index}"
        if hop.window is None or name in repeated or any((hop.destination, qpn) not in rules for qpn in hop.qpns):
            continue
        inside: set[int] = set()
        at = 0
        for number, message in enumerate(hop.messages):
            if number in hop.window.inside:
                inside.update(range(at, at + message.packets))
            at += message.packets
        found[name] = frozenset(inside)
    return found


def check_faults(faults: Sequence[Fault], limits: Limits) -> None:
    """Do the faults fit the plan? Raises SpecError with everything that does not."""
    problems: list[Problem] = []
    for fault in faults:
        for key, message, cure in _misfits(fault, limits):
            problems.append(Problem("--fault", 0, 0, key, f"{message} in {fault.text!r}", cure))
    if problems:
        raise SpecError(problems, hint="hops are group/channel/index; hops, iterations and packets count from 0")


def _misfits(fault: Fault, limits: Limits) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, cure)."""
    captures, seen, iterations = limits.captures, limits.seen, limits.iterations
    if fault.capture is not None and fault.capture not in captures:
        yield "capture", f"the plan has no capture port {fault.capture!r}", f"one of {', '.join(captures)}"
    if fault.iteration is not None and fault.iteration >= iterations:
        yield "iteration", f"there are only {iterations} iterations", f"0 to {iterations - 1}"
    if fault.hop is not None and fault.hop not in seen:
        yield "hop", f"no hop {fault.hop!r} crosses the network", f"one of {', '.join(list(seen)[:8])}"
    elif fault.hop is not None and not _sees(fault, fault.hop, limits):
        able = [name for name, data in seen.items() if data]
        yield "hop", f"no observation point sees hop {fault.hop!r}", f"one of {', '.join(able[:8])}"
    elif (
        fault.hop is not None
        and fault.hop in limits.packets
        and fault.packet is not None
        and fault.packet[1] >= limits.packets[fault.hop]
    ):
        last = limits.packets[fault.hop] - 1
        yield "packet", f"hop {fault.hop!r} sends only {last + 1} packets an iteration", f"0 to {last}"
    elif fault.hop is not None and fault.packet is not None and fault.kind is not FaultKind.RETRANSMIT:
        inside = limits.mirrored.get(fault.hop)
        first, last = fault.packet
        if inside is not None and inside.isdisjoint(range(first, last + 1)):
            cure = f"the first that is copied is {min(inside)}" if inside else "its window is empty"
            yield "packet", f"packet {first} of hop {fault.hop!r} is outside its message window: no copy is made", cure


def _sees(fault: Fault, hop: str, limits: Limits) -> bool:
    """Would a tap see anything of the fault? Of a retransmission, the answers of the receiver too."""
    return hop in limits.packets if fault.kind is FaultKind.RETRANSMIT else limits.seen[hop]
