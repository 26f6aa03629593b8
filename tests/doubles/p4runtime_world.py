"""A test server and drivers of it: what the unit tests of the P4Runtime driver start from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchAddress, SwitchState
from tests.doubles.ovs_lab import frame, mac
from tests.doubles.p4runtime_device import BMV2, Quirks
from tests.doubles.p4runtime_entries import forward
from tests.doubles.p4runtime_server import DEVICE, Server
from tests.doubles.switches import session

A = session("fcn-gpt-0", "1:rx", "1:tx", to="31")
B = session("fcn-gpt-1", "2:rx", to="32", filters=[("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")])
UPLINK = 20


class World:
    """A server and the way to it. Port names are plain numbers."""

    def __init__(self, server: Server, platform: str = "bmv2") -> None:
        self.server = server
        self.platform = platform

    def open(self, job: str = "gpt", **words: str) -> Driver:
        """A driver that is not connected; ``words`` go into the reference."""
        more = "".join(f"&{key}={value}" for key, value in words.items() if key != "device")
        reference = f"p4rt:{self.server.address}?device={words.get('device', DEVICE)}{more}"
        return open_driver(SwitchAddress(SwitchName("leaf1"), self.platform, reference), job, Path("/nowhere"))

    def read(self) -> SwitchState:
        """What the switch has."""
        with self.open() as driver:
            return driver.read()

    def create(self, *sessions: MirrorSession) -> None:
        """Write them."""
        with self.open() as driver:
            driver.write([Step(StepKind.CREATE, s) for s in sessions])

    def delete(self, *sessions: MirrorSession) -> None:
        """Remove them."""
        with self.open() as driver:
            driver.write([Step(StepKind.DELETE, s) for s in sessions])

    def forward(self, ports: Sequence[int] = (1, 2, 3, UPLINK)) -> None:
        """Frames find their way by their destination address."""
        info = self.server.device.p4info()
        self.server.put(*(forward(info, mac(port), port) for port in ports))

    def offer(self, enters: int, leaves: int, packets: int) -> list[int]:
        """Frames in at a port; at which ports they and their copies leave, sorted."""
        return sorted(s.port for s in self.server.offer(enters, [frame(leaves, None, n) for n in range(packets)]))


@contextmanager
def world(quirks: Quirks = BMV2, platform: str = "bmv2", *, loaded: bool = True) -> Iterator[World]:
    """A server that runs."""
    with Server(quirks, loaded=loaded) as server:
        yield World(server, platform)
