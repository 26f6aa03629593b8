"""Where copies may go: capture ports of the own switch and of others, and what the ways there have room for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Capabilities, Counted, Direction, MirrorSession, SessionLimit
from flowcheck_net.model import fabric as graph
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.plan.problem import Budget, Capture, Limit, SessionRoom, Tap, capacity
from flowcheck_net.spec.policy import Policy

REMOTE = "erspan:"
"""Before the address, in place of a destination port."""


@dataclass(frozen=True, slots=True)
class Places:
    """Capture ports and the limits that several of them share."""

    captures: tuple[Capture, ...]
    budgets: tuple[Budget, ...]
    exclusive: tuple[tuple[int, int], ...]
    crossed: tuple[frozenset[graph.SwitchPort], ...]
    """By capture: ports between switches that its copies may cross."""


def build_places(
    fabric: Fabric, policy: Policy, platform: Mapping[SwitchName, Capabilities], watched: Iterable[SwitchName]
) -> Places:
    """All capture ports, local and remote. ``watched`` are the switches with taps."""
    found = {capture: None for name in fabric.switches for capture in _local(fabric, policy, platform[name], name)}
    ways: dict[Capture, tuple[tuple[graph.Crossing, ...], ...] | None] = dict(found)
    if policy.remote.over_fabric:
        for name in sorted(set(watched)):
            if platform[name].encapsulation_bytes is not None:
                ways.update(_remote(fabric, policy, name))
    captures = tuple(sorted(ways))
    return Places(
        captures=captures,
        budgets=_budgets(fabric, policy, captures, ways),
        exclusive=_exclusive(captures),
        crossed=tuple(_crossed(ways[capture] or ()) for capture in captures),
    )


def _local(fabric: Fabric, policy: Policy, table: Capabilities, name: SwitchName) -> Iterable[Capture]:
    sessions = fabric.foreign_sessions(name)
    for number, found in enumerate(fabric.captures(name), start=1):
        others = [session for session in sessions if session.destination == found.at.port]
        taken = bool(others) and not table.shared_destinations
        room = capacity(min(found.gbps, fabric.gbps(found.at)), policy.monitor.headroom)
        yield Capture(
            switch=name,
            switch_port=found.at.port,
            port=found.name,
            node=found.node,
            capacity=max(0, room - sum(_load(fabric, name, session) for session in others if not taken)),
            number=number,
            refusals=(Limit.FOREIGN,) if taken else (),
        )


def _load(fabric: Fabric, switch: SwitchName, session: MirrorSession) -> int:
    """Mbit/s of another owner's session: the line rate of its sources, of unknown ones that of its destination."""
    known = fabric.ports(switch)
    destination = graph.SwitchPort(switch, session.destination)
    ends = [graph.SwitchPort(switch, source.port) for source in session.sources]
    return sum(1000 * fabric.gbps(end if end.port in known else destination) for end in ends)


def _remote(
    fabric: Fabric, policy: Policy, name: SwitchName
) -> Iterable[tuple[Capture, tuple[tuple[graph.Crossing, ...], ...]]]:
    """Capture NICs with an address on other switches, numbered after the switch's own."""
    number = len(fabric.captures(name))
    for other in fabric.switches:
        for found in fabric.captures(other):
            if other == name or found.address is None:
                continue
            number += 1
            room = capacity(min(found.gbps, fabric.gbps(found.at)), policy.monitor.headroom)
            port = PortName(f"{REMOTE}{found.address}")
            capture = Capture(name, port, found.name, found.node, room, number, remote=True)
            yield capture, fabric.crossings(name, other)


def _crossed(stages: Iterable[Iterable[graph.Crossing]]) -> frozenset[graph.SwitchPort]:
    return frozenset(end for stage in stages for link in stage for end in (link.leaves, link.enters))


def _budgets(
    fabric: Fabric,
    policy: Policy,
    captures: tuple[Capture, ...],
    ways: Mapping[Capture, tuple[tuple[graph.Crossing, ...], ...] | None],
) -> tuple[Budget, ...]:
    """One for each capture NIC that several switches can reach, and for each link that copies may cross.

    Copies of one session are not spread over equal paths and which one they take is not foretold: each link that they
    may cross must have room for all of them.
    """
    by_nic: dict[str, list[int]] = {}
    by_link: dict[graph.Crossing, list[int]] = {}
    for number, capture in enumerate(captures):
        by_nic.setdefault(capture.port, []).append(number)
        for link in {link for stage in ways[capture] or () for link in stage}:
            by_link.setdefault(link, []).append(number)
    nics = [
        Budget(f"capture port {port}", Limit.BANDWIDTH, max(captures[n].capacity for n in numbers), tuple(numbers))
        for port, numbers in by_nic.items()
        if len(numbers) > 1
    ]
    share = Fraction(str(policy.remote.uplink_share))
    links = [
        Budget(
            f"{link.leaves.switch}:{link.leaves.port}",
            Limit.UPLINK,
            int(fabric.gbps(link.leaves) * 1000 * share),
            tuple(numbers),
        )
        for link, numbers in by_link.items()
    ]
    return tuple(sorted([*nics, *links]))


def _exclusive(captures: tuple[Capture, ...]) -> tuple[tuple[int, int], ...]:
    """A mirror port takes part in nothing else: the local session of a NIC and the remote ones exclude each other."""
    local = {capture.port: n for n, capture in enumerate(captures) if not capture.remote}
    return tuple((local[capture.port], n) for n, capture in enumerate(captures) if capture.remote)


def carried(taps: tuple[Tap, ...], places: Places) -> tuple[tuple[int, int], ...]:
    """(tap, capture): the tap's port may carry copies on their way to the capture."""
    ports = {n: graph.SwitchPort(tap.switch, tap.port) for n, tap in enumerate(taps)}
    return tuple(
        (tap, capture)
        for capture, crossed in enumerate(places.crossed)
        if crossed
        for tap, port in ports.items()
        if port in crossed
    )


def session_rooms(
    fabric: Fabric, switch: SwitchName, table: Capabilities, taps: Iterable[Tap]
) -> tuple[SessionRoom, ...]:
    """The limits by slice and direction, less what sessions of other owners use."""
    slices = sorted({tap.slice for tap in taps})
    sessions = fabric.foreign_sessions(switch)
    used = {
        (limit, part): sum(_uses(fabric, switch, session, limit, part) for session in sessions)
        for limit in table.session_limits
        for part in (slices if limit.per_slice else [None])
    }
    taken = ((limit, part, min(n, limit.most)) for (limit, part), n in used.items())
    return tuple(SessionRoom(limit.counts, limit.most - n, part, n) for limit, part, n in taken)


def _uses(fabric: Fabric, switch: SwitchName, session: MirrorSession, limit: SessionLimit, part: str | None) -> int:
    """How much of a limit another owner's session takes. What is not known of it is taken to be in the way."""
    known = fabric.ports(switch)
    directions = {
        source.direction
        for source in session.sources
        if part is None or source.port not in known or fabric.slice(graph.SwitchPort(switch, source.port)) == part
    }
    if not session.sources:
        directions = set(Direction)
    if limit.counts is Counted.SESSIONS:
        return int(bool(directions))
    if limit.counts is Counted.DIRECTIONS:
        return len(directions)
    return int(Direction(limit.counts.value) in directions)
