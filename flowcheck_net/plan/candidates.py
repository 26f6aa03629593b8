"""Fabric + job + policy + platform tables -> the planning problem.

A hop may be watched wherever every possible path crosses, and with ``cuts`` at all places of a stage together. Each
such place becomes a tap; what forbids one is written on it, so that an explanation can say so.

* ``allowed_ports``: the tap's ``switch:port`` matches one of the globs.
* Direction: the platform mirrors it.
* Tenant isolation: foreign traffic may cross a port that is ``shared`` and every port between switches; such a tap
  needs a platform that can filter (its direction, its IP version), and its session lets through the job's own address
  pairs only.
* Certainty: a port between switches is left alone when another hop of the job may or may not cross it (several equal
  paths), for then the number of copies could not be foretold. With ``cuts`` it may be watched together with all others
  that such a hop may cross in its place.
* Capture ports: the tap's own switch has one, or copies may cross the fabric to one (``remote``).
* Other owners' sessions: what they watch is not shared where the platform cannot, what they send to is never ours.
* No mirror of a mirror: a port that copies leave through, or may cross, is never watched.
* ``checkpoint_apart``: a hop counts for its ring only at a checkpoint node that shares no failure domain with any host
  of that ring.
* ``copies_apart``: no two counted hops of a ring are watched on switches that share a failure domain which matches one
  of the globs.
"""

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase

from flowcheck_net.ids import HostName, SwitchName
from flowcheck_net.intent import Capabilities
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.model.job import Job, Lane, Ring, Tree
from flowcheck_net.model.platforms import capabilities, known_platforms, says_all, system_of, with_limits
from flowcheck_net.model.routing import Site
from flowcheck_net.plan.places import build_places, carried, session_rooms
from flowcheck_net.plan.problem import Capture, Cut, Hop, PlanningProblem, RingNeed, SwitchLimits, Tap
from flowcheck_net.plan.rows import HopRow, hop_rows
from flowcheck_net.plan.taps import Rules, build_taps
from flowcheck_net.spec.policy import Policy


def build_problem(fabric: Fabric, job: Job, policy: Policy) -> PlanningProblem:
    """Everything that may be chosen, and everything that limits the choice.

    Raises:
        PlanError: A platform is unknown, or two hosts are not connected.
    """
    rows = hop_rows(fabric, job, cuts=policy.cuts, reduced=policy.strategy != "port")
    sites = sorted({site for row in rows for site in row.everywhere})
    platform = {name: _table(fabric, name) for name in fabric.switches}
    places = build_places(fabric, policy, platform, {site.switch for site in sites})
    captures = places.captures
    taps = build_taps(Rules(fabric, job, policy, platform, {c.switch for c in captures}), sites, rows)
    on_network = Counter(row.ring for row in rows if row.counts)
    cuts, hops = _hops(sites, rows)
    return PlanningProblem(
        job=job.name,
        extra_step=job.wire.nccl.extra_step,
        copies_apart=bool(policy.failure_domains.copies_apart),
        taps=taps,
        captures=captures,
        switches=_switches(fabric, policy, platform, taps),
        rings=tuple(_need(fabric, job, policy, lane, on_network[n], captures) for n, lane in enumerate(job.lanes)),
        hops=hops,
        gradient_bytes=_gradient_bytes(job),
        headroom=policy.monitor.headroom,
        cuts=cuts,
        budgets=places.budgets,
        exclusive=places.exclusive,
        carries=carried(taps, places),
        survive=policy.survive > 0,
    )


def _table(fabric: Fabric, name: SwitchName) -> Capabilities:
    """What the switch can mirror: its platform's table, overruled by what the site says of it."""
    platform, limits = fabric.address(name).platform, fabric.limits(name)
    if system_of(platform) not in known_platforms() and says_all(limits):
        return with_limits(platform, None, limits)
    return with_limits(platform, capabilities(platform), limits)


def _hops(sites: list[Site], rows: list[HopRow]) -> tuple[tuple[Cut, ...], tuple[Hop, ...]]:
    number = {site: n for n, site in enumerate(sites)}
    stages = sorted({tuple(sorted(number[site] for site in stage)) for row in rows for stage in row.stages})
    cut = {stage: n for n, stage in enumerate(stages)}
    hops = tuple(
        Hop(
            row.ring,
            row.index,
            row.source,
            row.destination,
            row.totals.wire_bytes,
            tuple(sorted(number[site] for site in row.sites)),
            row.counts,
            tuple(sorted(cut[tuple(sorted(number[site] for site in stage))] for stage in row.stages)),
        )
        for row in rows
    )
    return tuple(Cut(stage) for stage in stages), hops


def _gradient_bytes(job: Job) -> int:
    """Bytes of gradient a step of all groups; the heads of an NVLSTree are one group."""
    carries = {lane.group: lane.carries for lane in job.lanes if isinstance(lane, Ring) or lane.head == 0}
    return sum(bucket.size for kinds in carries.values() for bucket in job.wire.buckets if bucket.kind in kinds)


def _switches(
    fabric: Fabric, policy: Policy, platform: Mapping[SwitchName, Capabilities], taps: tuple[Tap, ...]
) -> tuple[SwitchLimits, ...]:
    on_switch: dict[SwitchName, list[Tap]] = {name: [] for name in platform}
    for tap in taps:
        on_switch[tap.switch].append(tap)
    globs = policy.failure_domains.copies_apart
    return tuple(
        SwitchLimits(
            name=name,
            max_sessions=max(0, table.max_sessions - len(fabric.foreign_sessions(name))),
            max_sources=table.max_sources_per_session,
            apart=_matching(fabric, name, globs),
            rooms=session_rooms(fabric, name, table, on_switch[name]),
            many=table.source_in_many_sessions,
            split=table.split_directions,
            once=table.one_copy_per_output,
            filter_entries=table.max_filter_entries,
            entries_by_source=table.filter_entries_by_source,
            foreign=min(table.max_sessions, len(fabric.foreign_sessions(name))),
        )
        for name, table in platform.items()
    )


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
