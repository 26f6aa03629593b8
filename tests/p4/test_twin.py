"""The P4 twin by hand-computed cases."""

import pytest

from tests.doubles.p4_twin import Sent, Twin
from tests.doubles.p4_twin_frame import read_frame
from tests.doubles.p4_twin_tables import Entry, exact
from tests.p4.frames import ACK, FIRST, LAST, LAST_IMM, MIDDLE, ONLY_IMM, mapped, roce
from tests.p4.twins import IN, MONITOR, OUT, follow, forwarding, rule


def copied(twin: Twin, frame: bytes, port: int = IN) -> bool:
    return any(sent.port == MONITOR for sent in twin.receive(port, frame))


def test_frame_is_read_by_hand() -> None:
    frame = bytes.fromhex(
        "020000000002 020000000001 8100 0005 0800"  # one VLAN tag
        "4500 0034 0000 0000 40 11 0000 0a000001 0a000002"
        "c000 12b7 0020 0000"  # 0x12b7 = 4791
        "09 00 ffff 00 000011 80 00beef 00000008"  # last with immediate, QP 17, acknowledge bit, PSN 0xbeef
    )
    facts = read_frame(frame)
    assert facts is not None
    assert (facts.source, facts.destination) == (0xFFFF0A000001, 0xFFFF0A000002)
    assert (facts.udp_dst, facts.qp, facts.opcode, facts.psn) == (4791, 0x11, 9, 0xBEEF)
    assert facts.roce
    assert facts.ends_message


@pytest.mark.parametrize("tags", [(), ((0x8100, 5),), ((0x88A8, 7), (0x8100, 5))])
@pytest.mark.parametrize(("source", "destination"), [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_tags_and_both_address_families(tags: tuple[tuple[int, int], ...], source: str, destination: str) -> None:
    facts = read_frame(roce(77, source=source, destination=destination, tags=tags))
    assert facts is not None
    assert (facts.source, facts.destination, facts.psn) == (mapped(source), mapped(destination), 77)


def test_what_is_no_roce_packet() -> None:
    plain = roce(0)
    options = plain[:14] + b"\x46" + plain[15:]
    fragment = plain[:20] + b"\x00\x01" + plain[22:]
    cut = plain[:50]
    three_tags = roce(0, tags=((0x8100, 1), (0x8100, 2), (0x8100, 3)))
    for frame in (options, fragment, cut, three_tags, roce(0, udp_dst=4790)):
        facts = read_frame(frame)
        assert facts is not None
        assert not facts.roce
    assert read_frame(plain[:13]) is None


@pytest.mark.parametrize(
    ("opcode", "request_", "end"),
    [
        *((0, True, False), (6, True, False), (8, True, False), (9, True, True), (10, True, False), (11, True, True)),
        *((0x29, True, True), (0x2B, True, True), (0x26, True, False)),  # unreliable connection
        *(
            (12, False, False),
            (17, False, False),
            (0x81, False, False),
            (0x49, False, False),
        ),  # read, ACK, CNP, datagram
    ],
)
def test_opcodes(opcode: int, request_: bool, end: bool) -> None:
    facts = read_frame(roce(0, opcode))
    assert facts is not None
    assert (facts.request, facts.ends_message) == (request_, end)


def test_rx_and_tx_rules_make_a_copy_each() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN))
    twin.tables["fc.egress_acl"].entries.append(rule(OUT))
    frame = roce(1)
    assert sorted(twin.receive(IN, frame)) == [Sent(OUT, frame), Sent(MONITOR, frame), Sent(MONITOR, frame)]
    assert twin.receive(OUT, frame) == [Sent(IN, frame)]
    counts = {name: cells[5] for name, cells in twin.counters.items()}
    size = len(frame)
    assert counts == {
        "fc.ingress_copies": [1, size],
        "fc.egress_copies": [1, size],
        "fc.sent_copies": [2, 2 * size],
    }
    assert [e.packets for e in twin.tables["fc.ingress_acl"].entries] == [1]


def test_highest_priority_decides_and_addresses_filter() -> None:
    twin = forwarding()
    twin.clone_sessions[6] = [(4, 1)]
    pair = {"src": mapped("10.0.0.1"), "dst": mapped("10.0.0.2"), "udp_dst": 4791}
    twin.tables["fc.ingress_acl"].entries += [rule(IN, session=6), rule(IN, priority=9, **pair)]
    assert copied(twin, roce(0))
    assert not copied(twin, roce(0, source="10.0.0.9"))
    assert twin.counters["fc.sent_copies"] == {5: [1, len(roce(0))], 6: [1, len(roce(0))]}


