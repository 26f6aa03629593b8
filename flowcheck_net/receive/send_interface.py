"""What is known of a Linux interface before anything is sent on it, and where frames sent on it may end up.

Asked through ioctl and /proc of the calling thread, so that the answers are those of its network namespace. /sys shows
the namespace in which it was mounted; it is believed only where it knows the same interface.
"""

import array
import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import SendError

# linux/sockios.h, linux/ethtool.h, linux/if.h, linux/if_arp.h
_SIOCGIFFLAGS, _SIOCGIFMTU, _SIOCGIFHWADDR, _SIOCETHTOOL = 0x8913, 0x8921, 0x8927, 0x8946
_ETHTOOL_GDRVINFO = 3
_PROGRAMS = frozenset({"tap", "tun"})
"""What Linux names as the bus of an interface behind which a program sits."""
_DRVINFO_BYTES, _BUS_INFO = 196, slice(4 + 3 * 32, 4 + 4 * 32)
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_ARPHRD_ETHER, _ARPHRD_LOOPBACK = 1, 772
_RTF_UP, _RTF_REJECT = 0x1, 0x200
_ETHERNET_HEADER = 14
_NAME_BYTES = 15
_SYS = Path("/sys/class/net")
_PROC = Path("/proc/thread-self/net")


@dataclass(frozen=True, slots=True)
class InterfaceFacts:
    """An interface that frames can be sent on."""

    name: str
    mtu: int
    doubts: tuple[str, ...]
    """Why frames sent on it may reach a production network, each as the end of a sentence about it."""

    @property
    def longest(self) -> int:
        """Bytes of the longest frame without a VLAN tag."""
        return self.mtu + _ETHERNET_HEADER


@dataclass(frozen=True, slots=True)
class TransmitCounters:
    """What the interface has counted since it was made, of everybody's frames."""

    packets: int
    dropped: int


def look(name: str) -> InterfaceFacts:
    """Find out what an interface is.

    Raises:
        SendError: there is none of that name, it is down, or it is no Ethernet interface.
    """
    known = sorted(other for _, other in socket.if_nameindex())
    if name not in known or len(name.encode()) > _NAME_BYTES:
        raise SendError(f"{name}: no such interface here", hint=f"interfaces of this namespace: {', '.join(known)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        flags = _ask(asking, name, _SIOCGIFFLAGS, "H")
        mtu = _ask(asking, name, _SIOCGIFMTU, "i")
        kind = _ask(asking, name, _SIOCGIFHWADDR, "H")
        bus = _bus_of(asking, name)
    if not flags & _IFF_UP:
        raise SendError(f"{name}: the interface is down", hint=f"ip link set dev {name} up")
    if not flags & _IFF_RUNNING:
        raise SendError(
            f"{name}: the interface has no link", hint="is the cable in, and the interface at its other end up?"
        )
    if kind not in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK):
        raise SendError(f"{name}: not an Ethernet interface", hint="frames can be sent on Ethernet interfaces only")
    return InterfaceFacts(name, mtu, _doubts(name, bus))


def _ask(asking: socket.socket, name: str, request: int, form: str) -> int:
    """One number about an interface, by ioctl."""
    packed = struct.pack("16s24x", name.encode())
    try:
        answer = fcntl.ioctl(asking, request, packed)
    except OSError as error:
        raise SendError(f"{name}: {error.strerror}", hint="was the interface removed just now?") from error
    return int(struct.unpack_from(form, answer, 16)[0])


def _bus_of(asking: socket.socket, name: str) -> str:
    """Where its hardware sits, such as a PCI address; empty: it has none, or its driver does not say."""
    info = array.array("B", struct.pack("I", _ETHTOOL_GDRVINFO).ljust(_DRVINFO_BYTES, b"\0"))
    address, _ = info.buffer_info()
    try:
        fcntl.ioctl(asking, _SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
    except OSError:
        return ""
    return info.tobytes()[_BUS_INFO].split(b"\0")[0].decode(errors="replace")


def _doubts(name: str, bus: str) -> tuple[str, ...]:
    found = []
    if bus in _PROGRAMS:
        found.append("is a tap: a program, such as a virtual switch or machine, takes what is sent on it")
    elif bus:
        found.append(f"is hardware (at {bus})")
    elif _number(_SYS, name) == socket.if_nametoindex(name):
        hardware = behind(name, _SYS)
        if hardware == name:
            found.append("is hardware")
        elif hardware:
            found.append(f"leads to hardware, {hardware}")
    if name in default_routes(_PROC):
        found.append("carries the default route")
    return tuple(found)


def _number(sys: Path, name: str, what: str = "ifindex") -> int:
    """A number that /sys gives for an interface; 0: it does not know the interface."""
    try:
        return int((sys / name / what).read_text())
    except (OSError, ValueError):
        return 0


def behind(name: str, sys: Path) -> str:
    """The first hardware interface that frames sent on ``name`` may leave through; "" if none known.

    Followed are the interfaces below a VLAN, bond, macvlan or bridge, and from a veth to the bridge of its other end,
    where that is in the same namespace.
    """
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        place = sys / each
        if (place / "device").exists():
            return each
        waiting += sorted(lower.name.removeprefix("lower_") for lower in place.glob("lower_*"))
        waiting += _bridge_of_peer(each, sys)
    return ""


def _bridge_of_peer(name: str, sys: Path) -> list[str]:
    index, peer_index = _number(sys, name), _number(sys, name, "iflink")
    if not index or index == peer_index:
        return []
    for other in sys.iterdir():
        # both must name each other: the number may be that of an interface in another namespace
        if _number(sys, other.name) == peer_index and _number(sys, other.name, "iflink") == index:
            master = other / "master"
            return [master.resolve().name] if master.exists() else []
    return []


def default_routes(proc: Path) -> frozenset[str]:
    """Interfaces that a default route of IPv4 or IPv6 leads through."""
    found = set()
    for line in _lines(proc / "route")[1:]:
        name, destination, _, flags, _, _, _, mask, *_ = line.split()
        if int(destination, 16) == 0 and int(mask, 16) == 0 and _usable(flags):
            found.add(name)
    for line in _lines(proc / "ipv6_route"):
        destination, length, *_, flags, name = line.split()
        if int(destination, 16) == 0 and int(length, 16) == 0 and _usable(flags):
            found.add(name)
    return frozenset(found)


def _usable(flags: str) -> bool:
    return int(flags, 16) & (_RTF_UP | _RTF_REJECT) == _RTF_UP


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def transmit_counters(name: str) -> TransmitCounters | None:
    """From /proc/net/dev; None: it does not list the interface."""
    for line in _lines(_PROC / "dev"):
        own, colon, numbers = line.partition(":")
        if colon and own.strip() == name:
            columns = numbers.split()
            return TransmitCounters(packets=int(columns[9]), dropped=int(columns[11]))
    return None
