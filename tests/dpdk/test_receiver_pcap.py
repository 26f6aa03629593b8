"""The receiver reads real captures through net_pcap: its records are those of ``replay``, which has its own reader."""

import json
import subprocess
from pathlib import Path

import pytest

from flowcheck_net.receive.receiver import program
from flowcheck_net.receive.records import Cause, Missing, Records
from flowcheck_net.receive.replay import replay
from tests.doubles import capture_images as images
from tests.dpdk.receiving import SAMPLES, needs_receiver, needs_samples, plain, read, receive, spool_of

pytestmark = [needs_receiver, needs_samples]
CAPTURES = (
    "captures/iter_40000_p2p_iter2.pcapng",
    "captures/iter_80000.pcapng",
    "captures/rdma32.pcapng",
    "captures/allreduce+p2p.pcapng",
    "erspan/zeek_erspanII.pcap",
    "erspan/zeek_gre-erspan3-dot1q.pcap",
)
QUICK = ("--mtu", "9000", "--idle", "0.2", "--interval", "0.05", "--no-hugepages")


def test_records_are_those_of_replay(tmp_path: Path) -> None:
    """All at once: one port, one worker each, some of them without a single finished message."""
    files = {f"node:nic{number}": SAMPLES / name for number, name in enumerate(CAPTURES)}
    ports = [word for port, path in files.items() for word in ("--port", f"{port}=pcap:{path}")]
    output = tmp_path / "records.fcr"
    done = receive(output, *ports, *QUICK)
    found = read(output)
    expected = replay(list(files.values()), captures={str(path): port for port, path in files.items()})
    assert plain(found) == plain(expected)
    assert sum(capture.packets for capture in found.captures) > 1500
    assert [capture.dropped for capture in found.captures] == [0] * len(files)
    for capture in found.captures:
        lost = sum(each.packets for each in missing_of(found, capture.name) if each.cause is Cause.LOST)
        gaps = capture.attributes["erspan_sequence_gaps"]
        assert (capture.loss["worker0.missing"], capture.loss["worker0.tunnel_gaps"]) == (lost, gaps)
        assert {capture.loss[name] for name in ("missed", "errors", "no_buffer")} == {0}
    assert found.sources == tuple(f"{port}=pcap:{path}" for port, path in files.items())
    assert "warning" not in done.stderr
    assert not spool_of(output).exists()


def missing_of(records: Records, capture: str) -> list[Missing]:
    return [each for flow in records.flows if flow.capture == capture for each in flow.missing]


def test_frames_longer_than_a_buffer_are_told(tmp_path: Path) -> None:
    """net_pcap puts 3,000 bytes into several buffers, which hold 2,048 at least: they are counted, with a word."""
    output, capture = tmp_path / "records.json", tmp_path / "long.pcap"
    capture.write_bytes(images.pcap([images.write_only(psn, payload=bytes(3000 * (psn % 2))) for psn in range(10)]))
    receive(output, "--port", f"x=pcap:{capture}", "--mtu", "1500", *QUICK[2:])
    (found,) = json.loads(output.read_text())["captures"]
    assert (found["packets"], found["loss"]["worker0.segmented"], found["dropped"]) == (10, 5, 0)
    assert found["attributes"]["truncated"] == 5


def test_records_as_json_and_settings(tmp_path: Path) -> None:
    """--check-icrc reaches the core: seven packets have an opcode of nobody (docs/design/0004), all others fit."""
    output = tmp_path / "records.json"
    receive(output, "--port", f"x=pcap:{SAMPLES / CAPTURES[2]}", "--check-icrc", *QUICK)
    attributes = json.loads(output.read_text())["captures"][0]["attributes"]
    assert attributes["icrc_bad"] == 0
    assert attributes["icrc_unchecked"] == 7
    assert attributes["icrc_valid"] > 100


def test_loss_of_a_device_that_does_not_count_it_is_unknown(tmp_path: Path) -> None:
    output = tmp_path / "records.fcr"
    done = receive(output, "--port", "x=net_null0,size=64", "--duration", "0.1", "--interval", "0.05", "--no-hugepages")
    (capture,) = read(output).captures
    assert capture.dropped is None
    assert {capture.loss[name] for name in ("dropped", "missed", "errors", "no_buffer")} == {None}
    assert capture.loss["worker0.uncounted"] == capture.loss["worker0.segmented"] == 0
    assert capture.packets > 1000
    assert "net_null does not count what it loses: losses are unknown, not 0" in done.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("spool /tmp/x\nport p\nnonsense 1\n", 3),
        ("spool /tmp/x\nworkers 2\n", 2),
        ("spool /tmp/x\nport p\nmtu 70000\n", 3),
        ("spool\n", 1),
        ("port p\n", 1),
    ],
)
def test_a_configuration_that_is_not_understood(tmp_path: Path, text: str, line: int) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    done = subprocess.run([program(), config], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert (said["event"], said["code"]) == ("error", "config")
    assert f"line {line}: " in said["text"]
