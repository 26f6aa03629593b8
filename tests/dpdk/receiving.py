"""Helpers of this folder: the command, and records without what a live receiver cannot know."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket
from typing import Any, Self

import pytest

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.receiver import program
from flowcheck_net.receive.records import Flow, Records
from flowcheck_net.receive.records_read import read_records
from tests.netns.veth import PROGRAM, Namespace

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples beside the project")
RECEIVE = (*PROGRAM, "receive")


def _missing() -> str:
    try:
        program()
    except ReceiveError as fault:
        return f"{fault.message}: {fault.hint}"
    return ""


_WHY_NOT = _missing()
needs_receiver = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "not skipped")


def receive(output: Path, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [*RECEIVE, *map(str, words), "-o", str(output)]
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=120)


def refused(tmp_path: Path, *words: str | Path) -> str:
    """What the command says that cannot start; nothing may be left behind."""
    output = tmp_path / "refused.fcr"
    done = receive(output, *words, check=False)
    assert done.returncode in (2, 3, 9), done.stderr
    assert not output.exists()
    assert not list(tmp_path.glob("refused.fcr.spool/*.spool"))
    return done.stderr


class Running:
    """The command in a namespace, receiving already."""

    def __init__(self, place: Namespace, output: Path, *words: str | Path) -> None:
        command = place.words(*RECEIVE, *words, "-o", output)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.prefix = ""
        self.wait_for_start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is left behind, whatever a test met: the receiver ends when this process does."""
        self.process.kill()
        self.process.communicate()

    def wait_for_start(self) -> list[str]:
        """What was said before."""
        assert self.process.stderr is not None
        said: list[str] = []
        for line in self.process.stderr:
            if line.startswith("receiving: "):
                self.prefix = line.split()[-1]
                return said
            said.append(line)
        raise AssertionError("".join(said))

    def child(self) -> int:
        """The process that receives."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def end(self, signal_number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Exit code and what was said."""
        self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def ask(prefix: str, command: str) -> Any:
    """What DPDK's telemetry socket of a receiver answers."""
    with socket(AF_UNIX, SOCK_SEQPACKET) as client:
        client.connect(f"/var/run/dpdk/{prefix}/dpdk_telemetry.v2")
        client.recv(1024)  # who it is
        client.send(command.encode())
        return json.loads(client.recv(16384))[command.partition(",")[0]]


def wait_until_idle(pid: int) -> None:
    """Until each thread sleeps most of the time that it does not wait for a processor: what was sent has been counted.

    A thread that has work and gets no processor, because others are busy, is not idle.
    """
    while True:
        before, began = _processor_times(pid), time.monotonic()
        time.sleep(0.3)
        passed = time.monotonic() - began
        after = _processor_times(pid)
        if before.keys() == after.keys() and all(
            after[one][0] - before[one][0] <= (passed - (after[one][1] - before[one][1])) / 3 for one in after
        ):
            return


def _processor_times(pid: int) -> dict[str, tuple[float, float]]:
    """By thread: seconds on a processor, and seconds of waiting for one."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        ran, waited, _ = (thread / "schedstat").read_text().split()
        found[thread.name] = int(ran) / 1e9, int(waited) / 1e9
    return found


def plain(records: Records) -> Records:
    """Without sources, warnings and drops; times as net_pcap gives them, in whole microseconds."""
    captures = tuple(
        replace(each, dropped=None, loss={}, first_time=_floor(each.first_time), last_time=_floor(each.last_time))
        for each in records.captures
    )
    return Records((), (), captures, tuple(map(_plain_flow, records.flows)))


def _floor(time_ns: int) -> int:
    return time_ns // 1000 * 1000


def _plain_flow(flow: Flow) -> Flow:
    messages = tuple(
        replace(each, first_time=_floor(each.first_time), last_time=_floor(each.last_time)) for each in flow.messages
    )
    return replace(flow, messages=messages)


def timeless(records: Records) -> Records:
    """The same without times."""
    found = plain(records)
    captures = tuple(replace(each, first_time=0, last_time=0) for each in found.captures)
    flows = tuple(
        replace(flow, messages=tuple(replace(each, first_time=0, last_time=0) for each in flow.messages))
        for flow in found.flows
    )
    return Records((), (), captures, flows)


def read(path: Path) -> Records:
    return read_records(path)


def spool_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.spool")
