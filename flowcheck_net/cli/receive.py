"""``flowcheck-net receive``: mirrored packets to records while they arrive."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.receive_payload import Learning, PayloadArguments, payload_options, placing_of
from flowcheck_net.cli.receive_ports import Wishes, planned_ports, unplanned_ports
from flowcheck_net.cli.records_output import summary, write_any
from flowcheck_net.cli.replay import GreType

if TYPE_CHECKING:
    from flowcheck_net.receive.receiver_config import Plan
    from flowcheck_net.receive.receiver_pcapng import Writing
    from flowcheck_net.receive.receiver_run import Run
    from flowcheck_net.receive.receiver_status import Status
    from flowcheck_net.receive.records import Records


@click.command("receive")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The plan: which capture ports are this node's.",
)
@click.option("--node", help="This checkpoint node, as the plan calls it.")
@click.option(
    "--port",
    "named",
    multiple=True,
    metavar="NAME=DEVICE",
    help="Where a capture port's packets come from. May be repeated.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the records to this file: as JSON where its name ends in .json, else in the quick binary form.",
)
@click.option(
    "--mtu",
    type=click.IntRange(64, 65000),
    help="The largest IP packet that comes.  [default: by the plan's RDMA MTU, or 4256]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Cores that count the packets of a port, each flow at one of them.",
)
@click.option(
    "--spread",
    type=click.Choice(["auto", "rules", "rss", "software"]),
    default="auto",
    show_default=True,
    help="How packets come to several workers: by flow rules on destination queue pairs, by RSS on addresses, or by "
    "one more core that deals them.",
)
@click.option(
    "--descriptors",
    type=click.IntRange(64, 32768),
    default=4096,
    show_default=True,
    help="Packets that each queue, and each ring of a worker, holds at most.",
)
@click.option(
    "--sleep",
    "sleep_us",
    type=click.IntRange(0, 1_000_000),
    metavar="MICROSECONDS",
    help="Who finds nothing sleeps so long; 0: polls on. More than the rings hold at line rate is refused.  "
    "[default: a quarter of that, 500 at most; a physical port is polled]",
)
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End after so long.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End when no packet has come for so long.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.05, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Finished messages are written so often.",
)
@click.option(
    "--write-pcapng",
    "pcapng",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all that arrives to this file too. What the disk does not keep up with is counted, not waited for.",
)
@click.option(
    "--write-limit",
    "limit_mb",
    type=click.IntRange(1, 1_000_000),
    metavar="MB",
    help="Begin a new pcapng file (NAME-2.pcapng ...) behind so many megabytes.",
)
@click.option(
    "--write-files", "kept_files", type=click.IntRange(1, 100_000), help="Keep so many pcapng files, the newest."
)
@click.option(
    "--hugepages/--no-hugepages",
    "hugepages",
    default=None,
    help="Insist on hugepages, or do without.  [default: where enough are free]",
)
@click.option("--check-icrc", is_flag=True, help="Compute the ICRC of RoCEv2 packets; wrong ones belong to no flow.")
@click.option(
    "--gre-type", "gre_types", multiple=True, type=GreType(), help="One more GRE protocol type of mirrored frames."
)
@click.option(
    "--trimmed-dscp", type=click.IntRange(1, 63), help="DSCP by which switches mark packets whose payload they cut off."
)
@payload_options
@click.option("--recover", is_flag=True, help="Receive nothing: make records of what a receiver left behind.")
def command(
    plan_file: Path | None,
    node: str | None,
    named: tuple[str, ...],
    output: Path,
    mtu: int | None,
    workers: int,
    spread: str,
    descriptors: int,
    sleep_us: int | None,
    duration: float | None,
    idle: float | None,
    interval: float,
    gre_types: tuple[int, ...],
    trimmed_dscp: int | None,
    pcapng: Path | None,
    limit_mb: int | None,
    kept_files: int | None,
    *,
    hugepages: bool | None,
    check_icrc: bool,
    recover: bool,
    payload: PayloadArguments | None,
) -> None:
    """Count mirrored RoCEv2 packets as they arrive, and write records when told to end (Ctrl-C, SIGTERM).

    The plan says which capture ports this node has; --port says where each is: a PCI address, af_packet:INTERFACE,
    af_xdp:INTERFACE, pcap:FILE, memif:SOCKET, or a DPDK virtual device with its arguments. NAME is the plan's
    (ckpt0:cap0), or its last part (cap0). Without --plan the names are yours.

    Every worker has a core of its own. What is known to be lost stands in the records and in the
    table; a device that does not count its losses is unknown, never 0. A receiver that dies is started again. What
    it had finished is kept, in OUTPUT.spool until the records are written; --recover makes records of a folder that
    was left (docs/receiver.md).

    \b
    Examples:
      flowcheck-net receive --plan plan.json --node ckpt0 --port cap0=0000:3b:00.0 -o records.fcr
      flowcheck-net receive --port mon=af_packet:eth1 --duration 60 -o records.fcr
      flowcheck-net receive --port mon=af_packet:eth1 --workers 4 -o records.fcr
      flowcheck-net receive --port mon=af_packet:eth1 --write-pcapng all.pcapng --write-limit 1000 -o records.fcr
      flowcheck-net receive --port mon=pcap:mirror.pcap --idle 1 -o records.fcr
      flowcheck-net receive --plan plan.json --node ckpt0 --port cap0=0000:3b:00.0 --payload /dev/shm/fc -o records.fcr
      flowcheck-net receive --recover -o records.fcr
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.inputs import read_plan_and_digest
    from flowcheck_net.receive.native import Settings
    from flowcheck_net.receive.receiver_config import Plan
    from flowcheck_net.receive.receiver_run import spool_folder

    if recover:
        if plan_file or node or named:
            raise click.UsageError("--recover receives nothing: it goes with -o only")
        with spool_folder(output, recover=True) as folder:
            _write(folder, output, ())
        return
    if bool(plan_file) != bool(node):
        raise click.UsageError("--plan and --node go together")
    wishes = Wishes(mtu, workers, descriptors, spread, sleep_us)
    settings = Settings(check_icrc=check_icrc, gre_types=gre_types, trimmed_dscp=trimmed_dscp)
    writing = _writing(pcapng, limit_mb, kept_files)
    if payload and not plan_file:
        raise click.UsageError("--payload needs --plan: what is expected decides where each byte belongs")
    learning = Learning(payload) if payload else None
    plan = Plan((), settings, round(interval * 1000), hugepages, writing)

    def read() -> "tuple[Plan, str]":
        if plan_file is None or node is None:
            return replace(plan, ports=unplanned_ports(named, wishes)), ""
        job, digest = read_plan_and_digest(plan_file)
        ports = planned_ports(job, str(plan_file), node, named, wishes)
        if payload is None or learning is None:
            return replace(plan, ports=ports), digest
        learning.expect(job, digest)
        return replace(plan, ports=ports, placing=placing_of(payload, job)), digest

    first = read()
    with spool_folder(output) as folder:
        _receive(first, folder, output, (duration, idle), plan_file, learning, read)


