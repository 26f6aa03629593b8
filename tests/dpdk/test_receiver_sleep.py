"""Who polls and finds nothing sleeps, never so long that a ring could be full: what it may cost is refused."""

from pathlib import Path

import pytest

from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver import Receiver
from flowcheck_net.receive.receiver_config import Plan, config_text
from flowcheck_net.receive.receiver_device import Device, Loss, Port, device_of
from flowcheck_net.receive.receiver_status import Status
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles import capture_images as images
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import Running, ask, needs_receiver, read, refused, timeless, wait_until_idle
from tests.netns.veth import namespace, needs_namespaces


def lines(port: Port) -> list[str]:
    return config_text(Plan((port,), Settings(), hugepages=False), Path("/tmp/s"), 1 << 20).splitlines()


def test_physical_ports_are_polled_unless_it_is_asked_for() -> None:
    card = Device("3b:00.0", "0000:3b:00.0", ("--allow=0000:3b:00.0",), Loss.DEVICE, physical=True)
    port = Port(CapturePort("x"), card, 4256)

    def said(sleep_us: int | None) -> list[str]:
        made = Port(port.name, port.device, port.mtu, sleep_us=sleep_us)
        text = config_text(Plan((made,), Settings(), hugepages=True), Path("/tmp/s"), 1 << 20)
        return [line for line in text.splitlines() if line.startswith("sleep_us")]

    assert said(None) == ["sleep_us 0"]
    assert said(5) == ["sleep_us 5"]


def test_virtual_ports_say_what_waits_where_nobody_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowcheck_net.receive.receiver_device._kernel_interface", lambda interface, mtu: None)
    found = lines(Port(CapturePort("x"), device_of("af_packet:eth1", 0, 1500), 1500))
    (ring,) = [line for line in found if line.startswith("ring ")]
    assert f"framecnt={ring.removeprefix('ring ')}" in "\n".join(found)
    assert "mbps 10000" in found
    assert not [line for line in found if line.startswith("sleep_us")]
    found = lines(Port(CapturePort("x"), device_of(f"memif:{tmp_path}/m", 0, 1500), 1500, sleep_us=0))
    assert {"ring 1024", "sleep_us 0"} <= set(found)


def once(tmp_path: Path, port: Port) -> Status:
    """The last that a receiver says which is told to end when it has started."""
    last = None
    with Receiver(Plan((port,), Settings(), 50, hugepages=False), tmp_path, 0) as receiver:
        for status in receiver.statuses():
            if last is None:
                receiver.stop()
            last = status
    assert last is not None
    return last


@needs_receiver
def test_a_file_waits_as_long_as_one_likes(tmp_path: Path) -> None:
    """Its packets cannot be lost: the longest sleep that is taken unasked, and any that is asked for."""
    capture = tmp_path / "one.pcap"
    capture.write_bytes(images.pcap([images.write_only(7)]))
    device = device_of(f"pcap:{capture}", 0, 1500)
    for number, (asked, taken) in enumerate(((None, 500), (0, 0), (2000, 2000))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (port,) = once(folder, Port(CapturePort("x"), device, 1500, sleep_us=asked)).ports
        assert (port.sleep_us, port.packets, port.dropped) == (taken, 1, 0)
        assert taken > 0 or port.workers[0].sleeps == 0


@needs_receiver
def test_a_sleep_that_can_cost_packets_is_refused(tmp_path: Path) -> None:
    """memif, 1,024 packets, 10 Gbit/s: 256 packets of 67.2 ns are 17 us. With --spread software the rings of the
    workers count too, and so does that before the pcapng file."""
    said = refused(tmp_path, "--port", f"x=memif:{tmp_path}/memif.sock", "--no-hugepages", "--sleep", "50")
    assert "a ring of 1024 packets is a quarter full after " in said
    assert "a sleep of 50 us can cost packets" in said
    assert "--sleep 0 polls without rest" in said
    words = ("--workers", "2", "--spread", "software", "--descriptors", "64", "--sleep", "2")
    assert "a ring of 64 packets" in refused(tmp_path, "--port", "x=net_null0,size=64", "--no-hugepages", *words)


@needs_receiver
@needs_namespaces
@pytest.mark.parametrize("words", [(), ("--workers", "2", "--spread", "software")], ids=["one", "dealt"])
def test_nothing_is_lost_by_sleeping(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A job as fast as it goes, again and again, with pauses: all is counted, and it slept in between."""
    job, output = tmp_path / "job.pcapng", tmp_path / "records.fcr"
    synthesize(example("two-host"), job, iterations=60)
    with namespace() as place:
        place.pair("na", "fa")
        sleep = ("--interval", "0.05", "--mtu", "4256", *words)
        with Running(place, output, "--port", "x=af_packet:fa", *sleep) as running:
            place.replay("--to", "na", job, "--speed", "max", check=True)
            wait_until_idle(running.child())
            (port,) = ask(running.prefix, "/flowcheck/status").values()
            code, _, err = running.end()
    assert code == 0, err
    (capture,) = read(output).captures
    assert capture.dropped == 0
    assert timeless(read(output)) == timeless(replay([job], captures={str(job): "x"}))
    assert 0 < port["sleep_us"] <= 500
    assert port["sleeps"] > 0
