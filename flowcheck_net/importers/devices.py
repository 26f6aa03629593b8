"""Which device names mean the same device: full and short names, other case, cut-off names."""

from collections.abc import Iterable
from dataclasses import replace

from flowcheck_net.importers.cables import Device, Finding, FindingKind
from flowcheck_net.importers.names import natural

MIN_CUT = 15
"""A shorter name is not taken for a cut-off one: ``leaf1`` is no cut ``leaf10``."""
_DOTS = ("...", "\N{HORIZONTAL ELLIPSIS}")


class DeviceNames:
    """Every name that a source uses -> the one device that it means."""

    def __init__(self, devices: Iterable[Device], findings: list[Finding]) -> None:
        """Devices that report about themselves come first: their names are the ones that others are compared with."""
        self._findings = findings
        self._known: dict[str, Device] = {}
        self._by_fold: dict[str, str] = {}
        self._by_label: dict[str, set[str]] = {}
        self._alias: dict[str, str] = {}
        for device in sorted(devices, key=lambda d: (not d.reports, -len(d.name), d.name, d.source)):
            self._add(device)

    def name(self, heard: str) -> str:
        """The device that a name means; the name itself where no device is known by it."""
        return self._alias.get(heard, heard)

    def is_known(self, heard: str) -> bool:
        """True where a device of this name was declared or reported."""
        return heard in self._alias

    def reports(self, name: str) -> bool:
        """True where the device's own report is among the inputs."""
        device = self._known.get(name)
        return device is not None and device.reports

    def devices(self) -> tuple[Device, ...]:
        """Every device once, in natural order."""
        return tuple(sorted(self._known.values(), key=lambda device: natural(device.name)))

    def _add(self, device: Device) -> None:
        if device.name in self._alias:
            self._join(self._alias[device.name], device)
            return
        match = self._match(device)
        if match is not None:
            self._alias[device.name] = match
            self._join(match, device)
            return
        self._alias[device.name] = device.name
        self._known[device.name] = device
        self._by_fold[device.name.casefold()] = device.name
        self._by_label.setdefault(_label(device.name), set()).add(device.name)

    def _join(self, name: str, other: Device) -> None:
        known = self._known[name]
        roles = {device.role for device in (known, other) if device.role is not None and not device.basis}
        if len(roles) > 1:
            message = f"{name} is a {known.role} there and a {other.role} here"
            self._findings.append(Finding(other.source, FindingKind.CONFLICT, message))
        firm = next((device for device in (known, other) if device.role is not None and not device.basis), None)
        role_from = firm or next((device for device in (known, other) if device.role is not None), known)
        self._known[name] = replace(
            known,
            role=role_from.role,
            basis=role_from.basis,
            platform=known.platform or other.platform,
            reports=known.reports or other.reports,
        )

    def _match(self, device: Device) -> str | None:
        """The known device that a new name means, if exactly one can be meant."""
        folded = device.name.casefold()
        if folded in self._by_fold:
            return self._by_fold[folded]
        same_label = self._by_label.get(_label(device.name), set())
        fitting = {name for name in same_label if "." not in name or "." not in device.name}
        if not fitting:
            fitting = self._cut(device.name)
        if len(fitting) > 1:
            message = f"the name {device.name} fits {', '.join(sorted(fitting, key=natural))}"
            self._findings.append(Finding(device.source, FindingKind.CONFLICT, message, "use full names in the source"))
            return None
        if not fitting:
            return None
        match = next(iter(fitting))
        if folded != _label(match) and _label(device.name) != match.casefold():
            message = f"{device.name} is taken for a cut-off {match}"
            self._findings.append(Finding(device.source, FindingKind.ASSUMED, message))
        return match

    def _cut(self, name: str) -> set[str]:
        """Reporting devices whose name begins with a name that was cut off."""
        dots = next((dots for dots in _DOTS if name.endswith(dots)), "")
        stem = name.removesuffix(dots).casefold()
        if not stem or (not dots and len(stem) < MIN_CUT):
            return set()
        return {full for folded, full in self._by_fold.items() if folded.startswith(stem) and self.reports(full)}


def _label(name: str) -> str:
    """The host part of a full name; a name that is an IP address has none."""
    first = name.casefold().split(".")[0]
    return name.casefold() if first.isdigit() else first
