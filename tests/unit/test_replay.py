"""What the real captures hold, as their makers and the issue state it, through the command line and through Python."""

import json
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.cli.replay import command
from flowcheck_net.errors import CaptureError, FlowcheckError
from flowcheck_net.receive.compare import FlowLoss, compare
from flowcheck_net.receive.records import Cause, Flow, Records
from flowcheck_net.receive.records_json import records_from_json
from flowcheck_net.receive.replay import replay
from tests.doubles import capture_images as images

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")


@cache
def sample(name: str) -> Records:
    return replay([SAMPLES / name])


def flow_to(records: Records, dest_qp: int, destination: str | None = None) -> Flow:
    (found,) = [
        flow
        for flow in records.flows
        if flow.dest_qp == dest_qp and destination in (None, flow.destination) and flow.seen
    ]
    return found


def totals(records: Records) -> dict[str, int]:
    found: dict[str, int] = {}
    for flow in records.flows:
        for name, count in flow.packets.items():
            found[name] = found.get(name, 0) + count
    return {name: count for name, count in found.items() if count}


def shapes(flow: Flow) -> list[tuple[int | None, int, int]]:
    """Bytes, packets and first PSN of the messages."""
    return [(message.bytes, message.packets, message.first_psn) for message in flow.messages]


@needs_samples
def test_one_direction_of_an_all_reduce() -> None:
    records = sample("captures/iter_40000_p2p.pcapng")
    (flow,) = [flow for flow in records.flows if any(message.bytes == 24_576 for message in flow.messages)]
    assert [shape[:2] for shape in shapes(flow)][-2:] == [(15_424, 16), (24_576, 24)]
    assert flow.missing == ()


@needs_samples
def test_the_capture_that_ends_in_the_middle() -> None:
    records = sample("captures/iter_80000.pcapng")
    complete_then_cut = flow_to(records, 0x514)
    assert shapes(complete_then_cut)[-2:] == [(39_040, 39, 81), (40_960, 28, 120)]
    assert complete_then_cut.messages[-1].expected_packets == 40
    assert [(each.first_psn, each.last_psn, each.cause) for each in complete_then_cut.missing] == [
        (148, 159, Cause.CAPTURE_END)
    ]
    lossy = flow_to(records, 0xC99)
    assert shapes(lossy)[1:] == [(40_960, 40, 1), (39_040, 22, 41)]  # 41-61 and 77
    assert [(each.first_psn, each.last_psn, each.cause) for each in lossy.missing] == [
        (62, 76, Cause.LOST),
        (78, 79, Cause.CAPTURE_END),
    ]


@needs_samples
def test_the_extra_step_makes_a_hop_send_three_messages_a_channel() -> None:
    """Two hops, two channels. The file lacks nine packets at the end of one message: tshark shows PSN 17 to 23 only."""
    records = sample("captures/allreduce_addstep.pcapng")
    assert {flow.dest_qp: shapes(flow) for flow in records.flows if flow.messages} == {
        0x822: [(16_384, 16, 0), (7_232, 8, 16), (16_384, 16, 24)],
        0x915: [(7_232, 8, 0), (16_384, 16, 8), (7_232, 8, 24)],
        0x825: [(16_384, 16, 0), (0, 1, 16), (16_384, 7, 17)],
        0x917: [(0, 1, 0), (16_384, 16, 1), (0, 1, 17)],
    }
    assert {
        (flow.dest_qp, each.first_psn, each.last_psn, each.cause) for flow in records.flows for each in flow.missing
    } == {(0x825, 24, 32, Cause.CAPTURE_END)}


@needs_samples
def test_empty_chunks_are_messages_and_other_traffic_is_told_apart() -> None:
    records = sample("captures/allreduce+p2p.pcapng")
    empty = [flow for flow in records.flows if any(message.bytes == 0 for message in flow.messages)]
    assert {flow.dest_qp: [shape[:2] for shape in shapes(flow)] for flow in empty} == {
        0x720: [(16_384, 16), (0, 1)],
        0x838: [(0, 1), (16_384, 16)],
    }
    assert records.captures[0].frames["tcp"] == 633
    assert totals(records) == {"write": 102, "clear_to_send": 10, "ack": 26, "setup": 12}


@needs_samples
def test_no_loss_is_reported_where_none_was() -> None:
    records = sample("rxe/rxe-ring-put.pcap.gz")
    assert all(flow.gaps == () and flow.missing == () for flow in records.flows)
    assert records.captures[0].packets == 7067


@needs_samples
def test_bandwidth_test_over_ipv4() -> None:
    """Twenty messages of 1 + 62 + 1 packets of 1024 bytes, 20 ACKs (samples' own description)."""
    records = sample("rxe/rxe-writebw-v4.pcap.gz")
    assert totals(records) == {"write": 1280, "ack": 20}
    (flow,) = [flow for flow in records.flows if flow.messages]
    assert [shape[:2] for shape in shapes(flow)] == [(65_536, 64)] * 20
    assert (flow.mtu, flow.bytes) == (1024, 20 * 65_536)


@needs_samples
def test_mtu_4096_is_learned() -> None:
    records = sample("rxe/rxe-ovs-mtu4096-ring-put-mirror.pcap.gz")
    assert records.captures[0].packets == 1028
    assert {flow.mtu for flow in records.flows if flow.messages} == {4096}


