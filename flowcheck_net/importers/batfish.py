"""Batfish ``layer1_topology.json``: ``{"edges": [{"node1": {"hostname", "interfaceName"}, "node2": {...}}]}``.

Batfish treats an edge as a cable, whichever end comes first: an edge and its reverse are one statement said twice.
"""

from pathlib import Path
from typing import Any

from flowcheck_net.importers.cables import Cable, Device, End, PortIdKind, Survey
from flowcheck_net.importers.jsonpos import JsonFile, read_json


def read_batfish(paths: tuple[Path, ...]) -> Survey:
    """Read layer-1 topologies. Raises SpecError: not JSON, or not this form."""
    devices: list[Device] = []
    cables: list[Cable] = []
    for path in paths:
        file = read_json(path)
        edges = file.tree.get("edges") if isinstance(file.tree, dict) else None
        if not isinstance(edges, list):
            file.refuse("this is no Batfish layer-1 topology: it has no list of 'edges'")
        for edge in edges:
            source = file.source(edge)
            a, b = (_end(file, edge, side) for side in ("node1", "node2"))
            cables.append(Cable(a, b, None, source))
            devices += [Device(end.device, source) for end in (a, b)]
    return Survey("batfish", "batfish", tuple(devices), tuple(cables), tuple(map(str, paths)))


def _end(file: JsonFile, edge: Any, side: str) -> End:  # noqa: ANN401 - any JSON value
    node = edge.get(side) if isinstance(edge, dict) else None
    host, port = (node.get("hostname"), node.get("interfaceName")) if isinstance(node, dict) else (None, None)
    if not isinstance(host, str) or not isinstance(port, str) or not host or not port:
        file.refuse(f"an edge needs {side} with hostname and interfaceName", at=edge)
    return End(host, port, PortIdKind.NAME)
