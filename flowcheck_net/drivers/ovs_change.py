"""Steps -> one OVSDB transaction on one bridge, guarded by all that was read: whole, or not at all. Pure."""

import hashlib
import ipaddress
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.ovs_bridge import (
    DIGEST,
    FILTERS,
    JOB,
    MIRROR_COLUMNS,
    OPTIONAL_COLUMNS,
    SESSION,
    TUNNELS,
    Bridge,
    Port,
    filter_expression,
    session_digest,
)
from flowcheck_net.drivers.ovs_values import Row, map_of, named, set_of, texts, uuid
from flowcheck_net.ids import SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, Step, StepKind

MOST_MIRRORS = 32
"""Of a bridge: ofproto/ofproto-dpif-mirror.h, MAX_MIRRORS. One more is taken by the database and does nothing."""
KEY_TABLE = "Interface"
"""Only the guard of a tunnel's key waits on it."""
_MOST_KEYS = 1023
"""An ERSPAN session id has 10 bits; 0 is left out, since some collectors take it for none."""
Operation = dict[str, object]


class Refusal(Exception):
    """A step cannot be taken; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to go and what is to come, net of what the steps undo among themselves."""

    removed: tuple[MirrorSession, ...]
    added: tuple[MirrorSession, ...]

    def inverse(self) -> "Change":
        """The change that undoes this one."""
        return Change(self.added, self.removed)


def change_of(steps: Sequence[Step], owned: Iterable[MirrorSession], bridge: Bridge, column: bool) -> Change:
    """The net change of the steps, in order.

    Args:
        steps: on our own sessions.
        owned: our sessions as they are.
        bridge: as it is.
        column: can a mirror row filter by itself?

    Raises:
        Refusal: the first step that the switch cannot take.
    """
    before = {s.name: s for s in owned}
    now = dict(before)
    room = MOST_MIRRORS - len(bridge.mirrors) + sum(_rows(s, column) for s in before.values())
    for index, step in enumerate(steps):
        if complaint := _complaint(step, now, bridge, column, room):
            raise Refusal(f"step {index + 1} ({step.kind} {step.session.name}) refused: {complaint}")
        if step.kind is StepKind.CREATE:
            now[step.session.name] = step.session
        else:
            del now[step.session.name]
    return Change(
        tuple(s for name, s in sorted(before.items()) if now.get(name) != s),
        tuple(s for name, s in sorted(now.items()) if before.get(name) != s),
    )


def operations(change: Change, bridge: Bridge, job: str, *, column: bool, lock: str) -> list[Operation]:
    """The whole transaction; the answer to its last operation but one (a select) says the configuration's number."""
    switch: list[object] = [["_uuid", "==", uuid(texts(bridge.switch["_uuid"])[0])]]
    going, coming = ", ".join(s.name for s in change.removed), ", ".join(s.name for s in change.added)
    return [
        {"op": "assert", "lock": lock},
        *_guards(bridge),
        *_removals(change, bridge, job),
        *_additions(change, bridge, job, column),
        {"op": "comment", "comment": f"flowcheck-net, job {job}: removes {going or 'none'}, adds {coming or 'none'}"},
        # As ovs-vsctl does: vswitchd sets cur_cfg to this number when it has taken everything up.
        {"op": "mutate", "table": "Open_vSwitch", "where": switch, "mutations": [["next_cfg", "+=", 1]]},
        {"op": "select", "table": "Open_vSwitch", "where": switch, "columns": ["next_cfg"]},
        {"op": "commit", "durable": True},
    ]


def by_flows(session: MirrorSession, column: bool) -> bool:
    """Is the session to be made of OpenFlow rules?"""
    return bool(session.filters) and not column


def tunnel_of(session: MirrorSession) -> tuple[str, str] | None:
    """Type and far address of the tunnel that a session needs; None: its copies stay on the switch."""
    kind, colon, far = session.destination.partition(":")
    return (TUNNELS[kind], far) if colon and kind in TUNNELS else None


def _rows(session: MirrorSession, column: bool) -> int:
    return max(1, len(session.filters)) if column else 1


def _complaint(step: Step, now: Mapping[SessionName, MirrorSession], bridge: Bridge, column: bool, room: int) -> str:
    session, there = step.session, now.get(step.session.name)
    if step.kind is StepKind.DELETE:
        if there is None:
            return "there is no such session"
        return "" if there == session else "the session was changed by someone else since it was read"
    if there is not None:
        return "it is there already"
    if session.windows:
        return "it has message windows, and Open vSwitch follows no queue pairs"
    if sum(_rows(s, column) for s in (*now.values(), session)) > room:
        return f"session table full: a bridge has {MOST_MIRRORS} mirrors"
    return (
        _source_complaint(session, bridge)
        or _destination_complaint(session, bridge)
        or _filter_complaint(session, now.values(), bridge, column)
    )


