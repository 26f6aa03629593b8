"""containerlab ``*.clab.yml``: nodes by kind, links by pairs of ``node:interface``.

Format: the containerlab manual, pages "Topology definition" and "Links": the brief form (``endpoints: ["a:e1-1",
"b:e1-1"]``) and the extended one (``type: veth`` with endpoints of ``node`` and ``interface``).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.cables import (
    Cable,
    Device,
    End,
    Finding,
    FindingKind,
    PortIdKind,
    Role,
    Source,
    Survey,
)
from flowcheck_net.spec.dump import read_foreign
from flowcheck_net.spec.yamlpos import DocPath, Document, Fault

_HOST_KINDS = frozenset({"linux", "host", "ext-container", "k8s-kind"})
"""Every other kind is a network operating system or a bridge."""
_OFF_FABRIC = frozenset({"mgmt-net", "dummy"})
"""Special endpoints that never lead to another node."""
_CEOS = re.compile(r"eth([0-9]+(?:_[0-9]+)*)")


def read_containerlab(paths: tuple[Path, ...]) -> Survey:
    """Read one lab, or several that are parts of one fabric.

    Raises:
        SpecError: no valid YAML, or not the form of a containerlab file; every problem of all files.
    """
    devices: list[Device] = []
    cables: list[Cable] = []
    findings: list[Finding] = []
    names = []
    for path in paths:
        lab = _Lab(read_foreign(path))
        devices += lab.devices()
        cables += lab.cables(findings)
        names.append(lab.name)
    files = tuple(map(str, paths))
    return Survey("containerlab", "-".join(names), tuple(devices), tuple(cables), files, tuple(findings))


class _Lab:
    def __init__(self, document: Document) -> None:
        self._document = document
        tree = document.tree
        topology = tree.get("topology") if isinstance(tree, Mapping) else None
        if not isinstance(topology, Mapping):
            raise self._refused((), "this is no containerlab file: it has no 'topology'")
        self._topology = topology
        self._nodes = self._part("nodes", dict)
        self._links = self._part("links", tuple)
        self.name = str(tree.get("name") or Path(document.file).name.split(".")[0])
        self._kinds = {name: self._kind(name, node or {}) for name, node in self._nodes.items()}

    def devices(self) -> Iterator[Device]:
        for name in self._nodes:
            kind = self._kinds[name]
            role = None if not kind else Role.HOST if kind in _HOST_KINDS else Role.SWITCH
            yield Device(name, self._source(("topology", "nodes", name)), role, platform=kind)

    def cables(self, findings: list[Finding]) -> Iterator[Cable]:
        faults = []
        for i, link in enumerate(self._links):
            path = ("topology", "links", i)
            ends = self._ends(link)
            if isinstance(ends, str):
                faults.append(Fault(path, ends, 'such as endpoints: ["leaf1:e1-1", "spine1:e1-1"]'))
            elif len(ends) == 1 or {end.device for end in ends} & _OFF_FABRIC:
                what = " -- ".join(str(end) for end in ends)
                findings.append(Finding(self._source(path), FindingKind.IGNORED, f"{what}: not a cable between nodes"))
            else:
                yield Cable(ends[0], ends[1], None, self._source(path))
        if faults:
            raise SpecError([self._document.problem(fault) for fault in faults])

    def _ends(self, link: Any) -> tuple[End, ...] | str:  # noqa: ANN401 - any YAML value
        """One or two ends, or what is wrong."""
        if not isinstance(link, Mapping):
            return "a link must be a mapping"
        listed = link.get("endpoints", (link["endpoint"],) if "endpoint" in link else ())
        if not isinstance(listed, tuple) or len(listed) not in (1, 2) or (len(listed) == 1 and "endpoint" not in link):
            return "a link must have two endpoints"
        ends = [self._end(end) for end in listed]
        if any(end is None for end in ends):
            return "an endpoint must be node:interface"
        return tuple(end for end in ends if end is not None)

    def _end(self, end: Any) -> End | None:  # noqa: ANN401 - any YAML value
        if isinstance(end, Mapping):
            node, interface = end.get("node"), end.get("interface")
        elif isinstance(end, str) and ":" in end:
            node, _, interface = end.partition(":")
        else:
            return None
        if not isinstance(node, str) or not isinstance(interface, str | int) or not node or interface == "":
            return None
        return End(node, _port(self._kinds.get(node, ""), str(interface)), PortIdKind.NAME)

    def _kind(self, name: str, node: Any) -> str:  # noqa: ANN401 - any YAML value
        """The node's own kind, else that of its group, else the default; empty where none is written."""
        if not isinstance(node, Mapping):
            raise self._refused(("topology", "nodes", name), "a node must be a mapping")
        groups, defaults = self._topology.get("groups") or {}, self._topology.get("defaults") or {}
        group = groups.get(node.get("group"), {}) if isinstance(groups, Mapping) else {}
        for part in (node, group, defaults):
            if isinstance(part, Mapping) and part.get("kind"):
                return str(part["kind"])
        return ""

    def _part(self, key: str, form: type) -> Any:  # noqa: ANN401 - any YAML value
        value = self._topology.get(key) or form()
        if not isinstance(value, form):
            word = "a mapping" if form is dict else "a list"
            raise self._refused(("topology", key), f"{key} must be {word}")
        return value

    def _refused(self, path: DocPath, message: str) -> SpecError:
        return SpecError([self._document.problem(Fault(path, message))])

    def _source(self, path: DocPath) -> Source:
        return Source(self._document.file, self._document.place(path, at_key=True)[0])


def _port(kind: str, interface: str) -> str:
    """The interface as the node itself calls it, for the kinds that containerlab renames."""
    ceos = _CEOS.fullmatch(interface) if kind in ("ceos", "arista_ceos") else None
    if ceos is not None:
        return "Ethernet" + ceos[1].replace("_", "/")
    if kind in ("srl", "nokia_srlinux") and re.fullmatch(r"e[0-9]+-[0-9]+(?:-[0-9]+)?", interface):
        return "ethernet-" + interface[1:].replace("-", "/")
    return interface
