"""What ovs-vswitchd itself tells and does beside its database, over its control socket (what ovs-appctl speaks)."""

import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.drivers.ovs_reference import Remote
from flowcheck_net.drivers.ovs_rpc import Connection, Lost, RemoteError, Unreachable

_SECONDS = 5.0
_LOCAL = re.compile(r"Cached: (?P<address>[0-9a-f.:]+)/(?:32|128) dev (?P<port>\S+) .*\blocal")


@dataclass(frozen=True, slots=True)
class Control:
    """The control socket of a vswitchd that runs on this machine."""

    socket: Path

    def version(self) -> tuple[int, ...]:
        """Such as ``(3, 1, 0)``."""
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", self._ask("version"))
        return tuple(int(n) for n in found.groups()) if found else ()

    def purge(self) -> None:
        """Have every hot flow translated anew, so that it takes up the mirrors as they are now."""
        self._ask("revalidator/purge")

    def addresses(self, port: str) -> tuple[str, ...]:
        """IP addresses of an interface of the machine, those aside that every link has by itself."""
        found = [m for line in self._ask("ovs/route/show").splitlines() if (m := _LOCAL.match(line))]
        return tuple(m["address"] for m in found if m["port"] == port and not m["address"].startswith("fe80:"))

    def way_to(self, address: str) -> str:
        """The next hop's address towards a tunnel's end; empty: no route."""
        try:
            answer = self._ask("ovs/route/lookup", address)
        except RemoteError:
            return ""
        found = re.search(r"^gateway (\S+)", answer, re.MULTILINE)
        gateway = found[1] if found else "::"
        return address if gateway in ("::", "0.0.0.0") else gateway  # noqa: S104 - compared, not bound

    def knows_neighbour(self, address: str) -> bool:
        """Is the hardware address of a next hop resolved?"""
        return any(line.split()[:1] == [address] for line in self._ask("tnl/neigh/show").splitlines())

    def process_start(self) -> str:
        """Boot of the machine and start of the process: changes when either restarts. Empty: cannot be told."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.settimeout(_SECONDS)
                peer.connect(str(self.socket))
                pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            # The 22nd field; the name in the second one may hold anything, also spaces.
            started = (
                Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
            )
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except (OSError, IndexError):
            return ""
        return f"{boot}/{started}"

    def _ask(self, command: str, *words: str) -> str:
        with Connection(Remote("unix", str(self.socket)), _SECONDS) as connection:
            return str(connection.call(command, words))


def find_control(directory: Path) -> Control | None:
    """The vswitchd whose control socket lies beside the database's; None: it cannot be reached from here."""
    for path in sorted(directory.glob("*.ctl")):
        control = Control(path)
        try:
            if "ovs-vswitchd" in control._ask("version"):
                return control
        except (Unreachable, Lost, RemoteError):
            continue
    return None
