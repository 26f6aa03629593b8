"""``flowcheck-net checkpoint listen``: take what the trainer says of its steps."""

from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def side_key_option(function: Any) -> Any:  # noqa: ANN401 - click's decorators
    """``--side-key-file FILE``."""
    told = "Key of the side channel: only what it signed counts. FLOWCHECK_SIDE_KEY (64 hex digits) does as well."
    return click.option("--side-key-file", type=_FILE, envvar="FLOWCHECK_SIDE_KEY_FILE", help=told)(function)


def shared_key(path: Path | None) -> bytes | None:
    """The key of a file or of the environment. Raises OutputError."""
    from flowcheck_net.checkpoint.side_client import read_secret
    from flowcheck_net.errors import OutputError

    try:
        return read_secret(str(path) if path else None)
    except ValueError as error:
        hint = "head -c 32 /dev/urandom > FILE; chmod 600 FILE makes one; trainers and listener need the same"
        raise OutputError(str(error), hint=hint) from error


@click.command("listen")
@click.argument("address")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The log.")
@click.option("--job", default="", help="Its name as in job.yaml: messages of others are refused.")
@click.option(
    "--key-file",
    type=_FILE,
    envvar="FLOWCHECK_SIDE_KEY_FILE",
    help="The key that trainers and listener share: 32 bytes, or 64 hex digits; for its owner only.",
)
@click.option("--tls-authority", type=_FILE, help="Certificate that the trainers' are signed by (PEM).")
@click.option("--tls-certificate", type=_FILE, help="The listener's own (PEM).")
@click.option("--tls-key", type=_FILE, help="Its key (PEM).")
@click.option("--plain-text", is_flag=True, help="Allow tcp: without a key, on the loopback only.")
@click.option("--json", "as_json", is_flag=True, help="Print what was seen as JSON at the end.")
def command(
    address: str,
    output: Path,
    job: str,
    key_file: Path | None,
    tls_authority: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    *,
    plain_text: bool,
    as_json: bool,
) -> None:
    """Take the side channel's messages at ADDRESS (unix:PATH, tcp:HOST:PORT or tls:HOST:PORT) and append them to a log.

    Runs until SIGINT or SIGTERM. A message is on the disk before it is acknowledged. At tcp: both ends prove that they
    have the key, and each message is signed; at tls: both show certificates, and all is encrypted (with a key: signed
    too); at unix: only processes of this user and root are heard. Whatever is refused is counted and told with its
    reason.

    \b
    Examples:
      flowcheck-net checkpoint listen tcp:10.0.0.9:7788 --job gpt --key-file side.key -o side.log
      flowcheck-net checkpoint listen tls:ckpt0:7788 --job gpt --tls-authority ca.pem \\
          --tls-certificate ckpt0.pem --tls-key ckpt0.key -o side.log
      flowcheck-net checkpoint listen unix:/run/flowcheck/side.sock -o side.log
    """  # noqa: D301 - click wants the real backspace character
    import signal
    from dataclasses import asdict

    from flowcheck_net.checkpoint.side_door import counted
    from flowcheck_net.checkpoint.side_server import Guard, Listener
    from flowcheck_net.cli.output import emit_json

    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda seen, _: ended.append(seen))
    tls = (tls_authority, tls_certificate, tls_key) if tls_authority and tls_certificate and tls_key else None
    say = _Sparing()
    with Listener(address, output, Guard(job, shared_key(key_file), tls, plain_text), say) as listener:
        click.echo(f"listening at {listener.address}", err=True)
        report = listener.run(lambda: bool(ended))
    if as_json:
        emit_json(asdict(report))
        return
    click.echo(f"{output}: {report.messages:,} messages of {report.connections:,} connections")
    if report.damaged or report.cut:
        click.echo(f"  not kept: {report.damaged:,} damaged; {report.cut:,} connections ended in mid-message")
    if report.refused:
        click.echo(f"  refused: {counted(report.refused)}")


class _Sparing:
    """Tells of refused connections on standard error; of a flood of them only the first, for the count is kept."""

    def __init__(self, most: int = 100) -> None:
        self._left = most

    def __call__(self, text: str) -> None:
        self._left -= 1
        if self._left >= 0:
            click.echo(text if self._left else f"{text}; more of them are counted, not told", err=True)
