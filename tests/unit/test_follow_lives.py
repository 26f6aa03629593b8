"""A receiver counts anew after each start: which of its former numbers its iteration 0 has, or that nobody knows."""

from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.checkpoint.follow_again import Begin, first_from, latest
from flowcheck_net.checkpoint.follow_boards import Boards
from flowcheck_net.checkpoint.follow_lives import PSNS, Line, TrackKey, cycles_of, furthest, lines_of, shift_between
from flowcheck_net.checkpoint.follow_proof import Judged
from flowcheck_net.errors import FlowcheckError, OutputError, ReceiveError
from tests.unit.test_follow_proof import judged

ONE: TrackKey = (0, 0x11, "10.0.0.1", "10.0.0.2", "ckpt0:cap0")
TWO: TrackKey = (0, 0x12, "10.0.0.2", "10.0.0.3", "ckpt0:cap1")


def test_the_shift_is_what_psns_say_on_all_queue_pairs() -> None:
    """By hand: 100 + 17 * 30 = 610, and 16,777,200 + 17 * 7 = 16,777,319 = 2^24 + 103."""
    before = {ONE: (100, 30), TWO: (16_777_200, 7)}
    assert shift_between(before, {ONE: (610, 30), TWO: (103, 7)}, 10, 1000) == 17
    assert shift_between(before, {ONE: (610, 30)}, 10, 1000) == 17  # a port that is silent in the new life
    assert shift_between(before, {ONE: (610, 30), TWO: (110, 7)}, 10, 1000) is None  # the second says 18
    assert shift_between(before, {ONE: (611, 30)}, 10, 1000) is None  # between two iterations
    assert shift_between(before, {ONE: (610, 31)}, 10, 1000) is None  # another job
    assert shift_between({TWO: (0, 7)}, {ONE: (610, 30)}, 10, 1000) is None  # another connection
    assert shift_between(before, {}, 10, 1000) is None
    assert shift_between(before, {ONE: (610, 30)}, 18, 1000) is None  # it would lie before what was proven


def test_numbers_that_come_again_before_the_time_is_over_are_refused() -> None:
    """2^20 packets an iteration: PSNs come again after 16 iterations."""
    before, after = {ONE: (5, 1 << 20)}, {ONE: (5 + (3 << 20), 1 << 20)}
    assert shift_between(before, after, 10, 30) == 19
    assert shift_between(before, after, 10, 35) is None  # 19 or 35


lines = st.dictionaries(
    st.sampled_from([ONE, TWO]),
    st.tuples(st.integers(0, PSNS - 1), st.sampled_from([1, 6, 30, 1 << 18, 3 << 19, 1 << 22])),
    min_size=1,
)


@given(lines, st.integers(0, 60), st.integers(0, 40), st.integers(0, 40))
def test_one_number_or_none_as_trying_all_says(before: dict[TrackKey, Line], true: int, low: int, width: int) -> None:
    after = {key: ((start + true * span) % PSNS, span) for key, (start, span) in before.items()}
    fits = [
        number
        for number in range(low, low + width + 1)
        if all((before[key][0] + number * span) % PSNS == start for key, (start, span) in after.items())
    ]
    assert shift_between(before, after, low, low + width) == (fits[0] if len(fits) == 1 else None)


def test_how_far_it_can_be_in_the_time_that_passed() -> None:
    """10 s after iteration 7, of which none took less than 2 s: at half of that, 10 more, and the one under way."""
    assert furthest(7, 0, 10_000_000_000, (3_000_000_000, 2_000_000_000)) == 18
    assert furthest(7, 0, 10, ()) is None


def test_what_a_receiver_was_told_gives_lines_and_cycles() -> None:
    text = "version 1\ngroup 0 64 8 1 1 dp0\npattern 1 2 3\nslot 3 0 0\nslot 4 0 0\ntrack 0 0 17 a b p\nanchor 50 2 1\n"
    assert lines_of(text) == {(0, 17, "a", "b", "p"): (36, 7)}
    assert cycles_of(text) == {1}


def moved(place: Path, by: int, *, later: bool = True) -> Judged:
    """What a receiver of a later life is judged by, whose iteration 0 is the records' iteration ``by``."""
    place.mkdir(exist_ok=True)
    text = (judged(place / "a"), (place / "a" / "placing-0.txt").read_text())[1]
    words = [line.split() for line in text.splitlines()]
    told = [[w[0], w[1], str(int(w[2]) - by), *w[3:]] if w[0] == "anchor" else w for w in words]
    return judged(place / "b", told="\n".join(map(" ".join, told)), later=later)


def test_a_later_life_is_judged_by_its_own_numbers_and_the_first_one_never_is(tmp_path: Path) -> None:
    found = moved(tmp_path, 1)
    assert (found.moved, found.iterations) == (1, 3)
    assert [found.doubts(number, trust_order=True) for number in range(3)] == [()] * 3
    assert found.doubts(3, trust_order=True) == ("the records do not show it yet",)
    assert moved(tmp_path / "first", 1, later=False).misplaced


def test_the_last_life_that_was_taken_up_and_the_checkpoint_for_it(tmp_path: Path) -> None:
    assert latest(Begin(tmp_path, 2)) == Begin(tmp_path, 2)
    (tmp_path / "again.json").write_text('{"first_step": 9, "at_step": 12}')
    assert latest(Begin(tmp_path, 2)) == Begin(tmp_path / "again", 9, 12)
    assert first_from(tmp_path, 12) is None
    (tmp_path / "step-13.pt").write_bytes(b"half of one")
    assert first_from(tmp_path, 12) is None


@pytest.mark.parametrize("fault", [OutputError("the disk is full"), ReceiveError("the board is another's")])
def test_boards_are_emptied_while_the_proof_is_worked_on(tmp_path: Path, fault: FlowcheckError) -> None:
    """An audit of many iterations takes longer than the receiver has room for; no fault meanwhile stays unheard."""
    looked = Event()

    class Counting(Boards):
        def collect(self, stop: int) -> int:
            looked.set()
            if stop == 7:
                raise fault
            return super().collect(stop)

    boards = Counting([], {}, tmp_path)
    with boards.collecting(5):
        assert looked.wait(60)
    looked.clear()
    with pytest.raises(type(fault), match=fault.message), boards.collecting(7):
        assert looked.wait(60)
