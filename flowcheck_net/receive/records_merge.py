"""Several records as one: capture ports side by side, consecutive captures of one port joined in order of time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise

from flowcheck_net.errors import ReceiveError
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.records import Capture, Flow, Records, Tunnel, TunnelKind
from flowcheck_net.receive.records_join import join_flows

_OVERLAP_HINT = (
    "captures of one port are joined where the one begins after the other ends: replay the capture files together, or "
    "give each place its own name with --capture NAME=FILE"
)
_TunnelKey = tuple[Address, TunnelKind, int]
_FlowKey = tuple[Address, Address, Qpn]


def merge(named: Sequence[tuple[str, Records]]) -> Records:
    """Merge records into one.

    Args:
        named: records with the name of their file, for messages. Their order is that of sources and warnings only.

    Raises:
        ReceiveError: two of them hold the same capture port at the same time; names port and files.
    """
    ports: dict[CapturePort, list[tuple[Capture, str, Records]]] = {}
    for name, records in named:
        for capture in records.captures:
            ports.setdefault(capture.name, []).append((capture, name, records))
    captures: list[Capture] = []
    flows: list[Flow] = []
    doubts: list[str] = []
    for port in sorted(ports):
        parts = _in_order(port, ports[port])
        captures.append(reduce(join_captures, (capture for capture, _, _ in parts)))
        joined, repeated = _join_parts([_flows_of(records, port) for _, _, records in parts])
        flows += joined
        doubts += _doubts(port, captures[-1], len(parts), repeated)
    return Records(
        sources=tuple(dict.fromkeys(source for _, records in named for source in records.sources)),
        warnings=(*dict.fromkeys(warning for _, records in named for warning in records.warnings), *doubts),
        captures=tuple(captures),
        flows=tuple(flows),
    )


def _in_order(port: CapturePort, parts: Sequence[tuple[Capture, str, Records]]) -> list[tuple[Capture, str, Records]]:
    """By time; those without packets first. ReceiveError where two overlap."""
    ordered = sorted(parts, key=lambda part: (part[0].packets > 0, part[0].first_time, part[0].last_time))
    seen = [part for part in ordered if part[0].packets]
    for (one, name, _), (two, other, _) in pairwise(seen):
        if two.first_time < one.last_time:
            raise ReceiveError(
                f"{name} and {other} overlap: capture port {port} is in {name} until {_utc(one.last_time)} "
                f"and in {other} from {_utc(two.first_time)}",
                hint=_OVERLAP_HINT,
            )
    return ordered


def _utc(nanoseconds: int) -> str:
    """To the nanosecond, for two captures may overlap by less than a calendar's smallest part."""
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{nanoseconds} ns"


def _added(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}}


def join_captures(one: Capture, two: Capture) -> Capture:
    """Counts of the same port, added up."""
    times = [each for each in (one, two) if each.packets]
    return Capture(
        name=one.name,
        packets=one.packets + two.packets,
        bytes=one.bytes + two.bytes,
        frames=_added(one.frames, two.frames),
        first_time=min((each.first_time for each in times), default=0),
        last_time=max((each.last_time for each in times), default=0),
        dropped=None if one.dropped is None or two.dropped is None else one.dropped + two.dropped,
        attributes=_added(one.attributes, two.attributes),
        tunnels=_join_tunnels(one.tunnels, two.tunnels),
        loss=_join_loss(one, two),
    )


def _join_loss(one: Capture, two: Capture) -> dict[str, int | None]:
    """Added up; unknown where one of both that saw packets does not know."""
    sides = [each.loss for each in (one, two) if each.loss or each.packets]
    names = dict.fromkeys(name for side in sides for name in side)
    found = {name: [side.get(name) for side in sides] for name in names}
    return {name: None if None in counts else sum(filter(None, counts)) for name, counts in found.items()}


def _tunnel_key(tunnel: Tunnel) -> _TunnelKey:
    return tunnel.outer_source, tunnel.kind, -1 if tunnel.session is None else tunnel.session


def _join_tunnels(one: Iterable[Tunnel], two: Iterable[Tunnel]) -> tuple[Tunnel, ...]:
    found = {_tunnel_key(tunnel): tunnel for tunnel in one}
    for tunnel in two:
        before = found.get(_tunnel_key(tunnel))
        found[_tunnel_key(tunnel)] = tunnel if before is None else _join_tunnel(before, tunnel)
    return tuple(found[key] for key in sorted(found))


def _join_tunnel(one: Tunnel, two: Tunnel) -> Tunnel:
    unknown = one.sequence_gaps is None or two.sequence_gaps is None
    gaps = None if unknown else (one.sequence_gaps or 0) + (two.sequence_gaps or 0)
    return replace(one, packets=one.packets + two.packets, sequence_gaps=gaps)


def _flow_key(flow: Flow) -> _FlowKey:
    return flow.source, flow.destination, flow.dest_qp


def _flows_of(records: Records, port: CapturePort) -> dict[_FlowKey, Flow]:
    return {_flow_key(flow): flow for flow in records.flows if flow.capture == port}


def _join_parts(parts: Sequence[Mapping[_FlowKey, Flow]]) -> tuple[list[Flow], int]:
    """All flows of a port, by key, and how many packets were seen in two parts."""
    found: dict[_FlowKey, Flow] = {}
    repeated = 0
    for part in parts:
        for key, flow in part.items():
            before = found.get(key)
            if before is None:
                found[key] = flow
                continue
            joined = join_flows(before, flow)
            found[key] = joined.flow
            repeated += joined.repeated
    return [found[key] for key in sorted(found)], repeated


def _doubts(port: CapturePort, capture: Capture, parts: int, repeated: int) -> Iterable[str]:
    """What a capture without a break would have told."""
    if parts > 1 and any(tunnel.sequence_gaps is not None for tunnel in capture.tunnels):
        yield f"capture port {port}: copies lost in a tunnel just between two of its {parts} files are not counted"
    if repeated:
        yield (
            f"capture port {port}: {repeated:,} packets were seen again in a later file: they count as retransmitted, "
            "whoever repeated them, and the payload of those that are no writes may count twice"
        )
