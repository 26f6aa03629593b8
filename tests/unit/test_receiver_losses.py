"""docs/receiver.md names every counter of what can be given up on the way, as the C sources have them, and no other."""

import re
from pathlib import Path

from flowcheck_net.receive import native_track

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "receiver" / "app"
ENTRY = re.compile(r"\[(\w+)\] = \"([\w.]+)\"")


def members(header: Path, enum: str) -> list[str]:
    """Names of a C enum without its last, which counts the others."""
    (body,) = re.findall(rf"^enum {enum} \{{$(.*?)^\}};$", header.read_text(), re.DOTALL | re.MULTILINE)
    return re.findall(r"^\t(\w+)", body, re.MULTILINE)[:-1]


def said(kind: str, name: str) -> str:
    """A counter's name as a user meets it."""
    if kind.startswith("LOST_WORKER_"):
        return f"workerN.{name}"
    return "device.NAME" if kind == "LOST_DEVICE" else name


def documented(heading: str) -> set[str]:
    """Names in the first column of the table under this head."""
    text = (ROOT / "docs" / "receiver.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"^{re.escape(heading)}$\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return {name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_every_counter_of_the_loss_block() -> None:
    kinds = members(APP / "loss.h", "lost")
    names = dict(ENTRY.findall((APP / "loss.c").read_text()))
    assert list(names) == kinds
    assert {said(*each) for each in names.items()} == documented("| name | what | in `dropped` |")


def test_every_counter_of_placement() -> None:
    """Those of the core, and the plain ones that receiver/app/place.c prints."""
    plain = set(re.findall(r"\\\"(\w+)\\\":%", (APP / "place.c").read_text())) - {"device_copies", "s"}
    names = plain | {f"places.{name}" for name in native_track.PLACES} | {f"lays.{name}" for name in native_track.LAYS}
    assert names == documented("| name | what |")


def test_counters_of_the_core_are_named() -> None:
    """An enum that grows without a name would print nothing."""
    header = ROOT / "receiver" / "core" / "fck_track.h"
    assert len(members(header, "fck_place_kind")) == len(native_track.PLACES)
    assert len(members(header, "fck_lay_kind")) == len(native_track.LAYS)
