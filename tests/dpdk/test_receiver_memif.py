"""Shared memory from another process: dpdk-testpmd sends, and says how many packets it got rid of."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.dpdk.receiving import RECEIVE, needs_receiver, read

RING = 1024
"""Packets that go away with the sender, where nobody has read them yet: net_memif's default."""
SENT = re.compile(r"TX-packets: (\d+)")
needs_testpmd = pytest.mark.skipif(shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd is not there (dpdk-dev)")


@needs_receiver
@needs_testpmd
def test_every_packet_that_was_put_into_the_ring(tmp_path: Path) -> None:
    output, place = tmp_path / "records.fcr", tmp_path / "memif.sock"
    command = [*RECEIVE, "--port", f"x=memif:{place}", "--interval", "0.2", "-o", str(output)]
    with subprocess.Popen([*command, "--no-hugepages"], stderr=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stderr is not None
            assert receiver.stderr.readline().startswith("receiving: x (net_memif); ")
            sent = _sent(place)
            receiver.terminate()
            assert receiver.wait(60) == 0
        finally:
            receiver.kill()
    (capture,) = read(output).captures
    assert 0 <= sent - capture.packets <= RING
    assert capture.packets > RING
    assert capture.dropped is None


def _sent(place: Path) -> int:
    """Run the sender until it has sent more than a ring holds; how many at last."""
    eal = ["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", "128", "--lcores", "0@0,1@0"]
    device = f"--vdev=net_memif0,role=client,socket={place},socket-abstract=no"
    command = ["stdbuf", "-oL", "dpdk-testpmd", *eal, device, "--", "--forward-mode=txonly", "--total-num-mbufs=4096"]
    with subprocess.Popen([*command, "--stats-period=1"], stdout=subprocess.PIPE, text=True) as sender:
        try:
            assert sender.stdout is not None
            for line in sender.stdout:
                if (found := SENT.search(line)) and int(found[1]) > 10 * RING:
                    break
            sender.send_signal(signal.SIGINT)
            said, _ = sender.communicate(timeout=20)
        finally:
            sender.kill()
    return int(SENT.findall(said)[-1])
