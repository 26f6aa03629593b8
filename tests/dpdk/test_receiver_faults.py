"""What cannot start says why and what to do; nothing is left behind. And what DPDK is asked for."""

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.receive import command
from flowcheck_net.errors import FlowcheckError, ReceiveError
from flowcheck_net.ids import CapturePort
from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver import program
from flowcheck_net.receive.receiver_config import Plan, config_text, eal_words, free_hugepages_mb
from flowcheck_net.receive.receiver_device import Device, Loss, Port, device_of
from tests.doubles import capture_images as images
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import needs_receiver, read, receive, refused


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "one.pcap"
    path.write_bytes(images.pcap([images.write_only(7)]))
    return path


def physical(workers: int = 1) -> Plan:
    device = Device("3b:00.0", "0000:3b:00.0", ("--allow=0000:3b:00.0",), Loss.DEVICE, physical=True)
    return Plan((Port(CapturePort("ckpt0:cap0"), device, 4256, workers),), Settings())


def virtual(workers: int = 1, hugepages: bool | None = None) -> Plan:
    device = device_of("net_null0", 0, 1500)
    return Plan((Port(CapturePort("x"), device, 1500, workers),), Settings(), hugepages=hugepages)


def test_hugepages_are_taken_where_enough_are_free() -> None:
    assert "--in-memory" in eal_words(virtual(), 1 << 20)
    assert {"--no-huge", "--no-shconf"} <= set(eal_words(virtual(), 0))
    assert "--no-huge" in eal_words(virtual(hugepages=False), 1 << 20)
    assert "--no-pci" in eal_words(virtual(), 0)
    assert "--no-pci" not in eal_words(physical(), 1 << 20)


def test_no_hugepages_for_a_physical_port() -> None:
    with pytest.raises(ReceiveError, match=r"MB of hugepages are needed, 4 MB are free") as caught:
        eal_words(physical(), 4)
    assert "sysctl -w vm.nr_hugepages=" in caught.value.hint


def test_free_hugepages(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("HugePages_Total: 9\nHugePages_Free:    3\nHugepagesize:       2048 kB\n")
    assert free_hugepages_mb(meminfo) == 6
    meminfo.write_text("MemTotal: 1 kB\n")
    assert free_hugepages_mb(meminfo) == 0


def test_a_core_for_each_worker_and_one_that_deals_as_far_as_they_go() -> None:
    words = eal_words(virtual(workers=3), 0)
    cores = sorted(os.sched_getaffinity(0))
    expected = ",".join(f"{lcore}@{cores[lcore % len(cores)]}" for lcore in range(1 + 3 + 1))
    assert words[words.index("--lcores") + 1] == expected


def test_the_configuration_says_all() -> None:
    plan = Plan(virtual().ports, Settings(check_icrc=True, gre_types=(0x1234,), trimmed_dscp=5), 250)
    lines = config_text(plan, Path("/tmp/s"), 0).splitlines()
    assert {"spool /tmp/s", "interval_ms 250", "check_icrc 1", "trimmed_dscp 5", "gre_type 4660"} <= set(lines)
    assert lines[-8:-3] == ["port x", "device net_null0", "workers 1", "spread 0", "tunnelled 1"]
    assert lines[-3:] == ["mtu 1500", "descriptors 4096", "loss 0"]
    with pytest.raises(ReceiveError, match="line end"):
        config_text(plan, Path("/tmp/a\nb"), 0)


@pytest.mark.parametrize("text", ["eth0", "af_packet:", "pcap", "net", "3b:00.9", "usb:1"])
def test_no_device(text: str) -> None:
    with pytest.raises(ReceiveError, match="is no device") as caught:
        device_of(text, 0, 1500)
    assert "af_packet:INTERFACE" in caught.value.hint


def test_devices_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReceiveError, match=r"there is no PCI device 0000:ff:1f\.7"):
        device_of("ff:1f.7", 0, 1500)
    with pytest.raises(ReceiveError, match="No such file"):
        device_of(f"pcap:{tmp_path}/none", 0, 1500)
    with pytest.raises(ReceiveError, match="takes no name with a comma"):
        device_of(f"pcap:{tmp_path}/a,b", 0, 1500)


