"""Every packet of the real captures, counted by tshark and by us: per flow and opcode class, and per kind of frame."""

import gzip
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import replay

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
FILES = sorted([*SAMPLES.glob("captures/*.pcapng"), *SAMPLES.glob("rxe/*.pcap.gz")])
pytestmark = [
    pytest.mark.skipif(not FILES, reason="no shared/samples beside the project"),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]
FIELDS = (
    *("ipv6.src", "ip.src", "ipv6.dst", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.opcode"),
    *(
        "infiniband.bth.psn",
        "infiniband.reth.dmalen",
        "infiniband.aeth.syndrome",
        "frame.time_epoch",
        "frame.protocols",
    ),
)
WRITES, SENDS, READ_RESPONSES = range(6, 12), range(6), range(13, 17)


@cache
def all_packets(path: Path) -> tuple[dict[str, str], ...]:
    """What tshark says of every packet, field by field."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    select = [argument for name in FIELDS for argument in ("-e", name)]
    command = ["tshark", "-r", "-", "-n", "--disable-protocol", "tftp", "-T", "fields", *select]
    output = subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode()
    return tuple(dict(zip(FIELDS, line.split("\t"), strict=True)) for line in output.splitlines())


def roce_packets(path: Path) -> list[dict[str, str]]:
    """Those with a BTH."""
    return [packet for packet in all_packets(path) if packet["infiniband.bth.opcode"]]


@cache
def records_of(path: Path) -> Records:
    return replay([path])


def kind_of(packet: dict[str, str]) -> str:
    """The class that our records should give a packet, from tshark's fields and the IBTA opcode table."""
    opcode = int(packet["infiniband.bth.opcode"])
    if int(packet["infiniband.bth.destqp"], 16) == 1:
        return "setup"
    if opcode in WRITES:
        small = opcode == 10 and int(packet["infiniband.reth.dmalen"]) in (32, 64)
        return "clear_to_send" if small else "write"
    if opcode == 17:
        answer = int(packet["infiniband.aeth.syndrome"]) >> 5 & 3
        return {0: "ack", 1: "rnr_nak", 3: "nak"}[answer]
    if opcode in SENDS:
        return "send"
    if opcode == 12:
        return "read_request"
    if opcode in READ_RESPONSES:
        return "read_response"
    return "cnp" if opcode == 0x81 else "datagram" if opcode in (100, 101) else "unsupported"


def flow_key(packet: dict[str, str]) -> tuple[str, str, int]:
    source = packet["ipv6.src"] or packet["ip.src"]
    destination = packet["ipv6.dst"] or packet["ip.dst"]
    return source, destination, int(packet["infiniband.bth.destqp"], 16)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packets_of_each_flow_by_class(path: Path) -> None:
    theirs = Counter((*flow_key(packet), kind_of(packet)) for packet in roce_packets(path))
    ours = Counter(
        {
            (flow.source, flow.destination, flow.dest_qp, name): count
            for flow in records_of(path).flows
            for name, count in flow.packets.items()
            if count
        }
    )
    assert ours == theirs
    assert theirs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_distinct_requests_and_repeats_of_each_flow(path: Path) -> None:
    theirs: dict[tuple[str, str, int], Counter[int]] = {}
    for packet in roce_packets(path):
        if kind_of(packet) in ("write", "clear_to_send", "send"):
            theirs.setdefault(flow_key(packet), Counter())[int(packet["infiniband.bth.psn"])] += 1
    ours: dict[tuple[str, str, int], Counter[int]] = {}
    for flow in records_of(path).flows:
        if flow.seen:
            copies = Counter(psn % 2**24 for first, last in flow.seen for psn in range(first, last + 1))
            copies.update({position % 2**24: extra for position, extra in flow.repeats})
            ours[flow.source, flow.destination, flow.dest_qp] = copies
    assert ours == theirs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lengths_of_messages(path: Path) -> None:
    """Every RETH of a First or Only write, once a PSN, in order of PSN."""
    theirs: dict[tuple[str, str, int], dict[int, int]] = {}
    for packet in roce_packets(path):
        if kind_of(packet) == "write" and packet["infiniband.reth.dmalen"]:
            lengths = theirs.setdefault(flow_key(packet), {})
            lengths[int(packet["infiniband.bth.psn"])] = int(packet["infiniband.reth.dmalen"])
    ours = {
        (flow.source, flow.destination, flow.dest_qp): {
            message.first_psn: message.bytes for message in flow.messages if message.bytes is not None
        }
        for flow in records_of(path).flows
        if any(message.bytes is not None for message in flow.messages)
    }
    assert ours == theirs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_kinds_of_frames(path: Path) -> None:
    kinds = ("arp", "ptp", "llc", "tcp", "lldp", "icmpv6")
    protocols = Counter(name for packet in all_packets(path) for name in set(packet["frame.protocols"].split(":")))
    theirs = {"rocev2": len(roce_packets(path)), **{name: protocols[name] for name in kinds}}
    (capture,) = records_of(path).captures
    assert {name: capture.frames[name] for name in theirs} == theirs
    times = [int(packet["frame.time_epoch"].replace(".", "")) for packet in all_packets(path)]
    assert capture.packets == len(times)
    assert (capture.first_time, capture.last_time) == (min(times), max(times))
