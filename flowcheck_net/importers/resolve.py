"""Which port of which device the far end of a cable is.

A device's own names of its ports are certain. What its neighbour hears of them may be an interface name, an alias, a
MAC address or an ifIndex: it is matched by subtype first, then by the identifier, then by the description.
"""

import re
from collections.abc import Iterable

from flowcheck_net.importers.cables import Cable, End, Finding, FindingKind, PortIdKind, PortRef
from flowcheck_net.importers.devices import DeviceNames
from flowcheck_net.importers.names import is_mac, is_port_name, port_key


class Resolver:
    """Turns the ends of cables into ports."""

    def __init__(self, cables: Iterable[Cable], names: DeviceNames, findings: list[Finding]) -> None:
        self._names = names
        self._findings = findings
        self._own_shapes: dict[str, set[str]] = {}
        """Reporting device -> shapes of the names that it calls its own ports by."""
        self._heard: dict[tuple[str, str], list[tuple[End, str]]] = {}
        """(Reporting device, far device) -> what it hears there, and on which port of its own."""
        for cable in cables:
            if cable.reported_by_a:
                here, there = names.name(cable.a.device), names.name(cable.b.device)
                key = port_key(cable.a.port)
                self._own_shapes.setdefault(here, set()).add(_shape(key))
                self._heard.setdefault((here, there), []).append((cable.b, key))

    def ends(self, cable: Cable) -> tuple[PortRef, PortRef] | None:
        """Both ends; None, with a finding, where one of them is no known port of a known device."""
        if not self._are_known(cable):
            return None
        near = PortRef(self._names.name(cable.a.device), port_key(cable.a.port))
        far_device = self._names.name(cable.b.device)
        if not cable.reported_by_a:
            return near, PortRef(far_device, port_key(cable.b.port))
        key = self._far_key(near, far_device, cable)
        if key is None:
            shown = cable.b.port or "nothing"
            kind = f" ({cable.b.kind})" if cable.b.kind else ""
            message = f"{cable.a} hears {cable.b.device}, port {shown}{kind}: which port is that?"
            cure = f"add the report of {cable.b.device}, or let it send interface names"
            self._findings.append(Finding(cable.source, FindingKind.UNKNOWN_END, message, cure))
            return None
        return near, PortRef(far_device, key)

    def _are_known(self, cable: Cable) -> bool:
        missing = [end for end in (cable.a, cable.b) if not self._names.is_known(end.device)]
        for end in missing:
            message = f"{cable}: there is no device '{end.device}'" if end.device else f"{cable.a}: {end.description}"
            cure = f"correct the source, or --exclude '{cable.a}'"
            self._findings.append(Finding(cable.source, FindingKind.UNKNOWN_END, message, cure))
        return not missing

    def _far_key(self, near: PortRef, far_device: str, cable: Cable) -> str | None:
        end = cable.b
        by_id = port_key(end.port) if _names_a_port(end) else None
        if by_id is not None and not self._may_be_alias(end, by_id, far_device):
            return by_id
        answering = self._answer(near, far_device)
        if answering is not None:
            if by_id is not None:
                message = f"{cable}: {far_device} calls this port {answering} itself"
                self._findings.append(Finding(cable.source, FindingKind.ASSUMED, message))
            return answering
        if by_id is not None:
            return by_id
        if is_port_name(end.description):
            return port_key(end.description)
        return None

    def _may_be_alias(self, end: End, key: str, device: str) -> bool:
        """True where a device may send this name for a port that it calls otherwise, as SONiC does.

        A name of the same shape as the device's own names is no alias: it says another port, and contradicts.
        """
        return end.kind is not PortIdKind.NAME and _shape(key) not in self._own_shapes.get(device, set())

    def _answer(self, near: PortRef, far_device: str) -> str | None:
        """The one port on which the far device hears ``near``: proof from the other side."""
        heard = self._heard.get((far_device, near.device), [])
        ports = {key for end, key in heard if near.port in _claims(end)}
        return next(iter(ports)) if len(ports) == 1 else None


def _names_a_port(end: End) -> bool:
    """True where the identifier itself is an interface name."""
    if end.kind is PortIdKind.MAC or is_mac(end.port):
        return False
    return is_port_name(end.port) or (end.kind is PortIdKind.NAME and bool(end.port.strip()))


def _shape(key: str) -> str:
    return re.sub(r"[0-9]+", "0", key)


def _claims(end: End) -> set[str]:
    """The port keys that an end may mean: by its identifier, else by its description."""
    word = end.port if _names_a_port(end) else end.description
    return {port_key(word)} if word else set()
