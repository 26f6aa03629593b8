"""Where a capture port's packets come from: what a user writes, and what DPDK wants to hear.

The faults that can be told before DPDK starts are told here, each with its cure: afterwards there is only a log.
"""

import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from flowcheck_net.errors import ReceiveError
from flowcheck_net.ids import CapturePort

_PCI = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_USER_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core", "mana"})
"""Kernel drivers beside which DPDK can use a device; those of Mellanox and Microsoft keep it."""
_RING_BYTES = 1 << 26
_BLOCK_FRAMES = 64
_FRAME_STEP = 64
"""So that a block is whole pages, and whole frames: DPDK 22.11 looks for frames where a block ends in less than one."""
_FRAME_HEAD = 128
"""Bytes that a packet ring puts before a frame, Ethernet header and tags included."""
_SIOCGIFMTU = 0x8921
_KERNEL_MBPS = 10_000
"""The kernel fills a packet ring under one lock: the 14.9 M packets/s of 10 Gbit/s are more than it can bring."""
_ENDLESS = (1 << 32) - 1
"""A ring that never gets full: what is in a file waits there."""
_MEMIF_RING = 1 << 10
"""net_memif's default."""
FORMS = (
    "a PCI address (0000:3b:00.0), af_packet:INTERFACE, af_xdp:INTERFACE, pcap:FILE, memif:SOCKET, or a DPDK virtual "
    "device with its arguments (net_pcap0,rx_pcap=a.pcap)"
)


SPREADS = ("auto", "rules", "rss", "software")
"""How packets come to several workers: ``enum config_spread`` of receiver/app/config.h."""


class Loss(IntEnum):
    """Which counters of a driver tell what it lost: ``enum config_loss`` of receiver/app/config.h."""

    UNKNOWN = 0
    DEVICE = 1
    PACKET = 2


@dataclass(frozen=True, slots=True)
class Device:
    """One source of packets."""

    text: str
    """As the user wrote it."""
    name: str
    """As DPDK calls it."""
    arguments: tuple[str, ...]
    """Of the EAL."""
    loss: Loss
    interface: str = ""
    """Of the kernel."""
    physical: bool = False
    """It needs hugepages and the PCI bus."""
    ends: bool = False
    """A file: read once, never again after a restart."""
    ring: int = 0
    """Packets that wait where nobody looks; 0: as many as it has descriptors."""
    mbps: int = 0
    """Most that can come, Mbit/s; 0: as DPDK's driver says."""


@dataclass(frozen=True, slots=True)
class Port:
    """One capture port to receive."""

    name: CapturePort
    device: Device
    mtu: int
    workers: int = 1
    descriptors: int = 4096
    spread: str = "auto"
    """Of ``SPREADS``."""
    sleep_us: int | None = None
    """Of a worker that finds nothing; None: as long as no ring can be full then, a physical port never."""
    tunnelled: bool = True
    """Frames may come in tunnels: a device that spreads by addresses would go by those of the switches."""


def device_of(text: str, number: int, mtu: int) -> Device:
    """The device that the user wrote; ``number`` keeps the names of virtual ones apart.

    Raises:
        ReceiveError: it is none of ``FORMS``, or is not there, or cannot be used; with the cure.
    """
    if _PCI.fullmatch(text):
        return _pci(text)
    kind, colon, rest = text.partition(":")
    if colon and rest and kind in _KINDS:
        if "," in rest:
            raise ReceiveError(f"{text}: DPDK takes no name with a comma", hint="give the file another name")
        return replace(_KINDS[kind](rest, number, mtu), text=text)
    if re.fullmatch(r"net_\w+(,.*)?", text):
        name = text.partition(",")[0]
        known = Loss.DEVICE if "rx_pcap=" in text else Loss.UNKNOWN
        return Device(text, name, (f"--vdev={text}",), known, ends="rx_pcap=" in text and "infinite_rx" not in text)
    raise ReceiveError(f"{text!r} is no device", hint=f"write {FORMS}")


