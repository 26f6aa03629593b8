"""The JSON of NAPALM's ``get_lldp_neighbors_detail``, of one device or of many.

One device: ``{local port: [neighbour, ...]}``. Many, as Nornir collects them: ``{device: {local port: [...]}}``.
NAPALM does not pass the port-ID subtype on: the form of the text decides what kind of name it is.
"""

from collections.abc import Iterator
from typing import Any

from flowcheck_net.importers.cables import Source
from flowcheck_net.importers.jsonpos import JsonFile, read_json
from flowcheck_net.importers.lldp import Neighbor, Report


def read_napalm(report: Report) -> dict[str, list[tuple[Neighbor, Source]]]:
    """Device -> its neighbours. Raises SpecError: not JSON, or not this form."""
    file = read_json(report.path)
    tree = file.tree
    if isinstance(tree, dict) and set(tree) == {"lldp_neighbors_detail"}:
        tree = tree["lldp_neighbors_detail"]
    if not isinstance(tree, dict):
        file.refuse("this is no get_lldp_neighbors_detail answer: it must be an object")
    if tree and all(isinstance(value, dict) for value in tree.values()):
        return {device: list(_neighbors(file, ports)) for device, ports in tree.items()}
    return {report.device: list(_neighbors(file, tree))}


def _neighbors(file: JsonFile, ports: dict[str, Any]) -> Iterator[tuple[Neighbor, Source]]:
    for port, heard in ports.items():
        if not isinstance(heard, list) or not all(isinstance(entry, dict) for entry in heard):
            file.refuse(f"port {port}: a list of neighbours must be here", at=ports)
        for entry in heard:
            yield _neighbor(file, port, entry), file.source(entry)


def _neighbor(file: JsonFile, port: str, entry: dict[str, Any]) -> Neighbor:
    def text(key: str) -> str:
        value = entry.get(key)
        if value is None:  # NAPALM's Junos driver says so where a neighbour does not tell it
            return ""
        if not isinstance(value, str):
            file.refuse(f"port {port}: '{key}' must be a text", at=entry)
        return value.strip()

    if "remote_port" not in entry or "remote_system_name" not in entry:
        cure = "use the getter lldp_neighbors_detail"
        file.refuse(f"port {port}: a neighbour must have remote_port and remote_system_name", cure, at=entry)
    enabled = entry.get("remote_system_enable_capab")
    return Neighbor(
        port,
        text("remote_system_name"),
        text("remote_port"),
        port_description=text("remote_port_description"),
        chassis_id=text("remote_chassis_id"),
        system_description=text("remote_system_description"),
        capabilities=tuple(str(word) for word in enabled) if isinstance(enabled, list) else None,
    )
