"""Runs a compiled BMv2 program (the JSON of p4c) on frames, in Python: what the program does is seen where BMv2 is not.

Only what our program needs of the format and of simple_switch, by their documents. Anything else raises KeyError.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.p4_twin import DROP_PORT, Sent
from tests.doubles.p4_twin_tables import Entry, Table

INGRESS_CLONE, EGRESS_CLONE = 1, 2
Field = tuple[str, str]
STANDARD = "standard_metadata"

OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "and": lambda a, b: int(bool(a and b)),
    "or": lambda a, b: int(bool(a or b)),
}


@dataclass(slots=True)
class Packet:
    """A packet in the switch: header fields, metadata, what the parser left."""

    frame: bytes
    values: dict[Field, int] = field(default_factory=dict)
    payload: bytes = b""
    clone: tuple[int, int] | None = None
    """(session, field list) asked for."""
    exited: bool = False


class JsonSwitch:
    """One switch. Tables, sessions and groups are handed in as those of a twin; entries count in the tables."""

    def __init__(
        self,
        program: dict[str, Any],
        tables: Mapping[str, Table],
        sessions: Mapping[int, Sequence[tuple[int, int]]],
        forward: Entry,
    ) -> None:
        """``forward``: the default entry of ``fc.forward``."""
        self.program, self.tables, self.sessions, self.forward = program, tables, sessions, forward
        self.types = {t["name"]: [(f[0], int(f[1])) for f in t["fields"]] for t in program["header_types"]}
        self.headers = {h["name"]: self.types[h["header_type"]] for h in program["headers"]}
        self.metadata = {h["name"] for h in program["headers"] if h["metadata"]}
        self.widths = {(name, f): width for name, fields in self.headers.items() for f, width in fields}
        self.states = {s["name"]: s for s in program["parsers"][0]["parse_states"]}
        self.actions = {a["id"]: a for a in program["actions"]}
        self.pipelines = {
            p["name"]: {n["name"]: n for kind in ("tables", "conditionals") for n in p[kind]}
            for p in program["pipelines"]
        }
        self.starts = {p["name"]: p["init_table"] for p in program["pipelines"]}
        self.field_lists = {f["id"]: [tuple(e["value"]) for e in f["elements"]] for f in program["field_lists"]}
        self.registers: dict[str, dict[int, int]] = {r["name"]: {} for r in program["register_arrays"]}
        self.counters: dict[str, dict[int, list[int]]] = {c["name"]: {} for c in program["counter_arrays"]}

    def receive(self, port: int, frame: bytes, now: int = 0) -> list[Sent]:
        """What leaves when this frame enters."""
        packet = self._parse(frame, port, now)
        self._run("ingress", packet)
        sent = []
        if packet.clone is not None:
            session, fields = packet.clone
            for out, instance in self.sessions.get(session, ()):
                copy = self._parse(frame, port, 0)
                self._keep(copy, packet, fields, INGRESS_CLONE)
                sent += self._egress(copy, out, instance)
        out = packet.values.get((STANDARD, "egress_spec"), 0)
        packet.clone, packet.exited = None, False
        if out != DROP_PORT:
            sent += self._egress(packet, out, 0)
        return sent

    def _egress(self, packet: Packet, port: int, instance: int) -> list[Sent]:
        packet.values |= {
            (STANDARD, "egress_port"): port,
            (STANDARD, "egress_spec"): 0,
            (STANDARD, "egress_rid"): instance,
        }
        self._run("egress", packet)
        sent = []
        if packet.clone is not None:
            session, fields = packet.clone
            for out, copy_instance in self.sessions.get(session, ()):
                kept = {key: value for key, value in packet.values.items() if key[0] not in self.metadata}
                copy = Packet(packet.frame, kept, packet.payload)
                self._keep(copy, packet, fields, EGRESS_CLONE)
                sent += self._egress(copy, out, copy_instance)
        if packet.values[STANDARD, "egress_spec"] != DROP_PORT:
            sent.append(Sent(port, self._deparse(packet)))
        return sent

    def _keep(self, copy: Packet, packet: Packet, fields: int, kind: int) -> None:
        for one in self.field_lists[fields]:
            copy.values[one] = packet.values.get(one, 0)
        copy.values[STANDARD, "instance_type"] = kind

    def _parse(self, frame: bytes, port: int, now: int) -> Packet:
        packet = Packet(frame)
        packet.values |= {(STANDARD, "ingress_port"): port, (STANDARD, "ingress_global_timestamp"): now}
        packet.values[STANDARD, "packet_length"] = len(frame)
        place, name = 0, self.program["parsers"][0]["init_state"]
        while name is not None:
            state = self.states[name]
            for op in state["parser_ops"]:
                if op["op"] == "extract":
                    header = op["parameters"][0]["value"]
                    size = sum(width for _, width in self.headers[header]) // 8
                    if place + size > len(frame):
                        packet.payload = frame[place:]
                        return packet
                    self._extract(packet, header, frame[place : place + size])
                    place += size
                elif op["op"] == "set":
                    target, value = op["parameters"]
                    self._assign(packet, target, self._value(packet, value))
                else:
                    inner = op["parameters"][0]
                    self._primitive(packet, inner["op"], inner["parameters"], [])
            name = self._transition(packet, state)
        packet.payload = frame[place:]
        return packet

    def _extract(self, packet: Packet, header: str, data: bytes) -> None:
        bits, left = int.from_bytes(data, "big"), len(data) * 8
        for name, width in self.headers[header]:
            left -= width
            packet.values[header, name] = bits >> left & (1 << width) - 1
        packet.values[header, "$valid$"] = 1

    def _transition(self, packet: Packet, state: dict[str, Any]) -> str | None:
        key = 0
        for part in state["transition_key"]:
            width = -(-self.widths[tuple(part["value"])] // 8) * 8
            key = key << width | packet.values.get(tuple(part["value"]), 0)
        for one in state["transitions"]:
            if one["type"] == "default":
                return one["next_state"]  # type: ignore[no-any-return]
            mask = int(one["mask"], 16) if one["mask"] else -1
            if key & mask == int(one["value"], 16) & mask:
                return one["next_state"]  # type: ignore[no-any-return]
        return None

    def _deparse(self, packet: Packet) -> bytes:
        out = b""
        for header in self.program["deparsers"][0]["order"]:
            if packet.values.get((header, "$valid$")):
                bits = size = 0
                for name, width in self.headers[header]:
                    bits, size = bits << width | packet.values.get((header, name), 0), size + width
                out += bits.to_bytes(size // 8, "big")
        return out + packet.payload

    def _run(self, pipeline: str, packet: Packet) -> None:
        nodes, name = self.pipelines[pipeline], self.starts[pipeline]
        while name is not None and not packet.exited:
            node = nodes[name]
            if "expression" in node:
                name = node["true_next"] if self._value(packet, node["expression"]) else node["false_next"]
            else:
                name = self._apply(packet, node)

    def _apply(self, packet: Packet, table: dict[str, Any]) -> str | None:
        action, arguments, hit = self._look_up(packet, table)
        self._act(packet, action, arguments)
        following = table["next_tables"]
        if "__HIT__" in following:
            return following["__HIT__" if hit else "__MISS__"]  # type: ignore[no-any-return]
        return following[action["name"]]  # type: ignore[no-any-return]

    def _look_up(self, packet: Packet, table: dict[str, Any]) -> tuple[dict[str, Any], list[int], bool]:
        keys = [packet.values.get(tuple(k["target"]), 0) for k in table["key"]]
        if table["name"] in self.tables:
            named = {k["name"]: value for k, value in zip(table["key"], keys, strict=True)}
            found = self.tables[table["name"]].hit(named, len(packet.frame))
            if found is None and table["name"] == "fc.forward":
                found = self.forward
                return self._named(table, found), list(found.parameters.values()), False
            if found is not None:
                action = self._named(table, found)
                return action, [found.parameters[p["name"]] for p in action["runtime_data"]], True
        for entry in sorted(table.get("entries", ()), key=lambda e: e["priority"]):
            if all(_matches(key, one) for key, one in zip(keys, entry["match_key"], strict=True)):
                chosen = entry["action_entry"]
                return self.actions[chosen["action_id"]], [int(v, 16) for v in chosen["action_data"]], True
        default = table["default_entry"]
        return self.actions[default["action_id"]], [int(v, 16) for v in default["action_data"]], False

    def _named(self, table: dict[str, Any], entry: Entry) -> dict[str, Any]:
        wanted = f"{table['name'][:-4]}_mirror" if table["name"].endswith("_acl") else entry.action
        return next(self.actions[i] for i in table["action_ids"] if self.actions[i]["name"] == wanted)

    def _act(self, packet: Packet, action: dict[str, Any], arguments: list[int]) -> None:
        step, calls = 0, action["primitives"]
        while step < len(calls):
            operation, parameters = calls[step]["op"], calls[step]["parameters"]
            step += 1
            if operation == "_jump":
                step = self._value(packet, parameters[0], arguments)
            elif operation == "_jump_if_zero":
                if not self._value(packet, parameters[0], arguments):
                    step = self._value(packet, parameters[1], arguments)
            else:
                self._primitive(packet, operation, parameters, arguments)

    def _primitive(self, packet: Packet, operation: str, p: list[dict[str, Any]], arguments: list[int]) -> None:
        def value(number: int) -> int:
            return self._value(packet, p[number], arguments)

        if operation == "assign":
            self._assign(packet, p[0], value(1))
        elif operation in ("add_header", "remove_header"):
            packet.values[p[0]["value"], "$valid$"] = int(operation == "add_header")
        elif operation == "mark_to_drop":
            packet.values[STANDARD, "egress_spec"] = DROP_PORT
            packet.values[STANDARD, "mcast_grp"] = 0
        elif operation == "register_read":
            self._assign(packet, p[0], self.registers[p[1]["value"]].get(value(2), 0))
        elif operation == "register_write":
            self.registers[p[0]["value"]][value(1)] = value(2)
        elif operation == "count":
            cell = self.counters[p[0]["value"]].setdefault(value(1), [0, 0])
            cell[0], cell[1] = cell[0] + 1, cell[1] + len(packet.frame)
        elif operation in ("clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress"):
            packet.clone = value(0), value(1)
        elif operation == "exit":
            packet.exited = True
        else:
            raise KeyError(operation)

    def _assign(self, packet: Packet, target: dict[str, Any], value: int) -> None:
        name = tuple(target["value"])
        packet.values[name] = value & (1 << self.widths[name]) - 1

    def _value(self, packet: Packet, one: dict[str, Any], arguments: Sequence[int] = ()) -> int:
        kind, what = one["type"], one["value"]
        if kind == "field":
            name: Field = tuple(what)
            return packet.values.get(name, 0)
        if kind in ("hexstr", "bool"):
            return int(what, 16) if kind == "hexstr" else int(what)
        if kind in ("runtime_data", "local"):
            return arguments[int(what)]
        if kind == "expression" and "op" not in what:
            return self._value(packet, what, arguments)
        return self._operate(packet, what, arguments)

    def _operate(self, packet: Packet, what: dict[str, Any], arguments: Sequence[int]) -> int:
        operation = what["op"]
        if operation == "?":
            chosen = "left" if self._value(packet, what["cond"], arguments) else "right"
            return self._value(packet, what[chosen], arguments)
        right = self._value(packet, what["right"], arguments)
        if operation in ("d2b", "b2d", "not", "~"):
            return {"d2b": int(right != 0), "b2d": right, "not": int(not right), "~": ~right}[operation]
        return OPERATORS[operation](self._value(packet, what["left"], arguments), right)


def _matches(key: int, one: dict[str, Any]) -> bool:
    mask = int(one["mask"], 16) if one["match_type"] == "ternary" else -1
    return key & mask == int(one["key"], 16) & mask
