"""A real Open vSwitch for the conformance suite: one lab a process, its bridge made afresh for each test."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flowcheck_net.drivers.ovs import OvsDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from flowcheck_net.lab.build import missing
from tests.conformance.bench import JOB, Cannot, Trouble
from tests.doubles.ovs_lab import OvsLab, frame
from tests.doubles.ovs_proxy import Cut, Proxy
from tests.doubles.switches import session as named

BRIDGE = "leaf1"
UPLINK = "uplink"
"""Where traffic of the sources comes from and goes to; nobody watches it."""
_PORTS = [f"Ethernet{n}" for n in (*range(1, 9), 31, 32, 33, 47, 48)]
_CUTS = {Trouble.REFUSE: Cut.ABORT, Trouble.LOST_BEFORE: Cut.BEFORE, Trouble.LOST_AFTER: Cut.AFTER}
_shared: list[OvsLab] = []


class OvsBench:
    """Bridge ``leaf1``, forwarding by MAC address, with two foreign mirrors."""

    driver_class: type = OvsDriver
    atomic = True
    lock = True
    sources: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"Ethernet{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named("fcn-bert-0", "Ethernet8:rx", to="Ethernet47"),
        named("netops-span", "Ethernet7:rx", to="Ethernet48"),
    )

    def __init__(self, lab: OvsLab, ending: ExitStack) -> None:
        self._lab = lab
        self._ending = ending
        self._proxied = False
        self._unreachable = False
        self._ticking = False
        lab.vsctl("clear", "bridge", BRIDGE, "mirrors")
        add_mirror(lab, BRIDGE, "netops-span", "Ethernet7", "Ethernet48", "owner=netops")
        marks = ("flowcheck-net\\:job=bert", "flowcheck-net\\:session=fcn-bert-0", "flowcheck-net\\:digest=0")
        add_mirror(lab, BRIDGE, "fcn-bert-0", "Ethernet8", "Ethernet47", *marks)
        self._forward()

    def open(self, job: str = JOB) -> OvsDriver:
        """See ``Bench.open``."""
        name = "gone.sock" if self._unreachable else "proxy.sock" if self._proxied else "db.sock"
        self._unreachable = False
        reference = f"ovs:unix:{self._lab.directory / name}#{BRIDGE}"
        driver = open_driver(SwitchAddress(SwitchName("leaf1"), "ovs", reference), job, self._lab.directory)
        assert isinstance(driver, OvsDriver)
        return driver

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """See ``Bench.as_foreign``."""
        return session

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        table = json.loads(self._lab.vsctl("--format=json", "list", "Mirror"))
        rows = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
        theirs = [r for r in rows if r["name"] in {s.name for s in self.foreign}]
        for row in theirs:
            del row["statistics"]
        return json.dumps(sorted(theirs, key=lambda r: str(r["name"])), sort_keys=True).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        enters, leaves = (port, UPLINK) if direction is Direction.RX else (UPLINK, port)
        listener = self._lab.listen(leaves)
        self._lab.send(enters, [frame(self._lab.number(leaves), flow, n) for n in range(packets)])
        listener.wait_for(packets)
        assert listener.count() == packets
        listener.close()
        self._tick()

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        del step
        if kind is Trouble.HALF:
            raise Cannot("one transaction: no step is ever carried out by half")
        if kind is Trouble.UNREACHABLE:
            self._unreachable = True
            return
        lab = self._lab
        self._ending.enter_context(Proxy(lab.directory / "proxy.sock", lab.database, _CUTS[kind]))
        self._proxied = True

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self._lab.vsctl("set", "Mirror", session.name, "snaplen=64")
        return RemarkKind.TRUNCATION

    def restart(self) -> None:
        """See ``Bench.restart``."""
        self._lab.kill("vswitchd")
        self._lab.start_vswitchd()
        self._forward()

    def _forward(self) -> None:
        self._lab.forward(BRIDGE, {self._lab.number(p): p for p in (*_PORTS, UPLINK)})

    def _tick(self) -> None:
        if not self._ticking:
            self._ending.enter_context(self._lab.counting_often(UPLINK))
        self._ticking = True


def add_mirror(lab: OvsLab, bridge: str, name: str, source: str, output: str, *marks: str) -> None:
    """Somebody mirrors what arrives at a port."""
    lab.vsctl(
        *("--", "--id=@s", "get", "Port", source, "--", "--id=@o", "get", "Port", output),
        *("--", "--id=@m", "create", "Mirror", f"name={name}", "select_src_port=@s", "output_port=@o"),
        *(f"external_ids:{m}" for m in marks),
        *("--", "add", "Bridge", bridge, "mirrors", "@m"),
    )


@contextmanager
def real(_: Path) -> Iterator[OvsBench]:
    """The lab is set up once a process, which takes half a second, and ended by ``close``."""
    if why := missing():
        raise Cannot(why)
    if not _shared:
        with ExitStack() as failing:
            lab = failing.enter_context(OvsLab())
            lab.add_bridge(BRIDGE, [*_PORTS, UPLINK])
            failing.pop_all()
            _shared.append(lab)
    with ExitStack() as ending:
        yield OvsBench(_shared[0], ending)


def close() -> None:
    """End the lab."""
    while _shared:
        _shared.pop().close()
