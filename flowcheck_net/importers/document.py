"""Proven links -> a topology document. What the source cannot tell is ``FILL``, and each kind of it is a finding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcheck_net.importers.cables import Device, Finding, FindingKind, Link, PortRef, Role, Source
from flowcheck_net.importers.names import natural, spec_name
from flowcheck_net.importers.options import Options, chosen
from flowcheck_net.spec.load import FILL

_SHOWN = 4
"""Names that a finding spells out; the others are counted."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    document: Mapping[str, Any]
    """A topology document, in the order in which it is written."""
    findings: tuple[Finding, ...]


class _Names:
    """Names of the source -> names that our files can hold; two that become one are a conflict."""

    def __init__(self, findings: list[Finding]) -> None:
        self._findings = findings
        self._taken: dict[tuple[str, str], str] = {}

    def device(self, name: str, source: Source) -> str:
        return self._checked(("", spec_name(name)), name, source)

    def port(self, end: PortRef, role: Role, source: Source) -> str:
        return self._checked((end.device, spec_name(end.port, port=role is Role.SWITCH)), end.port, source)

    def _checked(self, key: tuple[str, str], name: str, source: Source) -> str:
        first = self._taken.get(key)
        if first is None:
            self._taken[key] = name
            if key[1] != name:
                self._findings.append(Finding(source, FindingKind.RENAMED, f"{name} is written {key[1]}"))
        elif first != name:
            message = f"{first} and {name} would both be written {key[1]}"
            self._findings.append(Finding(source, FindingKind.CONFLICT, message, "rename one in the source"))
        return key[1]


def build_document(
    name: str,
    devices: Sequence[Device],
    roles: Mapping[str, Role],
    links: Sequence[Link],
    options: Options,
    findings: Iterable[Finding],
) -> Imported:
    """Write the topology of the links."""
    return _Builder(devices, roles, links, options, list(findings)).build(name)


class _Builder:
    def __init__(
        self,
        devices: Sequence[Device],
        roles: Mapping[str, Role],
        links: Sequence[Link],
        options: Options,
        findings: list[Finding],
    ) -> None:
        self._devices = {device.name: device for device in devices}
        self._roles = roles
        self._options = options
        self._findings = findings
        self._names = _Names(findings)
        self._addresses = dict(options.addresses)
        self._links = links
        self._speeds = {end: self._speed(link) for link in links for end in link.ends}
        self._sources = {end: link.source for link in links for end in link.ends}
        self._open: dict[str, list[str]] = {}
        """Kind of value -> places that have none."""

    def build(self, name: str) -> Imported:
        ports: dict[str, list[PortRef]] = {}
        for end in sorted(self._speeds, key=lambda end: (natural(end.device), natural(end.port))):
            ports.setdefault(end.device, []).append(end)
        of_role = {role: [d for d in ports if self._roles[d] is role] for role in Role}
        document = {
            "version": 1,
            "name": spec_name(name),
            "switches": [self._switch(d, ports[d]) for d in of_role[Role.SWITCH]] or self._none("switches"),
            "hosts": [self._host(d, ports[d]) for d in of_role[Role.HOST]] or self._none("hosts"),
            "checkpoint_nodes": [self._node(d, ports[d]) for d in of_role[Role.CHECKPOINT]]
            or self._none("checkpoint_nodes"),
            "links": [[self._end(end) for end in self._ordered(link)] for link in self._links],
        }
        self._report_open()
        return Imported(document, tuple(sorted({*self._findings})))

    def _speed(self, link: Link) -> str | None:
        return link.speed or chosen([str(end) for end in link.ends], self._options.speed)

    def _switch(self, name: str, ports: Sequence[PortRef]) -> dict[str, Any]:
        written = self._device(name)
        management = chosen([name, written], self._options.management)
        return {
            "name": written,
            "platform": chosen([name, written], self._options.platform) or self._blank("platform", name),
            "management": management.replace("{switch}", written) if management else self._blank("management", name),
            "ports": [{"name": self._port(end), "speed": self._port_speed(end)} for end in ports],
        }

    def _host(self, name: str, ports: Sequence[PortRef]) -> dict[str, Any]:
        nics = [
            {"name": self._port(end), "speed": self._port_speed(end), "addresses": self._nic_addresses(end)}
            for end in ports
        ]
        return {"name": self._device(name), "nics": nics}

    def _node(self, name: str, ports: Sequence[PortRef]) -> dict[str, Any]:
        nics = [{"name": self._port(end), "speed": self._port_speed(end)} for end in ports]
        return {"name": self._device(name), "nics": nics}

    def _device(self, name: str) -> str:
        return self._names.device(name, self._devices[name].source)

    def _port(self, end: PortRef) -> str:
        return self._names.port(end, self._roles[end.device], self._sources[end])

    def _end(self, end: PortRef) -> str:
        return f"{self._device(end.device)}:{self._port(end)}"

    def _ordered(self, link: Link) -> tuple[PortRef, PortRef]:
        """Host or checkpoint node first, as the examples have it."""
        return (link.b, link.a) if self._roles[link.b.device] is not Role.SWITCH else link.ends

    def _port_speed(self, end: PortRef) -> str:
        return self._speeds[end] or self._blank("speed", str(end))

    def _nic_addresses(self, end: PortRef) -> list[str]:
        known = self._addresses.get(end) or self._addresses.get(PortRef(self._device(end.device), self._port(end)))
        return list(known) if known else [self._blank("address", str(end))]

    def _blank(self, kind: str, place: str) -> str:
        self._open.setdefault(kind, []).append(place)
        return FILL

    def _none(self, kind: str) -> str:
        self._open.setdefault(kind, [])
        return FILL

    def _report_open(self) -> None:
        whole = Source(min((d.source.file for d in self._devices.values()), default=""))
        cures = {
            "platform": "--platform NAME, or GLOB=NAME",
            "management": "--management 'fake:{switch}', or GLOB=KIND:REFERENCE",
            "speed": "--speed 400G, or GLOB=400G by device:port",
            "address": "--addresses FILE with lines 'host nic address'",
            "switches": "no device is a switch: --switch GLOB",
            "hosts": "no device is a host: --host GLOB, or write them in",
            "checkpoint_nodes": "no device is a checkpoint node: --checkpoint GLOB, or write it in",
        }
        for kind, places in self._open.items():
            shown = ", ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
            message = f"the source does not tell the {kind} of {shown}" if places else f"{kind} are to be written in"
            self._findings.append(Finding(whole, FindingKind.FILL, message, cures[kind]))
