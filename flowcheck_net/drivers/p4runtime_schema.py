"""The ids, widths and sizes of the mirror block (p4/README.md), read from the P4Info that the switch runs.

A site may have the block in a program of its own: only the names below must be there, with the fields that they need.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p4.config.v1 import p4info_pb2

from flowcheck_net.intent import Direction

SESSIONS = "fc.sessions"
DESCRIBE = "fc.describe"
ACL = {Direction.RX: "fc.ingress_acl", Direction.TX: "fc.egress_acl"}
MIRROR = {Direction.RX: "fc.ingress_mirror", Direction.TX: "fc.egress_mirror"}
SENT = "fc.sent_copies"
ASKED = ("fc.ingress_copies", "fc.egress_copies")
FLOWS = "fc.flows"
FOLLOW = "fc.follow"
KEY = ("port", "src", "dst", "udp_dst", "qp")
"""Match fields of a rule."""
_TABLES = {SESSIONS: ("session",), FLOWS: ("dst", "qp"), **dict.fromkeys(ACL.values(), KEY)}
_ACTIONS = {
    DESCRIBE: ("job_tag", "session_number"),
    FOLLOW: ("index", "epoch", "anchored", "anchor", "period", "low", "high"),
    **dict.fromkeys(MIRROR.values(), ("session", "point", "windowed")),
}
_COUNTERS = (SENT, *ASKED)
_OPTIONAL = frozenset({FLOWS, FOLLOW})
"""A site's program need not follow queue pairs: message windows are refused then."""


class OtherProgram(Exception):
    """The pipeline has not the mirror block; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Field:
    """A match field or a parameter."""

    id: int
    bits: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table or an action: its id, and what it is made of."""

    id: int
    fields: Mapping[str, Field]
    size: int = 0
    """Entries, of a table."""

    def name_of(self, field_id: int) -> str:
        """The name of a field, or its number where the program calls it otherwise."""
        return next((name for name, field in self.fields.items() if field.id == field_id), f"#{field_id}")


@dataclass(frozen=True, slots=True)
class Schema:
    """What of the P4Info the driver needs, by name."""

    tables: Mapping[str, Table]
    actions: Mapping[str, Table]
    counters: Mapping[str, int]


def schema_of(p4info: p4info_pb2.P4Info) -> Schema:
    """The mirror block of a program; raises OtherProgram."""
    tables = {t.preamble.name: Table(t.preamble.id, _fields(t.match_fields), t.size) for t in p4info.tables}
    actions = {a.preamble.name: Table(a.preamble.id, _fields(a.params)) for a in p4info.actions}
    counters = {c.preamble.name: c.preamble.id for c in p4info.counters}
    missing = [
        *_missing(_TABLES, tables),
        *_missing(_ACTIONS, actions),
        *(name for name in _COUNTERS if name not in counters),
    ]
    if missing:
        program = p4info.pkg_info.name or "its program"
        raise OtherProgram(f"{program} has no mirror block of ours (p4/README.md): {', '.join(missing)} missing")
    return Schema(
        {name: tables[name] for name in _TABLES if name in tables},
        {name: actions[name] for name in _ACTIONS if name in actions},
        {name: counters[name] for name in _COUNTERS},
    )


def _fields(fields: Iterable[p4info_pb2.MatchField]) -> dict[str, Field]:
    return {field.name: Field(field.id, field.bitwidth) for field in fields}


def _missing(wanted: Mapping[str, tuple[str, ...]], found: Mapping[str, Table]) -> list[str]:
    absent = [name for name in wanted if name not in found and name not in _OPTIONAL]
    parts = [f"{n}.{f}" for n, fields in wanted.items() if n in found for f in fields if f not in found[n].fields]
    return absent + parts
