"""What ``watch`` remembers from one call to the next: restart marks and counts, in ``watch-JOB.json``."""

import json
from collections.abc import Mapping
from pathlib import Path

from flowcheck_net.apply.watch import Seen
from flowcheck_net.drivers.session_json import mapping, number
from flowcheck_net.errors import OutputError
from flowcheck_net.ids import SessionName, SwitchName

VERSION = 1


def remember(path: Path, memory: dict[SwitchName, Seen]) -> None:
    """Write it in one step; raises OutputError."""
    switches = {name: {"restart_mark": s.restart_mark, "packets": _plain(s.packets)} for name, s in memory.items()}
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps({"version": VERSION, "switches": switches}, sort_keys=True), encoding="utf-8")
        new.replace(path)
    except OSError as fault:
        raise OutputError(f"{path} cannot be written: {fault.strerror}", hint="choose another --state-dir") from fault


def recall(path: Path) -> dict[SwitchName, Seen]:
    """The inverse; empty where there is nothing, or nothing of use: then the first look has nothing to compare with."""
    try:
        raw = mapping(json.loads(path.read_text(encoding="utf-8")), "memory", required={"version", "switches"})
        return {SwitchName(name): _seen(value) for name, value in mapping_of(raw["switches"]).items()}
    except (OSError, ValueError, RecursionError):
        return {}


def mapping_of(value: object) -> dict[str, object]:
    """A JSON object with any keys, or ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"an object is needed, found {value!r}")
    return value


def _plain(packets: Mapping[SessionName, int]) -> dict[str, int]:
    return {str(name): count for name, count in packets.items()}


def _seen(value: object) -> Seen:
    raw = mapping(value, "switch", required={"restart_mark", "packets"})
    packets = {SessionName(name): number(count, name) for name, count in mapping_of(raw["packets"]).items()}
    return Seen(str(raw["restart_mark"]), packets)
