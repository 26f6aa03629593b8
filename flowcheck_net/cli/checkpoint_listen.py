"""``flowcheck-net checkpoint listen``: take what the trainer says of its steps."""

from pathlib import Path

import click


@click.command("listen")
@click.argument("address")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The log.")
@click.option("--json", "as_json", is_flag=True, help="Print what was seen as JSON at the end.")
def command(address: str, output: Path, *, as_json: bool) -> None:
    """Take the side channel's messages at ADDRESS (unix:PATH or tcp:HOST:PORT) and append them to a log.

    Runs until SIGINT or SIGTERM. A message is kept only if its checksum is right, and is on the disk before the next
    one is read. Nothing is encrypted and nobody is asked for a password: listen in the checkpoint network only.

    \b
    Examples:
      flowcheck-net checkpoint listen tcp:10.0.0.9:7788 -o side.log
      flowcheck-net checkpoint listen unix:/run/flowcheck/side.sock -o side.log
    """  # noqa: D301 - click wants the real backspace character
    import signal
    from dataclasses import asdict

    from flowcheck_net.checkpoint.side_server import Listener
    from flowcheck_net.cli.output import emit_json

    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda seen, _: ended.append(seen))
    with Listener(address, output) as listener:
        click.echo(f"listening at {listener.address}", err=True)
        report = listener.run(lambda: bool(ended))
    if as_json:
        emit_json(asdict(report))
        return
    click.echo(f"{output}: {report.messages:,} messages of {report.connections:,} connections")
    if report.damaged or report.cut:
        click.echo(f"  not kept: {report.damaged:,} damaged; {report.cut:,} connections ended in mid-message")