def _source_complaint(session: MirrorSession, bridge: Bridge) -> str:
    if not session.sources:
        return "it has no source"
    for source in session.sources:
        port = bridge.port(source.port)
        if port is None:
            return f"bridge {bridge.name} has no port {source.port}"
        if port.kind == "patch" and not session.filters:
            return f"{source.port} is a patch port, where Open vSwitch mirrors nothing: watch the port behind it"
    return ""


def _destination_complaint(session: MirrorSession, bridge: Bridge) -> str:
    if tunnel := tunnel_of(session):
        return _tunnel_complaint(tunnel, bridge)
    if session.destination in {s.port for s in session.sources}:
        return f"{session.destination} is source and destination"
    port = bridge.port(session.destination)
    if port is None:
        return f"bridge {bridge.name} has no port {session.destination}"
    if use := _use_of(port, bridge):
        return f"{session.destination} {use}, and as the output of a mirror it would carry nothing else any more"
    return ""


def _tunnel_complaint(tunnel: tuple[str, str], bridge: Bridge) -> str:
    kind, far = tunnel
    known = texts(bridge.switch["iface_types"]) if "iface_types" in bridge.switch else ()
    if known and kind not in known:
        return f"this Open vSwitch has no {kind} tunnels"
    try:
        ipaddress.ip_address(far)
    except ValueError:
        return f"{far!r} is not the address of a tunnel's end"
    return ""


def _use_of(port: Port, bridge: Bridge) -> str:
    """What else a port is for; empty: nothing that the database knows of."""
    if port.name == bridge.name:
        return "is the bridge's own port"
    if port.interfaces > 1:
        return f"is a bond of {port.interfaces} interfaces"
    if port.kind == "patch":
        return "is a patch to another bridge"
    if port.options.get("remote_ip"):
        return f"is a {port.kind} tunnel of somebody else"
    external = str(port.interface["external_ids"])
    return "is the interface of a virtual machine" if "iface-id" in external or "vm-id" in external else ""


def _filter_complaint(session: MirrorSession, others: Iterable[MirrorSession], bridge: Bridge, column: bool) -> str:
    for pair in session.filters:
        if (":" in pair.source) != (":" in pair.destination):
            return f"{pair.source} and {pair.destination} are of two IP versions"
    if not by_flows(session, column):
        return ""
    if sent := [s.port for s in session.sources if s.direction is Direction.TX]:
        return f"this Open vSwitch can filter what arrives (rx), not what leaves by {sent[0]} (tx)"
    if closed := [s.port for s in session.sources if (p := bridge.port(s.port)) and p.number <= 0]:
        return f"{closed[0]} has no OpenFlow number: ovs-vswitchd could not open it"
    for other in others:
        shared = {s.port for s in session.sources} & {s.port for s in other.sources}
        if other.filters and shared and set(session.filters) & set(other.filters):
            return f"{other.name} filters the same packets at {min(shared)}: one rule cannot make two copies"
    return ""


def _guards(bridge: Bridge) -> list[Operation]:
    """The transaction is off if the mirrors, the ports or any mirror's settings are not as they were read."""
    columns = [c for c in (*MIRROR_COLUMNS, *OPTIONAL_COLUMNS) if c != "_uuid"]
    return [
        _wait("Bridge", bridge.uuid, bridge.row, ("mirrors", "ports")),
        *(_wait("Mirror", m.uuid, m.row, [c for c in columns if c in m.row]) for m in bridge.mirrors),
    ]


def _wait(table: str, row_uuid: str, row: Row, columns: Collection[str]) -> Operation:
    where: list[object] = [["_uuid", "==", uuid(row_uuid)]]
    rows = [{c: row[c] for c in columns}]
    return {"op": "wait", "table": table, "where": where, "columns": list(columns), "until": "==", "rows": rows,
            "timeout": 0}  # fmt: skip


def _removals(change: Change, bridge: Bridge, job: str) -> list[Operation]:
    gone = {s.name for s in change.removed}
    rows = bridge.sessions_of(job)
    mirrors = [uuid(m.uuid) for name in sorted(gone) for m in rows.get(name, ())]
    names = {_tunnel_name(bridge, job, name) for name in gone}
    tunnels = [uuid(p.uuid) for p in bridge.ports.values() if p.marks.get(JOB) == job and p.name in names]
    return [
        *_mutate(bridge, "mirrors", "delete", mirrors),
        # Rows that nothing refers to any more are removed by the database itself.
        *_mutate(bridge, "ports", "delete", tunnels),
    ]


