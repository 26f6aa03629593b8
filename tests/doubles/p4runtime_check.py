"""What a P4Runtime server checks of an entry by the P4Info: ids, widths, kinds, priorities."""

from collections.abc import Mapping

from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

Key = tuple[tuple[tuple[int, int, int], ...], int]
"""(field id, value, mask) sorted, and the priority."""


class Refusal(Exception):
    """An update that is refused, with its canonical code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Program:
    """A P4Info, asked by id."""

    def __init__(self, info: p4info_pb2.P4Info) -> None:
        self._tables = {t.preamble.id: t for t in info.tables}
        self._actions = {a.preamble.id: a for a in info.actions}
        self._counters = {c.preamble.id: (c.preamble.name, c.size) for c in info.counters}
        self._counted = {c.direct_table_id for c in info.direct_counters}

    def table(self, number: int) -> p4info_pb2.Table:
        """Raises Refusal where there is none."""
        if number not in self._tables:
            raise Refusal(code_pb2.NOT_FOUND, f"Unknown table id {number:#x}")
        return self._tables[number]

    def counter(self, number: int) -> tuple[str, int]:
        """Name and size."""
        if number not in self._counters:
            raise Refusal(code_pb2.NOT_FOUND, f"Unknown counter id {number:#x}")
        return self._counters[number]

    def counted(self, table_id: int) -> bool:
        """Has the table a direct counter?"""
        return table_id in self._counted

    def check_match(
        self, entry: p4runtime_pb2.TableEntry
    ) -> tuple[p4info_pb2.Table, Key, Mapping[str, tuple[int, int]]]:
        """The table, the entry's key, and the match by name."""
        table = self.table(entry.table_id)
        fields = {f.id: f for f in table.match_fields}
        kinds = {f.match_type for f in table.match_fields}
        ternary = p4info_pb2.MatchField.TERNARY in kinds
        if ternary != (entry.priority > 0):
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Priority must be > 0 with ternary matches and 0 without")
        found: dict[int, tuple[int, int]] = {}
        for match in entry.match:
            if match.field_id not in fields or match.field_id in found:
                raise Refusal(code_pb2.INVALID_ARGUMENT, f"Unknown or duplicate match field {match.field_id}")
            found[match.field_id] = _value_and_mask(fields[match.field_id], match)
        if missing := [f.name for f in fields.values() if f.match_type == f.EXACT and f.id not in found]:
            raise Refusal(code_pb2.INVALID_ARGUMENT, f"Missing exact match fields: {missing}")
        key = (tuple(sorted((number, *pair) for number, pair in found.items())), entry.priority)
        return table, key, {fields[number].name: pair for number, pair in found.items()}

    def check_action(self, table: p4info_pb2.Table, entry: p4runtime_pb2.TableEntry) -> tuple[str, dict[str, int]]:
        """Name and parameters of an entry's action."""
        chosen = entry.action.action
        scopes = {r.id: r.scope for r in table.action_refs}
        if scopes.get(chosen.action_id) in (None, p4info_pb2.ActionRef.DEFAULT_ONLY):
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Invalid action for table")
        action = self._actions[chosen.action_id]
        params = {p.id: p for p in action.params}
        given = {p.param_id: p.value for p in chosen.params}
        if set(given) != set(params) or len(chosen.params) != len(params):
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Wrong number of action parameters")
        return action.preamble.name, {params[n].name: _number(v, params[n].bitwidth) for n, v in given.items()}


def _value_and_mask(field: p4info_pb2.MatchField, match: p4runtime_pb2.FieldMatch) -> tuple[int, int]:
    kind = match.WhichOneof("field_match_type")
    if field.match_type == field.EXACT and kind == "exact":
        return _number(match.exact.value, field.bitwidth), (1 << field.bitwidth) - 1
    if field.match_type == field.TERNARY and kind == "ternary":
        value, mask = (_number(v, field.bitwidth) for v in (match.ternary.value, match.ternary.mask))
        if not mask:
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Don't care match must be left out")
        if value & ~mask:
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Value is outside of its mask")
        return value, mask
    raise Refusal(code_pb2.INVALID_ARGUMENT, f"Wrong match kind for {field.name}")


def _number(octets: bytes, bits: int) -> int:
    if not octets:
        raise Refusal(code_pb2.INVALID_ARGUMENT, "Bytestring is empty")
    value = int.from_bytes(octets, "big")
    if value >> bits:
        raise Refusal(code_pb2.INVALID_ARGUMENT, f"Bytestring provided does not fit within {bits} bits")
    return value
