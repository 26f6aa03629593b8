"""The receiver beside dpdk-testpmd rxonly on the same virtual device, each on one core.

net_pcap with infinite_rx hands over the same 512 packets again and again, copied into fresh buffers. Both are measured
in packets for each second of processor time of the polling thread, so that other work on the machine counts less; they
take turns, and the best round of each counts.

So that the receiver does not see the same packets again, which real traffic does not do, the PSNs of the file close a
circle: each flow jumps three times by a third of all PSNs, always at the border of two messages.
"""

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.receiver import program
from tests.bench.capture import compiled
from tests.bench.measure import BUILD, Result
from tests.doubles import capture_images as images

PACKETS = 512
MBUFS = 4096
MESSAGE = 64
"""Packets of a message."""
FLOWS = 2
BURST = 16
THIRD = (1 << 24) // 3
FIRST, MIDDLE, LAST = 6, 7, 8
ROUNDS = 4
SAMPLES = 4
CASES = (("receiver", 1024, 0.8), ("receiver_small", 24, 0.5))
"""Name, payload bytes (IPv4: frames of 1082 and 82 bytes), bar."""
FLOW_NUMBERS = (1, 100, 10_000)
FLOW_PACKETS = 2_560_000
"""As in make_flows.c."""
GROWTH = 1.5
RECEIVED = rb'"ports":\[\{.*?"packets":(\d+)'
"""How the receiver tells its first port's packets."""


def bench() -> list[Result]:
    """A ratio and a rate for each size of packets, and what a packet costs with few and with many flows."""
    return [result for case in CASES for result in _case(*case)] + _flows()


def _flows() -> list[Result]:
    """Processor time a packet of the whole receiver on files, where net_pcap takes each packet from libpcap.

    infinite_rx has no room for packets of 10 000 flows. What the device costs is the same for each file.
    """
    try:
        receiver = program()
    except ReceiveError as fault:
        return [Result("receiver_flow_growth", None, "ratio", GROWTH, higher_is_better=False, note=fault.message)]
    maker = compiled("make_flows")
    least = dict.fromkeys(FLOW_NUMBERS, float("inf"))
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        for flows in FLOW_NUMBERS:
            subprocess.run([str(maker), f"{folder}/{flows}.pcap", str(flows)], check=True)
        for _ in range(ROUNDS):
            for flows in FLOW_NUMBERS:
                least[flows] = min(least[flows], _file_ns(receiver, Path(folder) / f"{flows}.pcap"))
    few, *_, many = least.values()
    note = f"{FLOW_NUMBERS[-1]:,} flows to one, each packet of another flow than the one before"
    return [
        *(Result(f"receiver_flows_{flows}", ns, "ns/packet", note="82 B, from a file") for flows, ns in least.items()),
        Result("receiver_flow_growth", many / few, "ratio", GROWTH, higher_is_better=False, note=note),
    ]


def _file_ns(receiver: Path, file: Path) -> float:
    """Processor time a packet of the thread that polls, from its start to the end of the file."""
    with _receiving(receiver, [*_words(), f"--vdev=net_pcap0,rx_pcap={file}"], interval_ms=50) as process:
        while _told(process, RECEIVED) < FLOW_PACKETS:
            pass
        names = {path.parent.name: path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/comm")}
        spent = _spent_ns(process.pid)
    return sum(spent[thread] for thread, name in names.items() if name.startswith("rte-worker")) / FLOW_PACKETS


def _case(name: str, payload: int, bar: float) -> list[Result]:
    ratio_name = f"{name}_vs_testpmd"
    try:
        receiver = program()
    except ReceiveError as fault:
        return [Result(ratio_name, None, "ratio", bar, note=fault.message)]
    if shutil.which("dpdk-testpmd") is None:
        return [Result(ratio_name, None, "ratio", bar, note="no dpdk-testpmd (Debian: dpdk-dev)")]
    BUILD.mkdir(parents=True, exist_ok=True)
    packets = BUILD / f"{name}.pcap"
    packets.write_bytes(images.pcap(list(looped_frames(payload))))
    ours, theirs = 0.0, 0.0
    for _ in range(ROUNDS):
        theirs = max(theirs, _testpmd_rate(packets))
        ours = max(ours, _receiver_rate(receiver, packets))
    note = f"testpmd {theirs / 1e6:.1f} M packets/s of processor time, best of {ROUNDS}"
    return [
        Result(f"{name}_rate", ours, "packets/s", note=f"{payload} B payload"),
        Result(ratio_name, ours / theirs, "ratio", bar, note=note),
    ]


def looped_frames(payload: int) -> Iterator[bytes]:
    """Bursts of the flows in turn."""
    for place in range(PACKETS):
        burst, within = divmod(place, BURST)
        flow, number = burst % FLOWS, burst // FLOWS * BURST + within
        message, packet = divmod(number, MESSAGE)
        psn = number + min(message, 2) * THIRD
        opcode = {0: FIRST, MESSAGE - 1: LAST}.get(packet, MIDDLE)
        yield images.write(opcode, psn, bytes(payload), MESSAGE * payload, dest_qp=0x100 + flow)


def _words() -> list[str]:
    core = max(os.sched_getaffinity(0))
    words = ["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", "256"]
    return [*words, "--lcores", f"0@{core},1@{core}"]


def _eal(file: Path) -> list[str]:
    return [*_words(), f"--vdev=net_pcap0,rx_pcap={file},infinite_rx=1"]


def _testpmd_rate(file: Path) -> float:
    # line by line, where the C library would keep a pipe's output to itself
    command = ["stdbuf", "-oL", "dpdk-testpmd", *_eal(file), "--"]
    command += ["--forward-mode=rxonly", "--no-flush-rx", f"--total-num-mbufs={MBUFS}", "--stats-period=1"]
    with _running(command) as process:
        return _rate(process, rb"RX-packets: (\d+)")


def _receiver_rate(receiver: Path, file: Path) -> float:
    with _receiving(receiver, _eal(file), interval_ms=1000) as process:
        return _rate(process, RECEIVED)


@contextmanager
def _receiving(receiver: Path, words: list[str], interval_ms: int) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        eal = "".join(f"eal {word}\n" for word in words)
        port = f"port x\ndevice net_pcap0\nloss 1\nmbufs {MBUFS}\n"
        config.write_text(f"spool {folder}/spool\ninterval_ms {interval_ms}\n{eal}{port}")
        with _running([str(receiver), str(config)]) as process:
            yield process


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _rate(process: subprocess.Popen[bytes], pattern: bytes) -> float:
    """Packets for each second that the thread which polls ran, between two of the moments at which they are told."""
    samples = [(_told(process, pattern), _spent_ns(process.pid)) for _ in range(SAMPLES)]
    (first, before), (last, after) = samples[1], samples[-1]  # the start is not what is measured
    return (last - first) / (max(after[thread] - before[thread] for thread in before) / 1e9)


def _told(process: subprocess.Popen[bytes], pattern: bytes) -> int:
    """The number that the program tells next; what it told while nobody listened is of another moment."""
    pipe = cast(IO[bytes], process.stdout).fileno()
    while select.select([pipe], [], [], 0)[0] and os.read(pipe, 1 << 16):
        pass
    said = b""
    while (found := re.search(pattern + rb"\b", said)) is None:
        more = os.read(pipe, 1 << 16)
        if not more:
            raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
        said += more
    return int(found[1])


def _spent_ns(pid: int) -> dict[str, int]:
    """Processor time of each thread."""
    return {
        path.parent.name: int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    }
