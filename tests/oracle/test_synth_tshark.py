"""Synthesized captures as tshark and scapy see them: two dissectors that know nothing of ours."""

import shutil
import subprocess
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import pytest

from flowcheck_net.model.wire import hop_messages
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_fault
from tests.doubles.synth_reading import example, with_nccl

FIELDS = (
    "frame.interface_name",
    "ip.src",
    "ipv6.src",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.reth.dmalen",
    "infiniband.immdt",
    "infiniband.bth.p_key",
    "ip.dst",
    "ipv6.dst",
)
TROUBLE = (
    "_ws.malformed || ip.checksum.status == 0 || !infiniband"
    # RoCEv2 cards send no UDP checksum over IPv6 either, as the real captures show
    ' || (_ws.expert && !(_ws.expert.message contains "Illegal checksum value (0)"))'
)
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def tshark(path: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-n", "-r", str(path), "-o", "ip.check_checksum:TRUE", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@needs_tshark
@pytest.mark.parametrize("name", ["two-host", "four-host", "eight-host"])
def test_every_packet_is_well_formed(name: str, tmp_path: Path) -> None:
    out = tmp_path / "m.pcapng"
    faults = [parse_fault("retransmit:hop=dp0/0/0,iteration=0,packet=5"), parse_fault("foreign:packets=40")]
    report = synthesize(example(name), out, iterations=2, faults=faults)
    assert tshark(out, "-Y", TROUBLE) == []
    fields = [argument for field in FIELDS for argument in ("-e", field)]
    rows = [line.split("|") for line in tshark(out, "-T", "fields", "-E", "separator=|", *fields)]
    assert len(rows) == report.packets
    seen = Counter((r[0], r[1] or r[2], r[9] or r[10], int(r[4], 16), int(r[3])) for r in rows)
    assert seen == {
        (flow.capture, flow.source, flow.destination, flow.dest_qp, opcode): count
        for flow in report.flows
        for opcode, count in flow.opcodes.items()
    }
    assert {r[8] for r in rows} == {"65535"}


@needs_tshark
@pytest.mark.parametrize("version", [(2, 19, 3), (2, 29, 2)])
def test_lengths_immediates_and_psns(version: tuple[int, int, int], tmp_path: Path) -> None:
    """Against the model's messages of each hop: RETH lengths, immediates, and PSNs without a hole."""
    plan = with_nccl(example("four-host"), version=version)
    out = tmp_path / "m.pcapng"
    report = synthesize(plan, out, iterations=2, start_psn=0xFFFFF0)
    fields = [argument for field in FIELDS for argument in ("-e", field)]
    wanted = "infiniband.bth.opcode <= 11 && infiniband.bth.opcode != 10"
    rows = [line.split("|") for line in tshark(out, "-Y", wanted, "-T", "fields", "-E", "separator=|", *fields)]
    flows: defaultdict[tuple[str, int], list[list[str]]] = defaultdict(list)
    for row in rows:
        flows[row[1], int(row[4], 16)].append(row)
    hops = {(str(span.source), span.dest_qp): int(span.hop.rsplit("/", 1)[1]) for span in report.spans}
    assert len(flows) == 3
    for key, packets in flows.items():
        expected = hop_messages(plan.job.wire, 4, 0, hops[key]) * 2
        assert [int(p[6]) for p in packets if p[6]] == [message.wire_bytes for message in expected]
        immediates = [bytes.fromhex(p[7].split(",")[0]) for p in packets if p[7]]
        sizes = [message.wire_bytes for message in expected]
        assert immediates == [size.to_bytes(4, "big" if version >= (2, 29, 2) else "little") for size in sizes]
        assert [int(p[5]) for p in packets] == [(0xFFFFF0 + n) % 2**24 for n in range(len(packets))]
        assert len(packets) == sum(message.packets for message in expected)


@needs_tshark
def test_tshark_reads_interfaces_and_times(tmp_path: Path) -> None:
    out = tmp_path / "m.pcapng"
    synthesize(example("two-host"), out, iterations=2)
    rows = [
        line.split("|")
        for line in tshark(
            out, "-T", "fields", "-E", "separator=|", "-e", "frame.interface_name", "-e", "frame.time_epoch"
        )
    ]
    assert {row[0] for row in rows} == {"ckpt1:cap0", "ckpt1:cap1"}
    times = [row[1] for row in rows]
    assert times == sorted(times)
    assert times[0].startswith("1767225600.00000")
    assert sum(time > "1767225600.5" for time in times) == len(times) // 2, (
        "the second iteration starts half a second later"
    )


@pytest.mark.parametrize("name", ["two-host", "eight-host"])
def test_scapy_computes_the_same_icrc(name: str, tmp_path: Path) -> None:
    """IPv4 and IPv6; every opcode, padding excluded (scapy keeps no pad count)."""
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    from scapy.utils import PcapNgReader

    out = tmp_path / "m.pcapng"
    synthesize(example(name), out, iterations=1)
    opcodes: Counter[int] = Counter()
    with PcapNgReader(str(out)) as reader:
        for packet in islice(reader, 700):
            bth = Ether(bytes(packet))[BTH]
            if opcodes[bth.opcode] < 40:
                opcodes[bth.opcode] += 1
                assert bth.compute_icrc(b"") == bytes(packet)[-4:]
    assert set(opcodes) == {6, 7, 9, 10, 17} | ({11} & set(opcodes))
    assert sum(opcodes.values()) > 50
