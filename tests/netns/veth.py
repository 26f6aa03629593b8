"""A network namespace with veth pairs, and what arrives at their far ends, by a packet socket of its own."""

import ctypes
import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, PACKET_OUTGOING = 3, 263, 8, 4
SO_RCVBUFFORCE = 33
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 0x10, 0x40
CLONE_NEWNET = 0x40000000
LIFETIME = "600"  # seconds after which a namespace that was left behind goes away by itself


def why_no_namespace() -> str:
    """Why no namespace can be made here; empty: one can."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"{program} is not installed (iproute2, util-linux)"
    probe = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "fcprobe", "type", "veth"], capture_output=True, text=True
    )
    return "" if probe.returncode == 0 else f"no veth pair can be made here: {probe.stderr.strip()}"


_WHY_NOT = why_no_namespace()
needs_namespaces = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "not skipped")


@dataclass(frozen=True, slots=True)
class Namespace:
    """It lives as long as the process that holds it."""

    holder: int

    def run(self, *words: str | Path, check: bool = True, **options: object) -> subprocess.CompletedProcess[str]:
        """A command inside."""
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            self.words(*words), check=check, capture_output=True, text=True, **options
        )

    def words(self, *words: str | Path) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", *map(str, words)]

    def ip(self, line: str) -> None:
        self.run("ip", *line.split())

    def pair(self, near: str, far: str, mtu: int = 9000) -> None:
        """Two ends of a cable, both up."""
        self.ip(f"link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}")
        for name in (near, far):
            self.ip(f"link set {name} up")

    def replay(self, *words: str | Path, check: bool = False, **options: object) -> subprocess.CompletedProcess[str]:
        """``flowcheck-net replay`` inside."""
        return self.run(*PROGRAM, "replay", *words, check=check, **options)

    def start(self, *words: str | Path) -> "subprocess.Popen[str]":
        """The same, while it runs."""
        return subprocess.Popen(
            self.words(*PROGRAM, "replay", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    @contextmanager
    def listening(self, interface: str) -> Iterator["Listener"]:
        """A packet socket on an interface inside."""
        with self._inside():
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        with opened:
            opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            opened.bind((interface, ETH_P_ALL))
            yield Listener(opened)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """This thread, for a moment."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{self.holder}/ns/net").open() as other:
            assert libc.setns(other.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(own.fileno(), CLONE_NEWNET) == 0


PROGRAM = (sys.executable, "-c", "from flowcheck_net.cli.main import run; run()")


@dataclass(frozen=True, slots=True)
class Listener:
    socket: socket.socket

    def frames(self, count: int, *, outgoing: bool = False) -> list[bytes]:
        """The next ones, tags put back where the kernel took them out. Fewer if nothing comes for a minute."""
        found: list[bytes] = []
        self.socket.settimeout(60)
        while len(found) < count:
            try:
                found += self._next(outgoing)
            except TimeoutError:
                break
        return found

    def waiting(self) -> list[bytes]:
        """All that are there."""
        found: list[bytes] = []
        self.socket.settimeout(0.05)
        while True:
            try:
                found += self._next(outgoing=False)
            except TimeoutError:
                return found

    def _next(self, outgoing: bool) -> list[bytes]:
        try:
            frame, auxiliary, _, address = self.socket.recvmsg(1 << 16, 256)
        except OSError as error:
            if error.errno != errno.ENETDOWN:  # said once when the link goes down
                raise
            return []
        if (address[2] == PACKET_OUTGOING) != outgoing:
            return []
        for level, kind, data in auxiliary:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tag, kind_of_tag = struct.unpack("3I4H", data[:20])
                if status & TP_STATUS_VLAN_VALID:
                    tpid = kind_of_tag if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                    frame = frame[:12] + struct.pack(">HH", tpid, tag) + frame[12:]
        return [frame]


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace of its own, quiet: without IPv6 nobody in it sends anything unasked."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"echo made; exec sleep {LIFETIME}"], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "made\n"
            made = Namespace(holder.pid)
            made.run("sh", "-c", "for all in all default; do echo 1 > /proc/sys/net/ipv6/conf/$all/disable_ipv6; done")
            yield made
        finally:
            holder.kill()
