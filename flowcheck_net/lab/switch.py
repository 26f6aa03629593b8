"""One Open vSwitch of its own: database, daemon and bridges in a network namespace, userspace datapath."""

import shutil
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Protocol

from flowcheck_net.ids import Address
from flowcheck_net.lab.blueprint import mac_text
from flowcheck_net.lab.buffers import dropped, enlarge
from flowcheck_net.lab.place import Place
from flowcheck_net.lab.processes import Process

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
_REMEMBERED = 3600
"""Seconds that Open vSwitch knows the hardware address of a tunnel's far end, at the most."""


def lacking() -> str:
    """What is missing for an Open vSwitch; empty: nothing."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return ", ".join(absent) if absent or SCHEMA.is_file() else str(SCHEMA)


def accepts(path: Path) -> bool:
    """Does somebody listen there? A socket is there before its owner listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def database_command(directory: Path, *more: str) -> list[str]:
    """ovsdb-server on ``conf.db`` of a directory; its socket is ``db.sock``."""
    words = [f"--remote=punix:{directory}/db.sock", f"--unixctl={directory}/ovsdb.ctl", "--log-file=ovsdb.log"]
    return ["ovsdb-server", str(directory / "conf.db"), *words, *more, "-vconsole:off"]


def daemon_command(directory: Path) -> list[str]:
    """ovs-vswitchd on that database; its control socket is ``vswitchd.ctl``. Sockets of a former one are removed."""
    control = directory / "vswitchd.ctl"
    for path in (control, *directory.glob("*.mgmt")):
        path.unlink(missing_ok=True)
    words = [f"unix:{directory}/db.sock", f"--unixctl={control}", "--log-file=vswitchd.log", "-vconsole:off"]
    return ["ovs-vswitchd", *words]


def forwarding(ways: Mapping[str, int]) -> str:
    """A pipeline as ``ovs-ofctl replace-flows`` reads it: hardware address -> port.

    Table 0 is one rule, as the driver's filters want it; unknown addresses go nowhere.
    """
    rules = ["table=0,priority=0,actions=resubmit(,1)", "table=1,priority=0,actions=drop"]
    rules += [f"table=1,priority=9,dl_dst={address},actions=output:{port}" for address, port in ways.items()]
    return "\n".join(rules)


def tunnel_sources(collectors: Sequence[Address]) -> list[str]:
    """Addresses, with the width of their network, that tunnels to all of these come from: one of each family.

    Open vSwitch looks for an address in the network of the far end, and takes no other. It may be the same on all
    switches, for nobody answers to it.
    """
    found = []
    for version in (4, 6):
        numbers = {int(each) for each in map(ip_address, collectors) if each.version == version}
        if not numbers:
            continue
        bits = 32 if version == 4 else 128
        host = max(2, (min(numbers) ^ max(numbers)).bit_length())
        while (1 << host) - 2 <= len(numbers):  # the first and the last address of a network are no host's
            host += 1
        base = min(numbers) >> host << host
        own = next(base + n for n in range(1, 1 << host) if base + n not in numbers)
        form = IPv4Address if version == 4 else IPv6Address
        found.append(f"{form(own)}/{bits - host}")
    return found


class LabSwitch(Protocol):
    """A switch of a lab, of whatever kind: one namespace, one program that forwards and mirrors."""

    @property
    def reference(self) -> str:
        """``management`` in a topology."""

    def make(self) -> None:
        """Bring it up for the first time, forwarding."""

    def boot(self) -> None:
        """Start it again, forwarding."""

    def begin(self) -> None:
        """Ready for a run; losses count from 0."""

    def crash(self) -> None:
        """End it at once, as a power failure does."""

    def lost(self) -> int:
        """Frames that did not fit into its buffers since this was asked last."""


