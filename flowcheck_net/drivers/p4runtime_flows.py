"""Message windows on a P4 switch: entries of ``fc.flows``, and whose session each belongs to (p4/README.md).

A queue pair is followed once a switch. The low 10 bits of an entry's epoch are the id of the clone session that it is
for, the others the seconds at which it was written: another epoch restarts the queue pair.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_schema import FLOWS, FOLLOW, Schema
from flowcheck_net.ids import Address, Qpn
from flowcheck_net.intent import WindowRule

_SESSION_BITS = 10
_SECONDS = 1 << 22
"""Epochs come again after 48 days, at the same second."""
_MAPPED = 0xFFFF << 32


@dataclass(frozen=True, slots=True)
class Flow:
    """One entry of ``fc.flows``."""

    dst: int
    """128 bits."""
    qp: int
    index: int
    epoch: int
    anchored: int
    anchor: int
    period: int
    low: int
    high: int

    @property
    def clone(self) -> int:
        """The clone session that it is for."""
        return self.epoch & ((1 << _SESSION_BITS) - 1)

    @property
    def rule(self) -> WindowRule:
        """As a plan says it."""
        address = ipaddress.IPv6Address(self.dst)
        destination = Address(str(address.ipv4_mapped or address))
        return WindowRule(destination, Qpn(self.qp), self.period, self.low, self.high)

    @property
    def from_start(self) -> bool:
        """Is message 0 the one that begins at PSN 0? That is how we write it."""
        return (self.anchored, self.anchor) == (1, 0)


class NoRoom(Exception):
    """A queue pair cannot be followed; the text says why."""


def flows_for(
    rules: Iterable[WindowRule], clone: int, present: Sequence[Flow], gone: Sequence[Flow], size: int, seconds: int
) -> tuple[Flow, ...]:
    """Entries for the windows of a session.

    Args:
        rules: Its windows.
        clone: Its clone session.
        present: All entries of the switch.
        gone: Entries that go in the same write: their epochs are not used again.
        size: Entries that the table holds.
        seconds: Since 1970.

    Raises:
        NoRoom: a queue pair is followed already, or the table is full.
    """
    keys = {(flow.dst, flow.qp): flow for flow in present}
    taken = {flow.index for flow in present}
    free = iter([index for index in range(size) if index not in taken])
    used = {flow.epoch >> _SESSION_BITS for flow in (*present, *gone)}
    moment = next(t for n in range(len(used) + 1) if (t := (seconds + n) % _SECONDS) not in used)
    found = []
    for rule in rules:
        address = ipaddress.ip_address(rule.destination)
        dst = int(address) | _MAPPED if address.version == 4 else int(address)
        if other := keys.get((dst, rule.qpn)):
            where = f"queue pair {rule.qpn:#x} at {rule.destination}"
            raise NoRoom(f"{where} is followed for clone session {other.clone} already, and a switch follows it once")
        index = next(free, None)
        if index is None:
            raise NoRoom(f"all {size} entries for queue pairs are in use")
        epoch = moment << _SESSION_BITS | clone
        found.append(Flow(dst, rule.qpn, index, epoch, 1, 0, rule.period, rule.low, rule.high))
    return tuple(found)


def fill_flow(out: p4runtime_pb2.TableEntry, schema: Schema, flow: Flow) -> None:
    """The entry as a message."""
    table, action = schema.tables[FLOWS], schema.actions[FOLLOW]
    out.table_id = table.id
    for name in ("dst", "qp"):
        out.match.add(field_id=table.fields[name].id).exact.value = _octets(getattr(flow, name))
    out.action.action.action_id = action.id
    for name, parameter in action.fields.items():
        out.action.action.params.add(param_id=parameter.id, value=_octets(getattr(flow, name)))


def flow_of(schema: Schema, entry: p4runtime_pb2.TableEntry) -> Flow:
    """The message as an entry."""
    table, action = schema.tables[FLOWS], schema.actions[FOLLOW]
    values = {table.name_of(m.field_id): int.from_bytes(m.exact.value, "big") for m in entry.match}
    values |= {action.name_of(p.param_id): int.from_bytes(p.value, "big") for p in entry.action.action.params}
    return Flow(**values)


def _octets(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