def test_a_socket_that_somebody_left(tmp_path: Path) -> None:
    left = tmp_path / "memif.sock"
    left.touch()
    with pytest.raises(ReceiveError, match="is there already") as caught:
        device_of(f"memif:{left}", 0, 1500)
    assert f"`rm {left}`" in caught.value.hint


def test_packet_ring_blocks_are_whole_frames_and_whole_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """net_af_packet of 22.11 finds no frame behind a block that ends in a part of one."""
    monkeypatch.setattr("flowcheck_net.receive.receiver_device._kernel_interface", lambda interface, mtu: None)
    for mtu in (64, 1500, 4256, 9000, 65000):
        (word,) = device_of("af_packet:eth1", 3, mtu).arguments
        ring = dict(part.split("=") for part in word.removeprefix("--vdev=net_af_packet3,").split(","))
        block, frame, count = int(ring["blocksz"]), int(ring["framesz"]), int(ring["framecnt"])
        assert (block % frame, block % 4096, frame % 16, count % (block // frame)) == (0, 0, 0, 0)
        assert frame >= mtu + 100
        assert 1 << 25 <= frame * count <= 1 << 26


@needs_receiver
def test_faults_of_the_device_are_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    said = refused(work, "--port", "x=net_nothing0", "--no-hugepages")
    assert "what to do: " in said
    assert "driver is not installed" in said
    said = refused(work, "--port", f"x=net_memif0,socket={tmp_path}/none,socket-abstract=no", "--no-hugepages")
    assert "capture port x: " in said
    assert "start the other side first" in said
    assert list(work.iterdir()) == []


@needs_receiver
def test_hugepages_that_are_insisted_on(tmp_path: Path, capture: Path) -> None:
    if free_hugepages_mb() > 64:
        pytest.skip("there are hugepages here")
    said = refused(tmp_path, "--port", f"x=pcap:{capture}", "--hugepages")
    assert "hugepages are needed" in said
    assert "leave out --hugepages" in said


def said(*words: str | Path) -> str:
    """The refusal of a command that stops before it touches anything."""
    result = CliRunner().invoke(command, [*map(str, words), "-o", "/nonexistent/x.fcr"])
    assert result.exit_code != 0
    fault = result.exception
    return f"{fault.message}: {fault.hint}" if isinstance(fault, FlowcheckError) else result.output


@needs_receiver
def test_the_plan_names_the_ports(tmp_path: Path, capture: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(plan_to_json(example("two-host")))
    first, second = sorted({planned.capture for planned in example("two-host").sessions})
    node, _, nic = first.partition(":")
    asked = ("--plan", plan, "--node", node)
    here, there = f"{nic}=pcap:{capture}", f"{second}=net_null0,size=60"
    assert f"add --port {first}=DEVICE --port {second}=DEVICE" in said(*asked)
    assert f"no device is given for {second}: add" in said(*asked, "--port", here)
    assert f"it has {first}, {second}" in said(*asked, "--port", f"nic99=pcap:{capture}")
    assert f"{first} has two devices" in said(*asked, "--port", here, "--port", here)
    assert f"its nodes are {node}" in said("--plan", plan, "--node", "nobody", "--port", "x=net_null0")
    assert "go together" in said("--plan", plan, "--port", "x=net_null0")
    output = tmp_path / "records.fcr"
    words = ("--port", here, "--port", there, "--duration", "0.3", "--interval", "0.05", "--no-hugepages")
    done = receive(output, *asked, *words)
    one, two = read(output).captures
    assert (one.name, one.packets, one.dropped) == (first, 1, 0)
    assert (two.name, two.packets > 1000, two.dropped) == (second, True, None)
    assert f"capture port {second}: net_null does not count what it loses" in done.stderr


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Another program in the receiver's place."""
    program = tmp_path / "stand-in"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("FLOWCHECK_RECEIVER", str(program))


def test_dpdk_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    """What the loader says where a library is missing."""
    library = "error while loading shared libraries: librte_eal.so.23: cannot open shared object file"
    stand_in(tmp_path, monkeypatch, f"echo 'flowcheck-receiver: {library}' >&2; exit 127")
    work = tmp_path / "work"
    work.mkdir()
    told = refused(work, "--port", f"x=pcap:{capture}")
    assert "the receiver died before it had started: exit code 127" in told
    assert "apt-get install dpdk" in told
    monkeypatch.setenv("FLOWCHECK_RECEIVER", str(tmp_path / "none"))
    assert "is no program" in refused(work, "--port", f"x=pcap:{capture}")
    assert list(work.iterdir()) == []


def test_a_build_without_dpdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWCHECK_RECEIVER", raising=False)
    monkeypatch.setattr("flowcheck_net.receive.receiver.files", lambda _: tmp_path)
    monkeypatch.setattr("flowcheck_net.receive.receiver._built", lambda: tmp_path / "none")
    with pytest.raises(ReceiveError, match="this build has no receiver") as caught:
        program()
    assert "libdpdk-dev" in caught.value.hint


def test_a_card_that_the_kernel_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel lists a card: bound to its own driver, to none, to one beside which DPDK works."""
    monkeypatch.setattr("flowcheck_net.receive.receiver_device._PCI_DEVICES", tmp_path)
    place = tmp_path / "0000:3b:00.0"
    place.mkdir()
    for bound in ("ice", "", "vfio-pci", "mlx5_core"):
        (place / "driver").unlink(missing_ok=True)
        if bound:
            (tmp_path / bound).mkdir()
            (place / "driver").symlink_to(tmp_path / bound)
        if bound in ("vfio-pci", "mlx5_core"):
            found = device_of("3b:00.0", 0, 1500)
            assert (found.name, found.physical, found.loss) == ("0000:3b:00.0", True, Loss.DEVICE)
            continue
        with pytest.raises(ReceiveError, match=f"is held by {bound or 'no driver'}: DPDK cannot use it") as caught:
            device_of("3b:00.0", 0, 1500)
        assert "--bind=vfio-pci 0000:3b:00.0" in caught.value.hint


@needs_receiver
@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
def test_a_full_disk(tmp_path: Path, capture: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", small], check=True)
    try:
        (small / "full").write_bytes(bytes(4096))
        done = receive(small / "x.fcr", "--port", f"x=pcap:{capture}", "--idle", "0.2", "--no-hugepages", check=False)
        assert done.returncode != 0
        assert "No space left on device" in done.stderr
        assert "what to do: " in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["umount", small], check=True)


@needs_receiver
def test_a_lock_that_somebody_left_is_no_hindrance(tmp_path: Path, capture: Path) -> None:
    """Its holder is gone, and the kernel knows; nor is DPDK's own folder of one that was killed."""
    output = tmp_path / "records.fcr"
    folder = tmp_path / "records.fcr.spool"
    folder.mkdir()
    (folder / "lock").touch()
    receive(output, "--port", f"x=pcap:{capture}", "--idle", "0.2", "--no-hugepages")
    assert read(output).captures[0].packets == 1


@needs_receiver
def test_without_hugepages_it_says_so(tmp_path: Path) -> None:
    if free_hugepages_mb() > 64:
        pytest.skip("there are hugepages here")
    words = ("--port", "x=net_null0,size=64", "--duration", "0.1", "--interval", "0.05")
    done = receive(tmp_path / "x.fcr", *words)
    assert "MB of hugepages are not free: receiving without them" in done.stderr
    assert "sysctl -w vm.nr_hugepages=" in done.stderr
    assert "hugepages" not in receive(tmp_path / "x.fcr", *words, "--no-hugepages").stderr
