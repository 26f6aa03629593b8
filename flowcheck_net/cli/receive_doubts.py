"""What ``flowcheck-net receive`` says beside its table: at the start on the machine, at the end on deaths."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flowcheck_net.receive.receiver_config import Plan
    from flowcheck_net.receive.receiver_status import Status
    from flowcheck_net.receive.records import Records


def warned(plan: "Plan", show: "Callable[[Status], None]") -> "Callable[[Status], None]":
    """``show``, and behind it, at the first start, what is to be known about devices and memory."""
    from flowcheck_net.receive.receiver_run import hugeless, pausing

    lacking = tuple(hugeless(plan))  # while nobody has taken them

    def shown(status: "Status") -> None:
        nonlocal lacking
        show(status)
        if status.event == "started":
            for doubt in (*lacking, *pausing(plan, status.ports)):
                click.echo(doubt, err=True)
            lacking = ()

    return shown


def say_broken(plan_file: Path, records: "Records") -> None:
    """Which iterations the deaths of the receiver cost."""
    from flowcheck_net.audit.coverage import audit
    from flowcheck_net.cli.inputs import read_plan
    from flowcheck_net.plan.plan import expectation

    found = audit(expectation(read_plan(plan_file)), records).iterations
    broken = [each.number for each in found if not each.publishable]
    if broken:
        click.echo(f"iterations that are not whole: {_spans(broken)} (of {len(found)})", err=True)


def _spans(numbers: Sequence[int]) -> str:
    """Sorted numbers as ``3, 5-7``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
