"""What the crash campaign sees of its own: packets on the cables, when nobody listened, and what lies on a board.

Nothing here asks the receiver, except for what it calls complete.
"""

import json
import os
import signal
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from flowcheck_net.errors import ReceiveError
from flowcheck_net.plan.plan import Plan
from flowcheck_net.receive.board import Board
from flowcheck_net.receive.native_board import BoardEvent
from tests.doubles import synth_reading
from tests.dpdk.placing import layouts
from tests.dpdk.receiving import Running
from tests.netns.lab_oracle import data_packet
from tests.netns.veth import Listener, Namespace

SO_TIMESTAMPNS = 35
AGAIN_S = 60
"""Beyond any doubt: nothing will come of it."""
GROUP = "dp0"
Key = tuple[int, int]
"""Life of the board, and the iteration's number within it."""


@dataclass(frozen=True)
class Down:
    """Once that the receiver was dead: nanoseconds since the epoch."""

    killed: int
    """Before the signal."""
    dead: int
    """Its packet sockets are gone."""
    again: int
    """Not all of its next life's were there yet."""
    up: int
    """It said that it receives."""


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


def kill(running: Running, interfaces: set[str]) -> Down:
    """SIGKILL, and wait for the next life. ``interfaces`` by number."""
    killed = time.time_ns()
    os.kill(running.child(), signal.SIGKILL)
    while _listened(running.process.pid, interfaces):
        time.sleep(0.001)
    dead = again = look = time.time_ns()
    while not _listened(running.process.pid, interfaces):
        again, look = look, time.time_ns()  # before the last look that saw none
        assert (look - dead) / 1e9 < AGAIN_S, f"nobody receives again (load {os.getloadavg()})"
        time.sleep(0.001)
    running.wait_for_start()
    return Down(killed, dead, again, time.time_ns())


def _listened(pid: int, interfaces: set[str]) -> bool:
    """Is there a packet socket beside the test's own that is bound? Before, the receiver throws away what it hears."""
    rows = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
    return sum(row.split()[4] in interfaces for row in rows) > len(interfaces)


class Truth:
    """What the cables say of each iteration that began: all, those with packets that nobody can have heard, and those
    that nothing happened to. In a ring of two the second half of what a rank sends is fully reduced."""

    def __init__(self, capture: Path, iterations: int, frames: list[tuple[int, bytes]]) -> None:
        """``capture``: what was given to the sender."""
        given: dict[object, int] = defaultdict(int)
        for packet in synth_reading.read(capture)[0]:
            if (found := data_packet(packet.frame)) is not None:
                given[found.flow] += 1
        self._each = {flow: count // iterations for flow, count in given.items()}
        assert all(count % iterations == 0 for count in given.values())
        self._at: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        seen: set[tuple[object, int]] = set()
        for at, frame in frames:
            if (packet_ := data_packet(frame)) is not None and (packet_.flow, packet_.psn) not in seen:
                seen.add((packet_.flow, packet_.psn))
                number, place = divmod(packet_.psn, self._each[packet_.flow])
                self._at[number].append((at, 2 * place >= self._each[packet_.flow]))

    def sent(self) -> set[int]:
        """Iterations all of whose packets were sent."""
        whole = sum(self._each.values())
        return {number for number, found in self._at.items() if len(found) == whole}

    def unheard(self, down: list[Down], *, reduced: bool) -> set[int]:
        """Iterations with a packet, or one that is reduced, that was sent while nobody listened."""
        return {
            number
            for number, found in self._at.items()
            if any(
                each.dead < at < each.again for at, is_reduced in found if is_reduced or not reduced for each in down
            )
        }

    def untouched(self, down: list[Down], margin_ns: int) -> set[int]:
        """Iterations that were sent wholly, and nobody died for so long behind them or had died before."""
        return {
            number
            for number in self.sent()
            if not any(each.killed - margin_ns < at < each.up for at, _ in self._at[number] for each in down)
        }


@dataclass
class Watcher:
    """A reader of the board that takes every iteration, and says by its bytes which one it is."""

    plan: Plan
    boards: Path
    truths: dict[bytes, int]
    found: dict[Key, int | None] = field(default_factory=dict)
    """Complete ones that were read; None: their bytes are those of no iteration."""
    over: bool = False

    def look(self) -> None:
        layout = layouts(self.plan)[GROUP]
        while not self.over:
            time.sleep(0.05)
            with suppress(ReceiveError), Board(self.boards, GROUP) as board:
                board.keep(os.getpid())
                while not self.over:
                    for life in range(board.life + 1):
                        self._take(board, layout, life)
                    time.sleep(0.05)

    def _take(self, board: Board, layout: object, life: int) -> None:
        while True:
            with board.take(life=life) as held:
                if not held:
                    return
                (one,) = held
                if not one.missing(layout):  # type: ignore[arg-type]
                    self.found[life, one.number] = self.truths.get(one.read(layout, 0, one.size))  # type: ignore[arg-type]


@contextmanager
def watched(plan: Plan, boards: Path, truths: dict[bytes, int]) -> Iterator[Watcher]:
    """Reads meanwhile."""
    watcher = Watcher(plan, boards, truths)
    thread = Thread(target=watcher.look)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.over = True
        thread.join()


def called_complete(boards: Path, spool: Path) -> set[Key]:
    """By the journal of the board or the log of a life, and not taken back there since."""
    events: dict[Key, list[str]] = defaultdict(list)
    with Board(boards, GROUP) as board:
        journal = [(entry.life, entry.first, entry.event.name.lower()) for _, entry in board.closed()]
    lines = [line for log in spool.glob("*.iterations") for line in log.read_text().splitlines() if line.endswith("}")]
    logged = [(each["life"], each["iteration"], each["event"]) for each in map(json.loads, lines)]
    whole: set[Key] = set()
    for rows in (journal, logged):
        events.clear()
        for life, number, event in rows:
            events[life, number].append(event)
        whole |= {key for key, said in events.items() if said[-1] == BoardEvent.COMPLETE.name.lower()}
    return whole
