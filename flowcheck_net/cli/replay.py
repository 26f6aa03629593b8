"""``flowcheck-net replay``: capture files to records of what was seen."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli import replay_payload
from flowcheck_net.cli.records_output import is_json, summary, write_any
from flowcheck_net.cli.replay_payload import PayloadArguments, payload_options
from flowcheck_net.cli.replay_send import SendArguments, send, send_options

if TYPE_CHECKING:
    from rich.table import Table

    from flowcheck_net.checkpoint.payload import PayloadReport
    from flowcheck_net.errors import FlowcheckError
    from flowcheck_net.receive.compare import FlowLoss
    from flowcheck_net.receive.records import Records

_FILE = click.Path(path_type=Path, allow_dash=True)
_LONG = 1 << 28
"""Bytes of capture files whose reading is worth a progress bar."""


class GreType(click.ParamType[int]):
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
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the records to this file: as JSON where its name ends in .json, else in the quick binary form.",
)
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
    type=GreType(),
    help="One more GRE protocol type of mirrored frames (known: 0x6558, 0x88be, 0x22eb, 0x8949).",
)
@click.option(
    "--trimmed-dscp",
    type=click.IntRange(1, 63),
    help="DSCP by which switches mark packets whose payload they cut off.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Files of different capture ports read at a time.  [default: cores]"
)
@click.option(
    "--learn",
    type=click.Choice(["fp32", "bf16", "fp16", "fp64"]),
    is_flag=False,
    flag_value="fp32",
    metavar="[DTYPE]",
    help="Print the job that would send this, as a job.yaml to complete; DTYPE as nothing on the wire tells it.",
)
@payload_options
@send_options
def command(
    files: tuple[Path, ...],
    output: Path | None,
    before: tuple[Path, ...],
    named: tuple[str, ...],
    gre_types: tuple[int, ...],
    trimmed_dscp: int | None,
    sending: SendArguments | None,
    laying: PayloadArguments | None,
    jobs: int | None,
    learn: str | None,
    *,
    as_json: bool,
    check_icrc: bool,
) -> None:
    """Read pcap and pcapng FILES (plain, gzip or zstd, - is standard input) and count what was seen.

    A file that is cut off is used as far as it is whole, and the exit code is then 9. Mirrored frames are taken out of
    VLAN tags, ERSPAN, GRE and VXLAN. In --before a records file stands for the captures that it was made of. A binary
    records file is shown by `records show`.

    With --to nothing is counted: the packets are sent on a Linux network interface (root, or CAP_NET_RAW) at absolute
    deadlines: their recorded times, scaled, at a given rate or at full speed. It must never reach a production network
    by accident, so an interface that is hardware, leads to hardware or carries the default route is refused unless
    --yes-this-interface is given. Truncated records are counted and never sent (docs/replay.md).

    With --learn the repeated messages are read as all-reduces (docs/learn.md).

    With --payload the capture is read a second time: the audit's places decide where each fully reduced byte belongs
    (docs/payload.md). An iteration of which a byte is missing, or that is not publishable, keeps a name ending in
    .partial; the exit code is then 4 or 10.

    \b
    Examples:
      flowcheck-net replay mirror.pcapng -o records.fcr
      flowcheck-net replay --capture ckpt1:cap0=a.pcap --capture ckpt1:cap1=b.pcap a.pcap b.pcap -o records.fcr
      tcpdump -i cap0 -w - | flowcheck-net replay - -o records.fcr
      flowcheck-net replay after.pcap --before before.fcr
      flowcheck-net replay mirror.pcapng --learn > job.yaml
      flowcheck-net replay mirror.pcapng --plan plan.json --payload gradients --iterations 10:20
      flowcheck-net replay mirror.pcapng --to veth0 --interface ckpt1:cap0 --speed 0.5
      flowcheck-net replay mirror.pcapng --to ckpt1:cap0=veth0 --to ckpt1:cap1=veth1 --speed max --loop 10
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.guard import refuse_repeats, spare_inputs
    from flowcheck_net.receive.native import Settings

    if sending is not None:
        reading: dict[str, object] = {"-o": output, "--before": before, "--capture": named, "--check-icrc": check_icrc}
        reading |= {"--gre-type": gre_types, "--trimmed-dscp": trimmed_dscp, "--jobs": jobs}
        reading |= {"--learn": learn, "--payload": laying}
        send(files, sending, reading, as_json=as_json)
        return
    _one_answer({"--before": before, "--learn": learn, "--payload": laying}, as_json=as_json)
    spare_inputs(output, "-o", *files, *before)
    refuse_repeats(files)
    refuse_repeats(before)
    settings = Settings(check_icrc=check_icrc, gre_types=gre_types, trimmed_dscp=trimmed_dscp)
    how = {"captures": _capture_names(named), "settings": settings, "jobs": jobs}
    after, fault = _replayed(files, output, how)
    earlier, fault_before = _earlier(before, how) if before else (None, None)
    losses = _compared(earlier, after) if earlier is not None else None
    _show_warnings(_useless_names(named, [each for each in (after, earlier) if each is not None]))
    payload = None
    if laying is not None:
        payload = _lay(files, laying, after, how, as_json=as_json)
    elif learn is not None:
        _learn(after, learn)
    elif as_json:
        _print_json(after, before, files, losses)
    else:
        _show(after, losses, output)
    for error in (fault_before, fault):
        if error is not None:
            raise error
    if payload is not None:
        replay_payload.refuse_incomplete(payload)


