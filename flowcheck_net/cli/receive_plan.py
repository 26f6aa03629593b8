"""SIGHUP to ``flowcheck-net receive``: the plan is read again, and taken over at the next quiet moment."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flowcheck_net.receive.receiver_config import Plan
    from flowcheck_net.receive.receiver_run import Run
    from flowcheck_net.receive.receiver_status import Status


@contextmanager
def changed_by_hangup(
    run: "Run", again: "Callable[[], tuple[Plan, str]] | None"
) -> "Iterator[Callable[[Status], None]]":
    """What to call at every status. ``again`` reads the plan and its digest once more; None: it cannot change."""
    from flowcheck_net.errors import FlowcheckError

    asked = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    def look(status: "Status") -> None:
        nonlocal asked
        if not asked or status.event != "status":
            return
        asked = False
        if again is None:
            click.echo("SIGHUP: no plan can be changed, for there is no --plan: start again with one", err=True)
            return
        try:
            plan, digest = again()
        except (FlowcheckError, click.ClickException) as fault:
            click.echo(f"SIGHUP: the former plan stays: {fault}", err=True)
            return
        click.echo(f"SIGHUP: plan {digest[:12]} comes into force when no packet has come for an interval", err=True)
        run.change(plan, digest)

    kept = signal.signal(signal.SIGHUP, hear)
    try:
        yield look
    finally:
        signal.signal(signal.SIGHUP, kept)