def _pci(text: str) -> Device:
    address = text.lower() if text.count(":") == 2 else f"0000:{text.lower()}"
    place = _PCI_DEVICES / address
    if not place.exists():
        raise ReceiveError(f"there is no PCI device {address}", hint="`dpdk-devbind.py --status-dev net` lists them")
    driver = place / "driver"
    bound = driver.resolve().name if driver.exists() else "no driver"
    if bound not in _USER_DRIVERS:
        raise ReceiveError(
            f"{address} is held by {bound}: DPDK cannot use it",
            hint=f"`dpdk-devbind.py --bind=vfio-pci {address}`, once nothing else uses the interface",
        )
    return Device(text, address, (f"--allow={address}",), Loss.DEVICE, physical=True)


def interface_mtu(interface: str) -> int:
    """MTU of an interface of this network namespace; ReceiveError where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        from fcntl import ioctl

        request = struct.pack("16si12x", interface.encode()[:15], 0)
        try:
            answer = ioctl(asking, _SIOCGIFMTU, request)
        except OSError as fault:
            raise ReceiveError(
                f"there is no interface {interface} here", hint="`ip link` lists them; `ip netns exec` goes elsewhere"
            ) from fault
    return int(struct.unpack_from("i", answer, 16)[0])


def _kernel_interface(interface: str, mtu: int) -> None:
    """Raises ReceiveError where the interface cannot give what is wanted of it."""
    has = interface_mtu(interface)
    if has < mtu:
        raise ReceiveError(
            f"{interface} has an MTU of {has}: frames of up to {mtu} would be dropped before anybody counts them",
            hint=f"`ip link set {interface} mtu {mtu}`, or say what comes at most with --mtu {has}",
        )
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError as fault:
        raise ReceiveError(
            f"no right to receive from {interface}", hint="run as root, or with CAP_NET_RAW and CAP_NET_ADMIN"
        ) from fault


def _af_packet(interface: str, number: int, mtu: int) -> Device:
    _kernel_interface(interface, mtu)
    size = -(-(mtu + _FRAME_HEAD) // _FRAME_STEP) * _FRAME_STEP
    name = f"net_af_packet{number}"
    block = size * _BLOCK_FRAMES
    frames = _RING_BYTES // block * _BLOCK_FRAMES
    arguments = f"--vdev={name},iface={interface},blocksz={block},framesz={size},framecnt={frames}"
    return Device("", name, (arguments,), Loss.PACKET, interface, ring=frames, mbps=_KERNEL_MBPS)


def _af_xdp(interface: str, number: int, mtu: int) -> Device:
    _kernel_interface(interface, mtu)
    name = f"net_af_xdp{number}"
    return Device("", name, (f"--vdev={name},iface={interface}",), Loss.UNKNOWN, interface)


def _pcap(path: str, number: int, mtu: int) -> Device:
    try:
        Path(path).open("rb").close()
    except OSError as fault:
        raise ReceiveError(
            f"{path}: {fault.strerror}", hint="give a pcap or pcapng file that is not compressed"
        ) from fault
    name = f"net_pcap{number}"
    return Device("", name, (f"--vdev={name},rx_pcap={path}",), Loss.DEVICE, ends=True, ring=_ENDLESS)


def _memif(path: str, number: int, mtu: int) -> Device:
    if Path(path).exists():
        raise ReceiveError(
            f"{path} is there already: another process serves it, or one that is gone left it behind",
            hint=f"`ss -xlp` shows who serves it; if nobody, `rm {path}`",
        )
    name = f"net_memif{number}"
    arguments = f"--vdev={name},role=server,socket={path},socket-abstract=no"
    return Device("", name, (arguments,), Loss.UNKNOWN, ring=_MEMIF_RING)


_KINDS: dict[str, Callable[[str, int, int], Device]] = {
    "af_packet": _af_packet,
    "af_xdp": _af_xdp,
    "pcap": _pcap,
    "memif": _memif,
}