class Switch:
    """A switch of a lab: the namespace of the process ``NAME`` must be there, with the ports in it."""

    def __init__(
        self,
        place: Place,
        name: str,
        ports: Iterable[str],
        ways: Mapping[Address, str],
        collectors: Iterable[Address] = (),
    ) -> None:
        """``collectors``: where tunnels of mirror sessions may lead."""
        self.name = name
        self.directory = place.directory / name
        self._place = place
        self._numbers = {port: number for number, port in enumerate(sorted(ports), 1)}
        """OpenFlow number of each port."""
        self._ways = ways
        self._collectors = tuple(collectors)

    @property
    def reference(self) -> str:
        """``management`` in a topology."""
        return f"ovs:unix:{self.directory}/db.sock#{self.name}"

    def make(self) -> None:
        """Database, daemon, bridge, ports and forwarding."""
        self.directory.mkdir()
        self._place.run("ovsdb-tool", "create", str(self.directory / "conf.db"), str(SCHEMA))
        socket_path = self.directory / "db.sock"
        self._spawn("ovsdb", database_command(self.directory))
        self._place.expect(f"{self.name}/ovsdb", lambda: accepts(socket_path), f"ovsdb-server of {self.name}")
        words = ["--", "add-br", self.name, "--", "set", "bridge", self.name, "datapath_type=netdev"]
        words += ["fail_mode=secure"]
        for port, number in self._numbers.items():
            words += ["--", "add-port", self.name, port, "--", "set", "interface", port, f"ofport_request={number}"]
        self._vsctl("--no-wait", "init", *words)
        self.boot()

    def boot(self) -> None:
        """Start the daemon; its mirrors come from the database, its forwarding from us as from a start-up file."""
        process = self._spawn("vswitchd", daemon_command(self.directory))
        management = self.directory / f"{self.name}.mgmt"
        expect = partial(self._place.expect, f"{self.name}/vswitchd")
        expect(partial(accepts, self.directory / "vswitchd.ctl"), f"ovs-vswitchd of {self.name}")
        expect(lambda: management.exists() and accepts(management), f"bridge {self.name}")
        expect(self._has_ports, f"ports of {self.name}")
        self._forward()
        if self._collectors:
            self._lead()
        enlarge(process)
        self.begin()  # what it did not take before it was ready belongs to its start

    def begin(self) -> None:
        """Ready for a run: it knows where tunnels lead, and counts its losses from 0."""
        for collector in self._collectors:
            self._appctl("tnl/neigh/set", self.name, collector, mac_text(collector))
        self.lost()

    def crash(self) -> None:
        """End the daemon at once, as a power failure does."""
        self._place.end(f"{self.name}/vswitchd", signal.SIGKILL)

    def lost(self) -> int:
        """Frames that did not fit into its buffers since this was asked last."""
        return dropped(self._place.processes[f"{self.name}/vswitchd"])

    def ofctl(self, command: str, *words: str, stdin: str = "") -> str:
        """ovs-ofctl on the bridge."""
        where = f"unix:{self.directory}/{self.name}.mgmt"
        return self._place.run("ovs-ofctl", "-O", "OpenFlow14", command, where, *words, stdin=stdin, cwd=self.directory)

    def _has_ports(self) -> bool:
        shown = self.ofctl("show")
        return all(f" {number}({port})" in shown for port, number in self._numbers.items())

    def _forward(self) -> None:
        ways = {mac_text(address): self._numbers[port] for address, port in self._ways.items()}
        self.ofctl("replace-flows", "-", stdin=forwarding(ways))

    def _lead(self) -> None:
        """Tunnels begin at the bridge's own port. Nobody answers questions for hardware addresses: `begin` does."""
        sources = tunnel_sources(self._collectors)
        if any(":" in source for source in sources):
            self._place.run("sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{self.name}/disable_ipv6", inside=self.name)
        lines = [f"link set {self.name} up", *(f"address replace {s} dev {self.name} nodad" for s in sources)]
        self._place.run("ip", "-batch", "-", inside=self.name, stdin="\n".join(lines))
        self._appctl("tnl/neigh/aging", str(_REMEMBERED))

    def _appctl(self, *words: str) -> str:
        return self._place.run("ovs-appctl", "-t", str(self.directory / "vswitchd.ctl"), *words, cwd=self.directory)

    def _vsctl(self, *words: str) -> str:
        database = f"--db=unix:{self.directory}/db.sock"
        return self._place.run("ovs-vsctl", database, "--timeout=10", *words, cwd=self.directory)

    def _spawn(self, role: str, words: Sequence[str]) -> Process:
        return self._place.spawn(f"{self.name}/{role}", words, inside=self.name, cwd=self.directory)
