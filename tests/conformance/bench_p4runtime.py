"""The test server for P4Runtime, as BMv2 and as Stratum on Tofino, with the Python twin as its data plane."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flowcheck_net.drivers.p4runtime import P4RuntimeDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from tests.conformance.bench import JOB, Trouble
from tests.doubles.ovs_lab import frame, mac
from tests.doubles.p4runtime_device import BMV2, STRATUM, Quirks
from tests.doubles.p4runtime_entries import ALL_PORT, MODIFY, clone_update, describe, forward, rule, tag
from tests.doubles.p4runtime_server import DEVICE, Fault, Server
from tests.doubles.switches import session as named

UPLINK = 20
"""Where traffic of the sources comes from and goes to; nobody watches it."""
THEIRS, BERTS = 7, 900
"""Clone sessions of others: of a site, and of flowcheck-net's job bert."""
_FAULTS = {
    # A step begins with the description where it creates, and ends with it where it deletes.
    Trouble.REFUSE: ("refuse", "description"),
    Trouble.LOST_BEFORE: ("lost before", "description"),
    # The last that a step of the suite does is to write its rules.
    Trouble.LOST_AFTER: ("lost after", "rule"),
    Trouble.HALF: ("lost after", "clone"),
}


class P4RuntimeBench:
    """A device with two foreign mirrors."""

    driver_class: type = P4RuntimeDriver
    atomic = False
    lock = True
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named(f"clone-session-{THEIRS}", "Ethernet7:rx", to="Ethernet48"),
        named(f"job-tag-{tag('bert'):08x}:0", "Ethernet8:rx", to="Ethernet47"),
    )

    def __init__(self, server: Server, platform: str, scratch: Path) -> None:
        self._server = server
        self._platform = platform
        self._scratch = scratch
        self._unreachable = False
        info = server.device.p4info()
        server.put(
            *(clone_update(THEIRS, (48, 1)), rule(info, "ingress", {"port": (7, ALL_PORT)}, THEIRS)),
            *(clone_update(BERTS, (47, 1)), describe(info, BERTS, "bert", 0)),
            rule(info, "ingress", {"port": (8, ALL_PORT)}, BERTS, priority=1000),
        )
        self._forward()

    def open(self, job: str = JOB) -> P4RuntimeDriver:
        """See ``Bench.open``."""
        server = "127.0.0.1:1" if self._unreachable else self._server.address
        self._unreachable = False
        reference = f"p4rt:{server}?device={DEVICE}&ports=Ethernet"
        driver = open_driver(SwitchAddress(SwitchName("leaf1"), self._platform, reference), job, self._scratch)
        assert isinstance(driver, P4RuntimeDriver)
        return driver

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """See ``Bench.as_foreign``: a switch has a job's tag, not its name."""
        _, job, number = session.name.split("-")
        return replace(session, name=SessionName(f"job-tag-{tag(job):08x}:{number}"))

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        device = self._server.device
        clones = [device.clones[n].SerializeToString(deterministic=True) for n in (THEIRS, BERTS)]
        entries = [
            (entry.SerializeToString(deterministic=True), twin.packets, twin.octets)
            for entry, twin in device.entries.values()
            if twin.parameters.get("session") in (THEIRS, BERTS) or twin.match.get("session", (0,))[0] == BERTS
        ]
        return repr((clones, entries)).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        number = int(port.removeprefix("Ethernet"))
        enters, leaves = (number, UPLINK) if direction is Direction.RX else (UPLINK, number)
        sent = self._server.offer(enters, [frame(leaves, flow, n) for n in range(packets)])
        assert sum(s.port == leaves for s in sent) == packets

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        if kind is Trouble.UNREACHABLE:
            self._unreachable = True
        else:
            self._server.fault = Fault(*_FAULTS[kind], number=step)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self._server.put(clone_update(self._id_of(session), kind=MODIFY))
        return RemarkKind.INACTIVE

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self._server.restart()
        self._forward()

    def _id_of(self, session: MirrorSession) -> int:
        if session.name == self.foreign[0].name:
            return THEIRS
        number = int(session.name.rsplit("-", 1)[1])
        wanted = {"job_tag": tag(JOB), "session_number": number}
        entries = self._server.device.twin.tables["fc.sessions"].entries
        return next(e.match["session"][0] for e in entries if dict(e.parameters) == wanted)

    def _forward(self) -> None:
        info = self._server.device.p4info()
        self._server.put(*(forward(info, mac(port), port) for port in (*range(1, 9), UPLINK)))


@contextmanager
def _bench(quirks: Quirks, platform: str, scratch: Path) -> Iterator[P4RuntimeBench]:
    with Server(quirks) as server:
        yield P4RuntimeBench(server, platform, scratch)


@contextmanager
def as_bmv2(scratch: Path) -> Iterator[P4RuntimeBench]:
    """With the oddities of simple_switch_grpc."""
    with _bench(BMV2, "bmv2", scratch) as bench:
        yield bench


@contextmanager
def as_stratum(scratch: Path) -> Iterator[P4RuntimeBench]:
    """With the limits of Stratum on Tofino."""
    with _bench(STRATUM, "tofino", scratch) as bench:
        yield bench
