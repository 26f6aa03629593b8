"""Tree messages: by hand for the cases of NCCL's source, and against a second reading of its kernels."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.model.job import Bucket, BucketKind, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire_tree import TreeShape, edge_messages, tree_spans

DENSE = (BucketKind.DENSE,)
KIB = 1024


def nccl(version: tuple[int, int, int], protocol: str = "Simple", channels: int = 1, threads: int = 512) -> Nccl:
    return Nccl(version, Protocol(protocol), channels, threads, False, 1, False, False, 8192)


def sizes(settings_: Nccl, shape: TreeShape, size: int, channel: int = 0) -> list[int]:
    """Bytes of each message for ``size`` bytes of fp32."""
    return [span.count * 4 for span in tree_spans(settings_, shape, size // 4, 4, channel)]


class TestByHand:
    def test_simple_from_2_22_on_is_one_step_a_message(self) -> None:
        # 25 MiB on one channel: 50 chunks of 512 KiB
        assert sizes(nccl((2, 22, 3)), TreeShape(8, 8), 25 << 20) == [512 * KIB] * 50

    def test_two_channels_share_it(self) -> None:
        # 6 000 000 bytes, 2.22: cells of 16 bytes, 3 000 000 a channel: five chunks and the rest of 378 560
        for channel in (0, 1):
            found = sizes(nccl((2, 22, 3), channels=2), TreeShape(4, 4), 6_000_000, channel)
            assert found == [524_288] * 5 + [378_560]

    def test_simple_to_2_19_halves_the_chunk_for_the_depth(self) -> None:
        # 8 ranks on 8 hosts: depth 8/8 - 1 + log2 8 = 3. 4 MiB: 8 chunks of 512 K < 24, 16 of 256 K < 24, so 128 K
        # (not below in this step); then 32 >= 12 and 32 >= 3: 32 messages of 128 KiB
        assert sizes(nccl((2, 19, 3)), TreeShape(8, 8), 4 << 20) == [128 * KIB] * 32
        # 25 MiB: 50 chunks are enough for depth 3 (24)
        assert sizes(nccl((2, 19, 3)), TreeShape(8, 8), 25 << 20) == [512 * KIB] * 50

    def test_less_than_one_loop_to_2_19_is_rounded_up_by_threads(self) -> None:
        # 20 000 bytes = 5000 floats < 32 KiB chunk: unit (512 + 128 - 64) * 8 * 2 = 9216 floats, so all in one message
        assert sizes(nccl((2, 19, 3)), TreeShape(2, 2), 20_000) == [20_000]
        # on 2 channels: 5000 / (2 * 9216) rounds up to one unit: channel 0 has everything, channel 1 an empty message
        two = nccl((2, 19, 3), channels=2)
        assert [sizes(two, TreeShape(2, 2), 20_000, c) for c in (0, 1)] == [[20_000], [0]]

    def test_ll_has_chunks_of_32_kib(self) -> None:
        assert sizes(nccl((2, 22, 3), "LL"), TreeShape(4, 4), 80_000) == [32_768, 32_768, 14_464]

    def test_ll128_is_halved_for_small_sizes(self) -> None:
        # 4 ranks on 4 hosts: steps 1 + 2 + 0.1 = 3.1. 1 MiB: 1 chunk of 576 000 < 198, 3 of 288 000, then 144 000
        # is still over 131 072: 7 < 198, so 72 000; 14 < 49.6 and over 32 768: 36 000; 29 < 49.6: 18 000.
        # Rounded down to the grain of 1920: 17 280
        found = sizes(nccl((2, 22, 3), "LL128"), TreeShape(4, 4), 1 << 20)
        assert set(found[:-1]) == {17_280}
        assert sum(found) == 1 << 20

    def test_nvlstree_gives_each_head_a_chunk_of_every_loop(self) -> None:
        # 2 hosts, 8 heads, 8 MiB on one channel, 2.24: chunk 128 KiB; 8 MiB < 16 * 8 * 128 KiB: stays (not over
        # 131 072); 8 MiB >= 4 * 8 * 128 KiB = 4 MiB; so loops of 8 * 128 KiB: 8 loops, one chunk each
        for head in range(8):
            assert sizes(nccl((2, 24, 3)), TreeShape(16, 2, head, 8), 8 << 20) == [128 * KIB] * 8

    def test_nvlstree_deals_the_last_loop_evenly(self) -> None:
        # 4 heads, 1 000 000 bytes: chunk 128 KiB; below 4 * 4 * 128 KiB = 2 MiB: 64 KiB; not below 4 * 64 KiB; loops of
        # 256 KiB: three whole ones, the rest 213 568 in four parts of 53 392 (a multiple of 16)
        for head in range(4):
            found = sizes(nccl((2, 24, 3)), TreeShape(8, 2, head, 4), 1_000_000)
            assert found == [65_536] * 3 + [53_392]

    def test_up_and_down_are_alike_but_for_what_they_hold(self) -> None:
        wire = Wire(nccl((2, 22, 3)), 4096, (Bucket("b", 300_000, Dtype.FP32),), ())
        down = edge_messages(wire, TreeShape(4, 4), 0, 4, DENSE)
        up = edge_messages(wire, TreeShape(4, 4), 0, 3, DENSE)
        assert [(m.wire_bytes, m.packets, m.data_offset) for m in down] == [
            (524_288, 128, 0),
            (524_288, 128, 524_288),
            (151_424, 37, 1_048_576),
        ]
        assert [m.wire_bytes for m in up] == [m.wire_bytes for m in down]
        assert {(m.reduced, m.contributions) for m in down} == {(True, 4)}
        assert {(m.reduced, m.contributions) for m in up} == {(False, 3)}

    def test_other_buckets_are_not_on_it(self) -> None:
        buckets = (Bucket("b", 1000, Dtype.FP32), Bucket("x", 2000, Dtype.FP32, BucketKind.EXPERT))
        wire = Wire(nccl((2, 22, 3)), 4096, buckets, ())
        assert {m.bucket for m in edge_messages(wire, TreeShape(4, 4), 0, 4, (BucketKind.EXPERT,))} == {1}


@dataclass
class Case:
    nccl: Nccl
    shape: TreeShape
    elements: int
    dtype: Dtype


@st.composite
def cases(draw: st.DrawFn) -> Case:
    heads = draw(st.sampled_from((0, 0, 1, 2, 8)))
    version = draw(
        st.sampled_from(((2, 18, 3), (2, 19, 3), (2, 20, 5), (2, 21, 5), (2, 22, 3), (2, 24, 3), (2, 29, 2)))
    )
    protocol = "Simple" if heads else draw(st.sampled_from(("LL", "LL128", "Simple")))
    threads = draw(st.sampled_from((128, 256, 512)))
    hosts = draw(st.integers(2, 20))
    shape = TreeShape(hosts * max(1, heads) * draw(st.sampled_from((1, 2))), hosts, 0, heads)
    channels = draw(st.integers(1, 6))
    elements = draw(st.integers(1, 3_000_000))
    return Case(nccl(version, protocol, channels, threads), shape, elements, draw(st.sampled_from(Dtype)))


@settings(max_examples=300)
@given(cases())
def test_all_trees_together_carry_every_element_once(case: Case) -> None:
    """Every channel and every head: no hole, no overlap, whatever the version."""
    shapes = [
        TreeShape(case.shape.members, case.shape.hosts, head, case.shape.heads)
        for head in range(max(1, case.shape.heads))
    ]
    spans = sorted(
        (span.start, span.count)
        for shape in shapes
        for channel in range(case.nccl.channels)
        for span in tree_spans(case.nccl, shape, case.elements, case.dtype.size, channel)
        if span.count
    )
    at = 0
    for start, count in spans:
        assert start == at
        at += count
    assert at == case.elements


def kernel_messages(case: Case, bid: int) -> list[tuple[int, int]]:
    """(start, count) as v2.19.3's ``computeColl`` and ``runTreeSplit`` read, statement by statement, for Tree."""
    proto, size, nodes = case.nccl.protocol, case.dtype.size, case.shape.hosts
    n_bytes, n_channels = case.elements * size, case.nccl.channels
    step = {Protocol.LL: 524_288, Protocol.LL128: 4_915_200, Protocol.SIMPLE: 4_194_304}[proto] // 8
    chunk_size = step
    log2 = max(k for k in range(32) if 2**k <= nodes)
    if proto is Protocol.SIMPLE:
        depth = case.shape.members // nodes - 1 + log2
        while n_bytes // (n_channels * chunk_size) < depth * 8 and chunk_size > 131072:
            chunk_size //= 2
        while n_bytes // (n_channels * chunk_size) < depth * 4 and chunk_size > 65536:
            chunk_size //= 2
        while n_bytes // (n_channels * chunk_size) < depth and chunk_size > 32768:
            chunk_size //= 2
        chunk = chunk_size // size
        least = (case.nccl.threads + 4 * 32 - 2 * 32) * 8 * (8 // size)
    elif proto is Protocol.LL:
        chunk = step // 2 // size
        least = case.nccl.threads * (8 // size)
    else:
        ppn = case.shape.members / nodes
        steps = 1 + log2 + 0.1 * ppn
        while n_bytes // (n_channels * chunk_size) < steps * 64 / ppn and chunk_size > 131072:
            chunk_size //= 2
        while n_bytes // (n_channels * chunk_size) < steps * 16 / ppn and chunk_size > 32768:
            chunk_size //= 2
        chunk = chunk_size * 15 // (16 * size)
        least = case.nccl.threads * (60 // size) // 8
    loop = n_channels * chunk
    if loop > case.elements:
        chunk = -(-case.elements // (n_channels * least)) * least
    found, grid = [], 0
    while grid < case.elements:
        offset = grid + bid * chunk
        count = max(0, min(chunk, case.elements - offset))
        found.append((min(offset, case.elements), count))
        grid += loop
    return found


@settings(max_examples=200)
@given(cases())
def test_regime_a_is_what_the_kernel_does(case: Case) -> None:
    old = Case(
        Nccl((2, 19, 3), case.nccl.protocol, case.nccl.channels, case.nccl.threads, False, 1, False, False, 8192),
        TreeShape(case.shape.members, case.shape.hosts),
        case.elements,
        case.dtype,
    )
    for channel in range(old.nccl.channels):
        spans = tree_spans(old.nccl, old.shape, old.elements, old.dtype.size, channel)
        assert [(span.start, span.count) for span in spans] == kernel_messages(old, channel)


@pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
def test_messages_add_up_to_the_share_and_its_flags(protocol: str) -> None:
    wire = Wire(nccl((2, 24, 3), protocol), 4096, (Bucket("b", 1_000_000, Dtype.FP32),), ())
    messages = edge_messages(wire, TreeShape(8, 8), 0, 8, DENSE)
    assert sum(m.data_bytes for m in messages) == 4_000_000
    overhead = {"LL": 2.0, "LL128": 16 / 15, "Simple": 1.0}[protocol]
    assert sum(m.wire_bytes for m in messages) == pytest.approx(4_000_000 * overhead, rel=1e-3)
