"""Halves of a capture, merged, are the whole: real samples cut at every kind of place, and what cannot be joined."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import ReceiveError
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.records import Capture, Cause, Flow, Message, Records, Tunnel, TunnelKind
from flowcheck_net.receive.records_merge import merge
from flowcheck_net.receive.records_ranges import covered, intersection, next_in, positions, reach, size, union
from flowcheck_net.receive.replay import replay
from tests.doubles import capture_images as images
from tests.doubles.capture_slices import Sliced, sliced

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")
NAMES = (
    "captures/allreduce+p2p.pcapng",
    "captures/allreduce_addstep.pcapng",
    "captures/iter_40000_p2p.pcapng",
    "captures/iter_80000.pcapng",
    "captures/rdma32.pcapng",
    "rxe/rxe-ring-put-loss1-at-vm2.pcap.gz",
    "rxe/rxe-ring-put-loss1.pcap.gz",
    "rxe/rxe-writebw-v4.pcap.gz",
)


@cache
def sample(name: str) -> Sliced:
    return sliced(SAMPLES / name)


def read(paths: Sequence[Path]) -> Records:
    return replay(paths, captures={str(path): "port" for path in paths})


def plain(records: Records) -> Records:
    """Without what tells the files."""
    return replace(records, sources=(), warnings=())


def merged(paths: Sequence[Path]) -> Records:
    return merge([(path.name, read([path])) for path in paths])


def known_limits(found: Records, whole: Records) -> Records:
    """What docs/records-format.md says cannot be joined, taken from the whole where it lies on the right side of it.

    A message at a seam whose packets came again, or that is told from the next by the earlier side only: its ICRC sum
    is unknown, its times reach too far. The payload of repeated sends and clear-to-send writes counts twice. A jump
    just at a seam that the later side filled is not known as one, and a rewind cut by a seam may count its fills as
    reordered.
    """
    flows = []
    for flow, right in zip(found.flows, whole.flows, strict=True):
        pairs = zip(flow.messages, right.messages, strict=True)
        again = right.bytes <= flow.bytes <= right.bytes + 64 * len(flow.repeats)
        total = right.bytes if again else flow.bytes
        lacking = set(right.gaps) - set(flow.gaps)
        known = (
            set(flow.gaps) < set(right.gaps) and len(lacking) <= 2 and all(gap.filled == gap.packets for gap in lacking)
        )
        flow = replace(flow, gaps=right.gaps if known else flow.gaps)
        if flow.repeats and flow.reordered > right.reordered:
            flow = replace(flow, reordered=right.reordered)
        flows.append(replace(flow, bytes=total, messages=tuple(_limited(one, other) for one, other in pairs)))
    return replace(found, flows=tuple(flows))


def _limited(found: Message, right: Message) -> Message:
    if found.icrc_sum is not None or found.first_time > right.first_time or found.last_time < right.last_time:
        return found
    times = {"first_time": right.first_time, "last_time": right.last_time}
    return replace(found, icrc_sum=right.icrc_sum, **times)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuts")


@needs_samples
@pytest.mark.parametrize("name", NAMES)
def test_cut_samples_are_whole_again(name: str, folder: Path) -> None:
    """At random places, in two and in three; between messages and inside them."""
    parts = sample(name)
    whole = plain(read(parts.files(folder)))

    @settings(max_examples=25)
    @given(st.sets(st.integers(1, len(parts.records) - 1), min_size=1, max_size=2))
    def cut(places: set[int]) -> None:
        files = parts.files(folder, *places)
        try:
            found = merged(files)
        except ReceiveError:
            assert any(
                not parts.packets(first, last) for first, last in pairwise([0, *sorted(places), len(parts.records)])
            )
            return
        assert plain(known_limits(found, whole)) == whole
        assert plain(merge([(path.name, read([path])) for path in reversed(files)])) == plain(found)

    cut()


@needs_samples
def test_a_sample_cut_at_every_record(folder: Path) -> None:
    parts = sample("captures/iter_40000_p2p.pcapng")
    whole = plain(read(parts.files(folder)))
    for place in range(1, len(parts.records)):
        try:
            found = merged(parts.files(folder, place))
        except ReceiveError:  # only blocks without packets on one side
            continue
        assert plain(found) == whole


def message(first: int, packets: int) -> list[bytes]:
    """A write of so many packets of 1024 bytes, the last one of 8."""
    frames = []
    for number in range(packets):
        part = 10 if packets == 1 else 6 if number == 0 else 8 if number == packets - 1 else 7
        payload = bytes(8 if number == packets - 1 else 1024)
        frames.append(images.write(part, (first + number) % (1 << 24), payload, 1024 * (packets - 1) + 8))
    return frames


WRAP = (1 << 24) - 30
STREAM = [frame for number in range(12) for frame in message(WRAP + 5 * number, 5)]


def written(folder: Path, frames: Sequence[bytes], name: str, start: int) -> Path:
    path = folder / f"{name}.pcap"
    path.write_bytes(images.pcap(frames, start=start))
    return path


@settings(max_examples=60)
@given(
    lost=st.sets(st.integers(0, len(STREAM) - 1), max_size=12),
    places=st.sets(st.integers(1, len(STREAM) - 1), min_size=1, max_size=3),
)
def test_losses_and_the_wrap_across_seams(folder: Path, lost: set[int], places: set[int]) -> None:
    """60 packets of 12 messages through the wrap of the PSN, any of them lost, cut anywhere."""
    edges = [0, *sorted(places), len(STREAM)]
    pieces = [
        [STREAM[number] for number in range(first, last) if number not in lost] for first, last in pairwise(edges)
    ]
    kept = [frame for piece in pieces for frame in piece]
    if not kept:
        return
    starts = [1000 + sum(map(len, pieces[:number])) for number in range(len(pieces))]
    files = [
        written(folder, piece, f"piece{number}", start)
        for number, (piece, start) in enumerate(zip(pieces, starts, strict=True))
        if piece
    ]
    whole = plain(read([written(folder, kept, "whole", 1000)]))
    found = merged(files)
    assert plain(known_limits(found, whole)) == whole
    if not lost:
        assert plain(found) == whole


def test_positions_go_on_through_the_wrap(folder: Path) -> None:
    files = [written(folder, STREAM[:33], "a", 1000), written(folder, STREAM[33:], "b", 1033)]
    (flow,) = merged(files).flows
    assert flow.seen == ((WRAP, WRAP + 59),)
    assert [each.packets for each in flow.messages] == [5] * 12
    assert (flow.missing, flow.gaps, flow.repeats) == ((), (), ())


def test_a_late_packet_fills_the_hole_of_an_earlier_file(folder: Path) -> None:
    early = [frame for number, frame in enumerate(STREAM[:20]) if number != 12]
    later = [STREAM[12], *STREAM[20:25]]
    files = [written(folder, early, "a", 1000), written(folder, later, "b", 1100)]
    (flow,) = merged(files).flows
    assert (flow.missing, flow.reordered) == ((), 1)
    assert [(gap.packets, gap.filled) for gap in flow.gaps] == [(1, 1)]
    assert [each.packets for each in flow.messages] == [5] * 5


def test_packets_seen_again_are_repeats_and_said(folder: Path) -> None:
    """The sender goes back over 3 packets; their payload counts once."""
    files = [written(folder, STREAM[:8], "a", 1000), written(folder, STREAM[5:15], "b", 1100)]
    found = merged(files)
    (flow,) = found.flows
    assert flow.repeats == tuple((WRAP + number, 1) for number in (5, 6, 7))
    assert (flow.retransmitted, flow.bytes, flow.missing) == (3, 3 * (4 * 1024 + 8), ())
    assert [each.packets for each in flow.messages] == [5] * 3
    assert flow.messages[1].icrc_sum is None
    assert "3 packets were seen again in a later file" in found.warnings[0]


def test_overlapping_captures_are_refused_by_name(folder: Path) -> None:
    files = [written(folder, STREAM[:20], "early", 1000), written(folder, STREAM[20:], "late", 1010)]
    with pytest.raises(ReceiveError) as error:
        merged(files)
    assert "early.pcap and late.pcap overlap: capture port port" in error.value.message
    assert "replay the capture files together" in error.value.hint


def test_ports_stand_side_by_side(folder: Path) -> None:
    one = replay([written(folder, STREAM[:20], "one", 1000)])
    two = replay([written(folder, STREAM[:15], "two", 1000)])
    found = merge([("b", two), ("a", one)])
    assert [capture.name for capture in found.captures] == ["one", "two"]
    assert [flow.capture for flow in found.flows] == ["one", "two"]
    assert found.sources == (*two.sources, *one.sources)
    assert plain(found) == plain(merge([("a", one), ("b", two)]))


def test_a_port_without_packets_adds_nothing(folder: Path) -> None:
    found = read([written(folder, STREAM, "all", 1000)])
    (port,) = found.captures
    empty = Capture(port.name, 0, 0, dict.fromkeys(port.frames, 0), 0, 0, None, dict.fromkeys(port.attributes, 0))
    assert plain(merge([("a", found), ("b", Records((), (), (empty,), ()))])) == plain(found)


def test_answers_have_no_seam() -> None:
    """Flows without requests have counts only."""

    def answers(time: int, acks: int) -> Records:
        port = Capture(CapturePort("p"), acks, 60 * acks, {"rocev2": acks}, time, time, 0)
        flow = Flow(
            capture=CapturePort("p"),
            source=Address("::1"),
            destination=Address("::2"),
            dest_qp=Qpn(1),
            packets={"ack": acks},
            bytes=0,
            mtu=None,
            seen=(),
            repeats=(),
            retransmitted=0,
            duplicated=0,
            reordered=0,
            missing=(),
            gaps=(),
            messages=(),
        )
        return Records((), (), (port,), (flow,))

    found = merge([("a", answers(1, 3)), ("b", answers(2, 4))])
    assert found.flows[0].packets == {"ack": 7}
    assert (found.captures[0].packets, found.captures[0].dropped) == (7, 0)


def test_tunnels_are_added_up_and_the_seam_is_in_doubt() -> None:
    def tunnelled(time: int, gaps: int | None) -> Records:
        tunnel = Tunnel(Address("192.0.2.1"), TunnelKind.ERSPAN2, 7, 10, gaps)
        port = Capture(CapturePort("p"), 10, 900, {"arp": 10}, time, time + 5, None, {}, (tunnel,))
        return Records((), (), (port,), ())

    found = merge([("a", tunnelled(0, 2)), ("b", tunnelled(10, 3))])
    assert found.captures[0].tunnels[0] == Tunnel(Address("192.0.2.1"), TunnelKind.ERSPAN2, 7, 20, 5)
    assert "lost in a tunnel just between two of its 2 files" in found.warnings[0]
    unknown = merge([("a", tunnelled(0, None)), ("b", tunnelled(10, 3))])
    assert unknown.captures[0].tunnels[0].sequence_gaps is None


sets = st.sets(st.integers(0, 40), min_size=1)


def ranges(found: set[int]) -> list[tuple[int, int]]:
    firsts = sorted(each for each in found if each - 1 not in found)
    return [(first, next(at for at in range(first, 99) if at + 1 not in found)) for first in firsts]


@given(sets, sets, st.integers(0, 40), st.integers(0, 40))
def test_ranges_against_sets(one: set[int], two: set[int], low: int, high: int) -> None:
    assert list(union(ranges(one), ranges(two))) == ranges(one | two)
    assert intersection(ranges(one), ranges(two)) == ranges(one & two)
    assert covered(ranges(one), low, high) == len({each for each in one if low <= each <= high})
    assert next_in(ranges(one), low) == min((each for each in one if each >= low), default=None)
    assert (size(ranges(one)), set(positions(ranges(one)))) == (len(one), one)
    behind = sorted(each for each in one if each >= low)
    for number, position in enumerate(behind, 1):
        assert reach(ranges(one), low, number) == position


def test_the_end_of_the_capture_is_the_later_file_s(folder: Path) -> None:
    files = [written(folder, STREAM[:22], "a", 1000), written(folder, STREAM[22:24], "b", 1100)]
    (flow,) = merged(files).flows
    assert [(each.position - WRAP, each.packets, each.cause) for each in flow.missing] == [(24, 1, Cause.CAPTURE_END)]


def told(flow: Flow) -> object:
    """What does not depend on the order in which packets came."""
    messages = [
        (m.position, m.first_psn, m.bytes, m.packets, m.expected_packets, m.immediate, m.opcode) for m in flow.messages
    ]
    return flow.seen, flow.repeats, flow.missing, messages


@settings(max_examples=120)
@given(
    lost=st.sets(st.integers(0, len(STREAM) - 1), max_size=6),
    moved=st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(-12, 12)), max_size=4),
    again=st.sets(st.integers(0, len(STREAM) - 1), max_size=2),
    place=st.integers(1, len(STREAM) - 1),
)
@example(lost=set(), moved=[(30, -24)], again=set(), place=8)  # one packet far ahead in the earlier file
@example(lost={0, 1, 2}, moved=[(3, 12), (4, 12)], again=set(), place=5)  # the later file begins lower
def test_disorder_and_loss_across_a_seam(
    folder: Path, lost: set[int], moved: list[tuple[int, int]], again: set[int], place: int
) -> None:
    """Packets that come early or late by some places, are lost or come twice: messages and losses are the same."""
    order = {number: float(number) for number in range(len(STREAM)) if number not in lost}
    for number, distance in moved:
        if number in order:
            order[number] = number + distance + 0.5
    frames = [(at, STREAM[number]) for number, at in order.items()]
    frames += [(at + 20.2, STREAM[number]) for number, at in order.items() if number in again]
    frames.sort()
    one, two = [[frame for at, frame in frames if (at < place) == early] for early in (True, False)]
    if not one or not two:
        return
    files = [written(folder, one, "a", 1000), written(folder, two, "b", 1000 + len(one))]
    (whole,) = read([written(folder, [*one, *two], "whole", 1000)]).flows
    (found,) = merged(files).flows
    if whole.seen[0][0] % (1 << 24) == found.seen[0][0] % (1 << 24) and whole.seen[0][0] != found.seen[0][0]:
        return  # numbered from another wrap
    assert told(found) == told(whole)
