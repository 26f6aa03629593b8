"""The constant tables in p4/controls, read out of the sources, beside the twin's whole-number rules."""

import re
from pathlib import Path

import pytest

from tests.doubles.p4_twin_follow import Following
from tests.doubles.p4_twin_frame import Facts

P4 = Path(__file__).parents[2] / "p4"
Key = tuple[tuple[int, int], ...]


NAMES = dict(re.findall(r"const bit<\d+> (\w+) = (\w+);", (P4 / "common" / "ids.p4").read_text()))


def number(text: str) -> int:
    """``8w0b101``, ``16w0x8000``, ``0xffc0``, ``7``, ``FC_PLACE_NEXT``."""
    return int(re.sub(r"^\d+w", "", NAMES.get(text.strip(), text.strip())), 0)


def entries(control: str) -> list[tuple[Key, str]]:
    """The entries of a control's constant table in order: ((value, mask) of each key field, action)."""
    source = re.sub(r"//.*", "", (P4 / "controls" / f"{control}.p4").read_text())
    block = re.search(r"const entries = \{(.*?)\n        \}", source, re.DOTALL)
    assert block is not None
    found = []
    for key, action in re.findall(r"^\s*(.+?): (\w+\([\w, ]*\));", block[1], re.MULTILINE):
        fields = [part.strip() for part in key.strip().strip("()").split(",")]
        pairs = []
        for field in fields:
            value, _, mask = field.partition("&&&")
            pairs.append((0, 0) if field == "_" else (number(value), number(mask) if mask else -1))
        found.append((tuple(pairs), action))
    assert found
    return found


def look_up(table: list[tuple[Key, str]], *values: int) -> str | None:
    """The action of the first entry that matches: constant entries are tried in order."""
    for key, action in table:
        if all(value & mask == wanted & mask for value, (wanted, mask) in zip(values, key, strict=True)):
            return action
    return None


def test_opcodes() -> None:
    table = entries("opcode")
    for opcode in range(256):
        facts = Facts(0, opcode=opcode, roce=True)
        expected = "message_end()" if facts.ends_message else "part()" if facts.request else None
        assert look_up(table, 1, opcode) == expected
        assert look_up(table, 0, opcode) is None


@pytest.mark.parametrize(
    ("packets", "place"),
    [
        *((0, "NEXT"), (1, "AHEAD"), (16_383, "AHEAD"), (16_384, None), (1 << 23, None)),
        *((-1, "BEHIND"), (-16_384, "BEHIND"), (-16_385, None)),
    ],
)
def test_places(packets: int, place: str | None) -> None:
    found = look_up(entries("place"), packets * 256 % (1 << 32))
    assert found == (place and f"set(FC_PLACE_{place})")


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize(("place", "verdict"), [("NEXT", None), ("AHEAD", 3), ("BEHIND", 4), ("FAR", 5)])
def test_verdicts(lost: int, place: str, verdict: int | None) -> None:
    """Verdicts by number, as the table in p4/README.md has them; the counter's place is the same number."""
    table = entries("judge")
    for period in (1, 2, 5, 6):
        for low in range(period + 1):
            for high in range(period + 1):
                entry = Following(0, 1, 1, 0, period, low, high)
                for count in range(period):
                    differences = [(a - b) % (1 << 16) for a, b in ((high, low), (count, low), (count, high))]
                    found = look_up(table, lost, number(f"FC_PLACE_{place}"), *differences)
                    expected = 5 if lost else verdict or (1 if entry.holds(count) else 2)
                    assert found is not None
                    action, values = found.rstrip(")").split("(")
                    assert [number(v) for v in values.split(",")] == [expected, expected], (entry, count)
                    assert (action == "place_known") == (expected in (1, 2))


@pytest.mark.parametrize("verdict", range(8))
def test_decisions(verdict: int) -> None:
    table = entries("decide")
    assert look_up(table, 0, verdict) == "whole()"
    assert look_up(table, 1, verdict) == ("withhold()" if verdict in (2, 7) else None)
