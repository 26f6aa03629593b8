"""DPDK's telemetry socket: a few lines of Python, and DPDK's own client, read what the records say later."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import RECEIVE, ask, needs_receiver, read

pytestmark = needs_receiver
CLIENT = shutil.which("dpdk-telemetry.py")


class Live:
    """A receiver that has read its file and waits for more."""

    def __init__(self, output: Path, capture: Path) -> None:
        words = ["--workers", "2", "--no-hugepages", "--interval", "0.05", "--port", f"x=pcap:{capture}"]
        command = [*RECEIVE, *words, "-o", str(output)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.prefix = self.process.stderr.readline().strip().rpartition(" ")[2]
        self.folder = Path("/var/run/dpdk") / self.prefix

    def ask(self, command: str) -> Any:
        return ask(self.prefix, command)

    def flows(self, messages: int) -> list[Any]:
        """All of them once so many messages are told, which come with the next interval; or what is told after 20 s."""
        deadline = time.monotonic() + 20
        while True:
            found = [*self.ask("/flowcheck/flows").values(), *self.ask("/flowcheck/flows,40").values()]
            if sum(flow["messages"] for flow in found) >= messages or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "job.pcapng"
    synthesize(example("two-host"), path, iterations=4)
    return path


@pytest.fixture
def live(tmp_path: Path, capture: Path) -> Iterator[Live]:
    made = Live(tmp_path / "records.fcr", capture)
    try:
        expected = replay([capture]).captures[0].packets
        while made.ask("/flowcheck/status")["0"]["packets"] < expected:
            time.sleep(0.05)
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def test_status_loss_and_flows_are_those_of_the_records(live: Live, capture: Path, tmp_path: Path) -> None:
    status, loss = live.ask("/flowcheck/status")["0"], live.ask("/flowcheck/loss")["0"]
    flows = live.flows(sum(len(flow.messages) for flow in replay([capture]).flows))
    assert "/flowcheck/flows" in live.ask("/")
    live.process.terminate()
    assert live.process.wait(60) == 0
    records = read(tmp_path / "records.fcr")
    (found,) = records.captures
    assert (status["port"], status["driver"], status["spread"], status["workers"]) == ("x", "net_pcap", "software", 2)
    assert (status["packets"], status["bytes"], status["rocev2"]) == (
        *(found.packets, found.bytes, found.frames["rocev2"]),
    )
    assert (status["queue_fill_most"], status["flows"]) == ("unknown", len(records.flows))
    assert 0 < status["ring_fill_most"] < 8192
    assert loss["port"] == "x"
    told = {
        name.replace("/", "."): None if count == "unknown" else count for name, count in loss.items() if name != "port"
    }
    assert told == {name: count for name, count in found.loss.items() if not name.endswith((".missing", ".unread"))}
    finished = {(f["source"], f["destination"], f["dest_qp"]): (f["messages"], f["bytes"]) for f in flows}
    expected = {
        (flow.source, flow.destination, flow.dest_qp): (len(flow.messages), sum(m.bytes or 0 for m in flow.messages))
        for flow in records.flows
    }
    assert finished == expected


@pytest.mark.skipif(CLIENT is None, reason="dpdk-telemetry.py is not there (dpdk)")
def test_the_client_of_dpdk(live: Live) -> None:
    assert CLIENT is not None
    command = [CLIENT, "-f", live.prefix]
    done = subprocess.run(command, input="/flowcheck/status\n", capture_output=True, text=True, check=True, timeout=30)
    assert '"driver": "net_pcap"' in done.stdout.replace('":"', '": "')


def test_nothing_is_left_of_dpdk(live: Live) -> None:
    assert live.folder.is_dir()
    live.process.terminate()
    assert live.process.wait(60) == 0
    assert not live.folder.exists()
