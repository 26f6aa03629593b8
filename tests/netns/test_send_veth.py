"""Captures sent over veth pairs. What arrives a packet socket of the tests reads; what was sent, scapy."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from flowcheck_net.receive.synth import synthesize
from tests.doubles import capture_images as images
from tests.doubles.synth_reading import example
from tests.netns.veth import PROGRAM, Namespace, namespace, needs_namespaces

pytestmark = needs_namespaces
SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")
FRAME = images.write_only(7)
REPLAY = (*PROGRAM, "replay")


@pytest.fixture(scope="module")
def place() -> Iterator[Namespace]:
    """Two pairs for all tests of this file; what a test changes it puts back."""
    with namespace() as made:
        made.pair("na", "fa")
        made.pair("nb", "fb")
        yield made


def scapy_frames(path: Path, port: str | None = None) -> list[bytes]:
    """All frames of a file, or those of one interface of a pcapng file."""
    with RawPcapReader(str(path)) as reader:
        found = [(data, getattr(meta, "ifname", b"") or b"") for data, meta in reader]
    return [bytes(data) for data, name in found if port is None or name.decode() == port]


def numbered(count: int) -> list[bytes]:
    return [FRAME[:-4] + number.to_bytes(4, "big") for number in range(count)]


def capture(path: Path, frames: list[bytes]) -> Path:
    path.write_bytes(images.pcap(frames))
    return path


def report_of(text: str) -> dict[str, object]:
    (source,) = json.loads(text)["sources"]
    assert isinstance(source, dict)
    return source


def refused(source: dict[str, object]) -> dict[str, int]:
    names = source["refused"]
    assert isinstance(names, dict)
    return {name: packets for name, packets in names.items() if packets}


@needs_samples
@pytest.mark.parametrize(
    "name", ["captures/iter_40000_p2p.pcapng", "rxe/rxe-writebw-v4.pcap.gz", "erspan/zeek_gre-erspan3-dot1q.pcap"]
)
def test_real_captures_arrive_byte_for_byte_in_order(place: Namespace, name: str) -> None:
    expected = scapy_frames(SAMPLES / name)
    with place.listening("fa") as far:
        done = place.replay(SAMPLES / name, "--to", "na", "--pps", "50000", "--json")
        assert done.returncode == 0, done.stderr
        assert far.frames(len(expected)) == expected
        assert far.waiting() == []
    source = report_of(done.stdout)
    assert (source["packets"], source["bytes"]) == (len(expected), sum(map(len, expected)))
    assert refused(source) == {}
    assert source["not_reached"] == 0
    assert source["counted_by_interface"] == {"packets": len(expected), "dropped": 0}


def test_a_synthesized_job_on_two_interfaces_at_once(place: Namespace, tmp_path: Path) -> None:
    out = tmp_path / "mirror.pcapng"
    synthesize(example("two-host"), out, iterations=2)
    ports = ("ckpt1:cap0", "ckpt1:cap1")
    with place.listening("fa") as first, place.listening("fb") as second:
        done = place.replay(out, "--to", f"{ports[0]}=na", "--to", f"{ports[1]}=nb", "--json")
        assert done.returncode == 0, done.stderr
        for port, far in zip(ports, (first, second), strict=True):
            expected = scapy_frames(out, port)
            assert far.frames(len(expected)) == expected
            assert expected
    document = json.loads(done.stdout)
    assert [(source["ports"], source["interface"]) for source in document["sources"]] == [
        ([ports[0]], "na"),
        ([ports[1]], "nb"),
    ]
    for source in document["sources"]:
        late = source["late"]
        assert 0 <= late["median"] <= late["p99"] <= late["max"]


def test_one_port_of_a_file(place: Namespace, tmp_path: Path) -> None:
    out = tmp_path / "mirror.pcapng"
    synthesize(example("two-host"), out, iterations=1)
    expected = scapy_frames(out, "ckpt1:cap1")
    with place.listening("fa") as far:
        done = place.replay(out, "--to", "na", "--interface", "ckpt1:cap1", "--speed", "max")
        assert done.returncode == 0, done.stderr
        assert far.frames(len(expected)) == expected
        assert far.waiting() == []
    assert f"{len(expected)} packets sent" in done.stdout


@pytest.mark.parametrize("pace", [["--speed", "max"], ["--speed", "1000000"], ["--pps", "1000"], ["--gbps", "0.001"]])
def test_rounds(place: Namespace, tmp_path: Path, pace: list[str]) -> None:
    frames = numbered(5)
    path = capture(tmp_path / "port.pcap", frames)
    with place.listening("fa") as far:
        done = place.replay(path, "--to", "na", "--loop", "3", "--json", *pace)
        assert done.returncode == 0, done.stderr
        assert far.frames(15) == frames * 3
        assert far.waiting() == []
    assert report_of(done.stdout)["rounds"] == 3


def test_several_files_each_on_its_own_interface(place: Namespace, tmp_path: Path) -> None:
    one, two = numbered(3), numbered(6)[3:]
    paths = [capture(tmp_path / "h1.pcap", one), capture(tmp_path / "h2.pcap", two)]
    with place.listening("fa") as first, place.listening("fb") as second:
        done = place.replay(*paths, "--to", "h1=na", "--to", "h2=nb", "--speed", "1000000")
        assert done.returncode == 0, done.stderr
        assert (first.frames(3), second.frames(3)) == (one, two)


def test_vlan_tags_stay_and_may_exceed_the_mtu(place: Namespace, tmp_path: Path) -> None:
    place.ip("link set na mtu 1500")
    try:
        tag = b"\x81\x00\x00\x2a"
        whole = FRAME[:12] + FRAME[12:].ljust(1502, b"x")
        tagged, too_long, long = whole[:12] + tag + whole[12:], whole + b"y", whole[:12] + tag + whole[12:] + b"y"
        path = capture(tmp_path / "port.pcap", [whole, tagged, too_long, long, FRAME])
        with place.listening("fa") as far:
            done = place.replay(path, "--to", "na", "--speed", "max", "--json")
            assert done.returncode == 0, done.stderr
            assert far.frames(3) == [whole, tagged, FRAME]
            assert far.waiting() == []
        assert refused(report_of(done.stdout)) == {"too_long": 2}
    finally:
        place.ip("link set na mtu 9000")


def test_what_is_not_whole_is_named_and_not_sent(place: Namespace, tmp_path: Path) -> None:
    blocks = images.section() + images.interface() + images.interface(link=113)
    blocks += images.enhanced(FRAME, 1) + images.enhanced(FRAME, 2, number=1) + images.simple(FRAME[:60], 60)
    cut = bytearray(images.enhanced(FRAME[:80], 3))
    cut[24:28] = len(FRAME).to_bytes(4, "little")  # its length on the wire
    path = tmp_path / "port.pcapng"
    path.write_bytes(blocks + bytes(cut) + images.enhanced(bytes(13), 4))
    with place.listening("fa") as far:
        done = place.replay(path, "--to", "na", "--speed", "max")
        assert done.returncode == 0, done.stderr
        assert far.frames(2) == [FRAME, FRAME[:60]]
        assert far.waiting() == []
    for name in ("truncated", "not_ethernet", "too_short"):
        assert f"refused on na: 1 packets {name}\n" in done.stdout


def test_nothing_that_can_be_sent_is_an_error(place: Namespace, tmp_path: Path) -> None:
    done = place.replay(capture(tmp_path / "port.pcap", [bytes(13)]), "--to", "na")
    assert done.returncode == 9
    assert "no packet could be sent" in done.stderr
    assert "too_short" in done.stdout


def test_a_file_that_is_cut_is_sent_as_far_as_it_is_whole(place: Namespace, tmp_path: Path) -> None:
    path = tmp_path / "port.pcap"
    path.write_bytes(images.pcap(numbered(3))[:-1])
    with place.listening("fa") as far:
        done = place.replay(path, "--to", "na", "--speed", "max")
        assert far.frames(2) == numbered(2)
    assert done.returncode == 9
    assert "2 whole packets before it" in done.stderr


def test_standard_input(place: Namespace, tmp_path: Path) -> None:
    path = capture(tmp_path / "port.pcap", numbered(2))
    with place.listening("fa") as far, path.open("rb") as piped:
        done = place.replay("-", "--to", "stdin=na", "--speed", "max", stdin=piped)
        assert done.returncode == 0, done.stderr
        assert far.frames(2) == numbered(2)


@pytest.mark.parametrize(("options", "seen"), [([], 0), (["--through-qdisc"], 4)])
def test_who_sees_the_frames_on_the_sending_side(
    place: Namespace, tmp_path: Path, options: list[str], seen: int
) -> None:
    path = capture(tmp_path / "port.pcap", numbered(4))
    with place.listening("na") as near, place.listening("fa") as far:
        done = place.replay(path, "--to", "na", "--speed", "max", "--json", *options)
        assert done.returncode == 0, done.stderr
        assert far.frames(4) == numbered(4)
        assert near.frames(seen, outgoing=True) == numbered(seen)
    assert report_of(done.stdout)["bypass"] is (seen == 0)


@pytest.mark.parametrize(("stop", "rounds", "code"), [(signal.SIGINT, "9999", 130), (signal.SIGTERM, "0", 0)])
def test_a_signal_ends_it_with_the_report(
    place: Namespace, tmp_path: Path, stop: signal.Signals, rounds: str, code: int
) -> None:
    frames = numbered(1000)
    path = capture(tmp_path / "port.pcap", frames)
    with place.listening("fa") as far:
        running = place.start(path, "--to", "na", "--pps", "1000", "--loop", rounds, "--json")
        arrived = far.frames(10)
        running.send_signal(stop)
        out, err = running.communicate(timeout=60)
        assert running.returncode == code, err
        source = report_of(out)
        sent = source["packets"]
        assert isinstance(sent, int)
        arrived += far.frames(sent - len(arrived))
        assert far.waiting() == []
    assert json.loads(out)["interrupted"] is True
    assert source["packets"] == len(arrived)
    assert arrived == (frames * (len(arrived) // 1000 + 1))[: len(arrived)]
    assert source["not_reached"] == (9_999_000 if rounds != "0" else -(-len(arrived) // 1000) * 1000) - len(arrived)


FAULTS = [
    ("link set nc down", "Network is down"),
    ("link set fc down", "Network is down"),
    ("link del nc", ""),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_an_interface_that_fails_meanwhile(place: Namespace, tmp_path: Path, change: str, message: str) -> None:
    place.pair("nc", "fc")
    try:
        path = capture(tmp_path / "port.pcap", numbered(100))
        with place.listening("fc") as far:
            running = place.start(path, "--to", "nc", "--pps", "2000", "--loop", "0", "--json")
            assert len(far.frames(10)) == 10
            place.ip(change)
            out, err = running.communicate(timeout=60)
    finally:
        place.run("ip", "link", "del", "nc", check=False)
    assert running.returncode == 9
    source = report_of(out)
    assert source["fault"]
    assert message in str(source["fault"])
    assert "nc: " in err
    assert isinstance(source["packets"], int)
    assert source["packets"] >= 10


def test_hosts_in_namespaces_of_their_own(place: Namespace, tmp_path: Path) -> None:
    """As in a lab: one process outside, each capture on the interface of its host inside."""
    one, two = numbered(3), numbered(6)[3:]
    paths = [capture(tmp_path / "h1.pcap", one), capture(tmp_path / "h2.pcap", two)]
    with namespace() as other:
        other.pair("na", "fa")
        inside = [f"/proc/{each.holder}/ns/net/na" for each in (place, other)]
        with place.listening("fa") as first, other.listening("fa") as second:
            targets = ("--to", f"h1={inside[0]}", "--to", f"h2={inside[1]}")
            done = subprocess.run(
                [*REPLAY, *paths, *targets, "--speed", "max", "--json"], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            assert (first.frames(3), second.frames(3)) == (one, two)
    sources = json.loads(done.stdout)["sources"]
    assert [source["interface"] for source in sources] == inside
    assert [source["counted_by_interface"]["dropped"] for source in sources] == [0, 0]


@pytest.mark.parametrize("missing", ["nosuch", "/proc/0/ns/net"])
def test_a_namespace_that_is_not_there(tmp_path: Path, missing: str) -> None:
    path = capture(tmp_path / "port.pcap", numbered(1))
    done = subprocess.run([*REPLAY, path, "--to", f"{missing}/na"], capture_output=True, text=True)
    assert done.returncode == 9
    assert f"{missing}: no network namespace" in done.stderr


def refusal(place: Namespace, path: Path, *words: str) -> str:
    done = place.replay(path, *words)
    assert done.returncode == 9
    assert "Traceback" not in done.stderr
    return done.stderr


def test_interfaces_that_cannot_be_sent_on(place: Namespace, tmp_path: Path) -> None:
    path = capture(tmp_path / "port.pcap", numbered(1))
    place.pair("nd", "fd")
    try:
        assert "nosuch: no such interface" in (text := refusal(place, path, "--to", "nosuch"))
        assert "nd" in text.split("what to do:")[1]
        place.ip("link set fd down")
        assert "nd: the interface has no link" in refusal(place, path, "--to", "nd")
        place.ip("link set nd down")
        assert "what to do: ip link set dev nd up" in refusal(place, path, "--to", "nd")
    finally:
        place.ip("link del nd")


def test_the_default_route_is_not_sent_on_by_accident(place: Namespace, tmp_path: Path) -> None:
    path = capture(tmp_path / "port.pcap", numbered(2))
    place.pair("nr", "fr")
    try:
        place.ip("addr add 192.0.2.1/24 dev nr")
        place.ip("route add default via 192.0.2.2")
        with place.listening("fr") as far:
            text = refusal(place, path, "--to", "nr")
            assert "carries the default route" in text
            assert "--yes-this-interface" in text
            assert far.waiting() == []
            assert place.replay(path, "--to", "nr", "--yes-this-interface", "--speed", "max").returncode == 0
            assert far.frames(2) == numbered(2)
    finally:
        place.ip("link del nr")


def test_without_the_right_to_send(place: Namespace, tmp_path: Path) -> None:
    path = capture(tmp_path / "port.pcap", numbered(1))
    done = place.run("setpriv", "--bounding-set", "-net_raw", *REPLAY, path, "--to", "na", check=False)
    assert done.returncode == 9
    assert "raw frames may not be sent by this user" in done.stderr
    assert "CAP_NET_RAW" in done.stderr
