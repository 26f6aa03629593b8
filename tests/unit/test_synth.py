"""Synthesized traffic, read back by a naive reader and compared with arithmetic written out and with the report."""

import struct
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.errors import OutputError, PlanError
from flowcheck_net.ids import Address, Qpn
from flowcheck_net.intent import Direction, FlowFilter
from flowcheck_net.model.job import Broadcast, Protocol
from flowcheck_net.model.wire import hop_messages
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import (
    every_host_port,
    example,
    messages,
    of_flow,
    watching,
    with_nccl,
    written,
)


def test_two_ranks_as_in_the_real_captures(tmp_path: Path) -> None:
    """5 000 fp32 on one LL channel: 15 424 B in 16 packets, 24 576 B in 24; hop 1 the other way round (real files)."""
    packets, _ = written(example("two-host"), tmp_path, iterations=2)
    there = messages([p for p in packets if p.data and p.source == "10.0.0.1"])
    back = messages([p for p in packets if p.data and p.source == "10.0.0.2"])
    assert [(size, first) for size, _, _, first in there] == [(15424, 0), (24576, 16), (15424, 40), (24576, 56)]
    assert [(size, first) for size, _, _, first in back] == [(24576, 0), (15424, 24), (24576, 40), (15424, 64)]
    assert [immediate for _, immediate, _, _ in there[:2]] == [bytes.fromhex("403c0000"), bytes.fromhex("00600000")]
    for step, (_, _, payload, _) in enumerate(there):
        words = struct.unpack(f"<{len(payload) // 4}I", payload)
        assert set(words[1::2]) == {step + 1}


def test_answers_go_the_other_way(tmp_path: Path) -> None:
    """A tap on one direction of a host port sees the host's data, and its answers to what it receives."""
    plan = watching(example("two-host"), ("leaf1", "Ethernet1", Direction.RX))
    packets, report = written(plan, tmp_path, iterations=3)
    assert {p.source for p in packets} == {"10.0.0.1"}
    per_qp = {qp: Counter(p.opcode for p in packets if p.dest_qp == qp) for qp in {p.dest_qp for p in packets}}
    data_qp = next(p.dest_qp for p in packets if p.data)
    (other_qp,) = set(per_qp) - {data_qp}
    # two messages an iteration: first, middle, last; an ACK for each clear-to-send write that lets one of them go
    assert per_qp[data_qp] == {6: 6, 7: 3 * (14 + 22), 9: 6, 17: 6}
    # the same host lets two messages an iteration come, and acknowledges them
    assert per_qp[other_qp] == {10: 6, 17: 6}
    assert {p.length for p in packets if p.opcode == 10} == {32}
    for flow in report.flows:
        assert flow.opcodes == per_qp[flow.dest_qp]


def test_both_directions_of_a_link(tmp_path: Path) -> None:
    plan = watching(example("two-host"), ("leaf1", "Ethernet2", Direction.TX), ("leaf1", "Ethernet1", Direction.RX))
    packets, _ = written(plan, tmp_path, iterations=1)
    copies = Counter(p.frame for p in packets)
    assert set(copies.values()) == {2}, "one hop at two places: every packet twice, the same to the last byte"


def test_reduced_chunks_are_equal_on_all_hops(tmp_path: Path) -> None:
    plan = every_host_port(example("four-host"))
    packets, report = written(plan, tmp_path, iterations=1)
    seen: defaultdict[tuple[int, int, int], list[bytes]] = defaultdict(list)
    partial: set[bytes] = set()
    ring = plan.job.rings[0]
    for hop in range(ring.size):
        span = next(s for s in report.spans if s.hop == f"dp0/0/{hop}")
        flow = of_flow(packets, (span.source, span.destination, span.dest_qp))
        expected = hop_messages(plan.job.wire, ring.size, 0, hop)
        found = messages(flow)
        assert [m.wire_bytes for m in expected] == [size for size, _, _, _ in found]
        for message, (_, _, payload, _) in zip(expected, found, strict=True):
            if message.reduced:
                seen[message.bucket, message.data_offset, message.data_bytes].append(payload)
            elif payload:
                partial.add(payload)
    assert all(len(set(payloads)) == 1 for payloads in seen.values())
    assert {len(payloads) for key, payloads in seen.items() if key[2]} == {3}, "each chunk crosses N-1 hops"
    assert not partial & {payloads[0] for payloads in seen.values()}
    for (bucket, _, size), payloads in seen.items():
        if bucket == 1 and size:
            values = struct.unpack(f"<{size // 4}f", payloads[0])
            assert all(abs(value) < 1 for value in values)


