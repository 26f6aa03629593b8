"""docs/records-format.md names every field, frame, attribute, class and cause that a records file can hold."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from flowcheck_net.receive import records
from flowcheck_net.receive.replay import replay
from tests.doubles import capture_images as images

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "records-format.md"


def documented() -> set[str]:
    return set(re.findall(r"`([a-z0-9_]+)`", DOCUMENT.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "kind",
    [records.Records, records.Capture, records.Tunnel, records.Flow, records.Missing, records.Gap, records.Message],
    ids=lambda kind: kind.__name__,
)
def test_every_field(kind: type) -> None:
    assert {each.name for each in fields(kind)} - documented() == set()


def test_every_counter_and_cause(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(images.pcap([images.write_only(1)]))
    read = replay([path])
    named = {
        *read.captures[0].frames,
        *read.captures[0].attributes,
        *read.flows[0].packets,
        *records.Cause,
        *records.TunnelKind,
    }
    assert len(named) > 40
    assert named - documented() == set()
