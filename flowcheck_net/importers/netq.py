"""NVIDIA NetQ ``topologyGraph.json``: tiers of nodes, and links whose ``compounded_links`` are the single cables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flowcheck_net.importers.cables import (
    Cable,
    Device,
    End,
    Finding,
    FindingKind,
    PortIdKind,
    Role,
    Survey,
)
from flowcheck_net.importers.jsonpos import JsonFile, read_json

_ROLES = {"switch": Role.SWITCH, "host": Role.HOST, "server": Role.HOST}
_BY_LLDP = "discovered_via_lldp"
"""NetQ's word for what has no agent and was heard by a switch: as a rule a server."""


def read_netq(paths: tuple[Path, ...]) -> Survey:
    """Read topology graphs. Raises SpecError: not JSON, or not this form."""
    devices: list[Device] = []
    cables: list[Cable] = []
    findings: list[Finding] = []
    for path in paths:
        file = read_json(path)
        graphs = file.tree if isinstance(file.tree, list) else [file.tree]
        for graph in graphs:
            names = _nodes(file, graph, devices)
            for link in _list(file, graph, "links"):
                cables += _cables(file, link, names, findings)
    return Survey("netq", "netq", tuple(devices), tuple(cables), tuple(map(str, paths)), tuple(findings))


def _nodes(file: JsonFile, graph: Any, devices: list[Device]) -> dict[str, str]:  # noqa: ANN401 - any JSON value
    """Node id -> name; the devices are added to ``devices``."""
    names: dict[str, str] = {}
    for tier in _list(file, graph, "nodes"):
        for node in _list(file, tier, "compounded_nodes"):
            known, name = (_text(file, node, key) for key in ("id", "name"))
            word = str(node.get("device_type", ""))
            basis = "NetQ heard it by LLDP and has no agent on it" if word == _BY_LLDP else ""
            role = Role.HOST if word == _BY_LLDP else _ROLES.get(word)
            names[known] = name
            devices.append(Device(name, file.source(node), role, platform=word, basis=basis))
    return names


def _cables(file: JsonFile, link: Any, names: dict[str, str], findings: list[Finding]) -> Iterator[Cable]:  # noqa: ANN401
    singles = _list(file, link, "compounded_links")
    if link.get("size", len(singles)) != len(singles):
        message = f"link {link.get('id')} says size {link['size']} and lists {len(singles)} cables"
        findings.append(Finding(file.source(link), FindingKind.UNREADABLE, message, "export the graph anew"))
    for single in singles:
        ends = _list(file, single, "interfaces")
        if len(ends) != 2:
            file.refuse(f"a cable needs two interfaces (found {len(ends)})", at=single)
        a, b = (
            End(names.get(_text(file, end, "node"), end["node"]), _text(file, end, "interface"), PortIdKind.NAME)
            for end in ends
        )
        yield Cable(a, b, None, file.source(single))


def _list(file: JsonFile, holder: Any, key: str) -> list[Any]:  # noqa: ANN401 - any JSON value
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, list):
        file.refuse(f"this is no NetQ topology graph: no list '{key}' here", at=holder)
    return value


def _text(file: JsonFile, holder: Any, key: str) -> str:  # noqa: ANN401 - any JSON value
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, str) or not value:
        file.refuse(f"'{key}' must be a text here", at=holder)
    return value
