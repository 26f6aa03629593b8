"""Placement against a model of ten lines: loss, repetition, disorder, wrap and foreign messages never shift a byte."""

import random
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.ids import Address
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import FindingKind, Pattern, Slot, TrackCount, Tracker
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker
from tests.oracle.packet_stream import PSNS, Sent, foreign_message, iteration_packets, pcap

ENDS = Endpoints(Address("10.0.0.1"), Address("10.0.0.2"), source_port=50_000, dest_qp=0x77)
MTU, GROUP = 256, 5


def slots_of(sizes: list[int]) -> tuple[Slot, ...]:
    """Simple messages one behind another in the buffer; every second one is reduced."""
    made, at, unit = [], 0, 0
    for number, size in enumerate(sizes):
        packets = max(1, -(-size // MTU))
        made.append(Slot(packets, size, size, at, size, unit, reduced=number % 2 == 1, step=number))
        at += size
        unit += packets
    return tuple(made)


def bit(present: bytearray, unit: int) -> bool:
    return bool(present[unit >> 3] >> (unit & 7) & 1)


@dataclass(frozen=True)
class Case:
    """What was sent, and in which order it arrived: indices of ``sent``, some missing, some twice."""

    pattern: Pattern
    sent: list[Sent]
    iterations: int
    arrivals: list[int]

    @property
    def first_position(self) -> int:
        """Position of the core for the first packet sent: the first one that arrives is its own PSN."""
        if not self.arrivals:
            return self.sent[0].position
        arrived = self.sent[self.arrivals[0]].position
        return self.sent[0].position + arrived % PSNS - arrived


def disturb(draw: st.DrawFn, packets: int) -> list[int]:
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    loss, repeat = draw(st.sampled_from([0, 0.02, 0.3])), draw(st.sampled_from([0, 0.1]))
    reach = draw(st.integers(0, 4))
    arrivals = [index for index in range(packets) if rng.random() >= loss]
    arrivals += [index for index in arrivals if rng.random() < repeat]
    return sorted(arrivals, key=lambda index: index + rng.uniform(0, reach))


@st.composite
def cases(draw: st.DrawFn, *, foreign: bool) -> Case:
    # Foreign messages are of other lengths, and sizes of the pattern differ: else they would be the pattern.
    size = st.integers(0, 1_500)
    sizes = draw(st.lists(size, min_size=2, max_size=6, unique=foreign).filter(lambda found: any(found[1::2])))
    pattern = Pattern(slots_of(sizes), MTU, Protocol.SIMPLE)
    span = sum(slot.packets for slot in pattern.slots)
    maker, rng = FrameMaker(ENDS), random.Random(1)
    position = draw(st.sampled_from([0, 5, PSNS - 3, PSNS - 40]))
    iterations = draw(st.integers(1, 12))
    sent: list[Sent] = []
    for number in range(iterations):
        between = draw(st.integers(0, 2)) if foreign and number else 0
        shift = 0
        for _ in range(between):
            odd = draw(st.integers(1, 2_000).filter(lambda length: length not in sizes))
            message = foreign_message(maker, odd, position, MTU)
            shift += len(message)
            position += len(message)
            sent += message
        if shift and shift % span == 0:  # with its starts lost it would be iterations that were lost: a known limit
            sent += foreign_message(maker, next(each for each in range(MTU) if each not in sizes), position, MTU)
            position += 1
        sent += iteration_packets(maker, pattern, position, number, rng.randbytes(sum(sizes)))
        position += span
    return Case(pattern, sent, iterations, disturb(draw, len(sent)))


class Memory:
    """Buffers for all iterations of a case."""

    def __init__(self, case: Case) -> None:
        self.size = sum(slot.data_bytes for slot in case.pattern.slots)
        words = -(-sum(slot.packets for slot in case.pattern.slots) // 64)
        self.buffers = [(bytearray(b"\xee" * self.size), bytearray(8 * words)) for _ in range(2 * case.iterations + 2)]

    def lend(self, tracker: Tracker) -> None:
        for number, (data, present) in enumerate(self.buffers):
            tracker.lend(GROUP, number, data, present)

    def take_back(self, tracker: Tracker) -> None:
        for number in range(len(self.buffers)):
            tracker.take_back(GROUP, number)


def set_up(core: Core, tracker: Tracker, pattern: Pattern) -> int:
    """Number of the track."""
    capture = core.capture_number("cap0")
    track = tracker.follow(capture, (ENDS.source, ENDS.destination), ENDS.dest_qp, tracker.pattern(pattern), GROUP)
    tracker.attach(core)
    return track


def feed(core: Core, case: Case) -> None:
    core.read(pcap([case.sent[index].frame for index in case.arrivals]), lambda _name: "cap0")


def check_bytes(case: Case, memory: Memory, tracker: Tracker) -> int:
    """Every byte lies where it was sent to or nowhere. How many packets came and do not lie."""
    slots = case.pattern.slots
    came = {index for index in case.arrivals if case.sent[index].data and slots[case.sent[index].slot].reduced}
    absent = 0
    right = [(bytearray(b"\xee" * memory.size), bytearray(len(present))) for _, present in memory.buffers]
    for index, packet in enumerate(case.sent):
        if packet.iteration < 0 or not packet.data:
            continue
        data, present = right[packet.iteration]
        lies = bit(memory.buffers[packet.iteration][1], packet.unit)
        assert not lies or index in came
        absent += index in came and not lies
        if lies:
            data[packet.data_at : packet.data_at + len(packet.data)] = packet.data
            present[packet.unit >> 3] |= 1 << (packet.unit & 7)
        read = tracker.read(GROUP, packet.iteration, packet.data_at, packet.data_at + len(packet.data))
        assert read == (packet.data if lies else None)
    assert [present for _, present in right] == [present for _, present in memory.buffers]
    return absent


def check_sums(case: Case, count: TrackCount) -> None:
    assert count.packets == sum(count.places.values()) == len(case.arrivals)
    assert sum(count.lays.values()) == count.places["placed"] + count.places["repeated"]


@settings(max_examples=150)
@given(cases(foreign=False))
def test_every_packet_is_placed_by_its_psn_or_named(case: Case) -> None:
    with Tracker() as tracker, Core() as core:
        track = set_up(core, tracker, case.pattern)
        memory = Memory(case)
        memory.lend(tracker)
        tracker.anchor(track, case.first_position, 0, case.iterations)
        feed(core, case)
        absent = check_bytes(case, memory, tracker)
        count = tracker.count(track)
        check_sums(case, count)
        distinct = set(case.arrivals)
        assert count.places["placed"] == len(distinct)
        assert count.places["repeated"] == len(case.arrivals) - len(distinct)
        assert absent <= count.lays["unconfirmed"]
        assert not tracker.findings()[0]
        rows = {row.iteration: row.distinct for row in tracker.iterations(track)}
        for number in range(case.iterations):
            assert rows.get(number, 0) == len({index for index in distinct if case.sent[index].iteration == number})
        memory.take_back(tracker)


@settings(max_examples=150)
@given(cases(foreign=True))
def test_anchors_of_the_caller_keep_foreign_messages_out(case: Case) -> None:
    """With the anchor of each iteration given, every packet that came lies, and each foreign one is outside."""
    with Tracker() as tracker, Core() as core:
        track = set_up(core, tracker, case.pattern)
        memory = Memory(case)
        memory.lend(tracker)
        shift = case.first_position - case.sent[0].position
        begins = {packet.iteration: packet.position for packet in reversed(case.sent) if packet.iteration >= 0}
        for number in range(case.iterations):
            tracker.anchor(track, begins[number] + shift, number, 1)
        feed(core, case)
        absent = check_bytes(case, memory, tracker)
        count = tracker.count(track)
        check_sums(case, count)
        assert count.places["outside"] == sum(case.sent[index].iteration < 0 for index in case.arrivals)
        assert absent <= count.lays["unconfirmed"]
        assert not tracker.findings()[0]
        memory.take_back(tracker)


@settings(max_examples=300)
@given(cases(foreign=True))
def test_a_lost_step_never_lays_a_wrong_byte(case: Case) -> None:
    """One anchor only: what lies is right, what does not lie is counted, and the loss of step is a finding."""
    with Tracker() as tracker, Core() as core:
        pattern = Pattern(case.pattern.slots, MTU, Protocol.SIMPLE, search=True)
        track = set_up(core, tracker, pattern)
        memory = Memory(case)
        memory.lend(tracker)
        tracker.anchor(track, case.first_position, 0)
        feed(core, case)
        count = tracker.count(track)
        check_sums(case, count)
        if count.unconfirmed == 0:
            check_bytes(case, memory, tracker)
        counted = tracker.findings()[1]
        waits = count.places["waiting"] > 0
        assert not waits or counted[FindingKind.STEP_LOST] > 0
        memory.take_back(tracker)


def test_packets_of_queue_pairs_that_nobody_follows_are_counted():
    pattern = Pattern(slots_of([700, 700]), MTU, Protocol.SIMPLE)
    other = FrameMaker(replace(ENDS, dest_qp=0x78))
    with Tracker() as tracker, Core() as core:
        set_up(core, tracker, pattern)
        for maker, followed in ((FrameMaker(ENDS), True), (other, False)):
            packets = iteration_packets(maker, pattern, 0, 0, bytes(1400))
            core.read(pcap([each.frame for each in packets]), lambda _name: "cap0")
            assert tracker.unfollowed == (0 if followed else len(packets))
