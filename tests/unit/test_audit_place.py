"""Placing, settling and aligning on their own, with positions worked out by hand."""

import pytest

from flowcheck_net.audit.align import out_of_step, shifts
from flowcheck_net.audit.pattern import Pattern, Track, pattern_of
from flowcheck_net.audit.place import Window, place
from flowcheck_net.audit.ranges import clip, holes, merge, size
from flowcheck_net.model.expect import expect
from tests.doubles import audit_world as world

NONE: frozenset[int] = frozenset()


def pattern(elements: int = 5000) -> Pattern:
    """16 packets of 15 424 B, then 24 of 24 576 B."""
    return pattern_of(expect(world.job(elements=[elements]), None).hops[0].messages, (0,), True)


def line(*sizes: int, start: int = 0) -> world.Line:
    made = world.Line(world.address(0), world.address(1), 5, position=start)
    for number, each in enumerate(sizes):
        made.send(each, number * 1_000_000)
    return made


def bases(made: world.Line, broadcasts: frozenset[int] = NONE) -> list[int | None]:
    return [w.base for w in place(Track(made.flow()), pattern(), broadcasts).windows]


def test_the_pattern_of_the_sample_job() -> None:
    found = pattern()
    assert (found.sizes, found.offsets, found.span, found.self_similar) == ((15_424, 24_576), (0, 16), 40, False)
    equal = pattern(8192)
    assert (equal.sizes, equal.span, equal.step) == ((32_768, 32_768), 64, 32)


A, B = 15_424, 24_576


@pytest.mark.parametrize(
    ("sizes", "start", "lost", "wanted"),
    [
        ((A, B, A, B), 0, (), [0, 40]),
        ((A, B, A, B), 500, (), [500, 540]),
        # a broadcast of 40 000 B (40 packets) and one of 16 B before, one of 16 B between
        ((40_000, 16, A, B, 16, A, B), 0, (), [41, 82]),
        # starts with the second message of an iteration
        ((B, A, B), 100, (), [84, 124]),
        # ends after the first one
        ((A, B, A), 0, (), [0, 40]),
        # First packets of both messages of the second iteration lost
        ((A, B, A, B, A, B), 0, (40, 56), [0, 40, 80]),
        # the whole second iteration lost
        ((A, B, A, B, A, B), 0, range(40, 80), [0, 40, 80]),
        # the last iteration has lost both First packets
        ((A, B, A, B), 0, (40, 56), [0, 40]),
        # the capture starts inside the last message of an iteration: no length of it is known
        ((A, B, A, B), 100, range(100, 130), [100, 140]),
        # one iteration and a 16 B message lost together: 41 packets, so that the place is not known
        ((A, B, A, B, 16, A, B), 0, range(40, 81), [0, None, 81]),
    ],
)
def test_bases(sizes, start, lost, wanted) -> None:
    made = line(*sizes, start=start)
    made.lost = set(lost)
    assert bases(made) == wanted


def test_a_lone_broadcast_is_no_iteration() -> None:
    made = line(B, 16, A, B, start=7)
    assert bases(made, frozenset({B})) == [7 + 24 + 1]


def test_point_to_point_fits_nowhere() -> None:
    made = line(*[7712] * 20)
    assert bases(made) == []


def window(start: int | None) -> Window:
    return Window(0, 1, 0, start, None if start is None else start + 10)


@pytest.mark.parametrize(
    ("flows", "wanted"),
    [
        ([[0, 1000, 2000], [0, 1000, 2000]], (0, 0)),
        ([[0, 1000, 2000], [1010, 2010]], (0, 1)),
        ([[1010, 2010], [0, 1000, 2000]], (1, 0)),
        # a lost iteration is a window without a time
        ([[0, 1000, 2000, 3000], [1005, None, 3005]], (0, 1)),
        # clocks apart by less than half an iteration
        ([[0, 1000, 2000], [400, 1400, 2400]], (0, 0)),
        # one flow ended before the other began: two iterations lie between by the period of the longer one
        ([[0, 1000, 2000], [4000]], (0, 4)),
        ([[], [5]], (0, 0)),
        ([], ()),
    ],
)
def test_numbers_by_order_and_time(flows, wanted) -> None:
    assert shifts([[window(t) for t in flow] for flow in flows]) == wanted


def torn(first: int, last: int) -> Window:
    return Window(0, 1, 0, first, last)


FULL = [torn(t, t + 400) for t in (0, 1000, 2000, 9000)]
"""Four iterations and a pause."""


@pytest.mark.parametrize(
    ("flow", "start", "wanted"),
    [
        (FULL, 0, False),
        (FULL[1:], 1, False),
        # the second is in no window, and one shift for all brings the first to its place
        ([FULL[0], *FULL[2:]], 1, True),
        # the same with a clock of another time
        ([torn(t + 300, t + 700) for t in (0, 2000, 9000)], 1, True),
        # torn at the front and at the back; an end that comes late
        ([torn(0, 10), torn(1390, 1400), FULL[2], torn(9000, 9010)], 0, False),
        ([FULL[0], torn(1000, 1990), *FULL[2:]], 0, False),
    ],
)
def test_a_flow_that_leaves_an_iteration_out_is_out_of_step(flow: list[Window], start: int, wanted: bool) -> None:
    assert out_of_step([FULL, flow], [0, start]) == (False, wanted)


def test_ranges() -> None:
    assert merge([(5, 6), (0, 2), (3, 3), (6, 9)]) == ((0, 3), (5, 9))
    assert clip([(0, 3), (5, 9)], 2, 6, shift=-2) == ((0, 1), (3, 4))
    assert holes([(0, 3), (5, 9)], 2, 12) == ((4, 4), (10, 12))
    assert size([(0, 3), (5, 9)]) == 9


def test_a_head_that_fits_at_two_places_is_placed_where_the_rest_fits_too() -> None:
    """3 ranks, extra step. From the last message on, a base 47 packets later fits three messages, but not the rest."""
    messages = expect(world.job(3, [10_000], extra=True), None).hops[0].messages
    assert [m.packets for m in messages] == [15, 32, 32, 15, 32]
    made = world.Line(world.address(0), world.address(1), 5)
    for number in range(2):
        for m in messages:
            made.send(m.wire_bytes, number * world.SECOND)
    made.lost = set(range(80))
    found = place(Track(made.flow()), pattern_of(messages, (0,), True), NONE)
    assert [w.base for w in found.windows] == [0, 126]
