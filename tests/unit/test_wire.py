"""Messages and packets of a hop against values from real captures and against arithmetic written out.

Captures: FlowCheck's test packages (samples/captures), NCCL up to 2.19, LL, 512 threads, two ranks; RETH lengths as
tshark prints them. The examples of regime C are those of domain/nccl-wire.md section 4.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flowcheck_net.model.job import Broadcast, Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import (
    HopTotals,
    Totals,
    WireMessage,
    broadcast_wire_sizes,
    hop_messages,
    hop_totals,
    psn_span,
)

MIB = 2**20


def a_wire(
    *sizes: tuple[int, str],
    version: tuple[int, int, int] = (2, 19, 3),
    protocol: str = "LL",
    channels: int = 1,
    mtu: int = 1024,
) -> Wire:
    nccl = Nccl(
        version=version,
        protocol=Protocol(protocol),
        channels=channels,
        threads=512,
        extra_step=False,
        qps_per_connection=1,
        split_data_on_qps=False,
        adaptive_routing=False,
        adaptive_routing_threshold=8192,
    )
    buckets = tuple(Bucket(f"b{i}", elements, Dtype(dtype)) for i, (elements, dtype) in enumerate(sizes))
    return Wire(nccl, mtu, buckets, ())


def with_nccl(wire: Wire, **changes: object) -> Wire:
    return replace(wire, nccl=replace(wire.nccl, **changes))  # type: ignore[arg-type]


def lengths(messages: Sequence[WireMessage]) -> list[int]:
    return [m.wire_bytes for m in messages]


def all_channels(wire: Wire, ring_size: int, hop: int) -> HopTotals:
    messages = [m for c in range(wire.nccl.channels) for m in hop_messages(wire, ring_size, c, hop)]
    return hop_totals(messages)


class TestCaptures:
    def test_iter_80000_10_000_elements_one_channel(self) -> None:
        wire = a_wire((10_000, "fp32"))
        partial, reduced = hop_messages(wire, 2, 0, 0)
        # frames 336 and 378: QP 0x514, PSN 81-119 and 120-159
        assert (partial.wire_bytes, partial.packets) == (39_040, 39)
        assert (reduced.wire_bytes, reduced.packets) == (40_960, 40)
        # chunk 1 is the second half: 10 000 - 5 120 = 4 880 elements = 19 520 B, doubled by flags
        assert (partial.chunk, partial.data_offset, partial.data_bytes) == (1, 5_120 * 4, 19_520)
        assert (partial.reduced, partial.contributions) == (False, 1)
        assert (reduced.chunk, reduced.data_offset, reduced.data_bytes) == (0, 0, 20_480)
        assert (reduced.reduced, reduced.contributions) == (True, 2)
        # frames 295 and 388: QP 0xc99, the other hop
        assert lengths(hop_messages(wire, 2, 0, 1)) == [40_960, 39_040]

    @pytest.mark.parametrize(("mtu", "packets"), [(1024, [16, 24]), (4096, [4, 6])])
    def test_iter_40000_5_000_elements_one_channel(self, mtu: int, packets: list[int]) -> None:
        messages = hop_messages(a_wire((5_000, "fp32"), mtu=mtu), 2, 0, 0)
        assert lengths(messages) == [15_424, 24_576]
        assert [m.packets for m in messages] == packets

    def test_allreduce_p2p_two_channels_with_an_empty_chunk(self) -> None:
        wire = a_wire((5_000, "fp32"), channels=2)
        assert lengths(hop_messages(wire, 2, 0, 0)) == [7_232, 16_384]
        assert lengths(hop_messages(wire, 2, 0, 1)) == [16_384, 7_232]
        empty, full = hop_messages(wire, 2, 1, 0)
        assert (empty.wire_bytes, empty.packets, empty.data_bytes) == (0, 1, 0)
        assert (full.wire_bytes, full.packets) == (16_384, 16)
        assert lengths(hop_messages(wire, 2, 1, 1)) == [16_384, 0]

    def test_allreduce_addstep_sends_one_chunk_more(self) -> None:
        wire = with_nccl(a_wire((5_000, "fp32"), channels=2), extra_step=True)
        assert lengths(hop_messages(wire, 2, 0, 0)) == [7_232, 16_384, 7_232]
        assert lengths(hop_messages(wire, 2, 0, 1)) == [16_384, 7_232, 16_384]
        assert lengths(hop_messages(wire, 2, 1, 0)) == [0, 16_384, 0]
        assert lengths(hop_messages(wire, 2, 1, 1)) == [16_384, 0, 16_384]
        assert [m.reduced for m in hop_messages(wire, 2, 0, 0)] == [False, True, True]

    def test_broadcasts_of_iter_80000_and_iter_40000(self) -> None:
        wire = a_wire((5_000, "fp32"))
        assert broadcast_wire_sizes(wire, Broadcast(40_000)) == (65_536, 14_464)
        assert broadcast_wire_sizes(wire, Broadcast(20_000)) == (40_000,)
        assert broadcast_wire_sizes(wire, Broadcast(8)) == (16,)
        assert broadcast_wire_sizes(wire, Broadcast(32)) == (64,)


class TestRegimeC:
    def test_25_mib_simple(self) -> None:
        totals = all_channels(a_wire((25 * MIB // 4, "fp32"), version=(2, 23, 4), protocol="Simple", mtu=4096), 8, 0)
        assert totals.total.messages == 56  # 2 loops x 14 chunks x 2 slices
        assert (totals.total.packets, totals.reduced.packets) == (11_200, 5_600)

    def test_25_mib_ll(self) -> None:
        totals = all_channels(a_wire((25 * MIB // 4, "fp32"), version=(2, 23, 4)), 8, 0)
        assert totals.total.messages == 1_400  # 100 loops x 14
        assert (totals.total.packets, totals.reduced.packets) == (89_600, 44_800)

    def test_25_mib_ll128(self) -> None:
        totals = all_channels(a_wire((25 * MIB // 4, "fp32"), version=(2, 23, 4), protocol="LL128", mtu=4096), 8, 0)
        assert (totals.total.packets, totals.reduced.packets) == (11_956, 5_978)

    @pytest.mark.parametrize(
        ("size", "ring_size", "packets", "reduced"),
        [((40_000_000, "bf16"), 16, 37_320, 18_660), ((40_000_000, "fp32"), 64, 80_388, 40_194)],
    )
    def test_16_channels_of_2_29(self, size: tuple[int, str], ring_size: int, packets: int, reduced: int) -> None:
        wire = a_wire(size, version=(2, 29, 2), protocol="Simple", channels=16, mtu=4096)
        totals = all_channels(wire, ring_size, 0)
        assert (totals.total.packets, totals.reduced.packets) == (packets, reduced)

    def test_16_channels_of_2_23_deal_smaller_cells(self) -> None:
        # 80 MB in cells of 8 192 B: 9 766 cells, ceil(9 766 / 16) = 611 for 15 channels, the rest for the last.
        # 611 cells = 2 502 656 elements, chunk ceil(/16) = 156 416, slice 78 208 = 156 416 B = 39 packets;
        # last channel 40 000 000 - 15 x 2 502 656 = 2 460 160, chunk 153 760, slice 153 760 B = 38 packets.
        wire = a_wire((40_000_000, "bf16"), version=(2, 23, 4), protocol="Simple", channels=16, mtu=4096)
        assert all_channels(wire, 16, 0).total.packets == 15 * 30 * 2 * 39 + 30 * 2 * 38

    def test_a_small_bucket_leaves_channels_idle(self) -> None:
        # 16 KiB of traffic a channel at least, 2 bytes of traffic a byte: 20 000 B is 3 cells of 8 192 B
        wire = a_wire((5_000, "fp32"), version=(2, 23, 4), protocol="Simple", channels=8)
        used = [bool(hop_messages(wire, 2, c, 0)) for c in range(8)]
        assert used == [True, True, True] + [False] * 5
        assert hop_totals(hop_messages(wire, 2, 7, 0)).psn_span == ()

    def test_a_broadcast_is_dealt_in_cells_of_its_own_size(self) -> None:
        # A broadcast moves each byte once, so 16 KiB of traffic is a cell of 16 384 B: 20 000 B is two of them
        wire = a_wire((1, "fp32"), version=(2, 23, 4), protocol="Simple", channels=8)
        sent = [broadcast_wire_sizes(wire, Broadcast(20_000), c) for c in range(8)]
        assert sent == [(16_384,), (3_616,), (), (), (), (), (), ()]


class TestRegimeB:
    def test_share_and_last_chunk_are_aligned_by_protocol(self) -> None:
        # Simple, 2 channels: 20 000 B -> 10 000 B a channel, rounded up to 4 096 B: 12 288 and 7 712.
        # Channel 0: half of 12 288 = 6 144 -> 8 192, so chunks of 8 192 and 4 096 B; channel 1: 3 856 -> 4 096, 3 616.
        wire = a_wire((5_000, "fp32"), version=(2, 20, 5), protocol="Simple", channels=2)
        by_chunk: dict[tuple[int, int], int] = {}
        for channel in (0, 1):
            for m in hop_messages(wire, 2, channel, 0):
                by_chunk[channel, m.chunk] = by_chunk.get((channel, m.chunk), 0) + m.data_bytes
        assert by_chunk == {(0, 1): 4_096, (0, 0): 8_192, (1, 1): 3_616, (1, 0): 4_096}

    def test_broadcast_is_dealt_over_channels(self) -> None:
        wire = a_wire((5_000, "fp32"), version=(2, 21, 5), channels=2)
        # LL: half of 20 000 = 10 000 -> multiple of 8 x 512 = 12 288; the rest 7 712
        assert broadcast_wire_sizes(wire, Broadcast(20_000), 0) == (24_576,)
        assert broadcast_wire_sizes(wire, Broadcast(20_000), 1) == (15_424,)


@pytest.mark.parametrize("version", [(2, 19, 3), (2, 20, 5), (2, 22, 3), (2, 29, 2)])
@pytest.mark.parametrize(("protocol", "factor"), [("LL", 2), ("LL128", 2048 / 1920), ("Simple", 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_broadcast_sends_every_byte_once(
    version: tuple[int, int, int], protocol: str, factor: float, channels: int
) -> None:
    size = 3_000_000
    wire = a_wire((1, "fp32"), version=version, protocol=protocol, channels=channels)
    sent = sum(sum(broadcast_wire_sizes(wire, Broadcast(size), c)) for c in range(channels))
    assert size * factor <= sent <= size * factor + 2048 * 6 * channels


class TestSlices:
    def test_a_full_simple_chunk_is_two_mebibytes(self) -> None:
        first, second = hop_messages(a_wire((MIB, "fp32"), version=(2, 22, 3), protocol="Simple"), 2, 0, 0)[:2]
        assert (first.slice, first.wire_bytes, second.slice, second.wire_bytes) == (0, MIB, 1, MIB)

    def test_the_second_slice_of_a_small_chunk_is_sent_empty(self) -> None:
        # 1 000 elements, N = 2: chunks of 500; a slice is 1 MiB / 4 / 32 = 8 192 elements at the least
        messages = hop_messages(a_wire((1_000, "fp32"), version=(2, 22, 3), protocol="Simple"), 2, 0, 0)
        assert lengths(messages) == [2_000, 0, 2_000, 0]
        assert [m.packets for m in messages] == [2, 1, 2, 1]
        assert [m.data_offset for m in messages] == [2_000, 4_000, 0, 2_000]


class TestBuckets:
    def test_buckets_follow_one_another_in_their_order(self) -> None:
        wire = a_wire((5_000, "fp32"), (10_000, "fp32"))
        assert lengths(hop_messages(wire, 2, 0, 0)) == [15_424, 24_576, 39_040, 40_960]
        assert [m.bucket for m in hop_messages(wire, 2, 0, 0)] == [0, 0, 1, 1]

    def test_equal_hops_are_computed_once(self) -> None:
        wire = a_wire((5_000, "fp32"))
        assert hop_messages(a_wire((5_000, "fp32")), 2, 0, 1) is hop_messages(wire, 2, 0, 1)


class TestQueuePairs:
    def cut(self, version: tuple[int, int, int], count: int, *, split: bool) -> tuple[WireMessage, ...]:
        wire = a_wire((5_000, "fp32"), version=version, mtu=1024)
        wire = with_nccl(wire, qps_per_connection=count, split_data_on_qps=split)
        return hop_messages(wire, 2, 0, 0)

    def test_2_17_cuts_every_message_over_all(self) -> None:
        # 15 424 / 4 = 3 856 -> 3 968 (31 x 128): 3 x 3 968 + 3 520; 24 576 / 4 = 6 144 = 48 x 128
        messages = self.cut((2, 17, 1), 4, split=False)
        assert [(m.qp, m.wire_bytes) for m in messages[:4]] == [(0, 3_968), (1, 3_968), (2, 3_968), (3, 3_520)]
        assert [(m.qp, m.wire_bytes) for m in messages[4:]] == [(q, 6_144) for q in range(4)]
        assert [m.packets for m in messages] == [4, 4, 4, 4, 6, 6, 6, 6]
        assert psn_span(messages) == (10, 10, 10, 10)

    def test_before_2_13_pieces_are_not_aligned(self) -> None:
        assert [m.wire_bytes for m in self.cut((2, 10, 3), 4, split=True)[:4]] == [3_856] * 4
        assert [m.wire_bytes for m in self.cut((2, 10, 3), 3, split=True)[:3]] == [5_142, 5_142, 5_140]

    @pytest.mark.parametrize("version", [(2, 18, 6), (2, 19, 3)])
    def test_2_18_and_2_19_split_or_take_turns(self, version: tuple[int, int, int]) -> None:
        assert [m.qp for m in self.cut(version, 2, split=True)] == [0, 1, 0, 1]
        turns = self.cut(version, 2, split=False)
        assert [(m.qp, m.wire_bytes) for m in turns] == [(0, 15_424), (1, 24_576)]
        assert psn_span(turns) == (16, 24)

    def test_2_20_takes_turns_unless_told_to_split(self) -> None:
        assert [m.qp for m in self.cut((2, 20, 5), 2, split=False)] == [0, 1]
        assert [m.qp for m in self.cut((2, 20, 5), 2, split=True)] == [0, 1, 0, 1]

    def test_turns_go_on_over_slices_and_buckets(self) -> None:
        wire = with_nccl(
            a_wire((1_000, "fp32"), (1_000, "fp32"), version=(2, 22, 3), protocol="Simple"), qps_per_connection=3
        )
        assert [m.qp for m in hop_messages(wire, 2, 0, 0)] == [0, 1, 2, 0, 1, 2, 0, 1]

    def test_an_empty_piece_is_still_sent(self) -> None:
        # 16 elements, N = 2, LL: 1 chunk of 8 x 512 / 4 elements holds all 16 = 128 wire bytes: one aligned piece
        wire = with_nccl(a_wire((16, "fp32")), qps_per_connection=4, split_data_on_qps=True)
        reduced = [m for m in hop_messages(wire, 2, 0, 0) if m.reduced]
        assert [(m.qp, m.wire_bytes, m.packets) for m in reduced] == [(0, 128, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1)]

    @pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
    @pytest.mark.parametrize("count", [2, 3, 4, 7])
    @pytest.mark.parametrize("version", [(2, 10, 3), (2, 17, 1), (2, 28, 9)])
    def test_pieces_put_together_are_the_message(
        self, protocol: str, count: int, version: tuple[int, int, int]
    ) -> None:
        one = a_wire((100_003, "bf16"), version=version, protocol=protocol)
        many = with_nccl(one, qps_per_connection=count, split_data_on_qps=True)
        whole, cut = hop_messages(one, 3, 0, 1), hop_messages(many, 3, 0, 1)
        assert len(cut) == count * len(whole)
        for i, message in enumerate(whole):
            pieces = cut[i * count : (i + 1) * count]
            assert sum(p.wire_bytes for p in pieces) == message.wire_bytes
            assert sum(p.data_bytes for p in pieces) == message.data_bytes
            offset = message.data_offset
            for piece in pieces:
                assert piece.data_offset == offset
                offset += piece.data_bytes
            assert {p.chunk for p in pieces} == {message.chunk}

    def test_data_of_an_ll128_piece_is_fifteen_sixteenths_of_it(self) -> None:
        # 3 840 fp32 over two ranks: chunks of 7 680 B = 4 x 1 920, 8 192 wire bytes, half on each queue pair
        wire = a_wire((3_840, "fp32"), version=(2, 22, 3), protocol="LL128")
        messages = hop_messages(with_nccl(wire, qps_per_connection=2, split_data_on_qps=True), 2, 0, 0)
        assert [(m.wire_bytes, m.data_bytes) for m in messages] == [(4_096, 3_840)] * 4

    def test_data_of_an_ll_piece_is_half_of_it(self) -> None:
        messages = self.cut((2, 17, 1), 4, split=True)
        assert [m.data_bytes for m in messages[:4]] == [1_984, 1_984, 1_984, 1_760]


class TestAdaptiveRouting:
    def test_large_messages_are_closed_by_an_empty_write(self) -> None:
        wire = with_nccl(a_wire((5_000, "fp32"), channels=2), adaptive_routing=True)
        small, large, closing = hop_messages(wire, 2, 0, 0)
        assert (small.wire_bytes, small.closes) == (7_232, False)  # not over 8 192
        assert (large.wire_bytes, large.packets, large.closes) == (16_384, 16, False)
        assert (closing.wire_bytes, closing.packets, closing.data_bytes, closing.closes) == (0, 1, 0, True)
        assert (closing.chunk, closing.reduced, closing.qp) == (large.chunk, True, large.qp)
        assert psn_span([small, large, closing]) == (8 + 16 + 1,)

    def test_a_message_of_the_threshold_is_not_large(self) -> None:
        wire = with_nccl(a_wire((5_000, "fp32")), adaptive_routing=True, adaptive_routing_threshold=15_424)
        assert [m.closes for m in hop_messages(wire, 2, 0, 0)] == [False, False, True]

    def test_every_queue_pair_gets_its_own_closing_write(self) -> None:
        wire = with_nccl(
            a_wire((5_000, "fp32"), version=(2, 17, 1)),
            adaptive_routing=True,
            qps_per_connection=2,
            split_data_on_qps=True,
        )
        messages = hop_messages(wire, 2, 0, 0)
        assert [(m.qp, m.closes) for m in messages] == [(0, False), (0, True), (1, False), (1, True)] * 2


def test_totals_split_partial_and_reduced() -> None:
    totals = hop_totals(hop_messages(a_wire((10_000, "fp32")), 2, 0, 0))
    assert totals.partial == Totals(messages=1, packets=39, wire_bytes=39_040, data_bytes=19_520)
    assert totals.reduced == Totals(messages=1, packets=40, wire_bytes=40_960, data_bytes=20_480)
    assert totals.total == Totals(messages=2, packets=79, wire_bytes=80_000, data_bytes=40_000)
    assert totals.psn_span == (79,)
