"""What lldpd and the kernel of a Linux machine tell of its cables. Pure."""

import json
import re


def neighbors_from(text: str) -> str:
    """``lldpcli -f json0 show neighbors details`` in the words of NAPALM, as JSON; raises ValueError."""
    heard: dict[str, list[dict[str, object]]] = {}
    tree = json.loads(text)
    for block in tree.get("lldp", []):
        for row in block.get("interface", []):
            chassis, port = _first(row.get("chassis")), _first(row.get("port"))
            abilities = chassis.get("capability")
            enabled = (
                [str(c.get("type", "")) for c in abilities if c.get("enabled")] if isinstance(abilities, list) else []
            )
            heard.setdefault(str(row.get("name", "")), []).append(
                {
                    "remote_port": _value(port, "id"),
                    "remote_port_description": _value(port, "descr"),
                    "remote_system_name": _value(chassis, "name"),
                    "remote_system_description": _value(chassis, "descr"),
                    "remote_chassis_id": _value(chassis, "id"),
                    "remote_system_enable_capab": enabled,
                }
            )
    return json.dumps(heard)


def speed_from(text: str) -> int | None:
    """Mbit/s, from ``ethtool PORT``; None: it does not say."""
    found = re.search(r"^\s*Speed: ([0-9]+)Mb/s", text, re.MULTILINE)
    return int(found[1]) if found else None


def _first(rows: object) -> dict[str, object]:
    found = rows[0] if isinstance(rows, list) and rows else {}
    return found if isinstance(found, dict) else {}


def _value(row: dict[str, object], word: str) -> str:
    return str(_first(row.get(word)).get("value", ""))
