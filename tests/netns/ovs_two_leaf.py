"""The example ``topologies/ovs-two-leaf`` for real: two bridges, a cable, the far ends of hosts and capture NICs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import Address, SwitchName
from flowcheck_net.intent import FlowFilter, MirrorSession, Step, StepKind, SwitchAddress
from tests.doubles.ovs_lab import Listener, OvsLab, frame

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "ovs-two-leaf"
HOSTS = {"host1": "l1h1", "host2": "l1h2", "host3": "l2h3", "host4": "l2h4"}
ADDRESSES = {"host1": "10.77.0.1", "host2": "10.77.0.2", "host3": "10.77.0.3", "host4": "10.77.0.4"}
CAPTURES = ("l1c0", "l1c1", "l2c2", "l2c3")
SPARE = "l1x"
"""A port of leaf1 that the example does not have, for what others mirror."""
PORTS = {"leaf1": ["l1h1", "l1h2", "l1c0", "l1c1", SPARE], "leaf2": ["l2h3", "l2h4", "l2c2", "l2c3"]}
CABLE = {"leaf1": "l1up", "leaf2": "l2up"}


@dataclass(frozen=True, slots=True)
class TwoLeaves:
    """The lab as the example describes it."""

    lab: OvsLab

    @classmethod
    def build(cls, lab: OvsLab) -> "TwoLeaves":
        """Bridges and cable; see ``reset`` for the rest."""
        for bridge, ports in PORTS.items():
            lab.add_bridge(bridge, ports)
        lab.join(("leaf1", "l1up"), ("leaf2", "l2up"))
        return cls(lab)

    def reset(self) -> None:
        """No mirrors, no ports but the example's, nothing but forwarding."""
        self.lab.revive()
        self.reset_rules()
        for bridge, ports in PORTS.items():
            self.lab.vsctl("clear", "bridge", bridge, "mirrors")
            strange = set(self.lab.vsctl("list-ports", bridge).split()) - {*ports, CABLE[bridge]}
            for port in strange:
                self.lab.vsctl("del-port", bridge, port)

    def reset_rules(self) -> None:
        """Nothing but forwarding, as after a restart."""
        for bridge, ports in PORTS.items():
            ways = {self.lab.number(p): p if p in ports else CABLE[bridge] for p in (*HOSTS.values(), *CAPTURES, SPARE)}
            self.lab.forward(bridge, ways)

    def address(self, leaf: str) -> SwitchAddress:
        """For the driver registry."""
        return SwitchAddress(SwitchName(leaf), "ovs", self.lab.reference(leaf))

    def open(self, leaf: str = "leaf1", job: str = "gpt") -> Driver:
        """A driver that is not connected yet."""
        return open_driver(self.address(leaf), job, self.lab.directory)

    def write(self, *sessions: MirrorSession, leaf: str = "leaf1", kind: StepKind = StepKind.CREATE) -> None:
        """Create (or delete) sessions over a connection of their own."""
        with self.open(leaf) as driver:
            driver.write([Step(kind, s) for s in sessions])

    def specs(self, into: Path) -> Path:
        """The example's files, with the lab's database in place of the machine's."""
        shutil.copytree(EXAMPLE, into)
        topology = into / "topology.yaml"
        text = topology.read_text()
        assert text.count("/run/openvswitch/db.sock") == 2
        topology.write_text(text.replace("/run/openvswitch/db.sock", str(self.lab.database)))
        return into

    @contextmanager
    def listening(self, *ports: str) -> Iterator[dict[str, Listener]]:
        """Hear at the far ends of ports."""
        found = {p: self.lab.listen(p) for p in ports}
        try:
            yield found
        finally:
            for listener in found.values():
                listener.close()

    def offer(self, source: str, destination: str, packets: int, first: int = 0) -> list[bytes]:
        """A host sends RoCEv2 packets to another one, and they arrive; returns them."""
        flow = FlowFilter(Address(ADDRESSES[source]), Address(ADDRESSES[destination]))
        frames = [frame(self.lab.number(HOSTS[destination]), flow, first + n) for n in range(packets)]
        with self.listening(HOSTS[destination]) as there:
            self.lab.send(HOSTS[source], frames)
            there[HOSTS[destination]].wait_for(packets)
        return frames