def _writing(pcapng: Path | None, limit_mb: int | None, files: int | None) -> "Writing | None":
    from flowcheck_net.receive.receiver_pcapng import Writing, check_free

    if pcapng is None:
        if limit_mb or files:
            raise click.UsageError("--write-limit and --write-files go with --write-pcapng")
        return None
    if files and not limit_mb:
        raise click.UsageError("--write-files needs --write-limit: without, there is one file")
    check_free(pcapng)
    return Writing(pcapng, limit_mb or 0, files or 0)


def _receive(
    first: "tuple[Plan, str]",
    folder: Path,
    output: Path,
    ends: tuple[float | None, float | None],
    plan_file: Path | None,
    learning: Learning | None,
    read: "Callable[[], tuple[Plan, str]]",
) -> None:
    """``first``: the plan and its digest; ``ends``: duration and idle time; ``read`` reads the plan once more."""
    from flowcheck_net.cli.receive_doubts import say_broken, warned
    from flowcheck_net.cli.receive_plan import changed_by_hangup
    from flowcheck_net.cli.receive_table import live_table
    from flowcheck_net.errors import ReceiveError
    from flowcheck_net.receive.receiver_run import Run, clear, unknown_loss, unwritten, watch
    from flowcheck_net.receive.replay_chain import count

    plan, digest = first
    run = Run(plan, folder, digest)

    def seen(status: "Status") -> None:
        if learning is not None:
            learning.look(status, run)
        show(status)
        look(status)

    try:
        with _ended_by_signals(run), changed_by_hangup(run, read if plan_file else None) as look, live_table() as show:
            last = watch(run, duration_s=ends[0], idle_s=ends[1], show=warned(plan, seen))
    except ReceiveError:
        if run.started:
            words = f"`flowcheck-net receive --recover -o {output}`"
            click.echo(f"what came until then is kept: {words} makes records of it", err=True)
        else:
            clear(folder)
        raise
    records = _write(folder, output, run.deaths)
    if run.deaths and plan_file:
        say_broken(plan_file, records)
    for doubt in (*unknown_loss(last.ports), *unwritten(last.ports)) if last else ():
        click.echo(doubt, err=True)
    if run.deaths:
        raise ReceiveError(
            f"the receiver died {count(len(run.deaths), 'time')}: {run.deaths[-1]}",
            hint="the records hold what it had finished and written, and say so",
        )


def _write(folder: Path, output: Path, deaths: Sequence[str]) -> "Records":
    """The records of a folder to their place, and the folder away."""
    from flowcheck_net.receive.receiver_run import clear, records_of

    records = records_of(folder, deaths)
    write_any(output, records)
    clear(folder)
    click.echo(f"{output}: {summary(records)}")
    for warning in records.warnings:
        click.echo(f"warning: {warning}", err=True)
    return records


@contextmanager
def _ended_by_signals(run: "Run") -> Iterator[None]:
    """SIGINT and SIGTERM end the receiver with its records; the second one ends this program."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in kept:
            signal.signal(each, signal.default_int_handler)
        run.stop()

    kept = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
