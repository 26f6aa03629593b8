"""Lost copies, against counting them one by one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.compare import FlowLoss, LostRange, compare
from flowcheck_net.receive.records import Flow, Records

WRAP = 1 << 24


def flow(copies: Counter[int], capture: str = "cap0", dest_qp: int = 5) -> Flow:
    """A flow seen with so many copies of each position."""
    ranges: list[tuple[int, int]] = []
    for position in sorted(copies):
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1] = (ranges[-1][0], position)
        else:
            ranges.append((position, position))
    return Flow(
        capture=CapturePort(capture),
        source=Address("10.0.0.1"),
        destination=Address("10.0.0.2"),
        dest_qp=Qpn(dest_qp),
        packets={"write": copies.total()},
        bytes=0,
        mtu=1024,
        seen=tuple(ranges),
        repeats=tuple((position, count - 1) for position, count in sorted(copies.items()) if count > 1),
        retransmitted=0,
        duplicated=0,
        reordered=0,
        missing=(),
        gaps=(),
        messages=(),
    )


def records(*flows: Flow) -> Records:
    return Records(sources=(), warnings=(), captures=(), flows=flows)


def expand(ranges: Sequence[LostRange]) -> Counter[int]:
    return Counter(
        {each.position + step: each.copies for each in ranges for step in range(each.packets)},
    )


def only(before: Records, after: Records) -> FlowLoss:
    (loss,) = compare(before, after)
    return loss


sightings = st.dictionaries(st.integers(0, 60), st.integers(1, 3), min_size=1).map(Counter)


@given(sightings, sightings)
def test_against_counting_one_by_one(before: Counter[int], after: Counter[int]) -> None:
    loss = only(records(flow(before)), records(flow(after)))
    assert expand(loss.lost_ranges) == before - after  # Counter's own difference keeps the positive part
    assert loss.lost == (before - after).total()
    assert loss.added == (after - before).total()
    assert (loss.before, loss.after) == (before.total(), after.total())


@given(sightings)
def test_the_same_capture_has_lost_nothing(copies: Counter[int]) -> None:
    loss = only(records(flow(copies)), records(flow(copies)))
    assert (loss.lost, loss.added, loss.lost_ranges) == (0, 0, ())


def test_two_copies_lost_of_one_packet_are_two() -> None:
    loss = only(records(flow(Counter({7: 3, 8: 1}))), records(flow(Counter({7: 1, 8: 1}))))
    assert loss.lost_ranges == (LostRange(position=7, first_psn=7, last_psn=7, packets=1, copies=2),)


def test_sides_that_count_their_wraps_differently() -> None:
    """Before begins at PSN 0xfffffe; the first packet after is PSN 1, which that side calls position 1."""
    before = Counter(range(WRAP - 2, WRAP + 5))
    after = Counter({1: 1, 2: 1, 4: 1})
    loss = only(records(flow(before)), records(flow(after)))
    assert [(each.first_psn, each.last_psn, each.packets) for each in loss.lost_ranges] == [(WRAP - 2, 0, 3), (3, 3, 1)]
    assert (loss.lost, loss.added) == (4, 0)


def test_ports_of_one_side_that_count_their_wraps_differently() -> None:
    """One port saw the flow before the PSN began again, the other one only behind that."""
    early, late = Counter(range(WRAP - 10, WRAP + 20)), Counter(range(3, 20))
    after = early + Counter(range(WRAP + 3, WRAP + 20))
    for sides in ((early, late), (late, early)):
        before = records(*(flow(side, f"cap{number}") for number, side in enumerate(sides)))
        loss = only(before, records(flow(after)))
        assert (loss.before, loss.after, loss.lost, loss.added) == (47, 47, 0, 0)


def test_an_after_that_begins_more_than_half_the_psns_later() -> None:
    """Both count from PSN 0 on; the second capture was begun 10 million packets later."""
    long = replace(flow(Counter([0])), seen=((0, 20_000_000),))
    rest = replace(long, seen=((10_000_000, 14_999_999), (15_000_001, 20_000_000)))
    loss = only(records(long), records(rest))
    assert [(each.position, each.packets) for each in loss.lost_ranges] == [(0, 10_000_000), (15_000_000, 1)]
    assert loss.added == 0


def test_capture_ports_of_a_side_are_added_up() -> None:
    halves = records(flow(Counter([1, 2]), "cap0"), flow(Counter([3, 4]), "cap1"))
    loss = only(halves, records(flow(Counter([1, 2, 4]))))
    assert [each.first_psn for each in loss.lost_ranges] == [3]


def test_flows_of_one_side_only() -> None:
    losses = compare(records(flow(Counter([1, 2]), dest_qp=5)), records(flow(Counter([9]), dest_qp=6)))
    assert [(loss.dest_qp, loss.before, loss.after, loss.lost, loss.added) for loss in losses] == [
        (5, 2, 0, 2, 0),
        (6, 0, 1, 0, 1),
    ]
