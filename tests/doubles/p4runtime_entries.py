"""Entries as another controller writes them, for the test server and for BMv2; shares nothing with the driver."""

import hashlib
import ipaddress
from collections.abc import Mapping

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

INSERT, MODIFY, DELETE = p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE
ALL_PORT = (1 << 9) - 1


def tag(job: str) -> int:
    """The tag of a job, as p4/README.md says."""
    return int(hashlib.sha256(job.encode()).hexdigest()[:8], 16)


def wide(address: str) -> int:
    """An address as 128 bits."""
    text = f"::ffff:{address}" if "." in address else address
    return int(ipaddress.IPv6Address(text))


def table_update(
    info: p4info_pb2.P4Info,
    table: str,
    match: Mapping[str, int | tuple[int, int]],
    action: str,
    parameters: Mapping[str, int],
    priority: int = 0,
    kind: int = INSERT,
) -> p4runtime_pb2.Update:
    """One table entry; an exact field is a number, a ternary one (value, mask)."""
    update = p4runtime_pb2.Update(type=kind)
    entry = update.entity.table_entry
    found = next(t for t in info.tables if t.preamble.name == table)
    entry.table_id, entry.priority = found.preamble.id, priority
    for field in found.match_fields:
        wanted = match.get(field.name)
        if isinstance(wanted, tuple):
            one = entry.match.add(field_id=field.id).ternary
            one.value, one.mask = (number(v) for v in wanted)
        elif wanted is not None:
            entry.match.add(field_id=field.id).exact.value = number(wanted)
    chosen = next(a for a in info.actions if a.preamble.name == action)
    entry.action.action.action_id = chosen.preamble.id
    for parameter in chosen.params:
        entry.action.action.params.add(param_id=parameter.id, value=number(parameters[parameter.name]))
    return update


def clone_update(
    session: int, *replicas: tuple[int, int], kind: int = INSERT, length: int = 0, service: int = 0
) -> p4runtime_pb2.Update:
    """One clone session; replicas are (port, instance)."""
    update = p4runtime_pb2.Update(type=kind)
    entry = update.entity.packet_replication_engine_entry.clone_session_entry
    entry.session_id, entry.packet_length_bytes, entry.class_of_service = session, length, service
    for port, instance in replicas:
        entry.replicas.add(egress_port=port, instance=instance)
    return update


def describe(
    info: p4info_pb2.P4Info, session: int, job: str, session_number: int, kind: int = INSERT
) -> p4runtime_pb2.Update:
    """Whose clone session it is."""
    parameters = {"job_tag": tag(job), "session_number": session_number}
    return table_update(info, "fc.sessions", {"session": session}, "fc.describe", parameters, kind=kind)


def rule(
    info: p4info_pb2.P4Info,
    gress: str,
    match: Mapping[str, tuple[int, int]],
    session: int,
    point: int = 0,
    priority: int = 10,
    windowed: int = 0,
    kind: int = INSERT,
) -> p4runtime_pb2.Update:
    """One entry of ``fc.ingress_acl`` or ``fc.egress_acl``."""
    parameters = {"session": session, "point": point, "windowed": windowed}
    return table_update(info, f"fc.{gress}_acl", match, f"fc.{gress}_mirror", parameters, priority, kind)


def forward(info: p4info_pb2.P4Info, mac: bytes, port: int) -> p4runtime_pb2.Update:
    """Frames to that address leave at that port."""
    match = {"ether_dst": (int.from_bytes(mac, "big"), (1 << 48) - 1)}
    return table_update(info, "fc.forward", match, "fc.to_port", {"port": port}, priority=1)


def number(value: int) -> bytes:
    """As few bytes as will hold it."""
    return value.to_bytes(max(1, -(-value.bit_length() // 8)), "big")