def test_window_of_the_reduced_half_of_four_ranks() -> None:
    # N = 4, LL: period 2 * 3 * 1 = 6, reduced half 3..5; each message is First, Middle, Last with immediate
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=6, low=3, high=6))
    seen = [copied(twin, roce(psn, (FIRST, MIDDLE, LAST_IMM)[psn % 3])) for psn in range(36)]
    assert seen == ([False] * 9 + [True] * 9) * 2
    assert twin.follower.verdicts == {1: 18, 2: 18}
    assert not copied(twin, roce(5, ACK))


def test_a_lost_end_that_comes_again_counts_once() -> None:
    # single-packet messages, period 4, window [2, 4). PSN 1 is lost before the switch; 2, 3 come, then all from 1 again
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=4, low=2, high=4))
    order = [0, 2, 3, 1, 2, 3, 4, 5, 6]
    seen = [copied(twin, roce(psn, ONLY_IMM)) for psn in order]
    #        0     2 ahead 3 ahead 1      2     3     4      5      6
    assert seen == [False, True, True, False, True, True, False, False, True]
    assert twin.follower.verdicts == {1: 3, 2: 4, 3: 2}


def test_a_repeat_is_copied_and_not_counted() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=4, low=2, high=4))
    seen = [copied(twin, roce(psn, ONLY_IMM)) for psn in (0, 1, 0, 1, 2)]
    assert seen == [False, False, True, True, True]
    assert twin.follower.state[0].count == 3


def test_wrap_of_the_psn() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=3, low=2, high=3, anchor=0xFFFFFE))
    seen = [copied(twin, roce(psn, ONLY_IMM)) for psn in (0xFFFFFE, 0xFFFFFF, 0, 1, 2, 3)]
    assert seen == [False, False, True, False, False, True]


@pytest.mark.parametrize(("psn", "verdict"), [(16_383, 3), (16_384, 5), (0xFFFFFF - 16_383, 4), (0xFFFFFF - 16_384, 5)])
def test_how_far_is_lost(psn: int, verdict: int) -> None:
    twin = forwarding()
    twin.tables["fc.flows"].entries.append(follow(period=3, low=2, high=3))
    twin.receive(IN, roce(psn))
    assert twin.follower.verdicts == {verdict: 1}
    twin.receive(IN, roce(0))  # in order: trusted only if it never was lost
    assert twin.follower.verdicts == ({5: 2} if verdict == 5 else {verdict: 1, 2: 1})


def test_a_new_epoch_starts_again() -> None:
    twin = forwarding()
    twin.tables["fc.flows"].entries.append(follow(period=4, low=2, high=4, index=9))
    for psn in (0, 1, 40_000):
        twin.receive(IN, roce(psn, ONLY_IMM))
    assert twin.follower.verdicts == {9 * 8 + 2: 2, 9 * 8 + 5: 1}
    twin.tables["fc.flows"].entries[:] = [follow(period=4, low=2, high=4, index=9, epoch=2, anchor=None)]
    twin.receive(IN, roce(7, ONLY_IMM))
    assert twin.follower.verdicts[9 * 8 + 2] == 3
    assert (twin.follower.state[9].next_psn, twin.follower.state[9].count) == (8, 1)


def test_unfollowed_queue_pairs_are_copied_by_a_windowed_rule() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    assert copied(twin, roce(0, LAST))
    assert not copied(twin, roce(0, ACK))
    assert not copied(twin, roce(0, udp_dst=53))


def test_mirror_header_by_hand() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, point=3, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=2, low=1, high=2))
    twin.tables["fc.sessions"].entries.append(
        Entry(exact(session=5), "fc.describe", {"job_tag": 0xCAFEBABE, "session_number": 12})
    )
    header = {"dst_mac": 0x02AABBCCDDEE, "src_mac": 0x020000000099, "switch_id": 0x0102}
    twin.tables["fc.monitor_ports"].entries.append(Entry(exact(port=MONITOR), "fc.with_header", header))
    frames = [roce(0, ONLY_IMM), roce(1, ONLY_IMM), roce(1, ONLY_IMM)]
    copies = [s.frame for f in frames for s in twin.receive(IN, f, now=0x010203040506) if s.port == MONITOR]
    outer = "02aabbccddee 020000000099 88b5"
    inside = f"{outer} 01 01 0102 000c 0003 cafebabe 00000001 0001 010203040506"
    repeat = f"{outer} 01 04 0102 000c 0003 cafebabe 00000002 ffff 010203040506"
    assert copies == [bytes.fromhex(inside) + frames[1], bytes.fromhex(repeat) + frames[2]]


