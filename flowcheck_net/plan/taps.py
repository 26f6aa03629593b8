"""Sites that hops cross -> taps: what each would cost, and what forbids it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil

from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Capabilities
from flowcheck_net.model.fabric import Fabric, SwitchPort
from flowcheck_net.model.job import Job
from flowcheck_net.model.routing import Site, possible_crossings
from flowcheck_net.plan.problem import Limit, Tap
from flowcheck_net.plan.rows import HopRow, packet_share
from flowcheck_net.spec.policy import Monitor, Policy


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides whether a tap may be chosen."""

    fabric: Fabric
    job: Job
    policy: Policy
    platform: Mapping[SwitchName, Capabilities]
    with_capture: set[SwitchName]


def build_taps(rules: Rules, sites: list[Site], rows: list[HopRow]) -> tuple[Tap, ...]:
    """One tap a site, in the order of ``sites``."""
    crossing: dict[Site, list[int]] = {site: [] for site in sites}
    for number, row in enumerate(rows):
        for site in row.everywhere:
            crossing[site].append(number)
    vague = _vague(rules.fabric, sites, rows)
    foreign = {name: _foreign_ports(rules, name) for name in rules.platform}
    return tuple(_tap(rules, site, rows, crossing[site], vague, foreign[site.switch]) for site in sites)


def _vague(fabric: Fabric, sites: list[Site], rows: list[HopRow]) -> set[Site]:
    """Places between switches that some hop may or may not cross, and that no cut of that hop has."""
    if not any(_is_between_switches(fabric, site.at) for site in sites):
        return set()
    places = {(row.ends, row.everywhere) for row in rows if not row.one_path}
    return {site for ends, known in places for site in possible_crossings(fabric, *ends).difference(known)}


@dataclass(frozen=True, slots=True)
class _ForeignPorts:
    """Ports of a switch that other owners' sessions use."""

    sources: frozenset[str]
    """``port:direction``."""
    ports: frozenset[str]
    destinations: frozenset[str]


def _foreign_ports(rules: Rules, switch: SwitchName) -> _ForeignPorts:
    sessions = rules.fabric.foreign_sessions(switch)
    sources = [source for session in sessions for source in session.sources]
    return _ForeignPorts(
        frozenset(f"{source.port}:{source.direction}" for source in sources),
        frozenset(source.port for source in sources),
        frozenset(session.destination for session in sessions),
    )


def _tap(
    rules: Rules, site: Site, rows: list[HopRow], crossing: list[int], vague: set[Site], others: _ForeignPorts
) -> Tap:
    """One tap; ``crossing`` are the rows that cross it, ``vague`` the sites that some hop may or may not cross."""
    between_switches = _is_between_switches(rules.fabric, site.at)
    foreign = between_switches or rules.fabric.is_shared(site.at)
    table = rules.platform[site.switch]
    here = [rows[n] for n in crossing]
    filterable = (
        table.filters
        and site.direction in table.filter_directions
        and all(family in table.filter_families for family in {row.family for row in here})
    )
    refusals = {
        Limit.DIRECTION: site.direction not in table.directions,
        Limit.TENANT: foreign and not filterable,
        Limit.ALLOWED: not any(fnmatchcase(f"{site.switch}:{site.port}", glob) for glob in rules.policy.allowed_ports),
        Limit.CAPTURE: site.switch not in rules.with_capture,
        Limit.PATH: site in vague,
        Limit.FOREIGN: _is_taken(site, table, others),
        Limit.MIRROR: site.port in others.destinations,
        Limit.WINDOW: rules.policy.strategy != "port" and not _follows(table, rules.job),
    }
    rate = _rate(rules, site, here)
    return Tap(
        switch=site.switch,
        port=site.port,
        direction=site.direction,
        rate=rate,
        needs_filter=foreign,
        refusals=tuple(limit for limit, refused in refusals.items() if refused),
        remote_rate=_encapsulated(rate, here, table.encapsulation_bytes or 0),
        slice=rules.fabric.slice(site.at),
        filterable=filterable,
    )


def _follows(table: Capabilities, job: Job) -> bool:
    """Can the switch count the messages of a connection? On several queue pairs their order is not to be had."""
    return table.message_window and job.wire.nccl.qps_per_connection == 1


def _is_taken(site: Site, table: Capabilities, others: _ForeignPorts) -> bool:
    """Does somebody else's session watch it, so that ours may not?"""
    if table.source_in_many_sessions:
        return False
    return f"{site.port}:{site.direction}" in others.sources or (
        not table.split_directions and site.port in others.ports
    )


def _is_between_switches(fabric: Fabric, at: SwitchPort) -> bool:
    peer = fabric.peer(at)
    return peer is not None and fabric.is_switch(peer[0])


def _rate(rules: Rules, site: Site, rows: Iterable[HopRow]) -> int:
    """Mbit/s, rounded up. A measured tap without a measurement counts with its line rate."""
    monitor = rules.policy.monitor
    line = rules.fabric.gbps(site.at) * 1000
    if monitor.rate_model == "average":
        bits = 8 * sum(row.bytes_on_the_wire for row in rows)
        return ceil(bits / Fraction(str(rules.job.iteration_time)) / 10**6)
    return _measured(monitor, site, line)


def _measured(monitor: Monitor, site: Site, line: int) -> int:
    gbps = monitor.measured_gbps.get(f"{site.switch}:{site.port}:{site.direction}")
    return line if gbps is None else ceil(Fraction(str(gbps)) * 1000)


def _encapsulated(rate: int, rows: Iterable[HopRow], overhead: int) -> int:
    """``rate`` with ``overhead`` bytes more on each packet, at the job's own mean packet size; rounded up."""
    packets, on_the_wire = packet_share(rows)
    return rate if not on_the_wire else ceil(rate * (1 + Fraction(packets * overhead, on_the_wire)))
