"""Fabric + job + policy + platform tables -> the planning problem.

A hop may be watched wherever every possible path crosses. Each such place becomes a tap; what forbids one is written on
it, so that an explanation can say so.

* ``allowed_ports``: the tap's ``switch:port`` matches one of the globs.
* Direction: the platform mirrors it.
* Tenant isolation: foreign traffic may cross a port that is ``shared`` and every port between switches; such a tap
  needs a platform that can filter, and its session lets through the job's own address pairs only.
* Certainty: a port between switches is left alone when another hop of the job may or may not cross it (several equal
  paths), for then the number of copies could not be foretold.
* Capture ports: the tap's own switch has one (mirrors do not travel in this version).
* ``checkpoint_apart``: a hop counts for its ring only at a checkpoint node that shares no failure domain with any host
  of that ring.
* ``copies_apart``: no two counted hops of a ring are watched on switches that share a failure domain which matches one
  of the globs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil

from flowcheck_net.ids import Address, HostName, SwitchName
from flowcheck_net.intent import Capabilities
from flowcheck_net.model.fabric import Fabric, SwitchPort
from flowcheck_net.model.job import Job, Lane, Ring, Tree, Wire
from flowcheck_net.model.lanes import gives_copy, lane_messages
from flowcheck_net.model.platforms import capabilities
from flowcheck_net.model.routing import Site, hop_sites
from flowcheck_net.model.wire import Totals, hop_totals
from flowcheck_net.plan.problem import Capture, Hop, Limit, PlanningProblem, RingNeed, SwitchLimits, Tap, capacity
from flowcheck_net.spec.policy import Monitor, Policy

_FRAME = 14 + 4 + 20 + 8 + 12 + 4
"""Bytes a packet beside payload and IP header: Ethernet 14, FCS 4, preamble and gap 20, UDP 8, BTH 12, ICRC 4."""
_MESSAGE = 16 + 4
"""Bytes a message beside them: RETH 16, immediate 4."""
_IP_HEADER = {4: 20, 6: 40}


def build_problem(fabric: Fabric, job: Job, policy: Policy) -> PlanningProblem:
    """Everything that may be chosen, and everything that limits the choice.

    Raises:
        PlanError: A platform is unknown, or two hosts are not connected.
    """
    rows = _hop_rows(fabric, job)
    sites = sorted({site for row in rows for site in row.sites})
    captures = _captures(fabric, policy)
    platform = {name: capabilities(fabric.address(name).platform) for name in fabric.switches}
    taps = _taps(_Rules(fabric, job, policy, platform, {c.switch for c in captures}), sites, rows)
    number = {site: n for n, site in enumerate(sites)}
    lanes = job.lanes
    on_network = Counter(row.ring for row in rows if row.counts)
    globs = policy.failure_domains.copies_apart
    return PlanningProblem(
        job=job.name,
        extra_step=job.wire.nccl.extra_step,
        copies_apart=bool(globs),
        taps=taps,
        captures=captures,
        switches=tuple(
            SwitchLimits(name, table.max_sessions, table.max_sources_per_session, _matching(fabric, name, globs))
            for name, table in platform.items()
        ),
        rings=tuple(_need(fabric, job, policy, lane, on_network[n], captures) for n, lane in enumerate(lanes)),
        hops=tuple(
            Hop(
                r.ring,
                r.index,
                r.source,
                r.destination,
                r.totals.wire_bytes,
                tuple(sorted(number[s] for s in r.sites)),
                r.counts,
            )
            for r in rows
        ),
        gradient_bytes=_gradient_bytes(job),
        headroom=policy.monitor.headroom,
    )


@dataclass(frozen=True, slots=True)
class _HopRow:
    """One hop that leaves a host."""

    ring: int
    index: int
    source: Address
    destination: Address
    totals: Totals
    sites: tuple[Site, ...]
    """In the order of travel."""
    counts: bool
    """It carries fully reduced data."""

    @property
    def one_path(self) -> bool:
        """Do the certain sites join up to a whole path? Then it crosses these places and no other."""
        inside = zip(self.sites[0::2], self.sites[1::2], strict=True)
        return all(enters.switch == leaves.switch for enters, leaves in inside)


@dataclass(frozen=True, slots=True)
class _Rules:
    """What decides whether a tap may be chosen."""

    fabric: Fabric
    job: Job
    policy: Policy
    platform: Mapping[SwitchName, Capabilities]
    with_capture: set[SwitchName]


def _hop_rows(fabric: Fabric, job: Job) -> list[_HopRow]:
    totals = _Sizes(job.wire)
    rows: list[_HopRow] = []
    for number, lane in enumerate(job.lanes):
        for index in range(lane.hop_count):
            source, destination = job.ends(lane, index)
            if source.host != destination.host:
                sites = hop_sites(fabric, source, destination)
                here, counts = totals.of(lane, index), gives_copy(lane, index)
                rows.append(_HopRow(number, index, source.address, destination.address, here, sites, counts))
    return rows


def _gradient_bytes(job: Job) -> int:
    """Bytes of gradient a step of all groups; the heads of an NVLSTree are one group."""
    carried = {lane.group: lane.carries for lane in job.lanes if isinstance(lane, Ring) or lane.head == 0}
    return sum(bucket.size for kinds in carried.values() for bucket in job.wire.buckets if bucket.kind in kinds)


class _Sizes:
    """Totals of hops, each worked out once: groups of one size are alike."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._known: dict[tuple[object, ...], Totals] = {}

    def of(self, lane: Lane, index: int) -> Totals:
        """All messages of one iteration on one hop. Every edge of a tree has the same, up and down."""
        if isinstance(lane, Tree):
            key: tuple[object, ...] = (lane.members, lane.hosts, lane.head, lane.heads, lane.channel, lane.carries)
        else:
            key = (lane.size, lane.channel, index, lane.carries)
        if key not in self._known:
            self._known[key] = hop_totals(lane_messages(self._wire, lane, index)).total
        return self._known[key]