def test_losses_on_purpose() -> None:
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN))
    parts = {"index": 4, "first": 1, "number": 1}
    frame = roce(0)
    expected = {0: [], 1: [Sent(MONITOR, frame)], 2: [Sent(OUT, frame)]}
    for at, rest in expected.items():
        twin.loss_seen.clear()
        twin.tables["fc.loss"].entries[:] = [Entry(exact(qp=0x11), "fc.lose", {**parts, "at": at}, 1)]
        both = [Sent(OUT, frame), Sent(MONITOR, frame)]
        assert [sorted(twin.receive(IN, frame)) for _ in range(3)] == [both, rest, both]
    assert twin.counters["fc.lost"][4][0] == 3


SECOND = 1 << 20
"""A little more than a second, in microseconds: the tick of the clock by which a silence is known."""


def lives(*moments: tuple[int, list[int]], anchor: int = 0) -> tuple[list[bool], Twin]:
    """Single-packet messages of period 4, window [2, 4): which PSNs are copied, sent at moments in ticks."""
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=4, low=2, high=4, anchor=anchor))
    found = [
        any(s.port == MONITOR for s in twin.receive(IN, roce(psn % (1 << 24), ONLY_IMM), moment * SECOND))
        for moment, psns in moments
        for psn in psns
    ]
    return found, twin


def test_a_job_that_restarts_after_a_silence_begins_at_message_0() -> None:
    """Had it gone on from message 3, PSN 1 would be in the window of the old count and PSN 2 not."""
    seen, twin = lives((0, [0, 1, 2]), (1, [0, 1, 2, 3, 4]))
    assert seen == [False, False, True, False, False, True, True, False]
    assert twin.follower.verdicts == {1: 3, 2: 5}


@pytest.mark.parametrize("before", [[0, 1, 40_000], [0, 1, -40_000], [0, 5, 9]])
def test_it_does_so_from_wherever_the_queue_pair_was(before: list[int]) -> None:
    assert lives((0, before), (9, [0, 1, 2, 3, 4]))[0][len(before) :] == [False, False, True, True, False]


def test_its_first_packets_may_be_lost_before_the_switch() -> None:
    """1 and 2 come first, as repeats and in order of the old life; then the sender goes back to 0: all passes again."""
    seen, _ = lives((0, [0, 1]), (2, [1, 2, 0, 1, 2, 3, 4]))
    assert seen == [False, False, True, True, False, False, True, True, False]


def test_a_go_back_to_the_first_packet_at_once_is_no_restart() -> None:
    seen, twin = lives((0, [0, 1, 2, 0, 1, 2, 3]))
    assert seen == [False, False, True, True, True, True, True]
    assert twin.follower.state[0].count == 0


def test_a_go_back_to_the_first_packet_after_a_timeout_is_followed_as_a_restart() -> None:
    """The sender sends all of it again, so that the count is right; where it leaves some out, the rest is copied."""
    assert lives((0, [0, 1, 2]), (4, [0, 1, 2, 3, 4]))[0][3:] == [False, False, True, True, False]
    assert lives((0, [0, 1, 2]), (4, [0, 3, 4, 5]))[0][3:] == [False, True, True, True]


def test_the_wrap_of_the_psn_is_no_restart() -> None:
    """2^24 messages are whole periods here, so one is taken away before: the count at PSN 0 is then 3."""
    twin = forwarding()
    twin.tables["fc.ingress_acl"].entries.append(rule(IN, windowed=1))
    twin.tables["fc.flows"].entries.append(follow(period=4, low=2, high=4))
    twin.receive(IN, roce(0, ONLY_IMM))
    here = twin.follower.state[0]
    for lost_before in (False, True):
        here.next_psn, here.after, here.count = 0xFFFFFE, 0xFFFFFE, 1
        order = [0xFFFFFE, *([] if lost_before else [0xFFFFFF]), 0, 1]
        times = [0, *([] if lost_before else [0]), 0 if lost_before else 3 * SECOND, 3 * SECOND]
        for psn, now in zip(order, times, strict=True):
            twin.receive(IN, roce(psn, ONLY_IMM), now)
        assert (here.next_psn, here.count) == ((0xFFFFFF, 2) if lost_before else (2, 1))
