"""What OS10 prints behind ``| display-xml``: several documents in one answer. Read by the paths of Dell's own tools."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.ids import PortName

_DECLARATION = re.compile(r"<\?xml[^>]*\?>")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/:-]*")


def os10_neighbors(text: str) -> str:
    """``show lldp neighbors | display-xml`` in the words of NAPALM, as JSON; raises ParseError."""
    heard: dict[str, list[dict[str, object]]] = {}
    for interface in _interfaces(text):
        for info in interface.iter("info"):
            heard.setdefault(_word(interface, "name"), []).append(
                {
                    "remote_port": _shown(_word(info, "rem-lldp-port-id")),
                    "remote_port_description": _word(info, "rem-port-desc"),
                    "remote_system_name": _word(info, "rem-system-name"),
                    "remote_system_description": _word(info, "rem-system-desc"),
                    "remote_chassis_id": _mac(_word(info, "rem-lldp-chassis-id")),
                }
            )
    return json.dumps(heard)


def os10_speeds(text: str) -> Mapping[PortName, int]:
    """``show interface | display-xml``: ``speed`` is in bit/s; ports that are up."""
    return {
        PortName(_word(interface, "name")): int(speed) // 1_000_000
        for interface in _interfaces(text)
        if _word(interface, "oper-status") == "up" and (speed := _word(interface, "speed")).isdigit() and int(speed)
    }


def _interfaces(text: str) -> Iterator[ElementTree.Element]:
    documents = [part for part in _DECLARATION.split(text) if part.strip()]
    if documents and not any("<interface" in part for part in documents) and "<data" not in text:
        raise ParseError(f"no interface in {text.strip()[:60]!r}")
    for part in documents:
        try:
            # Our own switch, over a connection whose host key was checked; and expat of today stops entities that grow.
            root = ElementTree.fromstring(part.strip())  # noqa: S314
        except ElementTree.ParseError as error:
            raise ParseError(f"no XML ({error}): {part.strip()[:60]!r}") from error
        yield from root.iter("interface")


def _word(element: ElementTree.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _shown(identifier: str) -> str:
    """A port identifier; some releases print its bytes in base64."""
    decoded = _decoded(identifier)
    try:
        word = decoded.decode("ascii") if decoded is not None else ""
    except UnicodeDecodeError:
        word = ""
    return word if _NAME.fullmatch(word) and not re.search(r"[/:]", identifier) else identifier


def _mac(identifier: str) -> str:
    decoded = _decoded(identifier)
    return ":".join(f"{byte:02x}" for byte in decoded) if decoded is not None and len(decoded) == 6 else identifier


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if len(text) >= 8 else None
    except (binascii.Error, ValueError):
        return None
