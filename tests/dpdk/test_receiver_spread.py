"""Packets of one port to several workers: the records are those of one, and every flow was at one worker."""

import random
from pathlib import Path

import pytest

from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.kept_file import KeptFile
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver_config import Plan
from flowcheck_net.receive.receiver_device import Port, device_of
from flowcheck_net.receive.receiver_run import Run, records_of, watch
from flowcheck_net.receive.receiver_spool import blocks
from flowcheck_net.receive.receiver_status import Status
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles import capture_images as images
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import SAMPLES, needs_receiver, needs_samples, plain, read, receive, refused

pytestmark = needs_receiver
WORKERS = ("--workers", "3", "--no-hugepages", "--interval", "0.05", "--idle", "0.3")
TUNNELLED = ("erspan/zeek_erspanII.pcap", "erspan/zeek_gre-erspan3-dot1q.pcap", "captures/rdma32.pcapng")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    capture = tmp_path_factory.mktemp("job") / "job.pcapng"
    synthesize(example("two-host"), capture, iterations=8)
    return capture


def test_records_are_those_of_one_worker(tmp_path: Path, job: Path) -> None:
    """Software deals where the device can neither rules nor RSS: all that are here."""
    output = tmp_path / "records.fcr"
    done = receive(output, "--port", f"x=pcap:{job}", *WORKERS)
    assert "receiving: x (net_pcap, 3 workers by software)" in done.stderr
    found = read(output)
    assert plain(found) == plain(replay([job], captures={str(job): "x"}))
    assert len(found.flows) > 3
    assert found.captures[0].dropped == 0


@needs_samples
@pytest.mark.parametrize("name", TUNNELLED)
def test_tunnels_and_their_sequence_numbers_are_those_of_one_worker(tmp_path: Path, name: str) -> None:
    output, capture = tmp_path / "records.fcr", SAMPLES / name
    receive(output, "--port", f"x=pcap:{capture}", *WORKERS, "--mtu", "9000")
    assert plain(read(output)) == plain(replay([capture], captures={str(capture): "x"}))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packets each of 400 queue pairs, mixed."""
    capture = tmp_path_factory.mktemp("many") / "many.pcap"
    frames = [images.write_only(psn, 0x100 + pair) for pair in range(400) for psn in (7, 8)]
    random.Random(3).shuffle(frames)
    capture.write_bytes(images.pcap(frames))
    return capture


def run(folder: Path, device: str, **more: object) -> tuple[Status, Path]:
    port = Port(CapturePort("x"), device_of(device, 0, 4256), 4256, 3, **more)  # type: ignore[arg-type]
    made = Run(Plan((port,), Settings(), interval_ms=20, hugepages=False), folder)
    last = watch(made, duration_s=None, idle_s=0.3, show=lambda _: None)
    assert last is not None
    assert made.deaths == []
    return last, folder / "life-0.spool"


def test_every_flow_is_at_one_worker_and_each_has_some(tmp_path: Path, many: Path) -> None:
    status, spool = run(tmp_path, f"pcap:{many}")
    (port,) = status.ports
    assert [worker.packets > 0 for worker in port.workers] == [True] * 3
    assert sum(worker.packets for worker in port.workers) == port.packets
    assert sum(worker.flows for worker in port.workers) == 400
    places = [(block.chain, block.content[:44]) for block in blocks(KeptFile.opened(spool)) if block.kind == 18]
    assert len({flow for _, flow in places}) == len(places) == sum(worker.flows for worker in port.workers)
    assert len({chain for chain, _ in places}) == 3


def test_pressure_shows_before_loss(tmp_path: Path, many: Path) -> None:
    """The queue of a file is not known; every ring was used, none was full."""
    (port,) = run(tmp_path, f"pcap:{many}")[0].ports
    assert port.spread == "software"
    assert [queue.fill_most for queue in port.queues] == [None]
    for worker in port.workers:
        assert worker.ring is not None
        assert 0 < (worker.ring.fill_most or 0) <= worker.ring.size
        assert worker.ring.dropped == 0


def test_full_rings_are_counted(tmp_path: Path) -> None:
    """A device that never ends, and short rings on shared cores: what is not counted was dropped, and is said."""
    port = Port(CapturePort("x"), device_of("net_null0,size=64", 0, 1500), 1500, 3, descriptors=64)
    made = Run(Plan((port,), Settings(), interval_ms=20, hugepages=False), tmp_path)
    status = watch(made, duration_s=0.5, idle_s=None, show=lambda _: None)
    assert status is not None
    (found,) = status.ports
    lanes = [worker.ring for worker in found.workers if worker.ring is not None]
    dropped = sum(ring.dropped for ring in lanes)
    assert dropped > 0
    assert found.device_packets == found.packets + dropped
    assert lanes[0].fill_most == lanes[0].size  # zeros are in no flow: all go to the first worker
    assert found.dropped is None  # what the device itself loses is unknown
    assert records_of(tmp_path).captures[0].packets == found.packets


def test_the_device_spreads_where_it_can_and_no_tunnel_comes(tmp_path: Path) -> None:
    """net_null says that it can. Nothing else here does, and none takes flow rules."""
    for tunnelled, way, queues in ((False, "rss", 3), (True, "software", 1)):
        folder = tmp_path / way
        folder.mkdir()
        port = Port(CapturePort("x"), device_of("net_null0,size=64", 0, 1500), 1500, 3, tunnelled=tunnelled)
        made = Run(Plan((port,), Settings(), interval_ms=20, hugepages=False), folder)
        status = watch(made, duration_s=0.1, idle_s=None, show=lambda _: None)
        assert status is not None
        assert (status.ports[0].spread, len(status.ports[0].queues), len(status.ports[0].workers)) == (way, queues, 3)


def test_what_a_device_cannot(tmp_path: Path, job: Path) -> None:
    for way in ("rules", "rss"):
        said = refused(tmp_path, "--port", f"x=pcap:{job}", *WORKERS, "--spread", way)
        assert f"cannot spread packets to 3 queues by {way}" in said
        assert "--spread software" in said
