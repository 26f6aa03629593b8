"""``replay --to`` where nothing is sent: words that do not go together, files and ports that are not there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.replay import command
from flowcheck_net.errors import CaptureError, SendError
from flowcheck_net.receive.native_send import REFUSALS, Lateness, Pace, SendCounts, Sender, SendSettings
from flowcheck_net.receive.send import SendOptions, send
from flowcheck_net.receive.send_interface import TransmitCounters
from flowcheck_net.receive.send_report import SendReport, SentSource
from tests.doubles import capture_images as images


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--speed", "2"], "--to"),
        (["--loop", "2"], "--to"),
        (["--yes-this-interface"], "--to"),
        (["--to", "x", "--speed", "0"], "'0' is no number"),
        (["--to", "x", "--speed", "nan"], "no number"),
        (["--to", "x", "--speed", "fast"], "nor 'max'"),
        (["--to", "x", "--pps", "-1"], "no number"),
        (["--to", "x", "--pps", "max"], "no number"),
        (["--to", "x", "--gbps", "inf"], "no number"),
        (["--to", "x", "--loop", "-1"], "--loop"),
        (["--to", "x", "--speed", "2", "--pps", "5"], "exclude one another"),
        (["--to", "x", "--to", "y"], "PORT=IFACE each"),
        (["--to", "a=x", "--to", "y"], "PORT=IFACE each"),
        (["--to", "=x"], "neither IFACE nor PORT=IFACE"),
        (["--to", "a="], "neither IFACE nor PORT=IFACE"),
        (["--to", "a=x", "--interface", "a"], "chosen already"),
        (["--to", "x", "-o", "records.json"], "-o is of no use"),
        (["--to", "x", "--before", "b.pcap"], "--before is of no use"),
        (["--to", "x", "--check-icrc"], "--check-icrc is of no use"),
        (["--to", "x", "--jobs", "2"], "--jobs is of no use"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], message: str) -> None:
    done = CliRunner().invoke(command, ["x.pcap", *words])
    assert done.exit_code == 2
    assert message in done.stderr


def options(*targets: tuple[str, str], ports: tuple[str, ...] = ()) -> SendOptions:
    return SendOptions(targets=targets, ports=ports)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"no capture at all", "not a capture file"), (images.pcap([]), "no whole packet")],
)
def test_files_that_hold_nothing(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "port.pcap"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=message):
        send([path], options(("", "nosuch")))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        send([tmp_path / "nosuch"], options(("", "nosuch")))


@pytest.mark.parametrize("wanted", [options(("cap9", "x")), options(("", "x"), ports=("cap9",))])
def test_ports_that_are_not_in_the_file(tmp_path: Path, wanted: SendOptions) -> None:
    path = tmp_path / "port.pcap"
    path.write_bytes(images.pcap([images.ARP]))
    with pytest.raises(SendError, match="no packets of cap9") as caught:
        send([path], wanted)
    assert caught.value.hint == "they have: port"


def test_an_interface_is_looked_at_before_the_rights(tmp_path: Path) -> None:
    path = tmp_path / "port.pcap"
    path.write_bytes(images.pcap([images.ARP]))
    with pytest.raises(SendError, match="nosuch: no such interface"):
        send([path], options(("port", "nosuch")))


def test_the_sender_itself_refuses_what_cannot_be() -> None:
    settings = SendSettings(Pace.FULL, 0, 1514, bypass=True)
    with pytest.raises(SendError, match="nosuch: "):
        Sender("nosuch", settings, start_ns=0, base_ns=0)


def test_every_name_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
    assert len(REFUSALS) == 6
    assert [name for name in (*REFUSALS, "not_reached") if f"| `{name}` |" not in text] == []


REFUSED = {"truncated": 0, "too_long": 3}


def source(packets: int, counted: TransmitCounters | None, late: Lateness | None = None) -> SentSource:
    counts = SendCounts(packets, packets * 100, REFUSED, 2, 500_000_000, late, bypass=True)
    return SentSource(("cap0",), "veth0", counts, 1, 4, counted, "")


def test_rates_by_hand() -> None:
    """1000 packets of 100 bytes in half a second: 2000 packets/s, 1.6 Mbit/s."""
    sent = source(1000, None)
    assert (sent.packets_per_s, sent.bits_per_s) == (2000.0, 1_600_000.0)
    assert source(1, None).packets_per_s is None
    assert source(0, None).bits_per_s is None


def test_what_the_interface_says_against_us() -> None:
    assert source(10, None).doubts == ()
    assert source(10, TransmitCounters(12, 0)).doubts == ()
    assert source(10, TransmitCounters(10, 3)).doubts == ("veth0 says it dropped 3 frames meanwhile",)
    (text,) = source(10, TransmitCounters(9, 0)).doubts
    assert "took 10 frames and has counted 9" in text


def test_the_document_is_json() -> None:
    report = SendReport(("a.pcap",), (source(3, TransmitCounters(3, 0), Lateness(1, 2, 3)),), False, ())
    document = json.loads(json.dumps(report.document()))
    assert document["packets"] == 3
    (sent,) = document["sources"]
    assert sent["late"] == {"median": 1, "p99": 2, "max": 3}
    assert sent["refused"] == REFUSED
    assert sent["counted_by_interface"] == {"packets": 3, "dropped": 0}
    assert set(sent) == {
        *("ports", "interface", "packets", "bytes", "refused", "waits", "duration_ns", "late", "bypass", "rounds"),
        *("not_reached", "packets_per_s", "bits_per_s", "counted_by_interface", "fault"),
    }
