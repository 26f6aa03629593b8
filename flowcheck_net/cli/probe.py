"""``flowcheck-net probe``: write marked packets whose arrival proves the observation points."""

import re
from pathlib import Path

import click

from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.switches import PLAN, styled

_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")


@click.command("probe")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for one capture file a sending NIC.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Packets for each hop.",
)
@click.option("--mac", metavar="MAC", help="Destination MAC address of all frames: that of the first router.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(plan_file: Path, output: Path, count: int, mac: str | None, *, as_json: bool) -> None:
    """Write marked packets for every hop that PLAN observes, to be sent from its own hosts.

    They are UDP 4791 (RoCEv2) packets to queue pairs 0xFC0000 and up, which no card has: the fabric forwards and
    mirrors them like the job's, the receiving card drops them. Send each file on its NIC while the capture ports
    record, turn the capture into records, and let `verify --records` count them at each observation point: N of N, and
    how often.

    \b
    Example:
      flowcheck-net probe plan.json -o probes --mac 00:1c:73:00:00:01
      flowcheck-net replay probes/h0-nic0.pcapng --to eth2       (on host h0; so for each file)
      flowcheck-net replay mirror.pcapng -o records.fcr          (what the capture ports recorded meanwhile)
      flowcheck-net verify plan.json --records records.fcr
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.apply.reach import counted
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.receive.probe import probes, write_probes

    if mac is not None and not _MAC.fullmatch(mac):
        raise click.BadParameter(f"{mac!r} is no MAC address such as 00:1c:73:00:00:01", param_hint="--mac")
    plan = read_plan(plan_file)
    files = write_probes(plan, output, count, bytes.fromhex(mac.replace(":", "")) if mac else None)
    every = probes(plan)
    if as_json:
        rows = [
            {
                "hop": f"{p.hop.group}/{p.hop.channel}/{p.hop.index}",
                "file": f"{p.host}-{p.nic}.pcapng",
                "source": p.source,
                "destination": p.destination,
                "queue_pair": p.dest_qp,
            }
            for p in every
        ]
        emit_json({"files": [str(f) for f in files], "count": count, "hops": rows})
        return
    for file in files:
        hops = sum(1 for p in every if f"{p.host}-{p.nic}" == file.stem)
        styled(f"{file}: {counted(hops, 'hop', 'hops')}, {hops * count:,} packets")
