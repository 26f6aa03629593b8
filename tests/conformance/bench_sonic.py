"""SONiC for the conformance suite: the driver against a real redis-server behind a real SSH server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.drivers.sonic import SonicDriver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from tests.conformance.bench import JOB, Cannot, Trouble
from tests.conformance.bench_ssh import Environment
from tests.doubles.redis_server import RedisServer, missing
from tests.doubles.sonic_box import SonicBox
from tests.doubles.sonic_switch import CONFIG, SonicSwitch
from tests.doubles.sonic_yang import MODULE
from tests.doubles.ssh_box import PASSWORD, USER
from tests.doubles.switches import session as named

_shared: list[RedisServer] = []


class SonicBench:
    """See ``Bench``; the ports are those of the samples' CONFIG_DB."""

    driver_class: type = SonicDriver
    atomic = False
    lock = False
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in (0, 4, 8, 12, 16, 20))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in (64, 68, 72))
    foreign: tuple[MirrorSession, ...] = (
        named("fcn-bert-0", "Ethernet80:rx", to="Ethernet84"),
        named("test_session_db1", "Ethernet40:rx", "Ethernet48:rx", to="Ethernet44"),
    )

    def __init__(self, box: SonicBox) -> None:
        self.box = box
        self.switch = box.switch
        self.renew()

    def renew(self) -> None:
        """The switch is as new."""
        self.switch.reset()
        row = {"type": "SPAN", "src_port": "Ethernet80", "direction": "RX", "dst_port": "Ethernet84"}
        self.switch.put("MIRROR_SESSION|fcn-bert-0", row)

    def open(self, job: str = JOB) -> SonicDriver:
        """See ``Bench.open``."""
        words = f"known_hosts={self.box.known_hosts}&retries=0&timeout=20"
        address = SwitchAddress(SwitchName("leaf1"), "sonic", f"sonic:127.0.0.1:{self.box.port}?{words}")
        driver = open_driver(address, job, Path("/nonexistent"))
        assert isinstance(driver, SonicDriver)
        return driver

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """See ``Bench.as_foreign``."""
        return session

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        rows = [self.switch.redis.hash(CONFIG, f"MIRROR_SESSION|{s.name}") for s in self.foreign]
        return repr([sorted(r.items()) for r in rows]).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        side = "IN" if direction is Direction.RX else "OUT"
        self.switch.pass_packets(port, side, packets, (flow.source, flow.destination) if flow else None)

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        if kind is Trouble.HALF:
            raise Cannot("one row: no step is carried out by half")
        if kind is Trouble.UNREACHABLE:
            self.box.refuse_connections = 1
        elif kind is Trouble.REFUSE:
            self.switch.refuse_patch = step
        elif kind is Trouble.LOST_BEFORE:
            self.box.before = self._nth(step)
        else:
            self.box.after = self._nth(step)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self.switch.redis.call(CONFIG, "HSET", f"MIRROR_SESSION|{session.name}", "sample_rate", "50000")
        return RemarkKind.SAMPLING

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.restart()

    def _nth(self, step: int) -> Callable[[str], bool]:
        left = [step]

        def strikes(command: str) -> bool:
            if "apply-patch" in command:
                left[0] -= 1
            return "apply-patch" in command and left[0] == -1

        return strikes


@contextmanager
def double(directory: Path) -> Iterator[SonicBench]:
    """The redis-server is set up once a process, and ended by ``close``."""
    if why := missing():
        raise Cannot(why)
    if not MODULE.is_file():
        raise Cannot("../shared/samples/sonic is not here")
    if not _shared:
        _shared.append(RedisServer())
    directory.mkdir(exist_ok=True)
    environment = Environment()
    environment.set(USER=USER, PASSWORD=PASSWORD)
    try:
        box = SonicBox(SonicSwitch(_shared[0]), directory)
        with box:
            yield SonicBench(box)
    finally:
        environment.restore()


def close() -> None:
    """End the redis-server."""
    while _shared:
        _shared.pop().close()