def _additions(change: Change, bridge: Bridge, job: str, column: bool) -> list[Operation]:
    found: list[Operation] = []
    mirrors, tunnels = [], []
    keys = set(bridge.tunnels)
    for place, session in enumerate(change.added):
        marks = {JOB: job, SESSION: session.name, DIGEST: session_digest(session)}
        output: object
        if tunnel := tunnel_of(session):
            key = _free_key(session, tunnel[1], keys)
            keys.add((tunnel[1], key))
            tunnels.append(named(f"port{place}"))
            output = tunnels[-1]
            found += _tunnel_rows(tunnel, key, _tunnel_name(bridge, job, session.name), marks, place)
        else:
            output = uuid(_port(bridge, session.destination).uuid)
        if by_flows(session, column):
            marks[FILTERS] = json.dumps([[f.source, f.destination] for f in session.filters])
        for number, pair in enumerate(session.filters if column and session.filters else (None,)):
            mirrors.append(named(f"mirror{place}x{number}"))
            row = _mirror_row(session, pair, bridge, output, marks, selecting=not by_flows(session, column))
            found.append({"op": "insert", "table": "Mirror", "uuid-name": mirrors[-1][1], "row": row})
    return [*found, *_mutate(bridge, "ports", "insert", tunnels), *_mutate(bridge, "mirrors", "insert", mirrors)]


def _mirror_row(
    session: MirrorSession,
    pair: FlowFilter | None,
    bridge: Bridge,
    output: object,
    marks: Mapping[str, str],
    *,
    selecting: bool,
) -> Row:
    """A row that selects nothing still reserves the output port: that keeps the bridge from flooding to it."""
    chosen = session.sources if selecting else ()
    sides = {
        direction: set_of(uuid(_port(bridge, s.port).uuid) for s in chosen if s.direction is direction)
        for direction in Direction
    }
    return {
        "name": session.name,
        "select_src_port": sides[Direction.RX],
        "select_dst_port": sides[Direction.TX],
        "output_port": output,
        "external_ids": map_of(marks),
        **({"filter": filter_expression(pair)} if pair else {}),
    }


def _tunnel_rows(tunnel: tuple[str, str], key: int, name: str, marks: Mapping[str, str], place: int) -> list[Operation]:
    kind, far = tunnel
    options = {"remote_ip": far, "key": str(key)}
    same: list[object] = [["options", "includes", map_of(options)]]
    if kind == "erspan":
        options |= {"erspan_ver": "1", "erspan_idx": str(key)}
    interface = {"name": name, "type": kind, "options": map_of(options), "external_ids": map_of(marks)}
    port = {"name": name, "interfaces": named(f"interface{place}"), "external_ids": map_of(marks)}
    return [
        # The locks of two bridges do not keep their writers from choosing one key.
        {"op": "wait", "table": KEY_TABLE, "where": same, "columns": ["name"], "until": "==", "rows": [], "timeout": 0},
        {"op": "insert", "table": "Interface", "uuid-name": f"interface{place}", "row": interface},
        {"op": "insert", "table": "Port", "uuid-name": f"port{place}", "row": port},
    ]


def _tunnel_name(bridge: Bridge, job: str, session: SessionName) -> str:
    """An interface's name has 15 characters, and no other one of the whole database has it."""
    return f"fcn{hashlib.sha256(f'{bridge.name}/{job}/{session}'.encode()).hexdigest()[:10]}"


def _free_key(session: MirrorSession, far: str, taken: Collection[tuple[str, int]]) -> int:
    """The session's number, or the next id that no tunnel to the same end has: two equal ones would be one."""
    start = int(session.name.rpartition("-")[2])
    for step in range(_MOST_KEYS):
        key = (start + step) % _MOST_KEYS + 1
        if (far, key) not in taken:
            return key
    raise Refusal(f"{session.name}: all {_MOST_KEYS} session ids towards {far} are taken")


def _mutate(bridge: Bridge, column: str, how: str, rows: Sequence[object]) -> list[Operation]:
    if not rows:
        return []
    where: list[object] = [["_uuid", "==", uuid(bridge.uuid)]]
    return [{"op": "mutate", "table": "Bridge", "where": where, "mutations": [[column, how, set_of(rows)]]}]


def _port(bridge: Bridge, name: str) -> Port:
    port = bridge.port(name)
    if port is None:
        raise Refusal(f"bridge {bridge.name} has no port {name}")
    return port
