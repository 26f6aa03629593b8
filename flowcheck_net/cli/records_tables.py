"""Tables of what records hold, for ``replay`` and ``records show``."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table

from flowcheck_net.cli.output import amount, table
from flowcheck_net.receive.records import Flow, Records
from flowcheck_net.receive.records_diff import Difference, Pair

_RANGES_SHOWN = 8
_TUNNELS_SHOWN = 16


def _missing_text(flow: Flow) -> str:
    """PSN ranges with their cause, the first few of them."""
    parts = [f"{psns(each.first_psn, each.last_psn)} {each.cause}" for each in flow.missing[:_RANGES_SHOWN]]
    if len(flow.missing) > _RANGES_SHOWN:
        parts.append(f"and {amount(len(flow.missing) - _RANGES_SHOWN)} more")
    total = sum(each.packets for each in flow.missing)
    return f"{amount(total)}: {', '.join(parts)}" if parts else "0"


def psns(first: int, last: int) -> str:
    """A range of PSNs."""
    return str(first) if first == last else f"{first}-{last}"


def flow_table(records: Records) -> Table:
    """Flows that carry RDMA requests. Answers alone have nothing to miss; their packets are in the counters."""
    flows = [flow for flow in records.flows if flow.seen]
    several = len(records.captures) > 1
    shown = table(
        f"Flows that carry RDMA requests: {len(flows):,} of {len(records.flows):,}",
        *(["capture"] if several else []),
        *("source", "destination", "dest QP", "writes", "messages", "gaps", "missing PSNs", "repeats"),
        numbers=("dest QP", "writes", "messages", "gaps", "repeats"),
        keys=4 if several else 3,
    )
    for flow in flows:
        lost = sum(gap.packets for gap in flow.gaps)
        gaps = f"{len(flow.gaps):,} ({lost:,} PSN{'s' if lost != 1 else ''})" if flow.gaps else "0"
        row = [
            *(flow.source, flow.destination, f"{flow.dest_qp:#x}", amount(flow.packets.get("write", 0))),
            *(amount(len(flow.messages)), gaps, _missing_text(flow), amount(sum(extra for _, extra in flow.repeats))),
        ]
        shown.add_row(*([flow.capture] if several else []), *row)
    remarks = _receivers_flows(flows)
    if any(flow.gaps for flow in flows):
        remarks += "gaps: what did not come in its order; missing: what never came\n"
    shown.caption = remarks or None
    return shown


def _receivers_flows(flows: Sequence[Flow]) -> str:
    """What those flows are that a newcomer does not expect; empty: there are none."""
    if any(flow.packets.get("clear_to_send") and not flow.packets.get("write") for flow in flows):
        return "flows without writes: clear to send only, by which NCCL's receiver posts its buffers\n"
    return ""


def counter_table(records: Records) -> Table:
    """Everything counted, by name, without the zeros."""
    shown = table("Counters", "capture", "counter", "packets", numbers=("packets",), keys=2)
    for capture in records.captures:
        shown.add_row(capture.name, "all frames", amount(capture.packets))
        shown.add_row("", "dropped, says the capture", amount(capture.dropped))
        for name, count in capture.loss.items():
            if count != 0 and name != "dropped":
                shown.add_row("", f"loss {name}", amount(count))
        _add_counts(shown, "frame", capture.frames)
        _add_counts(shown, "attribute", capture.attributes)
        totals: dict[str, int] = {}
        for flow in records.flows:
            if flow.capture == capture.name:
                for name, count in flow.packets.items():
                    totals[name] = totals.get(name, 0) + count
        _add_counts(shown, "rocev2", totals)
    return shown


def _add_counts(shown: Table, kind: str, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if count:
            shown.add_row("", f"{kind} {name}", amount(count))


def tunnel_table(records: Records) -> Table:
    """Where mirrored frames come from, the busiest tunnels of each capture."""
    shown = table(
        "Tunnels",
        *("capture", "outer source", "kind", "session", "packets", "sequence gaps"),
        numbers=("session", "packets", "sequence gaps"),
    )
    for capture in records.captures:
        busiest = sorted(capture.tunnels, key=lambda tunnel: -tunnel.packets)
        for tunnel in busiest[:_TUNNELS_SHOWN]:
            session = "none" if tunnel.session is None else str(tunnel.session)
            counts = (amount(tunnel.packets), amount(tunnel.sequence_gaps))
            shown.add_row(capture.name, tunnel.outer_source, tunnel.kind, session, *counts)
        if len(busiest) > _TUNNELS_SHOWN:
            shown.add_row(capture.name, f"and {len(busiest) - _TUNNELS_SHOWN} more", "", "", "", "")
    return shown


def _time(nanoseconds: int) -> str:
    """UTC to the microsecond; the number where a calendar has no such day."""
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except (ValueError, OverflowError, OSError):
        return str(nanoseconds)


def capture_table(records: Records) -> Table:
    """Every capture port in one line."""
    shown = table(
        "Capture ports",
        *("capture", "packets", "bytes", "RoCEv2", "dropped", "first packet (UTC)", "last packet"),
        numbers=("packets", "bytes", "RoCEv2", "dropped"),
    )
    for capture in records.captures:
        times = (_time(capture.first_time), _time(capture.last_time)) if capture.packets else ("", "")
        counts = (capture.packets, capture.bytes, capture.frames.get("rocev2", 0), capture.dropped)
        shown.add_row(capture.name, *map(amount, counts), *times)
    return shown


def numbered_flow_table(records: Records) -> Table:
    """All flows, numbered from 1, with what is to be told of their request packets."""
    numbers = ("#", "dest QP", "raw", "unique", "repeated", "retransmitted", "missing", "messages")
    shown = table(
        "Flows: request packets",
        *("#", "capture", "source", "destination", "dest QP"),
        *("raw", "unique", "repeated", "retransmitted", "missing", "messages"),
        numbers=numbers,
    )
    for number, flow in enumerate(records.flows, 1):
        unique = sum(last - first + 1 for first, last in flow.seen)
        repeated = sum(extra for _, extra in flow.repeats)
        missing = sum(each.packets for each in flow.missing)
        counts = (unique + repeated, unique, repeated, flow.retransmitted, missing, len(flow.messages))
        key = (flow.capture, flow.source, flow.destination, f"{flow.dest_qp:#x}")
        shown.add_row(str(number), *key, *map(amount, counts))
    shown.caption = _receivers_flows(records.flows) or None
    return shown


def message_lines(flow: Flow) -> Iterator[str]:
    """The messages of a flow as columns of text, quick for hundreds of thousands."""
    columns = "{:>14} {:>10} {:>12} {:>8} {:>8} {:>12} {:>6} {:>20} {:>10} {:>18}"
    yield f"{flow.capture}: {flow.source} -> {flow.destination}, QP {flow.dest_qp:#x}"
    yield columns.format(
        *("position", "first PSN", "bytes", "packets", "of", "immediate", "opcode", "first time (ns)", "us"), "ICRC sum"
    )
    for each in flow.messages:
        size, expected, immediate, icrc = (
            "unknown" if value is None else str(value)
            for value in (each.bytes, each.expected_packets, each.immediate, each.icrc_sum)
        )
        yield columns.format(
            *(each.position, each.first_psn, size, each.packets, expected, immediate, f"{each.opcode:#04x}"),
            *(each.first_time, f"{(each.last_time - each.first_time) / 1000:.1f}", icrc),
        )


def difference_tables(found: Difference) -> Iterator[Table]:
    """What differs by capture port, then by flow."""
    if found.captures:
        shown = table("Capture ports", "capture", "counter", "first", "second", numbers=("first", "second"))
        for capture in found.captures:
            _add_pairs(shown, capture.name, capture.only_in, capture.counters)
        yield shown
    if found.flows:
        shown = table(
            f"Flows: {found.missed:,} packets of the first missed by the second",
            *("flow", "counter", "first", "second"),
            numbers=("first", "second"),
        )
        for flow in found.flows:
            pairs: dict[str, Pair] = {}
            if flow.loss is not None:
                pairs["request packets"] = (flow.loss.before, flow.loss.after)
                pairs["of them not in the other"] = (flow.loss.lost, flow.loss.added)
            if any(flow.messages):
                pairs["messages not in the other"] = flow.messages
            key = f"{flow.capture}: {flow.source} -> {flow.destination} QP {flow.dest_qp:#x}"
            _add_pairs(shown, key, flow.only_in, {**pairs, **flow.counters})
        yield shown


def _add_pairs(shown: Table, key: str, only_in: str, pairs: Mapping[str, Pair]) -> None:
    """Rows of one thing, named in the first of them."""
    if only_in:
        shown.add_row(key, f"only in the {only_in}", "", "")
        key = ""
    for name, (first, second) in pairs.items():
        shown.add_row(key, name, amount(first), amount(second))
        key = ""
