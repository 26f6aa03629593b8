"""Tables on narrow terminals: every figure and every heading is there, whole, at any width that can hold them."""

import io

import pytest
from rich.console import Console

from flowcheck_net.cli.output import natural, table

_HEADINGS = ("hop", "captures", "expected", "seen", "missing", "bytes", "reason")
_ROWS = (
    ("dp0/0/0", "ckpt1:cap0", "1,494", "1,494", "0", "5,989,824", "every packet was seen on this hop"),
    ("dp0/0/1", "ckpt1:cap2", "1,494", "1,453", "41", "5,830,080", "PSN 1036-1076 lost"),
)


def _printed(width: int, *, keys: int = 1) -> list[str]:
    shown = table("Packets", *_HEADINGS, numbers=("expected", "seen", "missing", "bytes"), keys=keys)
    shown.caption = "end"
    for row in _ROWS:
        shown.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(shown)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", range(30, 140, 7))
def test_no_figure_is_cut_and_no_column_left_out(width: int) -> None:
    lines = _printed(width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for text in (*_HEADINGS, *(cell for row in _ROWS for cell in row)):
        for word in text.split():
            assert word in words, (word, lines)


def test_parts_begin_with_the_keys_and_keep_title_and_caption_once() -> None:
    lines = [line.rstrip() for line in _printed(48, keys=2)]
    starts = [line.split()[:2] for line in lines if line.strip().startswith("dp0/0/1")]
    assert len(starts) > 1
    assert all(start == ["dp0/0/1", "ckpt1:cap2"] for start in starts)
    assert [line.strip() for line in lines].count("Packets") == 1
    assert [line.strip() for line in lines].count("end") == 1


def test_keys_that_take_half_of_the_width_are_not_all_repeated() -> None:
    lines = _printed(40, keys=3)
    assert sum("ckpt1:cap2" in line for line in lines) == 1


def test_texts_are_wrapped_before_the_table_is_parted() -> None:
    lines = _printed(86)
    assert sum("dp0/0/1" in line for line in lines) == 1


def test_a_word_longer_than_the_terminal_is_broken_not_lost() -> None:
    shown = table("Paths", "path")
    shown.add_row("/" + "x" * 50)
    out = io.StringIO()
    Console(file=out, width=24, highlight=False).print(shown)
    assert out.getvalue().count("x") == 50


def test_numbers_in_names_sort_as_numbers() -> None:
    names = ["leaf1:Ethernet10:rx", "leaf1:Ethernet2:tx", "leaf1:7", "leaf1:Ethernet2:rx"]
    assert sorted(names, key=natural) == ["leaf1:7", "leaf1:Ethernet2:rx", "leaf1:Ethernet2:tx", "leaf1:Ethernet10:rx"]
