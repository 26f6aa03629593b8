"""The live table of ``receive``: rates since the last look, and unknown is a word."""

import time

from rich.console import Console

from flowcheck_net.cli.receive_table import status_table
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.receiver import PortStatus, QueueStatus, Status


def status(packets: int, size: int, dropped: int | None, fill: int | None) -> Status:
    queue = QueueStatus(packets, flows=3, fill_most=fill, descriptors=4096, segmented=0, uncounted=0)
    names = ("device_packets", "imissed", "ierrors", "rx_nombuf")
    port = PortStatus(
        name=CapturePort("ckpt0:cap0"),
        driver="net_ice",
        packets=packets,
        bytes=size,
        rocev2=packets - 1,
        last_time=time.time_ns(),
        dropped=dropped,
        counters=dict.fromkeys(names),
        extended={},
        queues=(queue, queue),
    )
    return Status("status", (port,))


def words(now: Status, before: Status | None, seconds: float) -> list[str]:
    console = Console(width=200)
    with console.capture() as caught:
        console.print(status_table(now, before, seconds))
    return next(line for line in caught.get().splitlines() if "ckpt0:cap0" in line).split()


def test_rates_and_losses() -> None:
    """3,000 packets and 1 MB more in 2 s: 1,500 packets/s, 4 Mbit/s."""
    now, before = status(5000, 2_000_000, 17, 99), status(2000, 1_000_000, 0, 0)
    assert words(now, before, 2.0)[:9] == [
        *("ckpt0:cap0", "5,000", "1,500", "0.004", "4,999", "6", "17", "99/4096,", "99/4096"),
    ]


def test_unknown_is_no_number() -> None:
    found = words(status(5, 500, None, None), None, 0.0)
    assert found[:6] == ["ckpt0:cap0", "5", "4", "6", "unknown", "unknown"]


def test_no_rates_across_a_new_start() -> None:
    assert words(status(5, 500, 0, None), status(900, 90_000, 0, None), 1.0)[1:3] == ["5", "4"]
