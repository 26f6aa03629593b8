"""Platforms whose mirror sessions have numbers and no names, for the conformance suite: Comware, VRP, Cumulus, OS10."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.ssh import SshDriver
from flowcheck_net.ids import PortName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import SshBench, boxed
from tests.doubles.comware_box import ComwareBox
from tests.doubles.cumulus_box import CumulusBox
from tests.doubles.os10_box import Os10Box
from tests.doubles.switches import session as named
from tests.doubles.vrp_box import VrpBox

_XGE = "Ten-GigabitEthernet1/0/{}"


class ComwareBench(SshBench):
    """H3C Comware 7."""

    PLATFORM = "comware"
    WORDS = "&via=Ten-GigabitEthernet1/0/40&origin=10.255.0.1"
    FIRST_LINE = r"^acl advanced name |^undo mirroring-group"
    LAST_LINE = r"mirroring-port |^undo acl name"
    sources = tuple(PortName(_XGE.format(n)) for n in range(1, 7))
    destinations = tuple(PortName(_XGE.format(n)) for n in range(31, 34))
    foreign = (
        named("fcn-bert-0", f"{_XGE.format(8)}:rx", to=_XGE.format(47)),
        named("mirroring-group-1", f"{_XGE.format(7)}:rx", to=_XGE.format(48)),
    )

    @classmethod
    def platform(cls) -> ComwareBox:
        """See ``SshBench.platform``."""
        box = ComwareBox()
        box.configure(
            *(f"interface {_XGE.format(48)}", "undo stp enable", "quit"),
            *(f"interface {_XGE.format(47)}", "undo stp enable", "quit"),
            "mirroring-group 1 local",
            f"mirroring-group 1 mirroring-port {_XGE.format(7)} inbound",
            f"mirroring-group 1 monitor-port {_XGE.format(48)}",
            "acl advanced name fcn-bert-0",
            f"description flowcheck-net 3 to {_XGE.format(47)}, stp was on",
            "quit",
            "mirroring-group 3 local",
            f"mirroring-group 3 mirroring-port {_XGE.format(8)} inbound",
            f"mirroring-group 3 monitor-port {_XGE.format(47)}",
        )
        return box

    @property
    def switch(self) -> ComwareBox:
        """What the box is."""
        assert isinstance(self.box.platform, ComwareBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        theirs = {n: self.switch.groups[n] for n in (1, 3)}
        ports = {n: self.switch.ports[_XGE.format(n)] for n in (7, 8, 47, 48)}
        return repr((theirs, ports, self.switch.sections["acl advanced name fcn-bert-0"])).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.counts[port][direction is Direction.TX] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``: a sampler for all groups that watch for the session."""
        for number, group in self.switch.groups.items():
            if set(group.sources) == {s.port for s in session.sources}:
                self.switch.configure(f"mirroring-group {number} local sampler s1")
        return RemarkKind.SAMPLING

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.started = "Mon Nov 30 22:00:00 2026"


