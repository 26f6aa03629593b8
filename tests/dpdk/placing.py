"""From a plan to gradients that the receiver placed while packets came: synthesized captures through net_pcap."""

import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.placing import learn_placement
from flowcheck_net.errors import Unobserved
from flowcheck_net.plan.plan import Plan as JobPlan
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.board import Board
from flowcheck_net.receive.layout import GroupLayout, lay_out
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver import Receiver
from flowcheck_net.receive.receiver_config import Placing, Plan
from flowcheck_net.receive.receiver_device import Port, device_of
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from tests.doubles import synth_reading
from tests.doubles.payload_world import truth

SEED = 7
SLOTS = 8
"""More than iterations: files are read as fast as they can be, one port long before another."""
STEP = 997
"""Bytes read at once where something is missing."""


@dataclass(frozen=True)
class Placed:
    """What a receiver left behind."""

    folder: Path
    said: dict[str, Any]
    """Its last status."""
    log: list[str]
    """Lines of closed iterations."""

    def counts(self, kind: str) -> dict[str, int]:
        """``places``, ``lays`` or ``findings`` of all workers."""
        total: dict[str, int] = defaultdict(int)
        for worker in self.said["placed"]:
            for name, count in worker[kind].items():
                total[name] += count
        return dict(total)

    def total(self, name: str) -> int:
        """A number of all workers."""
        return sum(worker[name] for worker in self.said["placed"])


def by_port(capture: Path, folder: Path) -> dict[str, Path]:
    """A plain file a capture port: net_pcap knows no interfaces."""
    frames: dict[str, list[bytes]] = defaultdict(list)
    for packet in synth_reading.read(capture)[0]:
        frames[packet.interface].append(packet.frame)
    files = {}
    for number, (name, found) in enumerate(sorted(frames.items())):
        files[name] = folder / f"port{number}.pcap"
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
        rows = (struct.pack("<IIII", n, 0, len(frame), len(frame)) + frame for n, frame in enumerate(found))
        files[name].write_bytes(head + b"".join(rows))
    return files


def place(
    plan: JobPlan,
    work: Path,
    *,
    iterations: int = 3,
    faults: Sequence[str] = (),
    copiers: tuple[str, ...] = (),
    workers: int = 1,
) -> Placed:
    """Synthesize, learn from a replay, receive once more and place."""
    capture, boards = work / "mirror.pcapng", work / "boards"
    synthesize(plan, capture, iterations=iterations, faults=parse_faults(faults), seed=SEED)
    learnt = learn_placement(expectation(plan), replay([capture]), trust_order=True)
    return receive(plan, learnt.text, by_port(capture, work), boards, copiers=copiers, workers=workers)


def receive(
    plan: JobPlan,
    text: str,
    files: dict[str, Path],
    boards: Path,
    *,
    copiers: tuple[str, ...] = (),
    workers: int = 1,
    slots: int = SLOTS,
) -> Placed:
    """Files through a receiver that places what the text says."""
    mtu = plan.job.wire.mtu + 160
    ports = tuple(
        Port(name, device_of(f"pcap:{path}", number, mtu), mtu, workers, 512)  # type: ignore[arg-type]
        for number, (name, path) in enumerate(sorted(files.items()))
    )
    boards.mkdir(exist_ok=True)
    wanted = Plan(ports, Settings(), 50, hugepages=False, placing=Placing(text, boards, slots, copiers=copiers))
    number = len(list(boards.parent.glob("life-*.conf")))
    before = -1
    with Receiver(wanted, boards.parent, number) as receiver:
        for status in receiver.statuses():
            packets = sum(port.packets for port in status.ports)
            if status.event == "status" and packets == before:
                receiver.stop()
            before = packets
        assert receiver.died() == ""
        log = receiver.spool.with_name(f"{receiver.spool.name}.iterations").read_text().splitlines()
        return Placed(boards, receiver.said, log)


def layouts(plan: JobPlan) -> dict[str, GroupLayout]:
    """The layout of each group."""
    expected = expectation(plan)
    return {str(name): layout for name, layout in lay_out(expected.wire, expected.hops).groups.items()}


def check_whole(plan: JobPlan, folder: Path, iterations: int) -> None:
    """All bytes of all iterations are those that were sent."""
    for group, layout in layouts(plan).items():
        number = 0
        with Board(folder, group) as board:
            while number < iterations:
                with board.take() as held:
                    assert [one.number for one in held][:1] == [number]
                    for one in held[: iterations - number]:
                        assert one.read(layout, 0, layout.size) == truth(plan, group, one.number, SEED)
                        assert one.missing(layout) == 0
                        assert one.unchanged
                number += board.cycle


def check_partial(plan: JobPlan, folder: Path, group: str) -> dict[int, int]:
    """Bytes that can be read are the truth; no other was written where it can be seen. Iteration -> bytes unread."""
    layout = layouts(plan)[group]
    unread: dict[int, int] = {}
    with Board(folder, group) as board:
        while True:
            with board.take() as held:
                if not held:
                    return unread
                for one in held:
                    unread[one.number] = _unread(plan, layout, group, one)


def _unread(plan: JobPlan, layout: GroupLayout, group: str, one: Any) -> int:
    expected = truth(plan, group, one.number, SEED)
    lost = 0
    for start in range(0, len(expected), STEP):
        length = min(STEP, len(expected) - start)
        try:
            assert one.read(layout, start, length) == expected[start : start + length]
        except Unobserved:
            lost += length
    return lost
