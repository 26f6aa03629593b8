"""Message windows under loss: the follower beside a specification, packets sent by a go-back-N sender."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.p4_twin_follow import COPIED, UNKNOWN_MESSAGE, Follower, Following, Verdict
from tests.doubles.p4_twin_frame import Facts

PASS, LOST_BEFORE, LOST_AFTER = range(3)


@dataclass(frozen=True)
class Packet:
    """One packet of the sender's stream."""

    number: int
    message: int
    end: bool


def stream(sizes: list[int]) -> list[Packet]:
    """The packets of messages of these sizes."""
    flat = [(message, k == size - 1) for message, size in enumerate(sizes) for k in range(size)]
    return [Packet(number, message, end) for number, (message, end) in enumerate(flat)]


def at_the_switch(packets: list[Packet], fates: list[int], acks: list[bool], burst: int) -> Iterator[Packet]:
    """What a switch sees of a sender that sends ``burst`` packets, then goes back to the first unacknowledged one."""
    fate, ack = iter(fates), iter(acks)
    received = acknowledged = 0
    while acknowledged < len(packets):
        for packet in packets[acknowledged : acknowledged + burst]:
            happens = next(fate, PASS)
            if happens == LOST_BEFORE:
                continue
            yield packet
            if happens == PASS and packet.number == received:
                received += 1
        if next(ack, True):
            acknowledged = received


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], Following, list[int], list[bool], int, int]:
    period = draw(st.integers(1, 7))
    low, high = draw(st.integers(0, period)), draw(st.integers(0, period))
    first = draw(st.sampled_from([0, 5, (1 << 24) - 3, (1 << 23) - 2]))
    entry = Following(3, draw(st.integers(1, 1 << 32)), 1, first << 8, period, low, high)
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=20))
    fates = draw(st.lists(st.sampled_from([PASS, PASS, LOST_BEFORE, LOST_AFTER]), max_size=60))
    acks = draw(st.lists(st.booleans(), max_size=10))
    return sizes, entry, fates, acks, draw(st.integers(1, 9)), first


def wanted(entry: Following, message: int) -> bool:
    """The specification: a message's place in its period, and the window as a list of places."""
    end = entry.high if entry.low <= entry.high else entry.high + entry.period
    return message % entry.period in [place % entry.period for place in range(entry.low, end)]


@settings(max_examples=400)
@given(runs())
def test_no_packet_of_the_window_is_withheld(run: tuple[list[int], Following, list[int], list[bool], int, int]) -> None:
    sizes, entry, fates, acks, burst, first = run
    packets = stream(sizes)
    follower, copies, surplus = Follower(), set(), 0
    for packet in at_the_switch(packets, fates, acks, burst):
        opcode = 11 if packet.end else 7
        psn = (first + packet.number) % (1 << 24)
        verdict, message = follower.judge(Facts(0, qp=1, opcode=opcode, psn=psn, roce=True), entry)
        assert verdict in COPIED or not wanted(entry, packet.message)
        assert message in (UNKNOWN_MESSAGE, packet.message % entry.period)
        if verdict in COPIED:
            copies.add(packet.number)
            surplus += not wanted(entry, packet.message)
            assert wanted(entry, packet.message) or verdict in (Verdict.AHEAD, Verdict.REPEAT)
    assert {p.number for p in packets if wanted(entry, p.message)} <= copies
    if LOST_BEFORE not in fates and LOST_AFTER not in fates and all(acks):
        assert surplus == 0
    counted = {Verdict(slot - 3 * 8): n for slot, n in follower.verdicts.items()}
    assert counted.get(Verdict.INSIDE, 0) + counted.get(Verdict.OUTSIDE, 0) == len(packets)


SILENCE_US = 3 << 20


@settings(max_examples=400)
@given(runs(), runs(), st.lists(st.integers(0, 1 << 21), max_size=40), st.booleans())
def test_a_second_life_is_followed_from_its_first_packet(
    one: tuple[list[int], Following, list[int], list[bool], int, int],
    two: tuple[list[int], Following, list[int], list[bool], int, int],
    pauses: list[int],
    cut: bool,
) -> None:
    """Of two connections on one queue pair, the first perhaps cut off: nothing of the second one's window is withheld.

    Both begin at the anchor of ``one``; senders pause (``pauses``, microseconds) as by timeouts.
    """
    entry, first = one[1], one[5]
    follower, now, pause = Follower(), 0, iter(pauses)
    for life, (sizes, _, fates, acks, burst, _) in enumerate((one, two)):
        packets = stream(sizes)
        seen = list(at_the_switch(packets, fates, acks, burst))
        copies = set()
        for packet in seen[: len(seen) // 2] if cut and life == 0 else seen:
            psn = (first + packet.number) % (1 << 24)
            facts = Facts(0, qp=1, opcode=11 if packet.end else 7, psn=psn, roce=True)
            if follower.judge(facts, entry, now)[0] in COPIED:
                copies.add(packet.number)
            now += next(pause, 1)
        now += SILENCE_US
    assert {p.number for p in packets if wanted(entry, p.message)} <= copies


@given(st.integers(1, 9), st.lists(st.integers(1, 3), min_size=1, max_size=30), st.integers(0, 8), st.integers(0, 8))
def test_messages_before_the_loops_are_turned_away(period: int, sizes: list[int], before: int, low: int) -> None:
    """k messages of something else first, then loops: the window turned by k holds the same messages."""
    low %= period
    turned = Following(0, 1, 1, 0, period, (low + before) % period, (period + before) % period or period)
    if low == 0:
        turned = Following(0, 1, 1, 0, period, 0, period)
    plain = Following(0, 1, 1, 0, period, low, period)
    verdicts = []
    for entry, extra in ((plain, 0), (turned, before)):
        follower = Follower()
        packets = stream([1] * extra + sizes)
        judged = [
            follower.judge(Facts(0, qp=1, opcode=11 if p.end else 7, psn=p.number, roce=True), entry) for p in packets
        ]
        verdicts.append([verdict for verdict, _ in judged[extra:]])
    assert verdicts[0] == verdicts[1]


def test_a_restarted_job_begins_at_message_0() -> None:
    follower = Follower()
    for epoch in (1, 2):
        entry = Following(0, epoch, 1, 0, 4, 2, 4)
        numbers = [follower.judge(Facts(0, qp=1, opcode=11, psn=psn, roce=True), entry)[1] for psn in range(5)]
        assert numbers == [0, 1, 2, 3, 0]
