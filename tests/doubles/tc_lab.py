"""A Linux bridge in a namespace without a name: its ports are cables, the far ends belong to the test."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tests.doubles.inside import Result, packet_socket, within
from tests.doubles.ovs_lab import Listener, mac, wait_until


class TcLab:
    """One namespace; it lives as long as its process, which dies with us."""

    def __init__(self) -> None:
        # The parent whose death ends a process is a thread: this one lives as long as the lab.
        self._spawner = ThreadPoolExecutor(1)
        words = ["unshare", "--net", "--", "setpriv", "--pdeathsig", "KILL", "sleep", "infinity"]
        self._process = self._spawner.submit(
            lambda: subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *words])
        ).result()
        ours = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: Path(self.namespace).readlink() != ours, "namespace")
        # What the kernel sends by itself would be counted as copies.
        self.run("sh", "-c", "for i in all default; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done")
        self.numbers: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and with it the namespace."""
        self._process.kill()
        self._process.wait()
        self._spawner.shutdown()

    @property
    def namespace(self) -> str:
        """Path of the namespace."""
        return f"/proc/{self._process.pid}/ns/net"

    def run(self, *words: str, stdin: str = "") -> str:
        """A program in the namespace; its output."""
        command = ["nsenter", f"--net={self.namespace}", "--", *words]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=15, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def add_cables(self, ports: Iterable[str]) -> None:
        """Ports without a bridge."""
        names = list(ports)
        lines = []
        for port in names:
            self.numbers[port] = len(self.numbers) + 1
            lines += [f"link add {port} type veth peer name {self.far(port)}"]
            lines += [f"link set {p} mtu 9000 up" for p in (port, self.far(port))]
        self.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def add_bridge(self, bridge: str, ports: Iterable[str]) -> None:
        """A bridge that sends a frame to ``mac(number)`` to that port, and no frame anywhere else."""
        names = list(ports)
        self.add_cables(names)
        self.run("ip", "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
        self.run("ip", "link", "set", bridge, "mtu", "9000", "up")
        for port in names:
            self.run("ip", "link", "set", port, "master", bridge)
        flags = [f"link set dev {p} learning off flood off mcast_flood off bcast_flood off" for p in names]
        ways = [f"fdb add {mac(self.numbers[p]).hex(':')} dev {p} master static" for p in names]
        self.run("bridge", "-batch", "-", stdin="\n".join([*flags, *ways]) + "\n")

    @staticmethod
    def far(port: str) -> str:
        """The other end of a port's cable."""
        return f"far-{port}"

    def listen(self, port: str) -> Listener:
        """Hear what arrives at the far end of a port."""
        return Listener(self._raw(self.far(port)))

    def send(self, port: str, frames: Sequence[bytes]) -> None:
        """Frames enter the switch at a port."""
        with self._raw(self.far(port), receiving=False) as sender:
            for each in frames:
                sender.send(each)

    def settled(self, count: Callable[[], int], expected: int) -> int:
        """What is counted when ``expected`` has come, and a moment after: nothing more may come."""
        wait_until(lambda: count() >= expected, f"{expected} frames")
        time.sleep(0.05)
        return count()

    def within(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in the namespace."""
        return within(self.namespace, work)

    def _raw(self, interface: str, *, receiving: bool = True) -> socket.socket:
        return packet_socket(self.namespace, interface, receiving=receiving)


def missing() -> str:
    """Why there can be no such lab here; empty: there can."""
    probe = [
        "unshare",
        "--net",
        "--",
        "sh",
        "-c",
        "ip link add fcn-a type veth peer name fcn-b && tc qdisc add dev fcn-a clsact",
    ]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed (Debian packages iproute2, util-linux)"
    return f"no namespace with tc here (root is needed): {done.stderr.strip()}" if done.returncode else ""