def _captures(fabric: Fabric, policy: Policy) -> tuple[Capture, ...]:
    found = [
        Capture(
            switch=name,
            switch_port=capture.at.port,
            port=capture.name,
            node=capture.node,
            capacity=capacity(min(capture.gbps, fabric.gbps(capture.at)), policy.monitor.headroom),
            number=number,
        )
        for name in fabric.switches
        for number, capture in enumerate(fabric.captures(name), start=1)
    ]
    return tuple(sorted(found))


def _taps(rules: _Rules, sites: list[Site], rows: list[_HopRow]) -> tuple[Tap, ...]:
    crossing: dict[Site, list[int]] = {site: [] for site in sites}
    for number, row in enumerate(rows):
        for site in row.sites:
            crossing[site].append(number)
    vague = {number for number, row in enumerate(rows) if not row.one_path}
    return tuple(
        _tap(rules, site, [rows[n] for n in crossing[site]], vague.difference(crossing[site])) for site in sites
    )


def _tap(rules: _Rules, site: Site, rows: list[_HopRow], vague: set[int]) -> Tap:
    between_switches = _is_between_switches(rules.fabric, site.at)
    foreign = between_switches or rules.fabric.is_shared(site.at)
    table = rules.platform[site.switch]
    refusals = {
        Limit.DIRECTION: site.direction not in table.directions,
        Limit.TENANT: foreign and not table.filters,
        Limit.ALLOWED: not any(fnmatchcase(f"{site.switch}:{site.port}", glob) for glob in rules.policy.allowed_ports),
        Limit.CAPTURE: site.switch not in rules.with_capture,
        Limit.PATH: between_switches and bool(vague),
    }
    return Tap(
        switch=site.switch,
        port=site.port,
        direction=site.direction,
        rate=_rate(rules, site, rows),
        needs_filter=foreign,
        refusals=tuple(limit for limit, refused in refusals.items() if refused),
    )


def _is_between_switches(fabric: Fabric, at: SwitchPort) -> bool:
    peer = fabric.peer(at)
    return peer is not None and peer[0] in fabric.switches


def _rate(rules: _Rules, site: Site, rows: list[_HopRow]) -> int:
    """Mbit/s, rounded up. A measured tap without a measurement counts with its line rate."""
    monitor = rules.policy.monitor
    line = rules.fabric.gbps(site.at) * 1000
    if monitor.rate_model == "average":
        bits = 8 * sum(_bytes_on_the_wire(row) for row in rows)
        return ceil(bits / Fraction(str(rules.job.iteration_time)) / 10**6)
    return _measured(monitor, site, line)


def _measured(monitor: Monitor, site: Site, line: int) -> int:
    gbps = monitor.measured_gbps.get(f"{site.switch}:{site.port}:{site.direction}")
    return line if gbps is None else ceil(Fraction(str(gbps)) * 1000)


def _bytes_on_the_wire(row: _HopRow) -> int:
    ip = _IP_HEADER[6 if ":" in row.source else 4]
    return row.totals.wire_bytes + row.totals.packets * (_FRAME + ip) + row.totals.messages * _MESSAGE


def _matching(fabric: Fabric, switch: SwitchName, globs: tuple[str, ...]) -> tuple[str, ...]:
    domains = sorted(fabric.failure_domains(switch))
    return tuple(domain for domain in domains if any(fnmatchcase(domain, glob) for glob in globs))


def _need(
    fabric: Fabric, job: Job, policy: Policy, lane: Lane, network_hops: int, captures: tuple[Capture, ...]
) -> RingNeed:
    complete = isinstance(lane, Tree) or job.wire.nccl.extra_step
    beside = 0 if complete else 1
    copies = max(1, min(policy.copies, network_hops - beside))
    at_risk = frozenset[str]().union(*(fabric.failure_domains(host) for host in _hosts(job, lane)))
    apart = policy.failure_domains.checkpoint_apart
    return RingNeed(
        group=lane.group,
        channel=lane.channel,
        size=lane.size,
        wanted=policy.copies,
        copies=copies,
        hops=copies + beside,
        network_hops=network_hops,
        captures=tuple(n for n, c in enumerate(captures) if not (apart and at_risk & fabric.failure_domains(c.node))),
        complete=complete,
        kind="tree" if isinstance(lane, Tree) else "ring",
    )


def _hosts(job: Job, lane: Lane) -> set[HostName]:
    ranks = (
        {rank for edge in lane.edges for rank in (edge.parent, edge.child)} if isinstance(lane, Tree) else lane.ranks
    )
    return {job.places[rank].host for rank in ranks}
