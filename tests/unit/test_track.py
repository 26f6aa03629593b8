"""Placement against a model of ten lines: loss, repetition, disorder and wrap never shift what follows."""

import random
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.ids import Address
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import Pattern, Slot, Tracker
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker, reth

PSNS = 1 << 24
ENDS = Endpoints(Address("10.0.0.1"), Address("10.0.0.2"), source_port=50_000, dest_qp=0x77)
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = 6, 7, 8, 9, 10, 11


def pcap(frames: list[bytes]) -> bytes:
    """A capture file of whole frames, a microsecond apart."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    rows = (struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame for number, frame in enumerate(frames))
    return head + b"".join(rows)


@dataclass(frozen=True)
class Sent:
    """One packet as the sender sent it."""

    position: int
    iteration: int
    slot: int
    unit: int
    data_at: int
    data: bytes
    frame: bytes


def slots_of(sizes: list[int], mtu: int) -> tuple[Slot, ...]:
    """Simple messages one behind another in the buffer; every second one is reduced."""
    made, at, unit = [], 0, 0
    for number, size in enumerate(sizes):
        packets = max(1, -(-size // mtu))
        made.append(Slot(packets, size, size, at, size, unit, reduced=number % 2 == 1, step=number))
        at += size
        unit += packets
    return tuple(made)


def sent_iteration(maker: FrameMaker, pattern: Pattern, start: int, iteration: int, data: bytes) -> list[Sent]:
    """All packets of an iteration, made from the slots and nothing else."""
    packets: list[Sent] = []
    position = start
    for number, slot in enumerate(pattern.slots):
        body = data[slot.data_at : slot.data_at + slot.bytes]
        for packet in range(slot.packets):
            piece = body[packet * pattern.mtu : (packet + 1) * pattern.mtu]
            first, last = packet == 0, packet + 1 == slot.packets
            opcode = {(1, 0): FIRST, (0, 0): MIDDLE, (0, 1): LAST_IMM, (1, 1): ONLY_IMM}[first, last]
            extension = reth(0x7000_0000, 1, slot.bytes) if first else b""
            extension += slot.bytes.to_bytes(4, "little") if last else b""
            frame = maker.frame(opcode, position % PSNS, extension, piece, ack=last)
            at = slot.data_at + packet * pattern.mtu
            packets.append(Sent(position, iteration, number, slot.unit + packet, at, piece, frame))
            position += 1
    return packets


@dataclass(frozen=True)
class Run:
    """What is set up for a test."""

    tracker: Tracker
    core: Core
    track: int

    def feed(self, frames: list[bytes]) -> None:
        self.core.read(pcap(frames), lambda _name: "cap0")


@pytest.fixture
def bench(request):
    """Makes a tracker with one track; closes all at the end."""
    opened = []

    def make(pattern: Pattern) -> Run:
        core, tracker = Core(), Tracker()
        opened.append((core, tracker))
        return set_up(core, tracker, pattern)

    yield make
    for core, tracker in opened:
        core.__exit__()
        tracker.__exit__()


def set_up(core: Core, tracker: Tracker, pattern: Pattern) -> Run:
    number = tracker.pattern(pattern)
    track = tracker.follow(core.capture_number("cap0"), ("10.0.0.1", "10.0.0.2"), ENDS.dest_qp, number, group=5)
    tracker.attach(core)
    return Run(tracker, core, track)


def bit(present: bytearray, unit: int) -> bool:
    return bool(present[unit >> 3] >> (unit & 7) & 1)


@st.composite
def disturbed(draw):
    """Sizes, first PSN, iterations, and the order in which packets arrive: indices, some missing, some twice."""
    sizes = draw(st.lists(st.integers(0, 1_500), min_size=2, max_size=6).filter(lambda sizes: any(sizes[1::2])))
    iterations = draw(st.integers(1, 12))
    packets = iterations * sum(max(1, -(-size // 256)) for size in sizes)
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    loss, repeat, reach = (
        draw(st.sampled_from([0, 0.02, 0.3])),
        draw(st.sampled_from([0, 0.1])),
        draw(st.integers(0, 4)),
    )
    arrivals = [index for index in range(packets) if rng.random() >= loss]
    arrivals += [index for index in arrivals if rng.random() < repeat]
    arrivals.sort(key=lambda index: index + rng.uniform(0, reach))
    start = draw(st.sampled_from([0, 5, PSNS - 3, PSNS - 40]))
    return sizes, iterations, start, arrivals


@settings(max_examples=150, deadline=None)
@given(disturbed())
def test_every_packet_is_placed_by_its_psn_or_named(case):
    sizes, iterations, start, arrivals = case
    pattern = Pattern(slots_of(sizes, 256), 256, Protocol.SIMPLE)
    size, units = sum(sizes), sum(slot.packets for slot in pattern.slots)
    maker, rng = FrameMaker(ENDS), random.Random(1)
    datas = [rng.randbytes(size) for _ in range(iterations)]
    sent = [
        packet
        for number, data in enumerate(datas)
        for packet in sent_iteration(maker, pattern, start + number * units, number, data)
    ]
    with Tracker() as tracker, Core() as core:
        run = set_up(core, tracker, pattern)
        memory = [(bytearray(b"\xee" * size), bytearray(-(-units // 64) * 8)) for _ in datas]
        for number, (data, present) in enumerate(memory):
            tracker.lend(5, number, data, present)
        # The first PSN of a flow is its position, so a wrap before it would be a negative one.
        first = sent[arrivals[0]].position % PSNS if arrivals else start
        shift = first - sent[arrivals[0]].position if arrivals else 0
        tracker.anchor(run.track, start + shift, 0, iterations)
        run.feed([sent[index].frame for index in arrivals])

        # The model: a packet that came is where it was sent; nothing else is anywhere.
        came = {index for index in arrivals if pattern.slots[sent[index].slot].reduced and sent[index].data}
        absent = 0
        for index, packet in enumerate(sent):
            data, present = memory[packet.iteration]
            lies = bytes(data[packet.data_at : packet.data_at + len(packet.data)])
            if bit(present, packet.unit):
                assert index in came
                assert lies == packet.data
            else:
                absent += index in came
                assert lies == b"\xee" * len(lies)
            read = tracker.read(5, packet.iteration, packet.data_at, packet.data_at + len(packet.data))
            if packet.data:
                assert read == (packet.data if bit(present, packet.unit) else None)
        count = tracker.count(run.track)
        assert count.packets == sum(count.places.values()) == len(arrivals)
        assert sum(count.lays.values()) == count.places["placed"] + count.places["repeated"]
        assert count.places["placed"] == len(set(arrivals))
        assert count.places["repeated"] == len(arrivals) - len(set(arrivals))
        assert absent <= count.lays["unconfirmed"]
        assert count.lays["laid"] == len(came) - absent
        assert tracker.findings()[0] == ()
        rows = {row.iteration: row for row in tracker.iterations(run.track)}
        for number in range(iterations):
            distinct = len({index for index in arrivals if sent[index].iteration == number})
            assert (rows[number].distinct if number in rows else 0) == distinct
        for number in range(iterations):
            tracker.take_back(5, number)
