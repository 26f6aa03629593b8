"""What LLDP readers share: a neighbour as a device heard it -> a cable and the devices at its ends.

An input file is the report of one device about itself. Its name comes from ``NAME=FILE``, else from the file's name.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.importers.cables import Cable, Device, End, Finding, FindingKind, PortIdKind, Role, Source
from flowcheck_net.importers.names import is_mac, is_management_port

_SUBTYPES = (
    ("mac", PortIdKind.MAC),
    ("interface name", PortIdKind.NAME),
    ("ifname", PortIdKind.NAME),
    ("alias", PortIdKind.ALIAS),
    ("local", PortIdKind.LOCAL),
)
_FORWARDS = frozenset({"bridge", "router", "b", "r"})
"""Enabled capabilities that only what forwards packets has."""


@dataclass(frozen=True, slots=True)
class Report:
    """A file of LLDP data, and the device that wrote it."""

    path: Path
    device: str
    """Empty where the data itself names its devices."""


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One LLDP neighbour, in the words of the device that hears it."""

    local_port: str
    system_name: str
    port_id: str
    port_id_kind: PortIdKind = PortIdKind.UNSAID
    port_description: str = ""
    chassis_id: str = ""
    system_description: str = ""
    capabilities: tuple[str, ...] | None = None
    """Enabled ones; None where the data does not tell."""


def parse_report_argument(text: str) -> Report:
    """``leaf1=show-lldp.txt`` -> (file, ``leaf1``); ``leaf1.txt`` -> (file, ``leaf1``)."""
    name, sign, file = text.partition("=")
    if sign and name and file and "/" not in name:
        return Report(Path(file), name)
    return Report(Path(text), Path(text).name.split(".")[0])


def port_id_kind(text: str) -> PortIdKind:
    """The subtype from a vendor's wording of it, such as ``Interface name (5)``."""
    words = text.casefold()
    return next((kind for part, kind in _SUBTYPES if part in words), PortIdKind.UNSAID)


def hear(device: str, neighbor: Neighbor, source: Source) -> tuple[Cable, Device | None] | Finding:
    """The cable that a neighbour is evidence of, and the neighbour as a device; or why it is left out."""
    near = End(device, neighbor.local_port, PortIdKind.NAME)
    if is_management_port(neighbor.local_port):
        message = f"{near} -- {neighbor.system_name or neighbor.chassis_id}: a management port"
        return Finding(source, FindingKind.IGNORED, message)
    if not neighbor.system_name:
        heard = neighbor.chassis_id or neighbor.port_id or "nothing"
        far = End("", "", description=f"the neighbour tells no system name, only {heard}")
        return Cable(near, far, None, source), None
    far = End(neighbor.system_name, neighbor.port_id, neighbor.port_id_kind, neighbor.port_description)
    role, basis = _role(neighbor)
    kind, chassis = neighbor.system_description[:60], _chassis(neighbor.chassis_id)
    heard_device = Device(neighbor.system_name, source, role, kind, basis=basis, chassis=chassis)
    return Cable(near, far, None, source, reported_by_a=True), heard_device


def _chassis(text: str) -> str:
    """A MAC address without its separators, which differ; empty where the identifier is none."""
    return re.sub(r"[^0-9a-f]", "", text.casefold()) if is_mac(text) else ""


def _role(neighbor: Neighbor) -> tuple[Role | None, str]:
    """What its capabilities say about a neighbour; a Linux system that forwards nothing is taken for a host."""
    if neighbor.capabilities is None:
        return None, ""
    enabled = {word.strip().casefold() for word in neighbor.capabilities}
    if enabled & _FORWARDS:
        return Role.SWITCH, "it says by LLDP that it forwards packets"
    return Role.HOST, "it says by LLDP that it forwards no packets"