def _one_answer(asked: Mapping[str, object], *, as_json: bool) -> None:
    """Each of these options prints an answer of its own; raises UsageError where there would be two."""
    given = [option for option, value in asked.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be asked for at once")
    if as_json and asked["--learn"]:
        raise click.UsageError("--learn prints YAML: it cannot be had as JSON")


def _learn(records: "Records", dtype: str) -> None:
    from flowcheck_net.errors import CoverageUnknown
    from flowcheck_net.model.job import Dtype
    from flowcheck_net.receive.learn_fragment import fragment
    from flowcheck_net.receive.learn_job import learn

    learned = learn(records, Dtype(dtype))
    click.echo(fragment(learned, records.sources, Dtype(dtype)), nl=False)
    if learned.shape is None:
        raise CoverageUnknown("no job was learned", hint="the comments say what each connection carries")


def _lay(
    files: Sequence[Path], laying: PayloadArguments, records: "Records", how: Mapping[str, Any], *, as_json: bool
) -> "PayloadReport":
    from flowcheck_net.cli.output import emit_json

    report = replay_payload.lay(files, laying, records, how["captures"], how["settings"])
    if as_json:
        emit_json(replay_payload.as_json(report))
    else:
        replay_payload.show(report)
    return report


def _print_json(
    records: "Records", before: Iterable[Path], files: Iterable[Path], losses: "Sequence[FlowLoss] | None"
) -> None:
    from flowcheck_net.receive.records_json import records_to_json

    click.echo(records_to_json(records) if losses is None else _comparison_json(before, files, losses))


def _compared(earlier: "Records", after: "Records") -> "Sequence[FlowLoss]":
    from flowcheck_net.receive.compare import compare

    return compare(earlier, after)


def _capture_names(named: Iterable[str]) -> dict[str, str]:
    """From ``NAME=FILE`` options to names by file."""
    captures = {}
    for option in named:
        name, equals, file = option.partition("=")
        if not (name and equals and file):
            raise click.BadParameter(f"{option!r} is not NAME=FILE", param_hint="--capture")
        captures[file] = name
    return captures


def _useless_names(named: Iterable[str], read: Iterable["Records"]) -> Iterator[str]:
    """What is wrong with ``NAME=FILE`` options that name nothing."""
    from flowcheck_net.receive.capture_file import legible

    ports = dict.fromkeys(capture.name for records in read for capture in records.captures)
    for option in map(legible, named):
        if option.partition("=")[0] not in ports:
            yield f"--capture {option} names no file and no interface; the capture ports are {', '.join(ports)}"


def _replayed(
    files: Sequence[Path], output: Path | None, how: dict[str, Any]
) -> tuple["Records", "FlowcheckError | None"]:
    """The records, written where they are wanted, and the fault to report after that."""
    from flowcheck_net.receive.replay import CaptureIncomplete, replay, replay_to_file

    streamed = output is not None and not is_json(output) and (output.is_file() or not output.exists())
    fault = None
    try:
        with _progress(files) as watch:
            if output is not None and streamed:
                return replay_to_file(files, output, watch=watch, **how), None
            records = replay(files, watch=watch, **how)
    except CaptureIncomplete as error:
        records, fault = error.records, error
    if output is not None and not streamed:
        write_any(output, records)
    return records, fault


def _earlier(before: Sequence[Path], how: dict[str, Any]) -> tuple["Records", "FlowcheckError | None"]:
    """What was seen before, from captures and from records files."""
    from dataclasses import replace

    from flowcheck_net.receive.records_read import holds_records, read_records

    captures = [path for path in before if not holds_records(path)]
    read = [read_records(path) for path in before if path not in captures]
    found, fault = _replayed(captures, None, how) if captures else (read.pop(0), None)
    return replace(found, flows=tuple(flow for each in (found, *read) for flow in each.flows)), fault


@contextmanager
def _progress(files: Sequence[Path]) -> "Iterator[Callable[[int], None]]":
    """A place to tell how many bytes were read: a bar where somebody watches and it takes long enough."""
    import sys

    from flowcheck_net.receive.capture_file import is_regular

    sizes = [path.stat().st_size for path in files if is_regular(path)]
    piped = len(sizes) < len(files)
    if not sys.stderr.isatty() or (sum(sizes) < _LONG and not piped):
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from flowcheck_net.cli.output import console

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("reading", total=None if piped else sum(sizes))
        yield lambda read: shown.advance(task, read)


def _comparison_json(before: Iterable[Path], after: Iterable[Path], losses: Iterable["FlowLoss"]) -> str:
    import json

    document: dict[str, Any] = {
        "before": [str(path) for path in before],
        "after": [str(path) for path in after],
        "lost": sum(loss.lost for loss in losses if loss.after),
        "flows": [asdict(loss) for loss in losses],
    }
    return json.dumps(document, indent=2, sort_keys=True)


def _show(records: "Records", losses: "Sequence[FlowLoss] | None", output: Path | None) -> None:
    if records.warnings:
        _show_warnings(records.warnings)
    if output is not None and not is_json(output):
        click.echo(summary(records))
        click.echo(f"written: {output} (`flowcheck-net records show {output}` shows it)")
    else:
        _show_tables(records)
    if losses is not None:
        from flowcheck_net.cli.output import console

        console().print(_loss_table(losses))


def _show_warnings(warnings: Iterable[str]) -> None:
    from flowcheck_net.cli.output import console

    for warning in warnings:
        console(stderr=True).print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)


