"""NCCL's topology XML (``NCCL_TOPO_FILE``, ``NCCL_TOPO_DUMP_FILE``): which NIC is nearest to which GPU.

Path types as NCCL ranks them (``src/graph/topo.h``): PIX through one PCIe switch, PXB through several, PHB
through a CPU's host bridge, SYS between CPUs. Ways over NVLink to another GPU's NIC (PXN) are not looked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.nccl_xml import Element

_GPU_CLASSES = ("0x03", "0x12")
"""PCI base classes: display controller, processing accelerator."""
_NIC_CLASSES = ("0x02",)
"""PCI base class: network controller (Ethernet ``0x0200``, InfiniBand ``0x0207``)."""


class PathType(IntEnum):
    """How far apart two devices are; smaller is nearer."""

    PIX = 3
    PXB = 4
    PHB = 6
    SYS = 7


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a NIC."""

    bus_id: str
    """``0000:10:1c.0``; empty for a NIC that the file does not place on PCIe."""
    number: int | None
    """NCCL's ``dev``; None in a file for ``NCCL_TOPO_FILE`` that leaves it open."""
    name: str
    """Of a NIC, such as ``mlx5_0``; empty where the file leaves it open."""
    rank: int | None
    """Of a GPU, where the file says it."""
    host: str
    """``host_hash`` of its CPU; empty where the file is one host's."""

    @property
    def label(self) -> str:
        """For tables."""
        return self.name or self.bus_id or f"dev {self.number}"


@dataclass(frozen=True, slots=True)
class Affinity:
    """The NICs nearest to one GPU."""

    gpu: Device
    nics: tuple[Device, ...]
    """All that are equally near, in file order; empty where the host has none."""
    path: PathType | None


@dataclass(frozen=True, slots=True)
class _Placed:
    device: Device
    above: tuple[Element, ...]
    """System, CPU and PCIe switches over it."""


def affinities(root: Element, source: str) -> tuple[Affinity, ...]:
    """The nearest NICs of every GPU, GPUs in file order.

    Raises:
        SpecError: The file is no topology, or has no GPU.
    """
    if root.tag != "system":
        words = f"the outermost element is <{root.tag}>, not <system>"
        raise SpecError([Problem(source, root.line, 1, "", words)])
    gpus: list[_Placed] = []
    nics: list[_Placed] = []
    for cpu in root.of_tag("cpu"):
        for placed, is_gpu in _devices(root, cpu):
            (gpus if is_gpu else nics).append(placed)
    if not gpus:
        raise SpecError([Problem(source, root.line, 1, "", "no GPU in the file")])
    return tuple(_affinity(gpu, nics) for gpu in gpus)


def bus_key(bus_id: str) -> int:
    """The number by which bus ids are compared: NCCL's logs write ``101c0`` for ``0000:10:1c.0``; -1 for no bus id."""
    text = bus_id.replace(":", "").replace(".", "")
    try:
        return int(text, 16)
    except ValueError:
        return -1


def _devices(root: Element, cpu: Element) -> Iterator[tuple[_Placed, bool]]:
    """(device, is it a GPU?) of everything under one CPU, in file order."""
    host = cpu.attributes.get("host_hash", "")
    stack: list[tuple[Element, tuple[Element, ...]]] = [(child, (root, cpu)) for child in reversed(cpu.children)]
    while stack:
        element, above = stack.pop()
        if element.tag == "nic":
            for device in _nets(element, "", host):
                yield _Placed(device, above), False
        elif element.tag == "pci" and _is_bridge(element):
            stack += [(child, (*above, element)) for child in reversed(element.children)]
        elif element.tag == "pci":
            for device, is_gpu in _leaf(element, host):
                yield _Placed(device, above), is_gpu


def _is_bridge(pci: Element) -> bool:
    return bool(pci.of_tag("pci"))


def _leaf(pci: Element, host: str) -> Iterator[tuple[Device, bool]]:
    """What sits at the end of a PCIe link: a GPU, or a NIC with its ports."""
    bus_id, kind = pci.attributes.get("busid", ""), pci.attributes.get("class", "").lower()
    gpus, nics = pci.of_tag("gpu"), pci.of_tag("nic")
    for gpu in gpus:
        yield Device(bus_id, gpu.number("dev"), "", gpu.number("rank"), host), True
    for nic in nics:
        yield from ((device, False) for device in _nets(nic, bus_id, host))
    if not gpus and kind.startswith(_GPU_CLASSES):
        yield Device(bus_id, None, "", None, host), True
    if not nics and kind.startswith(_NIC_CLASSES):
        yield Device(bus_id, None, "", None, host), False


def _nets(nic: Element, bus_id: str, host: str) -> Iterator[Device]:
    for net in nic.of_tag("net"):
        yield Device(bus_id, net.number("dev"), net.attributes.get("name", ""), None, host)


def _affinity(gpu: _Placed, nics: list[_Placed]) -> Affinity:
    near = [(_path(gpu, nic), nic.device) for nic in nics if nic.device.host == gpu.device.host]
    best = min((path for path, _ in near), default=None)
    return Affinity(gpu.device, tuple(device for path, device in near if path is best), best)


def _path(gpu: _Placed, nic: _Placed) -> PathType:
    shared = [one for one, other in zip(gpu.above, nic.above, strict=False) if one is other]
    lowest = shared[-1]
    if lowest.tag == "pci":
        beyond = len(gpu.above) + len(nic.above) - 2 * len(shared)
        return PathType.PXB if beyond else PathType.PIX
    return PathType.PHB if lowest.tag == "cpu" else PathType.SYS
