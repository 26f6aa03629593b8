"""What happened, as it happens: one JSON object a line, in the kernel's hands at once: a SIGKILL loses nothing."""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from flowcheck_net.checkpoint.baselines.words import (
    Begun,
    Channel,
    Durable,
    Event,
    Method,
    Missed,
    Moved,
    Spent,
    StepDone,
    Stretch,
)

_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in (StepDone, Durable, Moved, Begun, Missed, Spent)}


class Ledger:
    """One process writes; threads of it may."""

    def __init__(self, path: Path) -> None:
        """A new file, or the end of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: Event) -> None:
        """Append."""
        line = json.dumps({"event": type(event).__name__, **asdict(event)})
        os.write(self._handle, line.encode() + b"\n")

    def durable(self, step: int) -> None:
        """The state of ``step`` is on storage now."""
        self.note(Durable(step, time.monotonic()))

    def close(self) -> None:
        """Nothing more will be noted."""
        os.close(self._handle)


def read_events(path: Path) -> list[Event]:
    """All whole lines; a process that was killed may have left a part of one."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    found = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        told = json.loads(line)
        if "channel" in told:
            told["channel"] = Channel(told["channel"])
        found.append(_KINDS[told.pop("event")](**told))
    return found


def measured(events: Sequence[Event]) -> list[Event]:
    """What one process noted, without the bytes and seconds of its preparation."""
    begun = next((number for number, each in enumerate(events) if isinstance(each, Begun)), 0)
    return [each for number, each in enumerate(events) if number >= begun or not isinstance(each, Moved | Spent)]


def stretch_of(method: Method, number: int, events: Iterable[Event]) -> Stretch:
    """Put together what all processes noted of a stretch."""
    told = list(events)
    steps = sorted((each for each in told if isinstance(each, StepDone)), key=lambda each: each.step)
    moved: Counter[Channel] = Counter()
    spent: defaultdict[str, float] = defaultdict(float)
    for each in told:
        if isinstance(each, Moved):
            moved[each.channel] += each.size
        if isinstance(each, Spent):
            spent[each.what] += each.seconds
    return Stretch(
        method=method,
        round=number,
        start_step=steps[0].step - 1,
        begun=steps[0].begin,
        steps=tuple(steps),
        durable=tuple(sorted((e for e in told if isinstance(e, Durable)), key=lambda e: e.at)),
        moved=dict(moved),
        spent=dict(spent),
        missed=sum(1 for each in told if isinstance(each, Missed)),
    )
