"""A real Open vSwitch of the tests' own: private database, userspace datapath, a network namespace without a name.

Nothing of it outlives the test process: the namespace lives as long as its processes, and these die with us.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from flowcheck_net.intent import FlowFilter
from flowcheck_net.lab.switch import SCHEMA, accepts, daemon_command, database_command, forwarding
from tests.doubles.inside import Result, packet_socket, within

VOLATILE = {
    "statistics",
    "cur_cfg",
    "next_cfg",
    "_version",
    "status",
    "link_state",
    "admin_state",
    "link_resets",
    "error",
}
"""Columns that the switch itself changes."""
_PATIENCE = 10.0


def mac(number: int) -> bytes:
    """The address that leads to a port of the lab, whichever bridge it is on."""
    return struct.pack(">BBI", 2, 0xFC, number)


def frame(to: int, flow: FlowFilter | None = None, number: int = 0, size: int = 128) -> bytes:
    """An Ethernet frame to port ``to``: RoCEv2 (RDMA WRITE MIDDLE) with a flow, else UDP to the discard port.

    Args:
        to: the port, see ``mac``.
        flow: IPv4 or IPv6 addresses.
        number: the packet's PSN.
        size: bytes of payload.
    """
    bth = struct.pack(">BBHII", 0x07, 0x40, 0xFFFF, 0x11, number & 0xFFFFFF)
    inner = (bth if flow else b"") + bytes(size) + b"ICRC"
    udp = struct.pack(">HHHH", 0xC000, 4791 if flow else 9, 8 + len(inner), 0) + inner
    source, destination = (flow.source, flow.destination) if flow else ("10.0.0.1", "10.0.0.2")
    if ":" in source:
        addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
        packet, kind = struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + addresses + udp, 0x86DD
    else:
        head = struct.pack(">BBHHHBBH", 0x45, 2, 20 + len(udp), number & 0xFFFF, 0x4000, 64, 17, 0)
        head += socket.inet_aton(source) + socket.inet_aton(destination)
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        packet, kind = head[:10] + struct.pack(">H", total) + head[12:] + udp, 0x0800
    return mac(to) + mac(0) + struct.pack(">H", kind) + packet


class Listener:
    """What arrives at the far end of a port's cable, from when the listener was made."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._socket.setblocking(False)
        self.frames: list[bytes] = []

    def count(self) -> int:
        """Frames that have come so far."""
        while True:
            try:
                data, place = self._socket.recvfrom(65535)
            except BlockingIOError:
                return len(self.frames)
            if place[2] != socket.PACKET_OUTGOING:  # type: ignore[attr-defined,unused-ignore]
                self.frames.append(data)

    def wait_for(self, count: int) -> None:
        """Until so many have come."""
        wait_until(lambda: self.count() >= count, f"{count} frames")

    def close(self) -> None:
        self._socket.close()


def wait_until(done: Callable[[], bool], what: str) -> None:
    """Poll; raises TimeoutError naming ``what``."""
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {_PATIENCE:g} s")
        time.sleep(0.01)


