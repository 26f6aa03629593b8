"""What makes our sessions on a SONiC switch less than whole copies, or puts that in doubt. Pure."""

from collections.abc import Iterable

from flowcheck_net.drivers.sonic_db import Snapshot
from flowcheck_net.drivers.sonic_rows import SESSIONS, TABLES, Found
from flowcheck_net.intent import Remark, RemarkKind


def remarks_on(snapshot: Snapshot, found: Iterable[Found]) -> list[Remark]:
    """Everything worth saying about these sessions and their ports."""
    return [r for f in found for r in (*_fields(snapshot, f), *_status(snapshot, f), *_ports(snapshot, f))]


def _fields(snapshot: Snapshot, found: Found) -> Iterable[Remark]:
    name = found.session.name
    row = snapshot.row(SESSIONS, name)
    if rate := row.get("sample_rate"):
        yield Remark(RemarkKind.SAMPLING, f"1 packet in {rate} is copied", name)
    if size := row.get("truncate_size"):
        yield Remark(RemarkKind.TRUNCATION, f"copies are cut to {size} bytes", name)
    if policer := row.get("policer"):
        yield Remark(RemarkKind.POLICER, f"policer {policer} drops copies above its rate", name)
    if found.untold:
        yield Remark(RemarkKind.OTHER, found.untold, name)


def _status(snapshot: Snapshot, found: Found) -> Iterable[Remark]:
    name = found.session.name
    state = snapshot.state.get("MIRROR_SESSION_TABLE", {}).get(name)
    if state is None:
        yield Remark(RemarkKind.INACTIVE, "orchagent has not taken it up: it is not in the state database", name)
    elif (status := state.get("status", "unknown")) != "active":
        yield Remark(RemarkKind.INACTIVE, f"its status is {status}", name)
        if found.session.destination.startswith("erspan:") and not state.get("monitor_port"):
            yield Remark(RemarkKind.NO_NEXT_HOP, f"no way to {found.session.destination[7:]} is known", name)
    tables = snapshot.state.get("ACL_TABLE_TABLE", {})
    for table in (key for kind, key in found.rows if kind == TABLES):
        if (status := tables.get(table, {}).get("status", "Active")).lower() != "active":
            yield Remark(RemarkKind.INACTIVE, f"its ACL table {table} is {status}", name)


def _ports(snapshot: Snapshot, found: Found) -> Iterable[Remark]:
    session = found.session
    if snapshot.is_down(session.destination):
        yield Remark(
            RemarkKind.DESTINATION_DOWN, f"{session.destination} has no link", session.name, session.destination
        )
    for port in sorted({s.port for s in session.sources}):
        members = snapshot.members(port)
        if snapshot.is_port(port):
            if snapshot.is_down(port):
                yield Remark(RemarkKind.SOURCE_DOWN, f"{port} has no link", session.name, port)
        elif not members:
            text = f"{port} is not a port, nor a port channel with members: the status may say active nevertheless"
            yield Remark(RemarkKind.INACTIVE, text, session.name, port)
        elif snapshot.is_down(port):
            yield Remark(RemarkKind.SOURCE_DOWN, f"{port} has no link", session.name, port)
