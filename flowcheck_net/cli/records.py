"""``flowcheck-net records``: look into records files, join them, compare them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flowcheck_net.receive.records import Records

_RECORDS = click.Path(path_type=Path, dir_okay=False)


@click.group("records")
def command() -> None:
    """Look into records files, join them, compare them. Both forms are read: binary and JSON."""


@command.command("show")
@click.argument("records", type=_RECORDS)
@click.option("--json", "as_json", is_flag=True, help="Print the records as the JSON document.")
@click.option("--messages", "number", type=click.IntRange(1), help="List the messages of the flow of this number.")
def show(records: Path, number: int | None, *, as_json: bool) -> None:
    """Show capture ports, tunnels and flows of RECORDS.

    Raw packets are all copies of a flow's requests, unique ones are distinct; the rest was repeated: retransmitted by
    the sender or duplicated by a mirror.

    \b
    Examples:
      flowcheck-net records show records.fcr
      flowcheck-net records show records.fcr --messages 3       (of flow 3 in the table)
      flowcheck-net records show records.fcr --json | jq .captures
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.receive.records_read import read_records

    if as_json and number is not None:
        raise click.UsageError("the JSON document holds all messages: give --json or --messages")
    found = read_records(records)
    if as_json:
        from flowcheck_net.receive.records_json import records_to_json

        click.echo(records_to_json(found))
    elif number is not None:
        _show_messages(found, number)
    else:
        _show(found)


def _show(records: "Records") -> None:
    from flowcheck_net.cli.output import console
    from flowcheck_net.cli.records_tables import capture_table, counter_table, numbered_flow_table, tunnel_table

    out = console()
    for warning in records.warnings:
        console(stderr=True).print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    out.print(capture_table(records))
    if any(capture.tunnels for capture in records.captures):
        out.print(tunnel_table(records))
    out.print(numbered_flow_table(records))
    out.print(counter_table(records))


def _show_messages(records: "Records", number: int) -> None:
    from flowcheck_net.cli.records_tables import message_lines

    if number > len(records.flows):
        raise click.BadParameter(f"there are {len(records.flows)} flows", param_hint="--messages")
    for line in message_lines(records.flows[number - 1]):
        click.echo(line)


@command.command("merge")
@click.argument("files", nargs=-1, required=True, type=_RECORDS)
@click.option(
    "-o",
    "--output",
    required=True,
    type=_RECORDS,
    help="Write the merged records to this file: as JSON where its name ends in .json, else in the binary form.",
)
def merge_command(files: tuple[Path, ...], output: Path) -> None:
    """Merge records FILES into one.

    Different capture ports stand side by side. What one port saw in consecutive captures (tcpdump -C, -G) is joined in
    order of time, whatever the order of FILES: positions go on through the wrap of the PSN, and a message that was cut
    between two files is one again. Captures of one port that overlap in time are refused.

    \b
    Examples:
      flowcheck-net records merge leaf1.fcr leaf2.fcr -o all.fcr
      flowcheck-net records merge hour-*.fcr -o day.fcr
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.guard import spare_inputs
    from flowcheck_net.cli.records_output import summary, write_any
    from flowcheck_net.receive.records_merge import merge
    from flowcheck_net.receive.records_read import read_records

    spare_inputs(output, "-o", *files)
    merged = merge([(str(path), read_records(path)) for path in files])
    write_any(output, merged)
    click.echo(summary(merged))
    click.echo(f"written: {output}")


@command.command("diff")
@click.argument("first", type=_RECORDS)
@click.argument("second", type=_RECORDS)
@click.option("--json", "as_json", is_flag=True, help="Print what differs as JSON.")
def diff_command(first: Path, second: Path, *, as_json: bool) -> None:
    """Compare two records files: what differs, by capture port and flow.

    The exit code is 4 when SECOND misses packets that FIRST has. Times, file names and warnings do not count. To
    compare two places on the way of the same traffic, whatever their ports are called, see `replay --before`.

    \b
    Examples:
      flowcheck-net records diff yesterday.fcr today.fcr
      flowcheck-net records diff one-run.fcr merged.fcr --json
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.errors import CoverageGap
    from flowcheck_net.receive.records_diff import diff
    from flowcheck_net.receive.records_read import read_records

    found = diff(read_records(first), read_records(second))
    if as_json:
        from dataclasses import asdict

        from flowcheck_net.cli.output import emit_json

        emit_json({"missed": found.missed, **asdict(found)})
    elif found:
        from flowcheck_net.cli.output import console
        from flowcheck_net.cli.records_tables import difference_tables

        for table in difference_tables(found):
            console().print(table)
    else:
        click.echo("no difference")
    if found.missed:
        raise CoverageGap(
            f"{second} misses {found.missed:,} packets that {first} has",
            hint="the ranges are in `flowcheck-net records diff --json`",
        )
