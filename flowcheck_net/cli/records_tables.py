"""Tables of what records hold, for ``replay`` and ``records show``."""

from collections.abc import Mapping

from rich.table import Table

from flowcheck_net.cli.output import table
from flowcheck_net.receive.records import Flow, Records

_RANGES_SHOWN = 8
_TUNNELS_SHOWN = 16


def _missing_text(flow: Flow) -> str:
    """PSN ranges with their cause, the first few of them."""
    parts = [f"{psns(each.first_psn, each.last_psn)} {each.cause}" for each in flow.missing[:_RANGES_SHOWN]]
    if len(flow.missing) > _RANGES_SHOWN:
        parts.append(f"and {len(flow.missing) - _RANGES_SHOWN} more")
    total = sum(each.packets for each in flow.missing)
    return f"{total}: {', '.join(parts)}" if parts else "0"


def psns(first: int, last: int) -> str:
    """A range of PSNs."""
    return str(first) if first == last else f"{first}-{last}"


def flow_table(records: Records) -> Table:
    """Flows that carry RDMA requests. Answers alone have nothing to miss; their packets are in the counters."""
    flows = [flow for flow in records.flows if flow.seen]
    several = len(records.captures) > 1
    shown = table(
        f"Flows that carry RDMA requests: {len(flows)} of {len(records.flows)}",
        *(["capture"] if several else []),
        *("source", "destination", "dest QP", "writes", "messages", "gaps", "missing PSNs", "repeats"),
        numbers=("dest QP", "writes", "messages", "gaps", "repeats"),
    )
    for flow in flows:
        lost = sum(gap.packets for gap in flow.gaps)
        gaps = f"{len(flow.gaps)} ({lost} PSN{'s' if lost != 1 else ''})" if flow.gaps else "0"
        row = [
            *(flow.source, flow.destination, f"{flow.dest_qp:#x}", str(flow.packets.get("write", 0))),
            *(str(len(flow.messages)), gaps, _missing_text(flow), str(sum(extra for _, extra in flow.repeats))),
        ]
        shown.add_row(*([flow.capture] if several else []), *row)
    if any(flow.packets.get("clear_to_send") and not flow.packets.get("write") for flow in flows):
        shown.caption = "flows without writes: clear to send only, by which NCCL's receiver posts its buffers\n"
    return shown


def counter_table(records: Records) -> Table:
    """Everything counted, by name, without the zeros."""
    shown = table("Counters", "capture", "counter", "packets", numbers=("packets",))
    for capture in records.captures:
        shown.add_row(capture.name, "all frames", str(capture.packets))
        dropped = "unknown" if capture.dropped is None else str(capture.dropped)
        shown.add_row("", "dropped, says the capture", dropped)
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
            shown.add_row("", f"{kind} {name}", str(count))


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
            gaps = "unknown" if tunnel.sequence_gaps is None else str(tunnel.sequence_gaps)
            shown.add_row(capture.name, tunnel.outer_source, tunnel.kind, session, str(tunnel.packets), gaps)
        if len(busiest) > _TUNNELS_SHOWN:
            shown.add_row(capture.name, f"and {len(busiest) - _TUNNELS_SHOWN} more", "", "", "", "")
    return shown