GAPS_BEHIND_THE_BRIDGE = 16
PSNS_OF_THE_GAPS = 17


@needs_samples
def test_losses_behind_the_bridge_are_gaps_that_were_filled() -> None:
    records = sample("rxe/rxe-ring-put-loss1-at-vm2.pcap.gz")
    flow = flow_to(records, 0x15, "fd09::2")
    assert flow.source == "fd09::1"
    assert len(flow.gaps) == GAPS_BEHIND_THE_BRIDGE
    assert sum(gap.packets for gap in flow.gaps) == PSNS_OF_THE_GAPS
    assert all(gap.filled == gap.packets for gap in flow.gaps)
    ranges = [(gap.first_psn, gap.last_psn) for gap in flow.gaps]
    assert ranges[:3] == [(74, 74), (80, 80), (93, 93)]
    assert ranges[-3:] == [(1172, 1173), (1297, 1297), (1595, 1595)]
    assert flow.missing == ()
    assert flow.retransmitted == sum(extra for _, extra in flow.repeats)
    assert flow.duplicated == 0
    assert totals(records)["nak"] == 30


@needs_samples
def test_lost_copies_between_two_places() -> None:
    before, after = sample("rxe/rxe-ring-put-loss1.pcap.gz"), sample("rxe/rxe-ring-put-loss1-at-vm2.pcap.gz")
    losses = {f"{loss.source} {loss.destination}": loss for loss in compare(before, after) if loss.after}
    lossy: FlowLoss = losses["fd09::1 fd09::2"]
    assert (lossy.dest_qp, lossy.lost, lossy.added) == (0x15, 26, 0)
    assert lossy.before - lossy.after == 26
    assert losses["fd09::2 fd09::3"].lost == 0  # this machine's own sending side


def run(*arguments: str | Path, data: bytes = b"") -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], input=data)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.pcap"
    path.write_bytes(images.pcap([images.ARP, *(images.write_only(psn) for psn in (1, 2, 4))]))
    return path


def test_json_of_the_command_is_the_records_document(capture: Path) -> None:
    result = run(capture, "--json", "--capture", f"ckpt1:cap0={capture}")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    (flow,) = document["flows"]
    assert (flow["source"], flow["destination"], flow["dest_qp"]) == ("10.0.0.1", "10.0.0.2", 17)
    assert (flow["capture"], flow["packets"]["write"]) == ("ckpt1:cap0", 3)
    assert flow["missing"] == [{"position": 3, "first_psn": 3, "last_psn": 3, "packets": 1, "cause": "lost"}]
    assert [(each["bytes"], each["packets"], each["first_psn"]) for each in flow["messages"]] == [
        (8, 1, 1),
        (8, 1, 2),
        (8, 1, 4),
    ]
    assert records_from_json(result.stdout, "stdout").captures[0].name == "ckpt1:cap0"


def test_text_of_the_command_names_every_counter(capture: Path, tmp_path: Path) -> None:
    output = tmp_path / "records.json"
    result = run(capture, "-o", output)
    assert result.exit_code == 0
    for text in ("10.0.0.1", "0x11", "3 lost", "1 (1 PSN)", "frame arp", "frame rocev2", "rocev2 write", "unknown"):
        assert text in result.stdout
    assert records_from_json(output.read_text(), "records.json").captures[0].packets == 4


def test_text_in_a_pipe_has_no_blanks_at_line_ends(capture: Path) -> None:
    lines = run(capture).stdout.split("\n")
    assert any("dest QP" in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_standard_input(capture: Path) -> None:
    assert json.loads(run("-", "--json", data=capture.read_bytes()).stdout)["captures"][0]["name"] == "stdin"


def test_a_cut_file_writes_its_records_and_then_fails(capture: Path, tmp_path: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-10])
    output = tmp_path / "records.json"
    result = run(capture, "-o", output)
    assert isinstance(result.exception, FlowcheckError)
    assert result.exception.exit_code == 9
    assert "truncated at byte" in result.exception.message
    records = records_from_json(output.read_text(), "records.json")
    assert records.captures[0].packets == 3
    assert "truncated at byte" in records.warnings[0]


def test_comparison_of_the_command(capture: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.pcap"
    after.write_bytes(images.pcap([images.write_only(psn) for psn in (1, 4)]))
    document = json.loads(run(after, "--before", capture, "--json").stdout)
    assert document["lost"] == 1
    assert document["flows"][0]["lost_ranges"] == [
        {"position": 2, "first_psn": 2, "last_psn": 2, "packets": 1, "copies": 1}
    ]
    text = run(after, "--before", capture)
    assert text.exit_code == 0
    assert "1 copies lost" in text.stdout


def test_bad_use_of_the_command(capture: Path, tmp_path: Path) -> None:
    assert run().exit_code == 2
    wrong = run(capture, "--capture", "nonsense")
    assert (wrong.exit_code, "is not NAME=FILE" in wrong.stderr) == (2, True)
    unwritable = run(capture, "-o", tmp_path / "no" / "such" / "directory.json")
    assert isinstance(unwritable.exception, FlowcheckError)
    missing = run(tmp_path / "missing.pcap")
    assert isinstance(missing.exception, CaptureError)
