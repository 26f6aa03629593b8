"""The live table of ``receive``: rates since the last look, and unknown is a word."""

import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from flowcheck_net.cli.receive_table import group_text, status_table
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.receiver_status import (
    GroupStatus,
    PortStatus,
    QueueStatus,
    RingStatus,
    Status,
    WorkerStatus,
)


def status(packets: int, size: int, dropped: int | None, fill: int | None) -> Status:
    ring = RingStatus(fill_most=7, size=8191, dropped=0)
    worker = WorkerStatus(packets, flows=3, sleeps=0, sequence_gaps=0, segmented=2, uncounted=1, ring=ring)
    port = PortStatus(
        name=CapturePort("ckpt0:cap0"),
        driver="net_ice",
        spread="software",
        sleep_us=69,
        packets=packets,
        bytes=size,
        rocev2=packets - 1,
        last_time=time.time_ns(),
        device_packets=packets,
        loss={"dropped": dropped, "missed": None},
        no_flow_control=True,
        promiscuous=True,
        queues=(QueueStatus(fill, 4096),),
        workers=(worker, replace(worker, ring=None)),
    )
    return Status("status", Path("/run/dpdk/flowcheck7"), (port,))


def words(now: Status, before: Status | None, seconds: float) -> list[str]:
    console = Console(width=200)
    with console.capture() as caught:
        console.print(status_table(now, before, seconds))
    return next(line for line in caught.get().splitlines() if "ckpt0:cap0" in line).split()


def test_rates_and_losses() -> None:
    """3,000 packets and 1 MB more in 2 s: 1,500 packets/s, 4 Mbit/s."""
    now, before = status(5000, 2_000_000, 17, 99), status(2000, 1_000_000, 0, 0)
    assert words(now, before, 2.0)[:12] == [
        *("ckpt0:cap0", "5,000", "1,500", "0.004", "4,999", "6", "17", "4", "2", "99/4096,", "ring", "7/8191"),
    ]


def test_unknown_is_no_number() -> None:
    found = words(status(5, 500, None, None), None, 0.0)
    assert found[:8] == ["ckpt0:cap0", "5", "4", "6", "unknown", "4", "2", "unknown,"]


def test_no_rates_across_a_new_start() -> None:
    assert words(status(5, 500, 0, None), status(900, 90_000, 0, None), 1.0)[1:3] == ["5", "4"]


def test_groups_below_the_ports() -> None:
    """Iteration 41 was the last with all bytes, 2.5 s ago; 44 has begun."""
    done = time.time_ns() - 2_500_000_000
    group = GroupStatus("dp0", newest=44, complete=41, complete_time=done, no_room=0, overwritten=0, readers_gone=0)
    assert group_text(group) == "dp0: all bytes of iteration 41, 2.5 s ago, 3 behind"
    slow = replace(group, no_room=7, readers_gone=1)
    assert group_text(slow).endswith("3 behind; no memory 7 times; 1 readers died")
    none = replace(group, newest=2, complete=None, complete_time=0)
    assert group_text(none) == "dp0: no iteration with all bytes yet"
    console = Console(width=200)
    with console.capture() as caught:
        console.print(status_table(replace(status(5, 500, 0, None), groups=(group, none)), None, 0.0))
    assert "dp0: all bytes of iteration 41, 2.5 s ago, 3 behind; dp0: no iteration" in caught.get()
