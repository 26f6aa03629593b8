"""All that arrives is in the pcapng files: as tshark reads them, and as our own replay counts them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles import capture_images as images
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import needs_receiver, plain, read, receive, refused

pytestmark = needs_receiver
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not there")
QUICK = ("--idle", "0.3", "--interval", "0.05", "--no-hugepages", "--mtu", "9000")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    capture = tmp_path_factory.mktemp("job") / "job.pcapng"
    synthesize(example("two-host"), capture, iterations=8)
    return capture


def frames(*paths: Path) -> list[str]:
    """Time and bytes of every frame, by tshark; net_pcap gives whole microseconds."""
    found = []
    for path in paths:
        command = [
            "tshark",
            "-r",
            str(path),
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "frame.len",
            "-e",
            "ip.dst",
        ]
        command += ["-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "infiniband.invariant.crc"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        for line in done.stdout.splitlines():
            time, _, rest = line.partition("\t")
            found.append(f"{time[:-3]}\t{rest}")
    return found


@needs_tshark
@pytest.mark.parametrize("workers", ["1", "3"])
def test_what_was_written_is_what_came(tmp_path: Path, job: Path, workers: str) -> None:
    output, written = tmp_path / "records.fcr", tmp_path / "all.pcapng"
    receive(output, "--port", f"x=pcap:{job}", "--write-pcapng", written, "--workers", workers, *QUICK)
    assert frames(written) == frames(job)
    again = replay([written], captures={str(written): "x"})
    assert again.captures[0].dropped == 0
    assert plain(again) == plain(read(output)) == plain(replay([job], captures={str(job): "x"}))


def test_frames_of_several_buffers_and_two_ports(tmp_path: Path) -> None:
    output, written = tmp_path / "records.fcr", tmp_path / "all.pcapng"
    files = {name: tmp_path / f"{name}.pcap" for name in ("one", "two")}
    for number, path in enumerate(files.values()):
        long = [images.write_only(psn, payload=bytes(range(200)) * 20) for psn in range(5 + number)]
        path.write_bytes(images.pcap(long))
    ports = [word for name, path in files.items() for word in ("--port", f"{name}=pcap:{path}")]
    receive(output, *ports, "--write-pcapng", written, *QUICK[:-1], "1500")
    again = replay([written])
    assert [(each.name, each.packets, each.attributes["truncated"]) for each in again.captures] == [
        *(("one", 5, 0), ("two", 6, 0)),
    ]
    assert [flow.bytes for flow in again.flows] == [5 * 4000, 6 * 4000]


def test_files_of_a_size_and_only_the_newest(tmp_path: Path) -> None:
    """1,000 frames of 2,062 bytes, each with 34 around it, in files of 1 MB: 477 of them in the first two."""
    output, capture = tmp_path / "records.fcr", tmp_path / "long.pcap"
    frame = len(images.write_only(0, payload=bytes(2000)))
    capture.write_bytes(images.pcap([images.write_only(psn, payload=bytes(2000)) for psn in range(1000)]))
    written = tmp_path / "all.pcapng"
    receive(output, "--port", f"x=pcap:{capture}", "--write-pcapng", written, "--write-limit", "1", *QUICK)
    names = [written, tmp_path / "all-2.pcapng", tmp_path / "all-3.pcapng"]
    assert sorted(tmp_path.glob("all*.pcapng")) == sorted(names)
    assert [path.stat().st_size <= 1_000_000 for path in names] == [True] * 3
    each = (1_000_000 - 100) // (32 + -(-frame // 4) * 4)
    assert [replay([path]).captures[0].packets for path in names] == [each, each, 1000 - 2 * each]
    assert replay(names).captures[0].packets == 1000
    said = refused(tmp_path, "--port", f"x=pcap:{capture}", "--write-pcapng", written)
    assert "is there already" in said
    for path in names:
        path.unlink()
    more = ("--write-limit", "1", "--write-files", "2")
    receive(output, "--port", f"x=pcap:{capture}", "--write-pcapng", written, *more, *QUICK)
    assert sorted(tmp_path.glob("all*.pcapng")) == sorted(names[1:])


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
def test_a_full_disk_stops_the_file_and_not_the_counting(tmp_path: Path, job: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", small], check=True)
    try:
        output = tmp_path / "records.fcr"
        done = receive(output, "--port", f"x=pcap:{job}", "--write-pcapng", small / "all.pcapng", *QUICK)
        assert "the pcapng file is not whole: No space left on device; " in done.stderr
        assert plain(read(output)) == plain(replay([job], captures={str(job): "x"}))
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_writer_that_is_too_slow_is_counted_and_nobody_waits(tmp_path: Path) -> None:
    """A device without end on shared cores: all is counted that the device gave; what was not written is told."""
    output, written = tmp_path / "records.fcr", tmp_path / "all.pcapng"
    more = ("--write-limit", "1", "--write-files", "1", "--duration", "0.5", "--no-hugepages", "--mtu", "1500")
    done = receive(output, "--port", "x=net_null0,size=64", "--write-pcapng", written, *more)
    assert "the pcapng file is not whole: the disk did not keep up; " in done.stderr
    (last,) = tmp_path.glob("all*.pcapng")
    (capture,) = replay([last]).captures
    assert capture.dropped is not None
    assert 0 < capture.dropped < read(output).captures[0].packets