class OvsLab:
    """ovsdb-server and ovs-vswitchd with bridges whose ports are cables; the far ends belong to the test."""

    def __init__(self) -> None:
        # Short, because the path of a socket has 107 characters at the most.
        self.directory = Path(tempfile.mkdtemp(prefix="fcn-ovs-", dir="/tmp"))
        self._environment = {
            **os.environ,
            **{f"OVS_{k}DIR": str(self.directory) for k in ("RUN", "LOG", "DB", "SYSCONF")},
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers: dict[str, int] = {}
        """Of every port, by name: 1, 2, ...; also its OpenFlow number."""
        self._bridges: list[str] = []
        self._spawner = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, and with them the namespace; remove the files."""
        for name in ("copy", "vswitchd", "ovsdb", "namespace"):
            self.kill(name)
        self._spawner.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def database(self) -> Path:
        """The socket of the database server."""
        return self.directory / "db.sock"

    def reference(self, bridge: str) -> str:
        """``SwitchAddress.management`` of a bridge."""
        return f"ovs:unix:{self.database}#{bridge}"

    def kill(self, name: str) -> None:
        """SIGKILL ``ovsdb`` or ``vswitchd``."""
        if process := self._processes.pop(name, None):
            process.kill()
            process.wait()

    def revive(self) -> None:
        """Start what a test left dead."""
        for name, start in (("ovsdb", self.start_ovsdb), ("vswitchd", self.start_vswitchd)):
            if name not in self._processes or self._processes[name].poll() is not None:
                start()

    def start_ovsdb(self, *more: str) -> None:
        """Start the database server on the database as it is."""
        self.database.unlink(missing_ok=True)
        self._spawn("ovsdb", database_command(self.directory, *more))
        wait_until(lambda: accepts(self.database), "ovsdb-server")

    def serve_copy(self, *words: str, change: Callable[[Path], None] = lambda _: None) -> None:
        """Serve a copy of the database as ``copy``, with these options; the switch does not see it."""
        copy = self.directory / "copy.db"
        copy.unlink(missing_ok=True)
        shutil.copy(self.directory / "conf.db", copy)
        change(copy)
        control = self.directory / "copy.unixctl"
        control.unlink(missing_ok=True)
        self._spawn("copy", ["ovsdb-server", "copy.db", f"--unixctl={control}", "-vconsole:off", *words])
        wait_until(lambda: accepts(control), "second ovsdb-server")

    def start_vswitchd(self) -> None:
        """Start the switch; its tables hold no rules then."""
        self._spawn("vswitchd", daemon_command(self.directory))
        wait_until(lambda: accepts(self.directory / "vswitchd.ctl"), "ovs-vswitchd")
        for bridge in self._bridges:
            wait_until(partial(accepts, self.directory / f"{bridge}.mgmt"), f"bridge {bridge}")

    def add_bridge(self, bridge: str, ports: Iterable[str]) -> None:
        """A bridge with these ports; its pipeline is one rule in table 0, and a rule a MAC address in table 1."""
        names = list(ports)
        self._bridges.append(bridge)
        first = len(self._numbers) + 1
        self._numbers |= {p: first + i for i, p in enumerate(names)}
        links = [
            line
            for port in names
            for line in (f"link add {port} type veth peer name {self.far(port)}",
                         f"link set {port} up mtu 9000", f"link set {self.far(port)} up mtu 9000")
        ]  # fmt: skip
        self.run("ip", "-batch", "-", stdin="\n".join(links))
        words = ["--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]
        for port in names:
            words += ["--", "add-port", bridge, port, "--", "set", "interface", port]
            words += [f"ofport_request={self._numbers[port]}"]
        self.vsctl(*words)
        self.forward(bridge, {self._numbers[p]: p for p in names})

    def join(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """A cable between two bridges, each given as (bridge, port)."""
        self.run("ip", "link", "add", one[1], "type", "veth", "peer", "name", other[1])
        for bridge, port in (one, other):
            self._numbers[port] = len(self._numbers) + 1
            self.run("ip", "link", "set", port, "up", "mtu", "9000")
            wanted = f"ofport_request={self._numbers[port]}"
            self.vsctl("--", "add-port", bridge, port, "--", "set", "interface", port, wanted)

    def forward(self, bridge: str, ways: dict[int, str]) -> None:
        """Replace the bridge's whole pipeline: frames to ``mac(number)`` leave by the port."""
        rules = forwarding({mac(number).hex(":"): self._numbers[port] for number, port in ways.items()})
        self.ofctl(bridge, "replace-flows", "-", stdin=rules)

    def number(self, port: str) -> int:
        """The port's number in the lab."""
        return self._numbers[port]

    def far(self, port: str) -> str:
        """The far end of the port's cable."""
        return f"far{self._numbers[port]}"

    def run(self, *words: str, stdin: str = "") -> str:
        """A command inside the namespace; its output."""
        command = ["nsenter", f"--net={self.namespace}", *words]
        done = subprocess.run(
            command, input=stdin, env=self._environment, text=True, capture_output=True, timeout=15, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def vsctl(self, *words: str) -> str:
        """ovs-vsctl on the lab's database."""
        return self.run("ovs-vsctl", f"--db=unix:{self.database}", "--timeout=10", *words)

    def ofctl(self, bridge: str, command: str, *words: str, stdin: str = "") -> str:
        """ovs-ofctl on a bridge."""
        where = f"unix:{self.directory}/{bridge}.mgmt"
        return self.run("ovs-ofctl", "-O", "OpenFlow14", command, where, *words, stdin=stdin)

    def appctl(self, *words: str) -> str:
        """ovs-appctl on the switch."""
        return self.run("ovs-appctl", "-t", str(self.directory / "vswitchd.ctl"), *words)

    def listen(self, port: str) -> Listener:
        """Hear what arrives at the far end of a port."""
        return Listener(self._raw(self.far(port)))

    def send(self, port: str, frames: Sequence[bytes]) -> None:
        """Frames enter the switch at a port."""
        with self._raw(self.far(port), receiving=False) as sender:
            for each in frames:
                sender.send(each)

    @contextmanager
    def counting_often(self, idle: str) -> Iterator[None]:
        """Have the switch refresh its counts twice a second instead of every 5 s: it does when the interval changes.

        A frame that leads nowhere, at a port that nobody watches, makes each refresh a visible one.
        """
        stop = threading.Event()

        def tick() -> None:
            every = 5000
            while not stop.wait(0.5):
                every = 10001 - every
                self.send(idle, [frame(0xFFFF)])
                self.vsctl("--no-wait", "set", "open", ".", f"other_config:stats-update-interval={every}")

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def dump(self) -> dict[str, list[str]]:
        """The whole database by table, rows sorted, without what the switch itself changes."""
        found = {}
        for text in self.run("ovsdb-client", "-f", "json", "dump", f"unix:{self.database}").splitlines():
            table = json.loads(text)
            rows = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
            kept = [{k: v for k, v in row.items() if k not in VOLATILE} for row in rows]
            found[table["caption"]] = sorted(json.dumps(row, sort_keys=True) for row in kept)
        return found

    def _start(self) -> None:
        self._spawn(
            "namespace", ["unshare", "--net", "--", "setpriv", "--pdeathsig", "KILL", "sleep", "infinity"], outside=True
        )
        ours = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: Path(self.namespace).readlink() != ours, "namespace")
        # What the kernel sends by itself would be counted as copies.
        for which in ("all", "default"):
            self.run("sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        self.run("ip", "link", "set", "lo", "up")
        subprocess.run(["ovsdb-tool", "create", str(self.directory / "conf.db"), str(SCHEMA)], check=True)
        self.start_ovsdb()
        self.vsctl("--no-wait", "init")
        self.start_vswitchd()

    def _spawn(self, name: str, words: list[str], *, outside: bool = False) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", "--", *words]
        if not outside:
            command = ["nsenter", f"--net={self.namespace}", *command]
        # -3 is /dev/null. The parent whose death ends a process is a thread: this one lives as long as the lab.
        self._processes[name] = self._spawner.submit(
            lambda: subprocess.Popen(command, cwd=self.directory, env=self._environment, stdin=-3, stdout=-3, stderr=-3)
        ).result()

    @property
    def namespace(self) -> str:
        """Path of the namespace."""
        return f"/proc/{self._processes['namespace'].pid}/ns/net"

    def _raw(self, interface: str, *, receiving: bool = True) -> socket.socket:
        return packet_socket(self.namespace, interface, receiving=receiving)

    def within(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in the namespace."""
        return within(self.namespace, work)
