"""One device behind the test server: its P4Info, entries and clone sessions, and the Python twin as its data plane.

Written from the P4Runtime specification and from what BMv2 was seen to do (domain/p4-facts.md); shares no code with the
driver.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from tests.doubles.p4_twin import Twin
from tests.doubles.p4_twin_tables import Entry
from tests.doubles.p4runtime_check import Key, Program, Refusal


@dataclass(frozen=True, slots=True)
class Quirks:
    """Where targets differ. As it stands: BMv2, but for ``references`` and ``backwards``."""

    most_replicas: int = 64
    last_session: int = 32767
    truncates: bool = False
    has_classes: bool = False
    half_modify: bool = True
    """A refused MODIFY of a clone session has changed the replicas."""
    stale_clones: bool = True
    """A pushed pipeline leaves clone sessions in the data plane, where P4Runtime does not see them."""
    references: bool = True
    """Stricter than any target: a rule must name a clone session that is there, and keeps it there."""
    backwards: bool = True
    """The updates of a batch are done last first: the specification promises no order."""
    full_code: int = code_pb2.UNKNOWN
    remembers: bool = False
    """A controller must have the highest election id ever seen (Stratum); BMv2 looks at those connected."""


BMV2 = Quirks()
STRATUM = replace(
    BMV2,
    most_replicas=1,
    last_session=1015,
    truncates=True,
    has_classes=True,
    half_modify=False,
    stale_clones=False,
    full_code=code_pb2.RESOURCE_EXHAUSTED,
    remembers=True,
)


@dataclass(slots=True)
class Device:
    """State of one switch; the server serialises calls."""

    quirks: Quirks = BMV2
    program: Program | None = None
    config: p4runtime_pb2.ForwardingPipelineConfig = field(default_factory=p4runtime_pb2.ForwardingPipelineConfig)
    twin: Twin = field(default_factory=Twin)
    entries: dict[tuple[int, Key], tuple[p4runtime_pb2.TableEntry, Entry]] = field(default_factory=dict)
    clones: dict[int, p4runtime_pb2.CloneSessionEntry] = field(default_factory=dict)
    broken: bool = False
    """After RECONCILE_AND_COMMIT BMv2 takes no pipeline until it is restarted."""

    def load(self, config: p4runtime_pb2.ForwardingPipelineConfig) -> None:
        """A pipeline pushed: tables and counters are empty."""
        stale = self.twin.clone_sessions if self.quirks.stale_clones else {}
        self.program = Program(config.p4info)
        self.config = p4runtime_pb2.ForwardingPipelineConfig()
        self.config.CopyFrom(config)
        self.twin = Twin(clone_sessions=stale)
        self.entries.clear()
        self.clones.clear()

    def p4info(self) -> p4info_pb2.P4Info:
        """Of the pipeline that runs."""
        return self.config.p4info

    def update(self, update: p4runtime_pb2.Update) -> None:
        """Carry out one update; raises Refusal."""
        entity = update.entity
        kind = entity.WhichOneof("entity")
        if kind == "table_entry":
            self._table_entry(update.type, entity.table_entry)
        elif kind == "packet_replication_engine_entry" and entity.packet_replication_engine_entry.HasField(
            "clone_session_entry"
        ):
            self._clone(update.type, entity.packet_replication_engine_entry.clone_session_entry)
        elif kind == "counter_entry":
            self._set_counter(update.type, entity.counter_entry)
        else:
            raise Refusal(code_pb2.UNIMPLEMENTED, f"{kind} is not supported")

    def read(self, entity: p4runtime_pb2.Entity) -> Iterator[p4runtime_pb2.Entity]:
        """What the switch has of it; raises Refusal."""
        kind = entity.WhichOneof("entity")
        if kind == "table_entry":
            yield from self._read_table(entity.table_entry)
        elif kind == "packet_replication_engine_entry":
            yield from self._read_clones(entity.packet_replication_engine_entry.clone_session_entry.session_id)
        elif kind == "counter_entry":
            yield from self._read_counter(entity.counter_entry)
        else:
            raise Refusal(code_pb2.UNIMPLEMENTED, f"reading {kind} is not supported")

    def _table_entry(self, kind: int, entry: p4runtime_pb2.TableEntry) -> None:
        program = self._program()
        if entry.is_default_action:
            raise Refusal(code_pb2.PERMISSION_DENIED, "Default action is const")
        table, key, match = program.check_match(entry)
        place = (entry.table_id, key)
        if kind == p4runtime_pb2.Update.DELETE:
            _, gone = self._present(place)
            del self.entries[place]
            self.twin.tables[table.preamble.name].entries.remove(gone)
            return
        action, parameters = program.check_action(table, entry)
        if kind == p4runtime_pb2.Update.MODIFY:
            _, old = self._present(place)
            old.action, old.parameters = action, parameters
            self.entries[place] = (_copy(entry), old)
            return
        if place in self.entries:
            text = "Match entry exists, use MODIFY if you wish to change action"
            raise Refusal(code_pb2.ALREADY_EXISTS, text)
        if self.quirks.references and action.endswith("_mirror") and parameters["session"] not in self.clones:
            raise Refusal(code_pb2.FAILED_PRECONDITION, f"clone session {parameters['session']} is not there")
        entries = self.twin.tables[table.preamble.name].entries
        if len(entries) >= table.size:
            raise Refusal(self.quirks.full_code, "Error when adding match entry to target")
        made = Entry(match, action, parameters, entry.priority)
        entries.append(made)
        self.entries[place] = (_copy(entry), made)

    def _present(self, place: tuple[int, Key]) -> tuple[p4runtime_pb2.TableEntry, Entry]:
        if place not in self.entries:
            raise Refusal(code_pb2.NOT_FOUND, "Cannot find match entry")
        return self.entries[place]

    def _clone(self, kind: int, clone: p4runtime_pb2.CloneSessionEntry) -> None:
        number = clone.session_id
        if not 0 < number <= self.quirks.last_session:
            raise Refusal(code_pb2.INVALID_ARGUMENT, f"Clone session id {number} is out of range")
        if kind == p4runtime_pb2.Update.INSERT and number in self.clones:
            raise Refusal(code_pb2.ALREADY_EXISTS, "Clone session already exists")
        if kind != p4runtime_pb2.Update.INSERT and number not in self.clones:
            raise Refusal(code_pb2.NOT_FOUND, "Clone session does not exist")
        if kind == p4runtime_pb2.Update.DELETE:
            named = [e for _, e in self.entries.values() if e.action.endswith("_mirror")]
            if self.quirks.references and any(e.parameters["session"] == number for e in named):
                raise Refusal(code_pb2.FAILED_PRECONDITION, f"a rule names clone session {number}")
            del self.clones[number]
            self.twin.clone_sessions.pop(number, None)
            return
        replicas = self._check_clone(clone)
        cut_refused = not self.quirks.truncates and 0 < clone.packet_length_bytes < 65536
        if kind == p4runtime_pb2.Update.MODIFY and (not cut_refused or self.quirks.half_modify):
            self.twin.clone_sessions[number] = replicas
            del self.clones[number].replicas[:]
            self.clones[number].replicas.extend(clone.replicas)
        if cut_refused:
            raise Refusal(code_pb2.UNKNOWN, "")
        if kind == p4runtime_pb2.Update.INSERT:
            # Here BMv2 adds to what an earlier pipeline has left behind.
            stale = self.twin.clone_sessions.get(number, [])
            self.twin.clone_sessions[number] = [*stale, *replicas]
        self.clones[number] = _copy_clone(clone)

    def _check_clone(self, clone: p4runtime_pb2.CloneSessionEntry) -> list[tuple[int, int]]:
        replicas = [(r.egress_port, r.instance) for r in clone.replicas]
        if len(set(replicas)) != len(replicas):
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Duplicate replica")
        if len(replicas) > self.quirks.most_replicas:
            raise Refusal(code_pb2.INVALID_ARGUMENT, f"at most {self.quirks.most_replicas} replicas")
        if clone.class_of_service and not self.quirks.has_classes:
            raise Refusal(code_pb2.UNIMPLEMENTED, "Class of service not supported")
        return replicas

    def _set_counter(self, kind: int, entry: p4runtime_pb2.CounterEntry) -> None:
        name, size = self._program().counter(entry.counter_id)
        if kind != p4runtime_pb2.Update.MODIFY:
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Counters can only be modified")
        if not 0 <= entry.index.index < size:
            raise Refusal(code_pb2.INVALID_ARGUMENT, "Index out of range")
        cells = self.twin.counters.setdefault(name, {})
        cells[entry.index.index] = [entry.data.packet_count, entry.data.byte_count]

    def _read_table(self, asked: p4runtime_pb2.TableEntry) -> Iterator[p4runtime_pb2.Entity]:
        program = self._program()
        if asked.table_id:
            program.table(asked.table_id)
        wanted = program.check_match(asked)[1] if asked.match else None
        for (table_id, key), (entry, twin) in self.entries.items():
            if asked.table_id not in (0, table_id) or wanted not in (None, key):
                continue
            found = p4runtime_pb2.Entity()
            found.table_entry.CopyFrom(entry)
            found.table_entry.ClearField("counter_data")
            if asked.HasField("counter_data") and program.counted(table_id):
                found.table_entry.counter_data.packet_count = twin.packets
                found.table_entry.counter_data.byte_count = twin.octets
            yield found

    def _read_clones(self, number: int) -> Iterator[p4runtime_pb2.Entity]:
        if number and number not in self.clones:
            raise Refusal(code_pb2.NOT_FOUND, "Clone session does not exist")
        for session_id, clone in self.clones.items():
            if number in (0, session_id):
                found = p4runtime_pb2.Entity()
                out = found.packet_replication_engine_entry.clone_session_entry
                out.CopyFrom(clone)
                # In another order than they were written, as BMv2 gives them.
                del out.replicas[:]
                out.replicas.extend(reversed(clone.replicas))
                yield found

    def _read_counter(self, asked: p4runtime_pb2.CounterEntry) -> Iterator[p4runtime_pb2.Entity]:
        name, size = self._program().counter(asked.counter_id)
        if name == "fc.verdicts":
            cells = {index: [count, 0] for index, count in self.twin.follower.verdicts.items()}
        else:
            cells = self.twin.counters.get(name, {})
        # All indices, also those at 0, as a switch does.
        for index in [asked.index.index] if asked.HasField("index") else range(size):
            found = p4runtime_pb2.Entity()
            out = found.counter_entry
            out.counter_id, out.index.index = asked.counter_id, index
            out.data.packet_count, out.data.byte_count = cells.get(index, [0, 0])
            yield found

    def _program(self) -> Program:
        if self.program is None:
            raise Refusal(code_pb2.FAILED_PRECONDITION, "No forwarding pipeline config set for this device")
        return self.program


def _copy(entry: p4runtime_pb2.TableEntry) -> p4runtime_pb2.TableEntry:
    """As it is read back: numbers in their canonical bytes."""
    found = p4runtime_pb2.TableEntry()
    found.CopyFrom(entry)
    for match in found.match:
        for part in (match.exact, match.ternary):
            for name in ("value", "mask"):
                if raw := getattr(part, name, b""):
                    setattr(part, name, raw.lstrip(b"\0") or b"\0")
    return found


def _copy_clone(clone: p4runtime_pb2.CloneSessionEntry) -> p4runtime_pb2.CloneSessionEntry:
    found = p4runtime_pb2.CloneSessionEntry()
    found.CopyFrom(clone)
    return found
