"""The databases of a SONiC switch at one moment, from ``sonic-db-dump``. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from flowcheck_net.ids import PortName

Row = Mapping[str, str]
Table = Mapping[str, Row]
CONFIG, STATE, APPL, COUNTERS = "CONFIG_DB", "STATE_DB", "APPL_DB", "COUNTERS_DB"
LISTED = "@"
"""A field of this ending is a list, its elements joined by commas."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the driver looks at."""

    config: Mapping[str, Table]
    """Table -> key (parts joined by ``|``) -> fields."""
    state: Mapping[str, Table]
    ports: Table
    """APPL_DB's ports and port channels: what the switch itself says of them."""

    def row(self, table: str, key: str) -> Row:
        """Fields of a row of the configuration; empty: it is not there."""
        return self.config.get(table, {}).get(key, {})

    def capability(self, field: str) -> str:
        """``true``, ``false``, or empty: the switch does not say."""
        return self.state.get("SWITCH_CAPABILITY", {}).get("switch", {}).get(field, "").lower()

    def is_port(self, name: str) -> bool:
        """A front port."""
        return name in self.config.get("PORT", {})

    def members(self, channel: str) -> list[str]:
        """Ports of a port channel."""
        rows = self.config.get("PORTCHANNEL_MEMBER", {})
        return sorted(key.partition("|")[2] for key in rows if key.partition("|")[0] == channel)

    def is_down(self, port: PortName) -> bool:
        """Is it there without link? False also where the switch does not say."""
        return self.ports.get(port, {}).get("oper_status", "up").lower() == "down"

    def loopback(self, version: int) -> str:
        """The address of Loopback0 of an IP version; empty: none."""
        keys = self.config.get("LOOPBACK_INTERFACE", {})
        found = (k.partition("|")[2].partition("/")[0] for k in sorted(keys) if k.startswith("Loopback0|"))
        return next((a for a in found if a and (6 if ":" in a else 4) == version), "")


def tables_from(text: str, separator: str) -> dict[str, dict[str, dict[str, str]]]:
    """Table -> key -> fields, from one dump; raises ValueError.

    Args:
        text: JSON, ``{"TABLE|KEY": {"type": "hash", "value": {...}}}``.
        separator: ``|`` or ``:``, by database.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    dump = json.loads(text)
    if not isinstance(dump, dict):
        raise ValueError("sonic-db-dump wrote no object")
    for name, entry in dump.items():
        value = entry.get("value") if isinstance(entry, dict) else None
        table, _, key = name.partition(separator)
        if isinstance(value, dict):
            found.setdefault(table, {})[key] = {str(k): str(v) for k, v in value.items() if k != "NULL"}
    return found


def neighbor_from(row: Row) -> dict[str, object]:
    """A row of LLDP_ENTRY_TABLE in the words of NAPALM."""
    words = {
        "remote_port": "lldp_rem_port_id",
        "remote_port_description": "lldp_rem_port_desc",
        "remote_system_name": "lldp_rem_sys_name",
        "remote_system_description": "lldp_rem_sys_desc",
        "remote_chassis_id": "lldp_rem_chassis_id",
    }
    return {word: row.get(field, "") for word, field in words.items()}


def listed(text: str) -> list[str]:
    """Elements of a list of the database."""
    return [part.strip() for part in text.split(",") if part.strip()]
