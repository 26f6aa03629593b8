"""What apply, verify and rollback share: their options, the state directory, progress lines."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.inputs import Command

if TYPE_CHECKING:
    from flowcheck_net.apply.reach import Event, Reach
    from flowcheck_net.ids import SwitchName

DEFAULT_WORKERS = 8
PLAN = click.Path(path_type=Path, exists=True, dir_okay=False)
STYLES = {
    **dict.fromkeys(("written", "confirmed"), "green"),
    **dict.fromkeys(("restored", "overdue"), "yellow"),
    **dict.fromkeys(("refused", "failed", "not restored", "not rolled back"), "red"),
}
RESULTS = {
    "written": "done",
    "refused": "refused",
    "failed": "unknown",
    "restored": "undone",
    "not restored": "unknown",
}
"""The last event on a switch -> where the switch stands now."""


def state_dir_option(function: Command) -> Command:
    """``--state-dir``, given to the command as ``state_dir``."""
    return click.option(
        "--state-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_state_dir,
        help="Where the journal of past applies is kept, and the fake switches.  "
        "[default: $XDG_STATE_HOME/flowcheck-net, or ~/.local/state/flowcheck-net]",
    )(function)


def forget_option(function: Command) -> Command:
    """``--forget SWITCH``, given to the command as ``forget``."""
    return click.option(
        "--forget",
        multiple=True,
        metavar="SWITCH",
        help="A switch of earlier runs that is gone for good: leave it out. May be given several times.",
    )(function)


def workers_option(function: Command) -> Command:
    """``--workers N``, given to the command as ``workers``."""
    return click.option(
        "--workers",
        type=click.IntRange(1, 256),
        default=DEFAULT_WORKERS,
        show_default=True,
        metavar="N",
        help="Switches worked on at once; of a change the canary goes alone.",
    )(function)


def default_state_dir() -> Path:
    """The XDG state directory's part that is ours."""
    base = os.environ.get("XDG_STATE_HOME")
    # The XDG rule: a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    return root / "flowcheck-net"


def reach_for(
    job: str,
    state_dir: Path,
    tell: "Callable[[Event], None]",
    workers: int = DEFAULT_WORKERS,
    stage: "Callable[[SwitchName, str], None]" = lambda _, __: None,
) -> "Reach":
    """The way to the switches through the driver registry; sessions of ``job`` count as ours."""
    from flowcheck_net.apply.reach import Reach
    from flowcheck_net.drivers.registry import open_driver

    return Reach(lambda address: open_driver(address, job, state_dir), workers=workers, tell=tell, stage=stage)


class Teller:
    """Shows what happens as it happens; keeps it for ``--json``."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._events: list[dict[str, str | None]] = []

    def __call__(self, event: "Event") -> None:
        """One thing happened."""
        detail = event.detail.removeprefix(f"{event.switch}: ")
        self._events.append({"switch": event.switch, "result": event.result, "detail": detail})
        if not self._quiet:
            line = f"{event.switch or 'verdict'}: {event.result}" + (f": {detail}" if detail else "")
            styled(line, STYLES.get(event.result, ""))

    def to_json(self) -> dict[str, object]:
        """The verdict, where each switch stands, and every event on a switch, in order."""
        verdicts = [e["result"] for e in self._events if e["switch"] is None]
        switches = [e for e in self._events if e["switch"] is not None]
        otherwise = "not finished" if switches else "refused"
        stand = {str(e["switch"]): RESULTS.get(e["result"] or "", "unknown") for e in switches}
        return {"verdict": verdicts[-1] if verdicts else otherwise, "switches": stand, "events": switches}


def styled(line: str, style: str = "") -> None:
    """One unwrapped line on standard output, coloured on a terminal unless NO_COLOR is set."""
    from rich.text import Text

    from flowcheck_net.cli.output import console, shown

    console().print(Text(shown(line), style=style), soft_wrap=True)
