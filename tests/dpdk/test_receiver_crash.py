"""The receiver is killed at random moments while a job runs: no iteration is called whole that did not arrive.

What was sent and when is heard by packet sockets of the test's own where the hosts' cables end; while there was no
receiver, nobody can have seen what was sent. ``make crash`` kills 50 times.
"""

import os
import random
import signal
import socket
import statistics
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import FindingKind, Verdict
from flowcheck_net.plan.plan import expectation, plan_to_json
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import Running, needs_receiver, read, wait_until_idle
from tests.netns.lab_oracle import data_packet
from tests.netns.veth import Listener, Namespace, namespace, needs_namespaces

pytestmark = [needs_receiver, needs_namespaces]
KILLS = int(os.environ.get("FLOWCHECK_RECEIVER_KILLS", "3"))
SPEED = 2
"""An iteration each 250 ms."""
ITERATIONS = 20 + 16 * KILLS
SO_TIMESTAMPNS = 35
WHOLE = (Verdict.COVERED, Verdict.RECOVERED, Verdict.DUPLICATE)
Span = tuple[int, int]


@dataclass
class Sent:
    """Everything that comes out of a cable, with the kernel's time."""

    listener: Listener
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    over: bool = False

    def hear(self) -> None:
        self.listener.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.listener.socket.settimeout(0.3)
        while True:
            try:
                frame, auxiliary, _, _ = self.listener.socket.recvmsg(1 << 16, 256)
            except TimeoutError:
                if self.over:
                    return
                continue
            for level, kind, data in auxiliary:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, nanoseconds = struct.unpack("qq", data)
                    self.frames.append((seconds * 10**9 + nanoseconds, frame))


@contextmanager
def heard(place: Namespace, *interfaces: str) -> Iterator[list[Sent]]:
    """What comes meanwhile; all of it is there when this ends."""
    with ExitStack() as stack:
        ears = [Sent(stack.enter_context(place.listening(name))) for name in interfaces]
        threads = [Thread(target=ear.hear) for ear in ears]
        for thread in threads:
            thread.start()
        try:
            yield ears
        finally:
            for ear in ears:
                ear.over = True
            for thread in threads:
                thread.join()


def kill(running: Running, interfaces: set[str]) -> tuple[Span, float]:
    """When nobody listened at these interfaces, given by number, and seconds until it received again."""
    began = time.monotonic()
    os.kill(running.child(), signal.SIGKILL)
    while _listened(running.process.pid, interfaces):
        pass
    dead = time.time_ns()
    again = look = dead
    while not _listened(running.process.pid, interfaces):
        again, look = look, time.time_ns()  # before the last look that saw none
    running.wait_for_start()
    return (dead, again), time.monotonic() - began


def _listened(pid: int, interfaces: set[str]) -> bool:
    """Is there a packet socket beside the test's own that is bound? Before, the receiver throws away what it hears."""
    rows = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
    return sum(row.split()[4] in interfaces for row in rows) > len(interfaces)


@dataclass
class Truth:
    """Packets of each iteration: sent, and those sent while nobody received, of all and of those that carry what is
    fully reduced: in a ring of two that is the second half of what a rank sends."""

    sent: dict[int, int]
    unheard: dict[int, int]
    unheard_reduced: dict[int, int]

    @classmethod
    def of(cls, frames: list[tuple[int, bytes]], down: list[Span]) -> "Truth":
        flows: dict[object, dict[int, int]] = defaultdict(dict)
        for at, frame in frames:
            if (packet := data_packet(frame)) is not None:
                flows[packet.flow][packet.psn] = at
        truth = cls(defaultdict(int), defaultdict(int), defaultdict(int))
        for psns in flows.values():
            each, rest = divmod(len(psns), ITERATIONS)
            assert (rest, sorted(psns)) == (0, list(range(len(psns))))
            for psn, at in psns.items():
                number, place = divmod(psn, each)
                missed = any(first < at < last for first, last in down)
                truth.sent[number] += 1
                truth.unheard[number] += missed
                truth.unheard_reduced[number] += missed and 2 * place >= each
        return truth


@pytest.mark.timeout(60 + 20 * KILLS)
def test_no_iteration_is_called_whole_that_did_not_arrive(tmp_path: Path) -> None:
    plan = example("two-host")
    job, output, plan_file = tmp_path / "job.pcapng", tmp_path / "records.fcr", tmp_path / "plan.json"
    plan_file.write_text(plan_to_json(plan))
    synthesize(plan, job, iterations=ITERATIONS)
    draw = random.Random(seed := int(os.environ.get("FLOWCHECK_SEED", str(os.getpid()))))
    print(f"FLOWCHECK_SEED={seed}")  # noqa: T201 - how to do the same again
    down: list[Span] = []
    times: list[float] = []
    with namespace() as place:
        for number in (0, 1):
            place.pair(f"na{number}", f"fa{number}")
        far = {place.run("ip", "-o", "link", "show", f"fa{number}").stdout.partition(":")[0] for number in (0, 1)}
        words = [word for number in (0, 1) for word in ("--port", f"cap{number}=af_packet:fa{number}")]
        words += ["--plan", str(plan_file), "--node", "ckpt1", "--interval", "0.05"]
        targets = [word for number in (0, 1) for word in ("--to", f"ckpt1:cap{number}=na{number}")]
        with heard(place, "fa0", "fa1") as ears, Running(place, output, *words) as running:
            with place.start(*targets, job, "--speed", str(SPEED)) as sender:
                while not all(ear.frames for ear in ears):  # what nobody saw begin has no numbers
                    time.sleep(0.1)
                for _ in range(KILLS):
                    time.sleep(0.3 + 2.2 * draw.random())
                    span, seconds = kill(running, far)
                    down.append(span)
                    times.append(seconds)
                sender.communicate(timeout=600)
            assert sender.returncode == 0
            wait_until_idle(running.child())
            code, _, err = running.end()
    assert code == 9, err
    report = audit(expectation(plan), read(output))
    truth = Truth.of([each for ear in ears for each in ear.frames], down)
    claimed = {each.number: each.verdict for each in report.iterations if each.verdict in WHOLE}
    for number, verdict in claimed.items():
        assert truth.sent[number] == max(truth.sent.values()), number
        assert (truth.unheard_reduced if verdict is Verdict.RECOVERED else truth.unheard)[number] == 0, number
    broken = [number for number in truth.unheard if truth.unheard_reduced[number]]
    assert broken
    assert "iterations that are not whole: " in err
    named = numbers(err.partition("iterations that are not whole: ")[2].partition(" (of ")[0])
    assert named == set(range(ITERATIONS)) - set(claimed)
    assert named >= set(broken)
    again = f"{statistics.median(times):.2f} s, {max(times):.2f} s at most"
    print(f"{KILLS} kills: {len(claimed)} of {ITERATIONS} iterations whole; receiving again after {again}")  # noqa: T201
    if not claimed and any(each.kind is FindingKind.AMBIGUOUS for each in report.findings):
        pytest.skip("the sender did not keep time on this busy machine: the audit calls nothing whole")
    assert len(claimed) > ITERATIONS // 4


def numbers(text: str) -> set[int]:
    """``3, 5-7`` as numbers."""
    spans = [each.partition("-") for each in text.split(", ")]
    return {number for first, _, last in spans for number in range(int(first), int(last or first) + 1)}
