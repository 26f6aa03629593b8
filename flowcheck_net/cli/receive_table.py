"""The live table of ``flowcheck-net receive``: on a terminal only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.output import amount, console, table

if TYPE_CHECKING:
    from rich.table import Table

    from flowcheck_net.receive.receiver_status import (
        GroupStatus,
        PortStatus,
        QueueStatus,
        RingStatus,
        Status,
        WrittenStatus,
    )

_NUMBERS = ("packets", "packets/s", "Gbit/s", "RoCEv2", "flows", "lost", "cut", "uncounted", "fullest", "last packet")


@contextmanager
def live_table() -> "Iterator[Callable[[Status], None]]":
    """What shows a status: a table that stays; where standard error is no terminal, a line at each start."""
    if not sys.stderr.isatty():
        yield _say_start
        return
    from rich.live import Live

    before: tuple[float, Status] | None = None
    with Live(console=console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(status: "Status") -> None:
            nonlocal before
            now = time.monotonic()
            live.update(status_table(status, *(_since(before, now))), refresh=True)
            before = now, status

        yield show


def _say_start(status: "Status") -> None:
    """For scripts, which wait for it before they send."""
    if status.event == "started":
        ports = ", ".join(f"{port.name} ({port.driver}{_spread(port)})" for port in status.ports)
        click.echo(f"receiving: {ports}; dpdk-telemetry.py -f {status.runtime.name}", err=True)


def _spread(port: "PortStatus") -> str:
    return f", {len(port.workers)} workers by {port.spread}" if len(port.workers) > 1 else ""


def _since(before: "tuple[float, Status] | None", now: float) -> "tuple[Status | None, float]":
    return (None, 0.0) if before is None else (before[1], now - before[0])


def status_table(status: "Status", before: "Status | None", seconds: float) -> "Table":
    """One line a port; rates since the status before."""
    shown = table(
        f"{status.runtime.name} receives; Ctrl-C ends with records", "capture port", *_NUMBERS, numbers=_NUMBERS
    )
    for number, port in enumerate(status.ports):
        shown.add_row(*_row(port, before.ports[number] if before else None, seconds))
    if status.groups:
        shown.caption = "; ".join(map(group_text, status.groups))
    return shown


def group_text(group: "GroupStatus") -> str:
    """How far the payload of a group is."""
    if group.complete is None:
        return f"{group.name}: no iteration with all bytes yet{_troubles(group)}"
    behind = (group.newest or 0) - group.complete
    text = f"{group.name}: all bytes of iteration {group.complete}, {_ago(group.complete_time)}, {behind} behind"
    return text + _troubles(group)


def _troubles(group: "GroupStatus") -> str:
    """What readers are to know: too slow, or dead."""
    text = f"; no memory {group.no_room} times" if group.no_room else ""
    return text + (f"; {group.readers_gone} readers died" if group.readers_gone else "")


def _row(port: "PortStatus", before: "PortStatus | None", seconds: float) -> tuple[str, ...]:
    packet_rate = bit_rate = ""
    if before is not None and seconds > 0 and port.packets >= before.packets:
        packet_rate = f"{(port.packets - before.packets) / seconds:,.0f}"
        bit_rate = f"{(port.bytes - before.bytes) * 8 / seconds / 1e9:.3f}"
    return (
        port.name,
        amount(port.packets),
        packet_rate,
        bit_rate,
        amount(port.rocev2),
        amount(sum(worker.flows for worker in port.workers)),
        amount(port.dropped),
        amount(port.segmented),
        amount(port.uncounted),
        _fullest(port),
        _ago(port.last_time),
    )


def _fullest(port: "PortStatus") -> str:
    """How full queues and rings ever were: pressure shows before loss."""
    rings = [worker.ring for worker in port.workers if worker.ring is not None]
    fills = [*map(_fill, port.queues), *(f"ring {_fill(ring)}" for ring in rings)]
    if port.written is not None:
        unwritten = f", {amount(port.written.dropped)} not written" if port.written.dropped else ""
        fills.append(f"pcapng {_fill(port.written)}{unwritten}")
    return ", ".join(fills)


def _fill(place: "QueueStatus | RingStatus | WrittenStatus") -> str:
    return "unknown" if place.fill_most is None else f"{place.fill_most}/{place.size}"


def _ago(time_ns: int) -> str:
    if time_ns == 0:
        return "none"
    seconds = time.time() - time_ns / 1e9
    return f"{seconds:,.1f} s ago" if seconds >= 0 else "now"
