"""Platforms with a command line for the conformance suite: the SSH driver against a box.

A platform joins with a class derived from ``SshBench`` that says its names, makes its box with two foreign sessions,
and tells what a step looks like on the line; and a line in ``conftest.BENCHES``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.drivers.ssh import SshDriver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from flowcheck_net.model.platforms import capabilities
from tests.conformance.bench import JOB, Cannot, Trouble
from tests.doubles.eos_box import EosBox
from tests.doubles.junos_box import JunosBox
from tests.doubles.nxos_box import Monitor, NxosBox
from tests.doubles.ssh_box import ENABLE, PASSWORD, USER, Fault, Planned, Platform, SshBox
from tests.doubles.switches import session as named


class SshBench:
    """See ``Bench``; a platform sets what is in capitals, and writes the methods that raise."""

    driver_class: type = SshDriver
    atomic = False
    lock = False
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named("fcn-bert-0", "Ethernet8:rx", to="Ethernet47"),
        named("netops-span", "Ethernet7:rx", to="Ethernet48"),
    )
    PLATFORM = ""
    WORDS = ""
    """More words of the reference, such as ``&ids=10-14``."""
    FIRST_LINE = r""
    """Matches the first line of each step and no other line (platforms whose lines are in effect at once)."""
    LAST_LINE = r""
    """Matches the last line of each step and no other line."""
    COMMIT = r""
    """Matches the line that puts all steps into effect (platforms with a candidate)."""

    def __init__(self, box: SshBox, monkey: "Environment") -> None:
        self.box = box
        monkey.set(USER=USER, PASSWORD=PASSWORD, ENABLE=ENABLE)

    @classmethod
    def platform(cls) -> Platform:
        """A fresh box with the foreign sessions on it."""
        raise NotImplementedError

    def open(self, job: str = JOB) -> SshDriver:
        """See ``Bench.open``."""
        driver = open_driver(self.address(), job, Path("/nonexistent"))
        assert isinstance(driver, SshDriver)
        return driver

    def address(self) -> SwitchAddress:
        """Where the box is."""
        reference = f"ssh:127.0.0.1:{self.box.port}?known_hosts={self.box.known_hosts}&retries=0&timeout=60{self.WORDS}"
        return SwitchAddress(SwitchName("leaf1"), self.PLATFORM, reference)

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """See ``Bench.as_foreign``."""
        return session

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        raise NotImplementedError

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        raise Cannot("the box does not count packets")

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        if kind is Trouble.UNREACHABLE:
            self.box.refuse_connections = 1
            return
        if self.atomic and kind is Trouble.HALF:
            raise Cannot("all steps are committed at once: no step is ever carried out by half")
        if self.atomic:
            fault = {Trouble.REFUSE: Fault.REJECT, Trouble.LOST_BEFORE: Fault.DIE_BEFORE}.get(kind, Fault.DIE_AFTER)
            self.box.faults.append(Planned(fault, self.COMMIT))
        elif kind is Trouble.LOST_AFTER:
            self.box.faults.append(Planned(Fault.DIE_AFTER, self.LAST_LINE, step))
        else:
            fault = {Trouble.REFUSE: Fault.REJECT, Trouble.LOST_BEFORE: Fault.DIE_BEFORE}.get(kind, Fault.DIE_AFTER)
            self.box.faults.append(Planned(fault, self.FIRST_LINE, step))

    def prepare_erspan(self) -> None:
        """What a site sets up on the switch, or says of it, before copies can be encapsulated."""

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        raise NotImplementedError

    def restart(self) -> None:
        """See ``Bench.restart``."""
        raise Cannot("the box cannot restart")


class Environment:
    """Sets FLOWCHECK_SWITCH_... as long as the context lasts."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}

    def set(self, **values: str) -> None:
        """The login that drivers find without ``login``."""
        import os

        for key, value in values.items():
            name = f"FLOWCHECK_SWITCH_{key}"
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore(self) -> None:
        """As it was."""
        import os

        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class EosBench(SshBench):
    """Arista EOS."""

    def prepare_erspan(self) -> None:
        """See ``SshBench.prepare_erspan``."""
        self.WORDS = "&origin=10.9.0.1"

    PLATFORM = "eos"
    atomic = True
    COMMIT = r"^commit"

    @classmethod
    def platform(cls) -> EosBox:
        """See ``SshBench.platform``."""
        box = EosBox()
        box.monitor(
            "monitor session fcn-bert-0 source Ethernet8 rx",
            "monitor session fcn-bert-0 destination Ethernet47",
            "monitor session netops-span source Ethernet7 rx",
            "monitor session netops-span destination Ethernet48",
        )
        return box

    @property
    def switch(self) -> EosBox:
        """What the box is."""
        assert isinstance(self.box.platform, EosBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        names = {s.name for s in self.foreign}
        return repr({n: lines for n, lines in self.switch.running.sessions.items() if n in names}).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.packets[port, direction.value] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self.switch.monitor(f"monitor session {session.name} truncate")
        return RemarkKind.TRUNCATION

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.reloads += 1


class NxosBench(SshBench):
    """Cisco NX-OS."""

    def prepare_erspan(self) -> None:
        """See ``SshBench.prepare_erspan``."""
        self.switch.origin = "10.9.0.1"

    PLATFORM = "nxos"
    FIRST_LINE = r"; description|^shut$"
    LAST_LINE = r"^no shut$|^no monitor session"
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet1/{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet1/{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named("fcn-bert-0", "Ethernet1/8:rx", to="Ethernet1/47"),
        named("session-7", "Ethernet1/7:rx", to="Ethernet1/48"),
    )

    @classmethod
    def platform(cls) -> NxosBox:
        """See ``SshBench.platform``."""
        box = NxosBox()
        for port in ("Ethernet1/47", "Ethernet1/48"):
            box.ports[port].append("switchport monitor")
        box.monitors = {
            2: Monitor("local", "fcn-bert-0", {"Ethernet1/8": "rx"}, "Ethernet1/47", shut=False),
            7: Monitor("local", "netops span", {"Ethernet1/7": "rx"}, "Ethernet1/48", shut=False),
        }
        return box

    @property
    def switch(self) -> NxosBox:
        """What the box is."""
        assert isinstance(self.box.platform, NxosBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        ports = [self.switch.ports[name] for name in ("Ethernet1/47", "Ethernet1/48")]
        return repr([self.switch.monitors.get(2), self.switch.monitors.get(7), ports]).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.packets[port, direction.value] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        for number, monitor in self.switch.monitors.items():
            if session.name in (monitor.description.split(" ")[0], f"session-{number}"):
                monitor.mtu = 64
        return RemarkKind.TRUNCATION

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.boots += 1


class JunosBench(SshBench):
    """Juniper Junos, but with room for the sessions of the suite: a QFX takes two that watch rx, and two tx."""

    PLATFORM = "junos-qfx"
    atomic = True
    COMMIT = r"^commit confirmed"
    sources: Sequence[PortName] = tuple(PortName(f"xe-0/0/{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"xe-0/0/{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named("fcn-bert-0", "xe-0/0/8:rx", to="xe-0/0/47"),
        named("netops-span", "xe-0/0/7:rx", to="xe-0/0/48"),
    )

    @classmethod
    def platform(cls) -> JunosBox:
        """See ``SshBench.platform``."""
        box = JunosBox()
        box.running = {
            "fcn-bert-0": ["input ingress interface xe-0/0/8.0", "output interface xe-0/0/47.0"],
            "netops-span": ["input ingress interface xe-0/0/7.0", "output interface xe-0/0/48.0"],
        }
        return box

    def open(self, job: str = JOB) -> SshDriver:
        """See ``Bench.open``."""
        return SshDriver(self.address(), job, replace(capabilities(self.PLATFORM), session_limits=()))

    @property
    def switch(self) -> JunosBox:
        """What the box is."""
        assert isinstance(self.box.platform, JunosBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        names = {s.name for s in self.foreign}
        return repr({n: lines for n, lines in self.switch.running.items() if n in names}).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.packets[port, direction.value] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self.switch.running[session.name].append("input rate 16")
        return RemarkKind.SAMPLING

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.boots += 1


@contextmanager
def boxed(bench_class: type[SshBench], directory: Path) -> Iterator[SshBench]:
    """A bench of this class."""
    environment = Environment()
    with SshBox(bench_class.platform(), directory) as box:
        try:
            yield bench_class(box, environment)
        finally:
            environment.restore()


@contextmanager
def eos(directory: Path) -> Iterator[SshBench]:
    """Arista EOS over SSH."""
    with boxed(EosBench, directory) as bench:
        yield bench


@contextmanager
def nxos(directory: Path) -> Iterator[SshBench]:
    """Cisco NX-OS over SSH."""
    with boxed(NxosBench, directory) as bench:
        yield bench


@contextmanager
def junos(directory: Path) -> Iterator[SshBench]:
    """Juniper Junos over SSH."""
    with boxed(JunosBench, directory) as bench:
        yield bench
