"""Rows to add or to remove -> a JSON patch as ``config apply-patch`` takes it. Pure.

The configuration database has no empty tables: the first row of a table comes with the table, and the last one goes
with it.
"""

from collections.abc import Iterable

from flowcheck_net.drivers.sonic_db import LISTED, Row, Snapshot, listed
from flowcheck_net.drivers.sonic_rows import Key, Rows

Operation = dict[str, object]


def additions(rows: Rows, snapshot: Snapshot) -> list[Operation]:
    """Adds rows that are not there."""
    fresh: dict[str, dict[str, object]] = {}
    found: list[Operation] = []
    for (table, key), row in rows.items():
        if table in snapshot.config:
            found.append({"op": "add", "path": _path(table, key), "value": _value(row)})
        else:
            fresh.setdefault(table, {})[key] = _value(row)
    tables: list[Operation] = [{"op": "add", "path": _path(t), "value": value} for t, value in fresh.items()]
    return [*tables, *found]


def removals(keys: Iterable[Key], snapshot: Snapshot) -> list[Operation]:
    """Removes rows that are there; a whole table only as it was read, since somebody may add to it until then."""
    by_table: dict[str, list[str]] = {}
    for table, key in keys:
        by_table.setdefault(table, []).append(key)
    found: list[Operation] = []
    for table, gone in by_table.items():
        there = snapshot.config.get(table, {})
        if set(gone) >= there.keys():
            rows = {key: _value(row) for key, row in there.items()}
            found.append({"op": "test", "path": _path(table), "value": rows})
            found.append({"op": "remove", "path": _path(table)})
        else:
            found += [{"op": "remove", "path": _path(table, key)} for key in gone]
    return found


def _path(*parts: str) -> str:
    return "".join("/" + p.replace("~", "~0").replace("/", "~1") for p in parts)


def _value(row: Row) -> dict[str, object]:
    return {k.removesuffix(LISTED): listed(v) if k.endswith(LISTED) else v for k, v in row.items()}
