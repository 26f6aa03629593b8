"""LL and LL128 through the C core: lines made by the synthesizer come back as the data they hold."""

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.ids import Address
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import FindingKind, Pattern, Slot, Tracker
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker
from flowcheck_net.receive.synth_payload import ll128_lines, ll_lines, wire_form
from tests.oracle.packet_stream import pcap, write_frames

ENDS = Endpoints(Address("fd00::1"), Address("fd00::2"), source_port=50_000, dest_qp=0x77)


def warp_words() -> dict[int, int]:
    """Word of the wire -> word of the data, by running the 32 threads of a warp as NCCL's ``prims_ll128.h`` does.

    ``regs`` are a thread's eight registers: loadRegsBegin, loadRegsFinish, then the store of recvReduceSendCopy.
    """
    wire = {}
    for wid in range(32):
        flag_thread = wid % 8 == 7
        regs: list[int | None] = [None] * 8
        for g in range(4):
            ix = g * 32 - 4 * (g // 2) + wid - (g % 2) * (wid // 8)
            if not flag_thread or g % 2 == 0:
                regs[2 * g], regs[2 * g + 1] = 2 * ix, 2 * ix + 1
        for g in (1, 3):
            if flag_thread:
                regs[2 * g] = regs[2 * g - 1]
        for u in (0, 2, 4, 6):
            at = 2 * wid + u * 32
            wire[at] = regs[u]
            if not flag_thread:
                wire[at + 1] = regs[u + 1]
    return {at: word for at, word in wire.items() if word is not None}


def test_ll128_is_what_a_warp_stores() -> None:
    words = warp_words()
    assert len(words) == 240
    assert set(words.values()) == set(range(240))
    # by hand, from the table in docs/design/0007-placement.md: lines have 16 words
    assert [words[16 * line] for line in range(10)] == [0, 16, 32, 48, 64, 78, 92, 106, 120, 136]
    assert [words[16 * line + 14] for line in range(8)] == [14, 30, 46, 62, 15, 31, 47, 63]
    data = random.Random(3).randbytes(2 * 1920 - 700)
    made = ll128_lines(data, 9)
    padded = data + bytes(700)
    assert len(made) == 4096
    for place in range(512):
        word = words.get(place % 256)
        at = place // 256 * 1920 + (word or 0) * 8
        assert made[8 * place : 8 * place + 8] == (b"\x09" + bytes(7) if word is None else padded[at : at + 8])


@dataclass(frozen=True)
class Message:
    """A message with its data, cut over queue pairs at ``cuts`` (wire bytes, 0 and the whole included)."""

    data: bytes
    cuts: tuple[int, ...]


@st.composite
def a_message(draw):
    protocol = draw(st.sampled_from(Protocol))
    data = random.Random(draw(st.integers(0, 99))).randbytes(draw(st.integers(1, 4500)))
    wire = {Protocol.LL: -(-len(data) // 8) * 16, Protocol.LL128: -(-len(data) // 1920) * 2048}.get(protocol, len(data))
    inner = draw(st.lists(st.integers(0, wire // 128), max_size=3))
    cuts = tuple(sorted({0, *(128 * cut for cut in inner), wire}))
    return protocol, Message(data, cuts), draw(st.sampled_from([256, 512, 1024, 4096])), draw(st.integers(0, 30))


@settings(max_examples=60)
@given(a_message(), st.randoms(use_true_random=False))
def test_lines_come_back_as_data(case, rng) -> None:
    protocol, message, mtu, lost_share = case
    flag = 0x1234
    wire = wire_form(protocol, message.data, flag, message.cuts[-1])
    lines = {Protocol.LL: ll_lines, Protocol.LL128: ll128_lines}.get(protocol)
    assert wire == (lines(message.data, flag) if lines else message.data)
    size = len(message.data)
    whole: list[bytes] = []
    lost: list[bytes] = []
    unit = 0
    with Tracker() as tracker, Core() as core:
        for number, (start, stop) in enumerate(zip(message.cuts, message.cuts[1:], strict=False)):
            ends = Endpoints(ENDS.source, ENDS.destination, ENDS.source_port, 0x77 + number)
            packets = -(-(stop - start) // mtu)
            slot = Slot(packets, stop - start, stop - start, 0, size, unit, reduced=True, wire_at=start)
            unit += packets
            pattern = tracker.pattern(Pattern((slot,), mtu, protocol, steps=1))
            capture = core.capture_number("cap0")
            track = tracker.follow(capture, (ends.source, ends.destination), ends.dest_qp, pattern, 0)
            tracker.anchor(track, 0, 0, 1)
            for frame in write_frames(FrameMaker(ends), wire[start:stop], 0, mtu):
                (lost if rng.randrange(100) < lost_share else whole).append(frame)
        data, present = bytearray(b"\xee" * size), bytearray(-(-unit // 64) * 8)
        tracker.lend(0, 0, data, present)
        tracker.attach(core)
        core.read(pcap(whole), lambda _name: "cap0")
        assert not tracker.findings()[0]
        wrong = [at for at in range(size) if data[at] not in (message.data[at], 0xEE)]
        assert not wrong
        for _ in range(20):
            start = rng.randrange(size)
            stop = rng.randrange(start, size) + 1
            read = tracker.read(0, 0, start, stop)
            assert read is None or read == message.data[start:stop]
            assert read is not None or lost
        if not lost:
            assert tracker.read(0, 0, 0, size) == bytes(data) == message.data
        core.read(pcap(lost), lambda _name: "cap0")
        assert tracker.read(0, 0, 0, size) == message.data
        assert tracker.findings()[1][FindingKind.PAYLOAD_DIFFERS] == 0
        tracker.take_back(0, 0)
