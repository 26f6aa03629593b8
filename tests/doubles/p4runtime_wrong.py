"""Updates that BMv2 refuses, each with the canonical code that it was seen to give (domain/p4-facts.md)."""

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from tests.doubles.p4runtime_entries import ALL_PORT, DELETE, INSERT, MODIFY, clone_update, rule, table_update

PORT, OTHER = {"port": (3, ALL_PORT)}, {"port": (4, ALL_PORT)}


def before(info: p4info_pb2.P4Info) -> list[p4runtime_pb2.Update]:
    """What must be there for the refusals to be those."""
    return [clone_update(5, (3, 1)), rule(info, "ingress", PORT, 5)]


def wrong_updates(info: p4info_pb2.P4Info) -> list[tuple[p4runtime_pb2.Update, str]]:
    """The updates and their codes."""
    default = table_update(info, "fc.sessions", {}, "fc.describe", {"job_tag": 1, "session_number": 1}, kind=MODIFY)
    default.entity.table_entry.is_default_action = True
    register = p4runtime_pb2.Update(type=INSERT)
    register.entity.register_entry.register_id = info.registers[0].preamble.id
    few = rule(info, "ingress", OTHER, 5)
    del few.entity.table_entry.action.action.params[0]
    twice = rule(info, "ingress", OTHER, 5)
    twice.entity.table_entry.match.add().CopyFrom(twice.entity.table_entry.match[0])
    return [
        (rule(info, "ingress", PORT, 5), "ALREADY_EXISTS"),
        (clone_update(5, (3, 1)), "ALREADY_EXISTS"),
        (rule(info, "egress", PORT, 5, kind=MODIFY), "NOT_FOUND"),
        (rule(info, "egress", PORT, 5, kind=DELETE), "NOT_FOUND"),
        (clone_update(6, kind=DELETE), "NOT_FOUND"),
        (rule(info, "ingress", OTHER, 5, priority=0), "INVALID_ARGUMENT"),
        (few, "INVALID_ARGUMENT"),
        (rule(info, "ingress", {"port": (3, 1)}, 5), "INVALID_ARGUMENT"),
        (rule(info, "ingress", {"port": (1 << 9, 1 << 9)}, 5), "INVALID_ARGUMENT"),
        (clone_update(6, (3, 1), (3, 1)), "INVALID_ARGUMENT"),
        (clone_update(32768, (3, 1)), "INVALID_ARGUMENT"),
        (twice, "INVALID_ARGUMENT"),
        (default, "PERMISSION_DENIED"),
        (clone_update(6, (3, 1), service=1), "UNIMPLEMENTED"),
        (register, "UNIMPLEMENTED"),
        (clone_update(6, (3, 1), length=64), "UNKNOWN"),
    ]
