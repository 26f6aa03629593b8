"""The configuration of the receiver's C program: what it is to do, how much memory and which cores it gets."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver_device import SPREADS, Port
from flowcheck_net.receive.receiver_pcapng import Writing, config_lines

_SPARE_BUFFERS = 1024
"""Of each queue, beside its descriptors: in the hands of a worker, its cache and the driver."""
_BUFFER_HEAD = 448
"""Bytes of a buffer that are no packet."""
_HELD = 8192
"""Buffers of a port that wait for the pcapng file."""
_COPY_FLIGHTS = 1024
"""Packets that wait for a DMA device: receiver/app/copy.h."""
_BASE_MB = 96
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Placing:
    """Payload into gradient boards, while packets come."""

    text: str
    """What is to be placed: ``placement.placement_text``; empty: it is told later (``Receiver.place``)."""
    folder: Path
    """Of the boards."""
    slots: int = 3
    """Iterations (cycles) that a board holds."""
    close_ms: int = 10_000
    """After so long without a packet what is open is closed."""
    copiers: tuple[str, ...] = ()
    """DMA devices that copy, one a worker: ``dma_skeleton0``, or PCI addresses."""

    @property
    def devices(self) -> tuple[str, ...]:
        """EAL arguments."""
        return tuple(f"--vdev={name}" if name.startswith("dma_") else f"--allow={name}" for name in self.copiers)

    @property
    def physical(self) -> bool:
        """A copier is on the PCI bus."""
        return any(not name.startswith("dma_") for name in self.copiers)


@dataclass(frozen=True, slots=True)
class Plan:
    """How the receiver is to run."""

    ports: tuple[Port, ...]
    settings: Settings
    interval_ms: int = 1000
    hugepages: bool | None = None
    """None: where there are enough of them."""
    writing: Writing | None = None
    """All packets to a pcapng file."""
    placing: Placing | None = None


def _copied(plan: Plan) -> bool:
    return plan.placing is not None and bool(plan.placing.copiers)


def _memory_mb(plan: Plan) -> int:
    held = _HELD if plan.writing is not None else 0
    flights = _COPY_FLIGHTS if _copied(plan) else 0
    need = sum((_buffers(port) + held + flights * port.workers) * (port.mtu + _BUFFER_HEAD) for port in plan.ports)
    return _BASE_MB + need // (1 << 20) * 5 // 4


def _buffers(port: Port) -> int:
    """Of its queues, and of the rings where packets are dealt by software, which are as long: a power of two."""
    queue = port.descriptors + _SPARE_BUFFERS
    return (
        queue if port.workers == 1 else queue + port.workers * ((1 << port.descriptors.bit_length()) + _SPARE_BUFFERS)
    )


def _lcores(port: Port) -> int:
    """One for each worker, and one that deals where there are several."""
    return port.workers + (port.workers > 1)


def free_hugepages_mb(meminfo: Path = _MEMINFO) -> int:
    """Memory in free hugepages of the usual size."""
    found = dict(re.findall(r"^(HugePages_Free|Hugepagesize):\s+(\d+)", meminfo.read_text(), re.MULTILINE))
    return int(found.get("HugePages_Free", 0)) * int(found.get("Hugepagesize", 0)) // 1024


def hugepages_missing_mb(plan: Plan) -> int:
    """Memory that should be in hugepages and cannot; 0: enough of them are free."""
    need = _memory_mb(plan)
    return need if free_hugepages_mb() < need else 0


def _memory_words(plan: Plan, free_mb: int) -> tuple[str, ...]:
    """EAL arguments; ReceiveError where hugepages are needed and not there."""
    need = _memory_mb(plan)
    physical = [port.device.text for port in plan.ports if port.device.physical]
    if plan.hugepages is not False and free_mb >= need:
        return ("--in-memory",)
    if physical or plan.hugepages:
        raise ReceiveError(
            f"{need} MB of hugepages are needed, {free_mb} MB are free",
            hint=f"`sysctl -w vm.nr_hugepages={need // 2 + 1}` as root (pages of 2 MB)"
            + ("" if physical else ", or leave out --hugepages: virtual devices do without"),
        )
    return ("--no-huge", "--no-shconf", "-m", str(need))


def _cores(workers: int) -> str:
    """The main lcore and one for each worker, over the cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    return ",".join(f"{lcore}@{cores[lcore % len(cores)]}" for lcore in range(workers + 1))


def eal_words(plan: Plan, free_mb: int) -> tuple[str, ...]:
    """All arguments of the EAL; raises ReceiveError where there are too few hugepages."""
    placing = plan.placing
    physical = any(port.device.physical for port in plan.ports) or (placing is not None and placing.physical)
    devices = [word for port in plan.ports for word in port.device.arguments]
    devices += placing.devices if placing else ()
    return (
        *_memory_words(plan, free_mb),
        *(() if physical else ("--no-pci",)),
        *("--file-prefix", f"flowcheck{os.getpid()}"),
        *("--lcores", _cores(sum(map(_lcores, plan.ports)))),
        *devices,
    )


def config_text(plan: Plan, spool: Path, free_mb: int) -> str:
    """The file that receiver/app/config.c reads; raises ReceiveError where there are too few hugepages."""
    settings = plan.settings
    lines = [
        f"spool {spool}",
        f"interval_ms {plan.interval_ms}",
        f"check_icrc {int(settings.check_icrc)}",
        f"trimmed_dscp {settings.trimmed_dscp or 0}",
        *(f"gre_type {number}" for number in settings.gre_types),
        *(config_lines(plan.writing) if plan.writing is not None else ()),
        *(f"eal {word}" for word in eal_words(plan, free_mb)),
    ]
    if plan.placing is not None:
        lines += _placing_lines(plan.placing, spool)
    for port in plan.ports:
        lines += (*_port_lines(port), *((f"copiers {port.workers}",) if _copied(plan) else ()))
    for line in lines:
        if "\n" in line or len(line.encode()) >= _LONGEST:
            raise ReceiveError(f"a name is too long, or holds a line end: {line[:80]!r}", hint="choose a shorter one")
    return "\n".join(lines) + "\n"


_LONGEST = 1024


def placing_file(spool: Path) -> Path:
    """Where the receiver finds what it is to place."""
    return spool.with_suffix(".place")


def _placing_lines(placing: Placing, spool: Path) -> Sequence[str]:
    return (
        f"place {placing_file(spool)}",
        f"place_memory {placing.folder}",
        f"place_slots {placing.slots}",
        f"place_close_ms {placing.close_ms}",
        *(f"copy {name}" for name in placing.copiers),
    )


def _port_lines(port: Port) -> Sequence[str]:
    return (
        f"port {port.name}",
        f"device {port.device.name}",
        *((f"interface {port.device.interface}",) if port.device.interface else ()),
        f"workers {port.workers}",
        f"spread {SPREADS.index(port.spread)}",
        f"tunnelled {int(port.tunnelled)}",
        f"mtu {port.mtu}",
        f"descriptors {port.descriptors}",
        f"loss {int(port.device.loss)}",
        *((f"ring {port.device.ring}",) if port.device.ring else ()),
        *((f"mbps {port.device.mbps}",) if port.device.mbps else ()),
        *_sleep_lines(port),
    )


def _sleep_lines(port: Port) -> Sequence[str]:
    """Unasked a physical port is polled without rest; others the receiver decides by (receiver/app/rest.h)."""
    if port.sleep_us is None:
        return ("sleep_us 0",) if port.device.physical else ()
    return (f"sleep_us {port.sleep_us}",)