class VrpBench(SshBench):
    """Huawei CloudEngine."""

    PLATFORM = "vrp"
    atomic = True
    COMMIT = r"^commit"
    sources = tuple(PortName(f"100GE1/0/{n}") for n in range(1, 7))
    destinations = tuple(PortName(f"100GE1/0/{n}") for n in range(31, 34))
    foreign = (
        named("fcn-bert-0", "100GE1/0/8:rx", to="100GE1/0/47"),
        named("observe-port-1", "100GE1/0/7:rx", to="100GE1/0/48"),
    )

    @classmethod
    def platform(cls) -> VrpBox:
        """See ``SshBench.platform``."""
        box = VrpBox()
        box.configure(
            "observe-port 1 interface 100GE1/0/48",
            *("interface 100GE1/0/7", "port-mirroring observe-port 1 inbound", "quit"),
            *("acl name fcn-bert-0 advance", "description flowcheck-net 3 to 100GE1/0/47", "quit"),
            "observe-port 3 interface 100GE1/0/47",
            *("interface 100GE1/0/8", "port-mirroring observe-port 3 inbound", "quit"),
        )
        return box

    @property
    def switch(self) -> VrpBox:
        """What the box is."""
        assert isinstance(self.box.platform, VrpBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        c = self.switch.running
        theirs = {n: c.observers[n] for n in (1, 3)}
        ports = {n: c.ports[f"100GE1/0/{n}"] for n in (7, 8, 47, 48)}
        return repr((theirs, ports, c.sections["acl name fcn-bert-0 advance"])).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.counts[port][direction is Direction.TX] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        observers = self.switch.running.observers
        number = next(n for n, rest in observers.items() if rest.split()[0] == session.destination)
        observers[number] += " truncate packet 64"
        return RemarkKind.TRUNCATION

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.days = 0


class Os10Bench(SshBench):
    """Dell SmartFabric OS10."""

    PLATFORM = "dell-os10"
    WORDS = "&origin=10.255.0.1"
    # The suite watches more directions than the table gives, beside two foreign ones; the box takes them.
    # The description is the first line by which a session is ours; `shut` the first of its removal.
    FIRST_LINE = r"^description \"?fcn-|^shut"
    LAST_LINE = r"^no shut|^no monitor session"
    sources = tuple(PortName(f"ethernet1/1/{n}") for n in range(1, 7))
    destinations = tuple(PortName(f"ethernet1/1/{n}") for n in range(31, 34))
    foreign = (
        named("fcn-bert-0", "ethernet1/1/8:rx", to="ethernet1/1/47"),
        named("monitor-session-1", "ethernet1/1/7:rx", to="ethernet1/1/48"),
    )

    @classmethod
    def platform(cls) -> Os10Box:
        """See ``SshBench.platform``."""
        box = Os10Box()
        for number, source, to, name in ((1, 7, 48, "netops"), (3, 8, 47, "fcn-bert-0")):
            box.configure(
                *(f"interface ethernet1/1/{to}", "no switchport", "exit"),
                *(f"monitor session {number}", f"description {name}", f"source interface ethernet1/1/{source} rx"),
                *(f"destination interface ethernet1/1/{to}", "no shut"),
            )
        return box

    def open(self, job: str = JOB) -> SshDriver:
        """See ``Bench.open``."""
        address = self.address()
        return SshDriver(address, job, replace(limits_of(address), session_limits=()))

    @property
    def switch(self) -> Os10Box:
        """What the box is."""
        assert isinstance(self.box.platform, Os10Box)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        theirs = {n: self.switch.monitors[n] for n in (1, 3)}
        return repr((theirs, {n: self.switch.ports[f"ethernet1/1/{n}"] for n in (7, 8, 47, 48)})).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        pair = (flow.source, flow.destination) if flow else None
        self.switch.offer(port, int(direction is Direction.TX), packets, pair)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        for monitor in self.switch.monitors.values():
            if monitor.destination == session.destination:
                monitor.up = False
        return RemarkKind.INACTIVE

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.boot = "11111111-8b1e-4f9a-9c53-5b7c1d2e3f40"


class CumulusBench(SshBench):
    """Cumulus Linux."""

    PLATFORM = "cumulus"
    WORDS = "&origin=10.255.0.1"
    atomic = True
    COMMIT = r"^nv config apply"
    sources = tuple(PortName(f"swp{n}") for n in range(1, 7))
    destinations = tuple(PortName(f"swp{n}") for n in range(31, 34))
    foreign = (
        named("fcn-bert-0", "swp8:rx", to="swp47"),
        named("port-mirror-1", "swp7:rx", to="swp48"),
    )

    @classmethod
    def platform(cls) -> CumulusBox:
        """See ``SshBench.platform``."""
        box = CumulusBox()
        for number, source, to in ((1, "swp7", "swp48"), (3, "swp8", "swp47")):
            head = f"nv set system port-mirror session {number} span"
            words = ("direction ingress", f"source-port {source}", f"destination {to}", "enable on")
            box.configure(*(f"{head} {text}" for text in words))
        box.configure(
            "nv set acl fcn-bert-0 type ipv4",
            "nv set acl fcn-bert-0 rule 1 action permit",
            'nv set acl fcn-bert-0 rule 1 remark "flowcheck-net 3 to swp47"',
        )
        return box

    @property
    def switch(self) -> CumulusBox:
        """What the box is."""
        assert isinstance(self.box.platform, CumulusBox)
        return self.box.platform

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        applied = self.switch.applied
        theirs = {n: self.switch.sessions(applied)[n] for n in ("1", "3")}
        return repr((theirs, applied["acl"]["fcn-bert-0"], [applied["interface"][f"swp{n}"] for n in (7, 8)])).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        self.switch.counts[port][direction is Direction.TX] += packets

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        for number, kinds in self.switch.sessions(self.switch.applied).items():
            if session.destination in kinds["span"]["destination"]:
                self.switch.configure(f"nv set system port-mirror session {number} span truncate size 64")
        return RemarkKind.TRUNCATION

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self.switch.boot = "11111111-7425-40de-944b-e07fc1f90ae7"


def _of(bench_class: type[SshBench]) -> Callable[[Path], AbstractContextManager[SshBench]]:
    return lambda directory: boxed(bench_class, directory)


NUMBERED = {
    "comware": _of(ComwareBench),
    "cumulus": _of(CumulusBench),
    "dell-os10": _of(Os10Bench),
    "vrp": _of(VrpBench),
}
"""For ``conftest.BENCHES``."""
