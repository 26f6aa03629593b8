"""P4Runtime for the conformance suite: the test server as BMv2 and as Stratum on Tofino, and a real BMv2."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime import P4RuntimeDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from tests.conformance.bench import JOB, Cannot, Trouble
from tests.doubles import bmv2_lab
from tests.doubles.bmv2_lab import Bmv2Lab
from tests.doubles.ovs_lab import frame, mac
from tests.doubles.p4runtime_device import BMV2, STRATUM, Quirks
from tests.doubles.p4runtime_entries import ALL_PORT, MODIFY, clone_update, describe, forward, rule, tag
from tests.doubles.p4runtime_faults import Fault, Script
from tests.doubles.p4runtime_server import DEVICE, Server
from tests.doubles.switches import session as named

UPLINK = 20
"""Where traffic of the sources comes from and goes to; nobody watches it."""
THEIRS, BERTS = 7, 900
"""Clone sessions of others: of a site, and of flowcheck-net's job bert."""
PORTS = (*range(1, 9), UPLINK, 31, 32, 33, 47, 48)
_IDS = (*range(1, 16), BERTS)
"""Clone sessions that the suite can bring about."""
_FAULTS = {
    # A step begins with the description where it creates, and ends with it where it deletes.
    Trouble.REFUSE: ("refuse", "description"),
    Trouble.LOST_BEFORE: ("lost before", "description"),
    # The last that a step of the suite does is to write its rules.
    Trouble.LOST_AFTER: ("lost after", "rule"),
    Trouble.HALF: ("lost after", "clone"),
}
_shared: list[Bmv2Lab] = []


class Switch(Protocol):
    """A P4Runtime server and a hand on it."""

    info: p4info_pb2.P4Info

    @property
    def address(self) -> str:
        """``HOST:PORT`` for drivers."""
        ...

    @property
    def script(self) -> Script:
        """What goes wrong next."""
        ...

    def put(self, *updates: p4runtime_pb2.Update) -> None:
        """Somebody writes."""
        ...

    def read(self, *entities: p4runtime_pb2.Entity) -> list[Any]:
        """What the switch has."""
        ...

    def cross(self, enters: int, leaves: int, frames: Sequence[bytes]) -> None:
        """Let frames through."""
        ...

    def restart(self) -> None:
        """Empty, with the pipeline loaded."""
        ...


class TwinSwitch:
    """The test server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.info, self.put, self.restart = server.device.p4info(), server.put, server.restart

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def script(self) -> Script:
        return self._server.script

    def read(self, *entities: p4runtime_pb2.Entity) -> list[Any]:
        return [found for entity in entities for found in self._server.device.read(entity)]

    def cross(self, enters: int, leaves: int, frames: Sequence[bytes]) -> None:
        assert sum(s.port == leaves for s in self._server.offer(enters, frames)) == len(frames)


class RealSwitch:
    """BMv2 behind its relay."""

    def __init__(self, lab: Bmv2Lab) -> None:
        self._lab = lab
        self.info, self.put, self.read, self.restart = lab.info, lab.put, lab.read, lab.restart

    @property
    def address(self) -> str:
        return self._lab.relay.address

    @property
    def script(self) -> Script:
        return self._lab.relay.script

    def cross(self, enters: int, leaves: int, frames: Sequence[bytes]) -> None:
        self._lab.cross(enters, leaves, frames, _IDS)


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

    def __init__(self, switch: Switch, platform: str, scratch: Path) -> None:
        self._switch = switch
        self._platform = platform
        self._scratch = scratch
        self._unreachable = False
        # What is named first, then what names it: a switch may do a batch in any order.
        switch.put(clone_update(THEIRS, (48, 1)), clone_update(BERTS, (47, 1)), describe(switch.info, BERTS, "bert", 0))
        switch.put(
            rule(switch.info, "ingress", {"port": (7, ALL_PORT)}, THEIRS),
            rule(switch.info, "ingress", {"port": (8, ALL_PORT)}, BERTS, priority=1000),
        )
        self._forward()

    def open(self, job: str = JOB) -> P4RuntimeDriver:
        """See ``Bench.open``."""
        server = "127.0.0.1:1" if self._unreachable else self._switch.address
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
        clones = p4runtime_pb2.Entity()
        clones.packet_replication_engine_entry.clone_session_entry.session_id = 0
        found = [*self._switch.read(clones), *(e for t in self._tables() for e in self._switch.read(t))]
        theirs = [e for e in found if self._names(e) & {THEIRS, BERTS}]
        return repr(sorted(e.SerializeToString(deterministic=True) for e in theirs)).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        number = int(port.removeprefix("Ethernet"))
        enters, leaves = (number, UPLINK) if direction is Direction.RX else (UPLINK, number)
        self._switch.cross(enters, leaves, [frame(leaves, flow, n) for n in range(packets)])

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        if kind is Trouble.UNREACHABLE:
            self._unreachable = True
        else:
            self._switch.script.fault = Fault(*_FAULTS[kind], number=step)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self._switch.put(clone_update(self._id_of(session), kind=MODIFY))
        return RemarkKind.INACTIVE

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self._switch.restart()
        self._forward()

    def _id_of(self, session: MirrorSession) -> int:
        if session.name == self.foreign[0].name:
            return THEIRS
        wanted = describe(self._switch.info, 0, JOB, int(session.name.rsplit("-", 1)[1])).entity.table_entry
        entries = [e.table_entry for e in self._switch.read(self._tables()[0])]
        return next(_number(e.match[0].exact.value) for e in entries if e.action == wanted.action)

    def _tables(self) -> list[p4runtime_pb2.Entity]:
        ids = {t.preamble.name: t.preamble.id for t in self._switch.info.tables}
        found = []
        for name in ("fc.sessions", "fc.ingress_acl", "fc.egress_acl"):
            found.append(p4runtime_pb2.Entity())
            found[-1].table_entry.table_id = ids[name]
            if name != "fc.sessions":
                found[-1].table_entry.counter_data.SetInParent()
        return found

    def _names(self, entity: p4runtime_pb2.Entity) -> set[int]:
        """Clone sessions that an entity is, describes or names."""
        if not entity.HasField("table_entry"):
            return {entity.packet_replication_engine_entry.clone_session_entry.session_id}
        entry = entity.table_entry
        described = {_number(m.exact.value) for m in entry.match if m.HasField("exact")}
        return described or {_number(p.value) for p in entry.action.action.params if p.param_id == 1}

    def _forward(self) -> None:
        self._switch.put(*(forward(self._switch.info, mac(port), port) for port in (*range(1, 9), UPLINK)))


def _number(octets: bytes) -> int:
    return int.from_bytes(octets, "big")


@contextmanager
def _bench(quirks: Quirks, platform: str, scratch: Path) -> Iterator[P4RuntimeBench]:
    with Server(quirks) as server:
        yield P4RuntimeBench(TwinSwitch(server), platform, scratch)


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


@contextmanager
def real(scratch: Path) -> Iterator[P4RuntimeBench]:
    """simple_switch_grpc, started once a process and emptied for each test, with real packets over veth."""
    if why := bmv2_lab.missing():
        raise Cannot(why)
    if not _shared:
        _shared.append(Bmv2Lab(PORTS))
    _shared[0].reset()
    yield P4RuntimeBench(RealSwitch(_shared[0]), "bmv2", scratch)


def close() -> None:
    """End BMv2."""
    while _shared:
        _shared.pop().close()
