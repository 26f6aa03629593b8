"""The messages of a hop against GPUs that really run the ring (``ring_gpus``).

Wire bytes and packets are counted out line by line; the log of the GPUs must equal ``hop_messages``.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.model.job import Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import WireMessage, hop_messages, hop_totals
from tests.oracle.ring_gpus import Run, Sent, execute

VERSIONS = [
    (2, 8, 4),
    (2, 19, 3),
    (2, 20, 5),
    (2, 21, 5),
    (2, 22, 3),
    (2, 23, 4),
    (2, 25, 1),
    (2, 26, 2),
    (2, 28, 9),
    (2, 29, 2),
    (2, 30, 7),
]


def wire_bytes(protocol: str, data: int) -> int:
    if protocol == "LL":
        return sum(16 for _ in range(0, data, 8))
    if protocol == "LL128":
        return sum(2048 for _ in range(0, data, 1920))
    return data


def packet_count(length: int, mtu: int) -> int:
    return len(range(0, length, mtu)) or 1


def model_wire(run: Run) -> Wire:
    nccl = Nccl(
        version=run.version,
        protocol=Protocol(run.protocol),
        channels=run.channels,
        threads=run.threads,
        extra_step=run.extra_step,
        qps_per_connection=1,
        split_data_on_qps=False,
        adaptive_routing=False,
        adaptive_routing_threshold=8192,
    )
    return Wire(nccl, run.mtu, (Bucket("b", run.elements, Dtype(run.dtype)),), ())


def compare(run: Run) -> None:
    logs = execute(run)
    wire = model_wire(run)
    for channel in range(run.channels):
        for hop in range(run.ranks):
            expected = logs.get((channel, hop), [])
            messages = hop_messages(wire, run.ranks, channel, hop)
            assert [m.data_bytes for m in messages] == [s.count * run.size for s in expected]
            for message, sent in zip(messages, expected, strict=True):
                compare_message(run, message, sent)
            compare_totals(run, messages, expected)
    for hop in range(run.ranks):
        check_coverage(run, wire, hop)


def compare_message(run: Run, message: WireMessage, sent: Sent) -> None:
    length = wire_bytes(run.protocol, sent.count * run.size)
    assert message.wire_bytes == length
    assert message.packets == packet_count(length, run.mtu)
    assert (message.qp, message.closes, message.bucket) == (0, False, 0)
    if sent.count:
        assert message.data_offset == sent.start * run.size
        assert message.contributions == sent.contributions
        assert message.reduced == (sent.contributions == run.ranks)


def compare_totals(run: Run, messages: tuple[WireMessage, ...], expected: list[Sent]) -> None:
    totals = hop_totals(messages)
    packets = [packet_count(wire_bytes(run.protocol, s.count * run.size), run.mtu) for s in expected]
    assert totals.total.packets == sum(packets)
    assert totals.psn_span == ((sum(packets),) if packets else ())
    assert totals.partial.packets + totals.reduced.packets == totals.total.packets
    reduced = [s for s in expected if s.contributions == run.ranks]
    assert totals.reduced.data_bytes == sum(s.count for s in reduced) * run.size


def check_coverage(run: Run, wire: Wire, hop: int) -> None:
    """All channels: every byte fully reduced exactly once, but for chunk hop + 1 unless the extra step sends it."""
    seen = bytearray(run.elements)
    lacking = bytearray(run.elements)
    own = (hop + 1) % run.ranks
    for channel in range(run.channels):
        for m in hop_messages(wire, run.ranks, channel, hop):
            first, count = m.data_offset // run.size, m.data_bytes // run.size
            if m.reduced:
                assert not any(seen[first : first + count]), "a byte is sent twice"
                seen[first : first + count] = b"\1" * count
            if m.chunk == own and not m.reduced:
                assert m.contributions == run.ranks - 1, "only the receiver's own gradient is missing"
                lacking[first : first + count] = b"\1" * count
    if run.extra_step:
        assert all(seen)
    else:
        assert all(s != k for s, k in zip(seen, lacking, strict=True))


def threads_of(protocol: str) -> st.SearchStrategy[int]:
    choices = {"LL": [64, 96, 128, 256, 512], "LL128": [64, 160, 320, 512, 640], "Simple": [64, 128, 256, 512]}
    return st.sampled_from(choices[protocol])


@st.composite
def runs(draw: st.DrawFn) -> Run:
    protocol = draw(st.sampled_from(["LL", "LL128", "Simple"]))
    return Run(
        version=draw(st.sampled_from(VERSIONS)),
        protocol=protocol,
        channels=draw(st.integers(1, 5)),
        threads=draw(threads_of(protocol)),
        dtype=draw(st.sampled_from(["fp32", "bf16", "fp64"])),
        elements=draw(st.one_of(st.integers(1, 3000), st.integers(1, 60_000))),
        ranks=draw(st.integers(2, 6)),
        extra_step=draw(st.booleans()),
        mtu=draw(st.sampled_from([256, 1024, 4096])),
    )


@settings(max_examples=300)
@given(runs())
def test_messages_are_those_of_gpus_that_run_the_ring(run: Run) -> None:
    compare(run)


@pytest.mark.parametrize("version", [(2, 19, 3), (2, 21, 5), (2, 22, 3), (2, 28, 9), (2, 30, 7)], ids=str)
@pytest.mark.parametrize(
    ("protocol", "dtype", "channels", "ranks", "elements"),
    [
        ("LL", "fp32", 2, 3, 3 * 2 * 8192 * 2 + 777),  # two full loops and a rest
        ("LL", "fp64", 1, 2, 2 * 4096),  # one full loop and nothing more
        ("LL128", "bf16", 1, 2, 288_000 * 2 + 5000),
        ("LL128", "fp32", 2, 2, 144_000 * 4 + 1),
        ("Simple", "bf16", 1, 2, 2 * 1_048_576 + 100_001),
        ("Simple", "fp64", 2, 3, 6 * 262_144 + 31),
    ],
)
def test_large_buckets_take_several_loops(
    version: tuple[int, int, int], protocol: str, dtype: str, channels: int, ranks: int, elements: int
) -> None:
    threads = 640 if protocol == "LL128" else 512
    compare(Run(version, protocol, channels, threads, dtype, elements, ranks, extra_step=False, mtu=4096))


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_shares_of_nccl_2_22_are_right_where_cells_do_not_divide_evenly(channels: int) -> None:
    for elements in range(1, 4000, 61):
        compare(Run((2, 22, 3), "Simple", channels, 512, "fp32", elements, 2, extra_step=False))
