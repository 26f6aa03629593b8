"""``flowcheck-net replay``: capture files to records of what was seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.replay_send import SendArguments, send, send_options

if TYPE_CHECKING:
    from rich.table import Table

    from flowcheck_net.errors import FlowcheckError
    from flowcheck_net.receive.compare import FlowLoss
    from flowcheck_net.receive.native import Settings
    from flowcheck_net.receive.records import Flow, Records

_FILE = click.Path(path_type=Path, allow_dash=True)
_RANGES_SHOWN = 8
_TUNNELS_SHOWN = 16


class _GreType(click.ParamType[int]):
    """A protocol type of GRE, as 0x8949 or 35145."""

    name = "number"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or click's error."""
        try:
            number = int(str(value), 0)
        except ValueError:
            number = 0
        if not 0 < number <= 0xFFFF:
            self.fail(f"{value!r} is not a number from 1 to 0xffff", param, ctx)
        return number


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the records to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the records (with --before: the comparison) as JSON.")
@click.option(
    "--before",
    multiple=True,
    type=_FILE,
    help="The same traffic, captured earlier on its way: list the copies lost since.",
)
@click.option(
    "--capture",
    "named",
    multiple=True,
    metavar="NAME=FILE",
    help="Capture port of a file, or of an interface named in one, such as ckpt1:cap0=mirror.pcap.",
)
@click.option("--check-icrc", is_flag=True, help="Compute the ICRC of RoCEv2 packets; wrong ones belong to no flow.")
@click.option(
    "--gre-type",
    "gre_types",
    multiple=True,
    type=_GreType(),
    help="One more GRE protocol type of mirrored frames (known: 0x6558, 0x88be, 0x22eb, 0x8949).",
)
@click.option(
    "--trimmed-dscp",
    type=click.IntRange(1, 63),
    help="DSCP by which switches mark packets whose payload they cut off.",
)
@send_options
def command(
    files: tuple[Path, ...],
    output: Path | None,
    before: tuple[Path, ...],
    named: tuple[str, ...],
    gre_types: tuple[int, ...],
    trimmed_dscp: int | None,
    sending: SendArguments | None,
    *,
    as_json: bool,
    check_icrc: bool,
) -> None:
    """Read pcap and pcapng FILES (plain or gzip, - is standard input) and count what was seen.

    A file that is cut off is used as far as it is whole, and the exit code is then 9. Mirrored frames are taken out of
    VLAN tags, ERSPAN, GRE and VXLAN.

    With --to nothing is counted: the packets are sent on a Linux network interface (root, or CAP_NET_RAW) at absolute
    deadlines: their recorded times, scaled, at a given rate or at full speed. It must never reach a production network
    by accident, so an interface that is hardware, leads to hardware or carries the default route is refused unless
    --yes-this-interface is given. Truncated records are counted and never sent (docs/replay.md).

    \b
    Examples:
      flowcheck-net replay mirror.pcapng -o records.json
      flowcheck-net replay --capture ckpt1:cap0=a.pcap --capture ckpt1:cap1=b.pcap a.pcap b.pcap -o records.json
      tcpdump -i cap0 -w - | flowcheck-net replay - -o records.json
      flowcheck-net replay mirror.pcapng --to veth0 --interface ckpt1:cap0 --speed 0.5
      flowcheck-net replay mirror.pcapng --to ckpt1:cap0=veth0 --to ckpt1:cap1=veth1 --speed max --loop 10
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.guard import spare_inputs
    from flowcheck_net.cli.output import write_file
    from flowcheck_net.receive.compare import compare
    from flowcheck_net.receive.native import Settings
    from flowcheck_net.receive.records_json import records_to_json

    if sending is not None:
        reading: dict[str, object] = {"-o": output, "--before": before, "--capture": named, "--check-icrc": check_icrc}
        reading |= {"--gre-type": gre_types, "--trimmed-dscp": trimmed_dscp}
        send(files, sending, reading, as_json=as_json)
        return
    spare_inputs(output, "-o", *files, *before)
    captures = _capture_names(named)
    settings = Settings(check_icrc=check_icrc, gre_types=gre_types, trimmed_dscp=trimmed_dscp)
    after, fault = _replay(files, captures, settings)
    earlier, fault_before = _replay(before, captures, settings) if before else (None, None)
    if output is not None:
        write_file(output, records_to_json(after) + "\n", "-o")
    losses = compare(earlier, after) if earlier is not None else None
    if as_json:
        click.echo(records_to_json(after) if losses is None else _comparison_json(before, files, losses))
    else:
        _show(after, losses)
    for error in (fault_before, fault):
        if error is not None:
            raise error


def _capture_names(named: Iterable[str]) -> dict[str, str]:
    """From ``NAME=FILE`` options to names by file."""
    captures = {}
    for option in named:
        name, equals, file = option.partition("=")
        if not (name and equals and file):
            raise click.BadParameter(f"{option!r} is not NAME=FILE", param_hint="--capture")
        captures[file] = name
    return captures


def _replay(
    files: Sequence[Path], captures: Mapping[str, str], settings: "Settings"
) -> tuple["Records", "FlowcheckError | None"]:
    """The records, and the fault to report once they are written."""
    from flowcheck_net.receive.replay import CaptureIncomplete, replay

    try:
        return replay(files, captures=captures, settings=settings), None
    except CaptureIncomplete as error:
        return error.records, error


def _comparison_json(before: Iterable[Path], after: Iterable[Path], losses: Iterable["FlowLoss"]) -> str:
    import json

    document: dict[str, Any] = {
        "before": [str(path) for path in before],
        "after": [str(path) for path in after],
        "lost": sum(loss.lost for loss in losses if loss.after),
        "flows": [asdict(loss) for loss in losses],
    }
    return json.dumps(document, indent=2, sort_keys=True)


def _show(records: "Records", losses: "Sequence[FlowLoss] | None") -> None:
    from flowcheck_net.cli.output import console

    out = console()
    for warning in records.warnings:
        console(stderr=True).print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    out.print(_flow_table(records))
    out.print(_counter_table(records))
    if any(capture.tunnels for capture in records.captures):
        out.print(_tunnel_table(records))
    if losses is not None:
        out.print(_loss_table(losses))


def _missing_text(flow: "Flow") -> str:
    """PSN ranges with their cause, the first few of them."""
    parts = [f"{_psns(each.first_psn, each.last_psn)} {each.cause}" for each in flow.missing[:_RANGES_SHOWN]]
    if len(flow.missing) > _RANGES_SHOWN:
        parts.append(f"and {len(flow.missing) - _RANGES_SHOWN} more")
    total = sum(each.packets for each in flow.missing)
    return f"{total}: {', '.join(parts)}" if parts else "0"


def _psns(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _flow_table(records: "Records") -> "Table":
    """Flows that carry RDMA requests. Answers alone have nothing to miss; their packets are in the counters."""
    from flowcheck_net.cli.output import table

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


def _counter_table(records: "Records") -> "Table":
    """Everything counted, by name, without the zeros."""
    from flowcheck_net.cli.output import table

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


def _add_counts(shown: "Table", kind: str, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if count:
            shown.add_row("", f"{kind} {name}", str(count))


def _tunnel_table(records: "Records") -> "Table":
    """Where mirrored frames come from, the busiest tunnels of each capture."""
    from flowcheck_net.cli.output import table

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


def _loss_table(losses: "Sequence[FlowLoss]") -> "Table":
    from flowcheck_net.cli.output import table

    total = sum(loss.lost for loss in losses if loss.after)
    shown = table(
        f"{total} copies lost on the way",
        *("source", "destination", "dest QP", "before", "after", "lost", "added", "lost PSNs"),
        numbers=("dest QP", "before", "after", "lost", "added"),
    )
    for loss in losses:
        if not loss.after:
            what = "never seen after: lost altogether, or on another path"
        else:
            parts = [
                _psns(each.first_psn, each.last_psn) + (f" x{each.copies}" if each.copies > 1 else "")
                for each in loss.lost_ranges
            ]
            what = ", ".join(parts)
        counts = (str(count) for count in (loss.before, loss.after, loss.lost, loss.added))
        shown.add_row(loss.source, loss.destination, f"{loss.dest_qp:#x}", *counts, what)
    return shown
