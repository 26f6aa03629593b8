"""What the driver keeps on a switch, as plain values: rules, clone sessions and whose they are; and as messages."""

from collections.abc import Iterable
from dataclasses import dataclass

from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_flows import Flow, fill_flow, flow_of
from flowcheck_net.drivers.p4runtime_schema import (
    ACL,
    ASKED,
    DESCRIBE,
    FLOWS,
    FOLLOW,
    MIRROR,
    SENT,
    SESSIONS,
    Schema,
    Table,
)
from flowcheck_net.intent import Direction


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of an ACL."""

    direction: Direction
    match: tuple[tuple[str, int, int], ...]
    """(field, value, mask), sorted; a field that is left out matches everything."""
    priority: int
    clone: int
    point: int
    windowed: bool = False

    def field(self, name: str) -> tuple[int, int] | None:
        """Value and mask of a field; None: it matches everything."""
        return next(((value, mask) for field, value, mask in self.match if field == name), None)


@dataclass(frozen=True, slots=True)
class Description:
    """Whose clone session it is."""

    clone: int
    tag: int
    number: int


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone session."""

    id: int
    replicas: tuple[tuple[int, int], ...]
    """(port, instance), sorted: switches return them in any order."""
    class_of_service: int = 0
    length: int = 0
    """Bytes that copies are cut to; 0: whole."""


@dataclass(frozen=True, slots=True)
class Zero:
    """The indexed counters of a clone session, to be set to 0."""

    clone: int


Entry = Rule | Description | Clone | Flow | Zero


@dataclass(frozen=True, slots=True)
class Picture:
    """All that a switch has of mirroring."""

    rules: tuple[Rule, ...]
    descriptions: tuple[Description, ...]
    clones: tuple[Clone, ...]
    packets: tuple[tuple[Rule, int], ...] = ()
    """Packets that matched a rule, where the switch counts them."""
    odd: int = 0
    """Entries of these tables whose action is not one of ours."""
    flows: tuple[Flow, ...] = ()
    """Queue pairs that are followed."""


def queries(schema: Schema) -> list[p4runtime_pb2.Entity]:
    """Entities to read for a picture."""
    found = [clone_query()]
    for name in schema.tables:
        entity = p4runtime_pb2.Entity()
        entity.table_entry.table_id = schema.tables[name].id
        if name in ACL.values():
            entity.table_entry.counter_data.SetInParent()
        found.append(entity)
    return found


def clone_query() -> p4runtime_pb2.Entity:
    """The entity that asks for all clone sessions."""
    entity = p4runtime_pb2.Entity()
    entity.packet_replication_engine_entry.clone_session_entry.session_id = 0
    return entity


def sent_queries(schema: Schema, clones: Iterable[int]) -> list[p4runtime_pb2.Entity]:
    """Entities that ask for the copies sent of these clone sessions."""
    found = []
    for clone in clones:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = schema.counters[SENT]
        entity.counter_entry.index.index = clone
        found.append(entity)
    return found


def picture_of(schema: Schema | None, entities: Iterable[p4runtime_pb2.Entity]) -> Picture:
    """A picture from what was read; without a schema only clone sessions."""
    rules: list[tuple[Rule, int | None]] = []
    descriptions: list[Description] = []
    clones: list[Clone] = []
    flows: list[Flow] = []
    odd = 0
    directions = {schema.tables[name].id: direction for direction, name in ACL.items()} if schema else {}
    for entity in entities:
        if entity.HasField("packet_replication_engine_entry"):
            clones.append(_clone_of(entity.packet_replication_engine_entry.clone_session_entry))
            continue
        if schema is None or not entity.HasField("table_entry") or entity.table_entry.is_default_action:
            continue
        entry = entity.table_entry
        action = entry.action.action
        direction = directions.get(entry.table_id)
        follows = FLOWS in schema.tables and entry.table_id == schema.tables[FLOWS].id
        wanted = schema.actions[MIRROR[direction] if direction else FOLLOW if follows else DESCRIBE]
        if action.action_id != wanted.id:
            odd += 1
            continue
        if follows:
            flows.append(flow_of(schema, entry))
            continue
        params = {wanted.name_of(p.param_id): _number(p.value) for p in action.params}
        if direction:
            count = entry.counter_data.packet_count if entry.HasField("counter_data") else None
            rules.append((_rule_of(schema.tables[ACL[direction]], direction, entry, params), count))
        else:
            clone = _number(entry.match[0].exact.value)
            descriptions.append(Description(clone, params["job_tag"], params["session_number"]))
    return Picture(
        tuple(rule for rule, _ in rules),
        tuple(descriptions),
        tuple(clones),
        tuple((rule, count) for rule, count in rules if count is not None),
        odd,
        tuple(flows),
    )


