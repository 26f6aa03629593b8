"""NetBox cables, from ``manage.py dumpdata dcim circuits`` (NetBox 3.3 and later): a list of ``{model, pk, fields}``.

A cable between an interface and a patch panel is followed to the interface behind the panels (``netbox_trace``). Power
cables are left out; a cable that leads to nothing in the dump has an unknown end.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowcheck_net.importers.cables import Cable, Device, End, Finding, FindingKind, PortIdKind, Role, Source, Survey
from flowcheck_net.importers.jsonpos import JsonFile, read_json
from flowcheck_net.importers.netbox_trace import Termination, Tracer, passages

_IN_PLACE = frozenset({"", "connected"})
"""Cable states in which the cable is there; the others are planned or being removed."""
_NO_DATA = frozenset({"powerport", "poweroutlet", "powerfeed", "consoleport", "consoleserverport"})
_ROLE_WORDS = (
    (Role.CHECKPOINT, ("checkpoint",)),
    (Role.SWITCH, ("switch", "router", "leaf", "spine", "tor", "core", "access", "distribution")),
    (Role.HOST, ("server", "host", "gpu", "compute", "worker")),
)
_TYPE_SPEEDS = {"100m": "0.1G", "1000base": "1G", "2.5gbase": "2.5G", "5gbase": "5G"} | {
    f"{rate}gbase": f"{rate}G" for rate in (10, 25, 40, 50, 100, 200, 400, 800)
}
"""Interface type up to its first dash, as far as NetBox's choices begin with the rate."""


def read_netbox(paths: tuple[Path, ...]) -> Survey:
    """Read dumps; objects of one dump may be spread over several files.

    Raises:
        SpecError: no JSON, or not the form of a NetBox dump.
    """
    return _Dump([read_json(path) for path in paths]).survey()