def test_ll128_lines(tmp_path: Path) -> None:
    """Wire 2048 bytes for 1920: the last 8 bytes of each 128 hold the step; without them all hops agree."""
    packets, report = written(example("eight-host"), tmp_path, iterations=1)
    span = next(s for s in report.spans if any(f.dest_qp == s.dest_qp and f.opcodes.get(6) for f in report.flows))
    for step, (_, _, payload, _) in enumerate(
        messages(of_flow(packets, (span.source, span.destination, span.dest_qp)))
    ):
        assert len(payload) % 2048 == 0
        flags = {payload[at + 120 : at + 128] for at in range(0, len(payload), 128)}
        assert flags <= {(step + 1).to_bytes(8, "little")}


@pytest.mark.parametrize(
    ("version", "order", "clear_to_send"),
    [((2, 19, 3), "little", 32), ((2, 20, 5), "little", 64), ((2, 29, 2), "big", 64)],
)
def test_version_decides_immediate_and_clear_to_send(
    tmp_path: Path, version: tuple[int, int, int], order: str, clear_to_send: int
) -> None:
    plan = with_nccl(example("two-host"), version=version)
    packets, _ = written(plan, tmp_path, iterations=1)
    assert {p.length for p in packets if p.opcode == 10} == {clear_to_send}
    for packet in packets:
        if packet.opcode == 9:
            size = int.from_bytes(packet.immediate or b"", "little" if order == "little" else "big")
            assert size in {m.wire_bytes for hop in (0, 1) for m in hop_messages(plan.job.wire, 2, 0, hop)}


def test_psn_wraps(tmp_path: Path) -> None:
    packets, report = written(example("two-host"), tmp_path, iterations=1, start_psn=0xFFFFF0)
    flow = [p.psn for p in packets if p.data and p.source == "10.0.0.1"]
    assert flow == [(0xFFFFF0 + n) % 2**24 for n in range(40)]
    assert {s.first_psn for s in report.spans} == {0xFFFFF0}


def test_split_over_queue_pairs(tmp_path: Path) -> None:
    """Every message over both queue pairs: pieces of 128-byte multiples, each with an immediate of the whole size."""
    plan = with_nccl(example("two-host"), qps_per_connection=2, split_data_on_qps=True)
    packets, _ = written(plan, tmp_path, iterations=2)
    data = [p for p in packets if p.data and p.source == "10.0.0.1"]
    flows = sorted({p.key for p in data})
    assert len(flows) == 2
    pieces = [messages([p for p in data if p.key == key]) for key in flows]
    # 15 424 / 2 = 7 712, rounded up to 7 808; 24 576 / 2 = 12 288 = 96 * 128
    assert [[size for size, _, _, _ in one] for one in pieces] == [[7808, 12288] * 2, [7616, 12288] * 2]
    assert {immediate for _, immediate, _, _ in pieces[1]} == {bytes.fromhex("403c0000"), bytes.fromhex("00600000")}
    assert len({p.frame[34:36] for p in data}) == 2, "a source port for each queue pair"
    whole, _ = written(example("two-host"), tmp_path, iterations=2)
    unsplit = messages([p for p in whole if p.data and p.source == "10.0.0.1"])
    assert [a[2] + b[2] for a, b in zip(*pieces, strict=True)] == [payload for _, _, payload, _ in unsplit]


def test_turns_of_queue_pairs_go_on_over_iterations(tmp_path: Path) -> None:
    """Two messages an iteration on three queue pairs in turn: 0 1 | 2 0 | 1 2."""
    plan = with_nccl(example("two-host"), version=(2, 20, 5), qps_per_connection=3, split_data_on_qps=False)
    packets, _ = written(plan, tmp_path, iterations=3)
    order = [p.dest_qp for p in packets if p.opcode == 9 and p.source == "10.0.0.1"]
    first = order[0]
    assert order == [first, first + 1, first + 2] * 2


def test_adaptive_routing_form(tmp_path: Path) -> None:
    """Bulk without immediate, then a 0-byte write with the size of the whole."""
    plan = with_nccl(example("two-host"), adaptive_routing=True, adaptive_routing_threshold=20_000)
    packets, _ = written(plan, tmp_path, iterations=1)
    flow = [p for p in packets if p.opcode != 17 and p.opcode != 10 and p.source == "10.0.0.1"]
    assert Counter(p.opcode for p in flow) == {6: 2, 7: 36, 9: 1, 8: 1, 11: 1}
    assert flow[-1].length == 0
    assert flow[-1].immediate == bytes.fromhex("00600000")
    assert [p.psn for p in flow] == list(range(41))