def counts_of(entities: Iterable[p4runtime_pb2.Entity]) -> dict[int, int]:
    """Index -> packets of an indexed counter."""
    cells = [e.counter_entry for e in entities if e.HasField("counter_entry")]
    return {cell.index.index: cell.data.packet_count for cell in cells}


def update_of(schema: Schema, entry: Entry, kind: int) -> list[p4runtime_pb2.Update]:
    """Messages that INSERT or DELETE an entry; counters are set to 0 by a MODIFY, one for each."""
    if isinstance(entry, Zero):
        return [_zero(schema.counters[name], entry.clone) for name in (*ASKED, SENT)]
    update = p4runtime_pb2.Update(type=kind)
    if isinstance(entry, Flow):
        fill_flow(update.entity.table_entry, schema, entry)
    elif isinstance(entry, Clone):
        _fill_clone(update.entity.packet_replication_engine_entry.clone_session_entry, entry)
    elif isinstance(entry, Description):
        table = schema.tables[SESSIONS]
        out = update.entity.table_entry
        out.table_id = table.id
        out.match.add(field_id=table.fields["session"].id).exact.value = octets(entry.clone)
        _fill_action(out, schema.actions[DESCRIBE], {"job_tag": entry.tag, "session_number": entry.number})
    else:
        _fill_rule(update.entity.table_entry, schema, entry)
    return [update]


def octets(value: int) -> bytes:
    """The canonical bytes of a number: as few as will hold it."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _zero(counter: int, index: int) -> p4runtime_pb2.Update:
    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
    update.entity.counter_entry.counter_id = counter
    update.entity.counter_entry.index.index = index
    update.entity.counter_entry.data.packet_count = 0
    return update


def _fill_clone(out: p4runtime_pb2.CloneSessionEntry, clone: Clone) -> None:
    out.session_id = clone.id
    out.class_of_service = clone.class_of_service
    out.packet_length_bytes = clone.length
    for port, instance in clone.replicas:
        # The older of the two ways to name a port: BMv2 knows no other.
        out.replicas.add(egress_port=port, instance=instance)


def _fill_rule(out: p4runtime_pb2.TableEntry, schema: Schema, rule: Rule) -> None:
    table = schema.tables[ACL[rule.direction]]
    out.table_id, out.priority = table.id, rule.priority
    for name, value, mask in rule.match:
        field = out.match.add(field_id=table.fields[name].id).ternary
        field.value, field.mask = octets(value), octets(mask)
    params = {"session": rule.clone, "point": rule.point, "windowed": int(rule.windowed)}
    _fill_action(out, schema.actions[MIRROR[rule.direction]], params)


def _fill_action(out: p4runtime_pb2.TableEntry, action: Table, values: dict[str, int]) -> None:
    out.action.action.action_id = action.id
    for name, value in values.items():
        out.action.action.params.add(param_id=action.fields[name].id, value=octets(value))


def _rule_of(table: Table, direction: Direction, entry: p4runtime_pb2.TableEntry, params: dict[str, int]) -> Rule:
    match = [(table.name_of(m.field_id), _number(m.ternary.value), _number(m.ternary.mask)) for m in entry.match]
    windowed = bool(params["windowed"])
    return Rule(direction, tuple(sorted(match)), entry.priority, params["session"], params["point"], windowed)


def _clone_of(entry: p4runtime_pb2.CloneSessionEntry) -> Clone:
    replicas = sorted((_number(r.port) if r.port else r.egress_port, r.instance) for r in entry.replicas)
    return Clone(entry.session_id, tuple(replicas), entry.class_of_service, entry.packet_length_bytes)


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")