class _Dump:
    """The objects of the dump by model and primary key."""

    def __init__(self, files: Sequence[JsonFile]) -> None:
        self._objects: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._sources: dict[tuple[str, int], Source] = {}
        self._names = tuple(file.file for file in files)
        for file in files:
            if not isinstance(file.tree, list) or not file.tree:
                file.refuse("this is no NetBox dump: it must be a list of objects", "write it with manage.py dumpdata")
            for entry in file.tree:
                self._add(file, entry)
        if "dcim.cabletermination" not in self._objects:
            files[0].refuse("the dump has no dcim.cabletermination", "NetBox 3.3 or later: manage.py dumpdata dcim")

    def survey(self) -> Survey:
        findings: list[Finding] = []
        cables = tuple(self._cables(findings))
        return Survey("netbox", "netbox", tuple(self._devices()), cables, self._files(cables), tuple(findings))

    def _add(self, file: JsonFile, entry: Any) -> None:  # noqa: ANN401 - any JSON value
        if not isinstance(entry, dict):
            file.refuse("this is no NetBox dump: an entry is no object", at=entry)
        model, key, fields = entry.get("model"), entry.get("pk"), entry.get("fields")
        if not isinstance(model, str) or not isinstance(key, int) or not isinstance(fields, dict):
            file.refuse("an object of a NetBox dump has model, pk and fields", at=entry)
        if not model.startswith(("dcim.", "circuits.")):
            return
        if key in self._objects.setdefault(model, {}):
            file.refuse(f"{model} {key} is here twice", at=entry)
        self._objects[model][key] = fields
        self._sources[model, key] = file.source(entry)

    def _of(self, model: str) -> dict[int, Mapping[str, Any]]:
        return self._objects.get(f"dcim.{model}", {})

    def _source(self, model: str, key: int) -> Source:
        return self._sources[f"dcim.{model}", key]

    def _devices(self) -> Iterator[Device]:
        for key, fields in self._of("device").items():
            kind = self._of("devicetype").get(_ref(fields, "device_type"), {})
            role = self._of("devicerole").get(_ref(fields, "role") or _ref(fields, "device_role"), {})
            yield Device(
                self._name(key),
                self._source("device", key),
                _role(str(role.get("slug", ""))),
                platform=str(kind.get("slug", "")),
            )

    def _name(self, device: int) -> str:
        """The device's name; NetBox lets a device have none, and then shows its number."""
        return str(self._of("device").get(device, {}).get("name") or f"device-{device}")

    def _cables(self, findings: list[Finding]) -> Iterator[Cable]:
        ends = self._terminations(findings)
        circuits = self._objects.get("circuits.circuittermination", {})
        mappings = self._of("portmapping").values()
        tracer = Tracer(ends, passages(self._of("frontport"), self._of("rearport"), mappings, circuits))
        management = 0
        for key, (a_side, b_side) in ends.items():
            source = self._source("cable", key) if key in self._of("cable") else self._whole()
            for start in (*a_side, *b_side):
                if start.kind != "interface":
                    continue
                if self._of("interface").get(start.key, {}).get("mgmt_only"):
                    management += 1
                    continue
                path = tracer.follow(key, start)
                if path.far is not None:
                    # from both ends: the merge sees whether they agree
                    yield Cable(self._end(start), self._end(path.far), self._speed(start), source)
                else:
                    yield Cable(self._end(start), End("", "", description=path.reason), None, source)
        if management:
            findings.append(Finding(self._whole(), FindingKind.IGNORED, f"{management} management interfaces"))

    def _terminations(self, findings: list[Finding]) -> dict[int, tuple[list[Termination], list[Termination]]]:
        """Cable -> what its A and its B side are plugged into; power, console and absent cables are left out."""
        ends: dict[int, tuple[list[Termination], list[Termination]]] = {}
        for key, fields in self._of("cabletermination").items():
            kind, cable, target = fields.get("termination_type"), _ref(fields, "cable"), _ref(fields, "termination_id")
            side = fields.get("cable_end")
            if not isinstance(kind, list) or len(kind) != 2 or not cable or not target or side not in ("A", "B"):
                message = f"cable termination {key} needs termination_type [app, model], its id, cable, cable_end"
                findings.append(Finding(self._source("cabletermination", key), FindingKind.UNREADABLE, message))
                continue
            ends.setdefault(cable, ([], []))["AB".index(side)].append(Termination(str(kind[1]), target))
        no_data = [key for key, (a, b) in ends.items() if {end.kind for end in (*a, *b)} & _NO_DATA]
        absent = [key for key in ends if str(self._of("cable").get(key, {}).get("status", "")) not in _IN_PLACE]
        for word, keys in (("power and console cables", no_data), ("cables that are not connected", absent)):
            if keys:
                findings.append(Finding(self._whole(), FindingKind.IGNORED, f"{len(keys)} {word}"))
        return {key: sides for key, sides in ends.items() if key not in {*no_data, *absent}}

    def _whole(self) -> Source:
        return Source(self._names[0])

    def _files(self, cables: tuple[Cable, ...]) -> tuple[str, ...]:
        """All files where no cable came of them; one with cables gives sense to the others."""
        return self._names if not cables else ()

    def _end(self, end: Termination) -> End:
        fields = self._of("interface").get(end.key, {})
        return End(self._name(_ref(fields, "device")), str(fields.get("name", f"interface-{end.key}")), PortIdKind.NAME)

    def _speed(self, end: Termination) -> str | None:
        """The set speed (NetBox keeps kbit/s), else the rate of the interface type."""
        fields = self._of("interface").get(end.key, {})
        if isinstance(fields.get("speed"), int):
            return f"{fields['speed'] / 1_000_000:g}G"
        return _TYPE_SPEEDS.get(str(fields.get("type", "")).partition("-")[0])


def _ref(fields: Mapping[str, Any], key: str) -> int:
    """A primary key; 0, which NetBox never gives, where there is none."""
    value = fields.get(key)
    return value if isinstance(value, int) else 0


def _role(slug: str) -> Role | None:
    words = slug.casefold().split("-")
    return next((role for role, known in _ROLE_WORDS if any(word in known for word in words)), None)
