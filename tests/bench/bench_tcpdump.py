"""The receiver beside ``tcpdump -w FILE``, which is what a user would do today, on the same traffic over a veth pair.

Processor time a packet of the whole command: user and system, all threads, for the receiver with the Python process
above it. It is taken while packets come, from 10 to 90 % of them by the interface's own count. The sender is on another
core, and pays for what the kernel does until a packet is in the ring, for both alike; both rings have 64 MiB.

They do not do the same work: tcpdump stores packets and counts nothing, the receiver counts and stores nothing.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.receiver import program
from flowcheck_net.receive.records_read import read_records
from tests.bench.bench_receiver import PACKETS, looped_frames
from tests.bench.measure import BUILD, Result, pinned
from tests.doubles import capture_images as images
from tests.dpdk.receiving import Running, wait_until_idle
from tests.netns.veth import Namespace, namespace, why_no_namespace

NAME = "receiver_vs_tcpdump"
RATES = (20_000, 100_000, 200_000)
"""Packets/s."""
SECONDS = 2.5
PAYLOAD = 1024
ROUNDS = 3
MTU = 1500
RING_KIB = 1 << 16
"""As the receiver's ring of an ``af_packet:`` port. What tcpdump takes unasked is 2 MiB."""
BLOCK_TIMEOUT_S = 1.5
"""tcpdump gets a block of its ring that is not full after one second."""
NEAR, FAR = "na", "fa"


@dataclass(frozen=True)
class Round:
    """One program, one sending."""

    sent: int
    rate: float
    """Packets/s, as sent."""
    lost: int
    """As the program says."""
    cpu_ns: float
    """Processor time a packet."""


def bench() -> list[Result]:
    """A ratio for each rate asked for, and the one at the highest that both held without loss in a round or more."""
    why_not = _missing()
    if why_not:
        return [Result(NAME, None, "ratio", note=why_not)]
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, namespace() as place:
        place.pair(NEAR, FAR, mtu=MTU)
        packets = Path(folder) / "packets.pcap"
        packets.write_bytes(images.pcap(list(looped_frames(PAYLOAD))))
        return _results({rate: _rounds(place, packets, rate) for rate in RATES})


def _missing() -> str:
    """Why nothing can be measured here; empty: it can."""
    try:
        program()
    except ReceiveError as fault:
        return fault.message
    return "no tcpdump (Debian: tcpdump)" if shutil.which("tcpdump") is None else why_no_namespace()


def _results(found: dict[int, tuple[list[Round], list[Round]]]) -> list[Result]:
    rows, best = [], Result(NAME, None, "ratio", note="no rate was held by both without loss; see the rows above")
    for rate, (ours, theirs) in found.items():
        told = f"lost: tcpdump {_lost(theirs)}, receiver {_lost(ours)}"
        kept = [min((one.cpu_ns for one in rounds if one.lost == 0), default=None) for rounds in (ours, theirs)]
        match kept:
            case [float(mine), float(other)]:
                sent = min(one.rate for one in (*ours, *theirs))
                note = f"{other:,.0f} ns a packet to {mine:,.0f}, really sent {sent:,.0f}/s or more; {told}"
                rows.append(Result(f"{NAME}_{rate // 1000}k", other / mine, "ratio", note=note))
                best = Result(
                    NAME, other / mine, "ratio", note=f"the row above of {rate:,} packets/s, the most that both held"
                )
            case _:
                rows.append(Result(f"{NAME}_{rate // 1000}k", None, "ratio", note=told))
    return [*rows, best]


def _lost(rounds: list[Round]) -> str:
    return f"{sum(one.lost for one in rounds):,} of {sum(one.sent for one in rounds):,}"


def _rounds(place: Namespace, packets: Path, rate: int) -> tuple[list[Round], list[Round]]:
    """Of the receiver and of tcpdump, which take turns."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_receiver(place, packets, rate))
        theirs.append(_tcpdump(place, packets, rate))
    return ours, theirs


def _receiver(place: Namespace, packets: Path, rate: int) -> Round:
    output = packets.with_name("records.fcr")
    with Running(place, output, "--port", f"x=af_packet:{FAR}", "--mtu", str(MTU)) as running:
        pids = (running.process.pid, running.child())
        sent, achieved, cpu_ns = _send(place, packets, rate, pids)
        wait_until_idle(running.child())
        code, _, said = running.end()
    if code != 0:
        raise RuntimeError(f"receive ended with {code}: {said}")
    (capture,) = read_records(output).captures
    output.unlink()
    return _checked(sent, achieved, cpu_ns, capture.packets, capture.dropped)


def _tcpdump(place: Namespace, packets: Path, rate: int) -> Round:
    output = packets.with_name("tcpdump.pcap")
    # -Z: else Debian's becomes another user, who may not write here
    command = pinned(["tcpdump", "-Z", "root", "-B", str(RING_KIB), "-i", FAR, "-w", str(output)])
    with _listening(place.words(*command)) as process:
        sent, achieved, cpu_ns = _send(place, packets, rate, (process.pid,))
        wait_until_idle(process.pid)
        time.sleep(BLOCK_TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    output.unlink()
    captured, dropped = (
        int(re.findall(rf"^(\d+) packets? {words}", said, re.MULTILINE)[0]) for words in ("captured", "dropped by k")
    )
    return _checked(sent, achieved, cpu_ns, captured, dropped)


@contextmanager
def _listening(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr or ():
                if "listening on" in line:
                    break
            yield process
        finally:
            process.kill()


def _checked(sent: int, achieved: float, cpu_ns: float, counted: int, dropped: int | None) -> Round:
    """RuntimeError where counted and dropped are not what was sent: then nothing measured here means what it says."""
    if dropped is None or counted + dropped != sent:
        raise RuntimeError(f"{sent} packets were sent, {counted} counted and {dropped} dropped")
    return Round(sent, achieved, dropped, cpu_ns)


def _send(place: Namespace, packets: Path, rate: int, pids: tuple[int, ...]) -> tuple[int, float, float]:
    """Packets sent, packets/s, and processor time a packet of the processes between 10 and 90 % of them."""
    rounds = round(rate * SECONDS / PACKETS)
    words = ("--to", NEAR, packets, "--pps", str(rate), "--loop", str(rounds), "--json")
    base = _arrived(place)
    with place.start(*words) as sender:
        os.sched_setaffinity(sender.pid, {min(os.sched_getaffinity(0))})
        first, before = _at(place, base + rounds * PACKETS // 10, pids, sender)
        last, after = _at(place, base + rounds * PACKETS * 9 // 10, pids, sender)
        told, said = sender.communicate(timeout=60)
    if sender.returncode != 0:
        raise RuntimeError(f"replay --to ended with {sender.returncode}: {said}")
    (source,) = json.loads(told)["sources"]
    return source["packets"], source["packets_per_s"], (after - before) / (last - first)


def _at(place: Namespace, wanted: int, pids: tuple[int, ...], sender: "subprocess.Popen[str]") -> tuple[int, int]:
    """Packets arrived and nanoseconds spent, as soon as so many have arrived."""
    while (arrived := _arrived(place)) < wanted and sender.poll() is None:
        time.sleep(0.002)
    return arrived, sum(map(_spent_ns, pids))


def _arrived(place: Namespace) -> int:
    """Packets that came to the far end, lost ones too."""
    text = Path(f"/proc/{place.holder}/net/dev").read_text()
    return int(re.findall(rf"^ *{FAR}: *\d+ +(\d+)", text, re.MULTILINE)[0])


def _spent_ns(pid: int) -> int:
    """Of all threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