def _show_tables(records: "Records") -> None:
    from flowcheck_net.cli.output import console
    from flowcheck_net.cli.records_tables import counter_table, flow_table, tunnel_table

    out = console()
    out.print(flow_table(records))
    out.print(counter_table(records))
    if any(capture.tunnels for capture in records.captures):
        out.print(tunnel_table(records))


def _loss_table(losses: "Sequence[FlowLoss]") -> "Table":
    from flowcheck_net.cli.output import amount, table
    from flowcheck_net.cli.records_tables import psns

    total = sum(loss.lost for loss in losses if loss.after)
    shown = table(
        f"{total:,} copies lost on the way",
        *("source", "destination", "dest QP", "before", "after", "lost", "added", "lost PSNs"),
        numbers=("dest QP", "before", "after", "lost", "added"),
        keys=3,
    )
    for loss in losses:
        if not loss.after:
            what = "never seen after: lost altogether, or on another path"
        else:
            parts = [
                psns(each.first_psn, each.last_psn) + (f" x{each.copies}" if each.copies > 1 else "")
                for each in loss.lost_ranges
            ]
            what = ", ".join(parts)
        counts = map(amount, (loss.before, loss.after, loss.lost, loss.added))
        shown.add_row(loss.source, loss.destination, f"{loss.dest_qp:#x}", *counts, what)
    return shown