def test_empty_chunks_and_named_queue_pairs(tmp_path: Path) -> None:
    """5 000 fp32 on two LL channels (real file allreduce+p2p): 7 232 and 16 384 B, and 0 and 16 384 B."""
    plan = every_host_port(with_nccl(example("two-host"), channels=2))
    ring = replace(plan.job.rings[0], qpns=((Qpn(0x836),), (Qpn(0x71D),)))
    second = replace(ring, channel=type(ring.channel)(1), qpns=((Qpn(0x838),), (Qpn(0x720),)))
    plan = replace(plan, job=replace(plan.job, rings=(ring, second)))
    packets, _ = written(plan, tmp_path, iterations=1)
    sizes = {qp: [m[0] for m in messages([p for p in packets if p.data and p.dest_qp == qp])] for qp in (0x836, 0x838)}
    assert sizes == {0x836: [7232, 16384], 0x838: [0, 16384]}
    empty = next(p for p in packets if p.dest_qp == 0x838 and p.data)
    assert (empty.opcode, empty.psn, empty.payload) == (11, 0, b"")
    reverse = {p.dest_qp for p in packets} - {0x836, 0x838, 0x71D, 0x720}
    assert len(reverse) == 2 or len(reverse) == 4


def test_broadcasts_come_first_and_not_into_the_root(tmp_path: Path) -> None:
    plan = example("two-host")
    wire = replace(plan.job.wire, broadcasts=(Broadcast(20_000),))
    packets, report = written(replace(plan, job=replace(plan.job, wire=wire)), tmp_path, iterations=1)
    from_root = messages([p for p in packets if p.data and p.source == "10.0.0.1"])
    assert [(size, first) for size, _, _, first in from_root] == [(40_000, 0), (15_424, 40), (24_576, 56)]
    into_root = messages([p for p in packets if p.data and p.source == "10.0.0.2"])
    assert [size for size, _, _, _ in into_root] == [24_576, 15_424]
    words = struct.unpack("<3856I", from_root[1][2])
    assert set(words[1::2]) == {2}, "the broadcast took step 1"
    assert [(s.iteration, s.first_psn, s.packets) for s in report.spans if s.source == "10.0.0.1"] == [
        (None, 0, 40),
        (0, 40, 40),
    ]


def test_filters_and_routes(tmp_path: Path) -> None:
    """A filter lets one address pair through; on a routed way the hop limit falls, and the ICRC stays."""
    plan = every_host_port(example("four-host"))
    one = FlowFilter(Address("10.0.1.1"), Address("10.0.1.2"))
    filtered = replace(
        plan, sessions=tuple(replace(s, session=replace(s.session, filters=(one,))) for s in plan.sessions)
    )
    packets, _ = written(filtered, tmp_path, iterations=1)
    assert {(p.source, p.destination) for p in packets} == {("10.0.1.1", "10.0.1.2")}
    both = every_host_port(example("eight-host"), Direction.TX)
    arriving, _ = written(both, tmp_path, iterations=1)
    leaving, _ = written(every_host_port(example("eight-host")), tmp_path, iterations=1)
    assert {p.hop_limit for p in leaving} == {64}
    assert len({p.hop_limit for p in arriving}) == 2, "under one leaf bridged, over the spine routed"
    assert Counter((p.key, p.psn, p.opcode, p.frame[-4:]) for p in arriving) == Counter(
        (p.key, p.psn, p.opcode, p.frame[-4:]) for p in leaving
    )


def test_plans_that_cannot_be_synthesized(tmp_path: Path) -> None:
    plan = example("two-host")
    with pytest.raises(PlanError, match="no mirror sessions"):
        written(replace(plan, sessions=()), tmp_path)
    with pytest.raises(PlanError, match="no link of host1:mlx5_0"):
        written(replace(plan, picture=replace(plan.picture, links=())), tmp_path)
    with pytest.raises(OutputError, match="No such file"):
        synthesize(plan, tmp_path / "nowhere" / "x.pcapng", iterations=1)


def test_protocol_names() -> None:
    """The examples cover the three wire protocols."""
    assert {example(n).job.wire.nccl.protocol for n in ("two-host", "four-host", "eight-host")} == set(Protocol)
