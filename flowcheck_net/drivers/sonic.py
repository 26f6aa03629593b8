"""SONiC: mirror sessions as rows of its configuration database, by JSON patches over SSH. See docs/drivers/sonic.md.

``management: sonic:HOST``, with the words of ``ssh:`` after ``?``. A step is one patch: a session is added or removed,
never changed. After each, orchagent must have taken it up, and must still run.
"""

import ipaddress
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.checks_sessions import refuse_impossible
from flowcheck_net.drivers.sonic_check import complaint_about
from flowcheck_net.drivers.sonic_db import APPL, COUNTERS, Snapshot, neighbor_from
from flowcheck_net.drivers.sonic_link import Link, PatchRefused
from flowcheck_net.drivers.sonic_patch import additions, removals
from flowcheck_net.drivers.sonic_remarks import remarks_on
from flowcheck_net.drivers.sonic_rows import RULES, Found, Rows, find, rows_of
from flowcheck_net.drivers.ssh_reference import parse_reference
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    Capabilities,
    Counters,
    DeviceFacts,
    Direction,
    MirrorSession,
    MirrorSource,
    Step,
    StepKind,
    Surroundings,
    SwitchAddress,
    SwitchState,
    is_owned,
    split_state,
)

_TAKEN_UP_SECONDS = 10.0
_STATE_OF = "MIRROR_SESSION_TABLE|"


class Refusal(Exception):
    """The step was not taken, and nothing of it is left."""


def open_sonic(address: SwitchAddress, job: str, state_dir: Path) -> "SonicDriver":
    """The driver of one switch, not connected yet."""
    del state_dir
    return SonicDriver(address, job, limits_of(address))


class SonicDriver:
    """One single-ASIC SONiC switch."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        self._switch = address.name
        self._job = job
        self._limits = limits
        try:
            where = parse_reference(address.management)
        except ValueError as error:
            raise DriverError(address.name, str(error)) from error
        self._origin = where.origin
        self._link = Link(address.name, where)
        self._patience = _TAKEN_UP_SECONDS

    def __enter__(self) -> Self:
        self._link.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self._link.close()

    def capabilities(self) -> Capabilities:
        """The platform's table, with what the switch says of itself: directions, and filters by ACL."""
        return self._able(self._link.look())

    def read(self) -> SwitchState:
        """All sessions of the configuration, with their status."""
        snapshot = self._link.look()
        found = find(snapshot)
        ours = [f for name, f in found.items() if is_owned(name, self._job)]
        return split_state(
            (f.session for f in found.values()),
            self._job,
            remarks=remarks_on(snapshot, ours),
            restart_mark=self._link.restart_mark(),
        )

    def hold(self) -> AbstractContextManager[None]:
        """SONiC has no lock that outlives a command."""
        return nullcontext()

    def write(self, steps: Sequence[Step]) -> None:
        """Step by step; see ``Driver.write``. Deletes must name sessions as they are."""
        refuse_foreign(self._switch, steps, self._job)
        if not steps:
            return
        snapshot = self._link.look()
        there = [f.session for f in find(snapshot).values()]
        refuse_impossible(self._switch, steps, there, self._able(snapshot))
        self._refuse_rows(steps, snapshot, there)
        if not (status := self._link.orchagent()).startswith("RUNNING"):
            raise Rejected(self._switch, f"orchagent does not run ({status}): nothing was sent")
        for done, step in enumerate(steps):
            try:
                self._step(step, snapshot if not done else self._link.look())
            except Refusal as error:
                text = f"step {done + 1} ({step.kind} {step.session.name}) refused: {error}"
                if done:
                    raise PartialWrite(self._switch, text, done=done) from error
                raise Rejected(self._switch, text) from error
            except ConnectError as error:
                if not done:
                    raise
                raise PartialWrite(self._switch, error.message, done=done) from error

    def counters(self) -> Counters:
        """Filtered sessions by the counters of their ACL rules, and ports; as new as the switch's own polling."""
        snapshot = self._link.look()
        ours = [f for name, f in find(snapshot).items() if is_owned(name, self._job)]
        if not ours:
            return Counters()
        time.sleep(_polling_seconds(snapshot, ours))
        sessions = {f.session.name: n for f in ours if (n := self._rule_count(f)) is not None}
        watched = sorted({s for f in ours for s in f.session.sources})
        names = self._link.hash_of(COUNTERS, "COUNTERS_PORT_NAME_MAP")
        ports = {s: n for s in watched if (n := self._port_count(s, names.get(s.port, ""))) is not None}
        return Counters(sessions=sessions, ports=ports)

    def surroundings(self) -> Surroundings:
        """Its LLDP table, and the configured speeds; both by port names, not by aliases."""
        snapshot = self._link.look()
        rows = {key: self._link.hash_of(APPL, key) for key in self._link.keys(APPL, "LLDP_ENTRY_TABLE:*")}
        heard = {key.partition(":")[2]: [neighbor_from(row)] for key, row in rows.items()}
        ports = snapshot.config.get("PORT", {})
        speeds = {PortName(p): int(row["speed"]) for p, row in ports.items() if row.get("speed", "").isdigit()}
        itself = snapshot.config.get("DEVICE_METADATA", {}).get("localhost", {})
        facts = DeviceFacts(itself.get("hostname", ""), itself.get("hwsku", ""))
        return Surroundings(json.dumps(heard), speeds, facts)

    def _able(self, snapshot: Snapshot) -> Capabilities:
        said = {
            Direction.RX: snapshot.capability("PORT_INGRESS_MIRROR_CAPABLE"),
            Direction.TX: snapshot.capability("PORT_EGRESS_MIRROR_CAPABLE"),
        }
        sides = {d for d in Direction if said[d] == "true" or (said[d] != "false" and d in self._limits.directions)}
        stages = [
            row for t, rows in snapshot.state.items() if t.startswith("ACL_STAGE") for row in [rows.get("INGRESS")]
        ]
        actions = next((row.get("action_list", "") for row in stages if row), "").upper()
        filters = "MIRROR_INGRESS_ACTION" in actions
        return replace(
            self._limits,
            directions=frozenset(sides),
            filters=filters or self._limits.filters,
            filter_directions=frozenset({Direction.RX}),
        )

    def _refuse_rows(self, steps: Sequence[Step], snapshot: Snapshot, there: Sequence[MirrorSession]) -> None:
        now = list(there)
        for number, step in enumerate(steps, 1):
            if step.kind is StepKind.DELETE:
                now.remove(step.session)
                continue
            origin = self._source_address(step.session, snapshot)
            if text := complaint_about(step.session, now, snapshot, origin=origin, job=self._job):
                name = step.session.name
                raise Rejected(self._switch, f"step {number} ({step.kind} {name}) refused: {text}; nothing was sent")
            now.append(step.session)

    def _source_address(self, session: MirrorSession, snapshot: Snapshot) -> str:
        """Where encapsulated copies come from: what the reference says, else Loopback0."""
        far = session.destination.removeprefix("erspan:")
        try:
            version = ipaddress.ip_address(far).version
        except ValueError:
            return ""
        return self._origin or snapshot.loopback(version)

    def _step(self, step: Step, snapshot: Snapshot) -> None:
        found = find(snapshot).get(step.session.name)
        if step.kind is StepKind.CREATE:
            self._add(step.session, snapshot, found)
        else:
            self._remove(step.session, snapshot, found)
        self._see_alive(f"{step.kind} {step.session.name}")

    def _see_alive(self, after: str) -> None:
        with self._written(after):
            status = self._link.orchagent()
        if not status.startswith("RUNNING"):
            text = f"orchagent does not run any more ({status}) after {after}"
            raise StateUnknown(
                self._switch, text, hint="look into /var/log/syslog; the switch learns no new routes now"
            )

    @contextmanager
    def _written(self, step: str) -> Iterator[None]:
        """The patch is in effect: a connection that is lost now leaves more behind than nothing."""
        try:
            yield
        except ConnectError as error:
            text = error.message.removeprefix(f"{self._switch}: ")
            raise StateUnknown(self._switch, f"{text}; {step} had been written by then") from error

    def _add(self, session: MirrorSession, snapshot: Snapshot, found: Found | None) -> None:
        if found is not None:
            raise Refusal("it is there already")
        rows = rows_of(session, self._source_address(session, snapshot))
        try:
            self._link.apply(additions(rows, snapshot))
        except PatchRefused as error:
            self._clear(session.name, rows, error)
            raise Refusal(str(error)) from error
        with self._written(f"create {session.name}"):
            taken_up = self._link.wait_for(f"{_STATE_OF}{session.name}", self._patience)
        if not taken_up:
            text = "orchagent did not take it up; its reason is in /var/log/syslog of the switch"
            self._clear(session.name, rows, Refusal(text))
            self._see_alive(f"create {session.name}, which was taken away again")
            raise Refusal(text)

    def _remove(self, session: MirrorSession, snapshot: Snapshot, found: Found | None) -> None:
        if found is None or found.session != session:
            raise Refusal("it is not as it was read any more")
        try:
            self._link.apply(removals(found.rows, snapshot))
        except PatchRefused as error:
            left = find(self._look_again(error)).get(session.name)
            if left is None or left.rows != found.rows:
                raise StateUnknown(self._switch, f"{session.name} was removed by half: {error}") from error
            raise Refusal(str(error)) from error

    def _clear(self, name: SessionName, rows: Rows, cause: Exception) -> None:
        """Take away what a refused patch left."""
        now = self._look_again(cause)
        left = [key for key in rows if key[1] in now.config.get(key[0], {})]
        if not left:
            return
        try:
            self._link.apply(removals(left, now))
        except (PatchRefused, ConnectError) as error:
            text = f"{name} was refused ({cause}), and what it left could not be removed: {error}"
            raise StateUnknown(self._switch, text) from error

    def _look_again(self, cause: Exception) -> Snapshot:
        try:
            return self._link.look()
        except ConnectError as error:
            raise StateUnknown(self._switch, f"{cause}; then: {error.message}") from error

    def _rule_count(self, found: Found) -> int | None:
        rules = [key.replace("|", ":") for table, key in found.rows if table == RULES]
        names = self._link.hash_of(COUNTERS, "ACL_COUNTER_RULE_MAP") if rules else {}
        counts = [self._link.hash_of(COUNTERS, f"COUNTERS:{names.get(r, 'none')}") for r in rules]
        each = [c.get("SAI_ACL_COUNTER_ATTR_PACKETS") for c in counts]
        return _total(each)

    def _port_count(self, source: MirrorSource, oid: str) -> int | None:
        row = self._link.hash_of(COUNTERS, f"COUNTERS:{oid}") if oid else {}
        side = "IN" if source.direction is Direction.RX else "OUT"
        parts = [row.get(f"SAI_PORT_STAT_IF_{side}_{kind}_PKTS") for kind in ("UCAST", "NON_UCAST")]
        return _total(parts)


def _total(counts: Sequence[str | None]) -> int | None:
    """None where one of them is missing or no number (``N/A``), or there is none: unknown is not 0."""
    numbers = [int(n) for n in counts if n is not None and n.isascii() and n.isdigit()]
    return sum(numbers) if counts and len(numbers) == len(counts) else None


def _polling_seconds(snapshot: Snapshot, ours: Sequence[Found]) -> float:
    """The longest time that counters may be old; those of ACL rules have another default than those of ports."""
    wanted = {"PORT": 1000, **({"ACL": 10000} if any(f.session.filters for f in ours) else {})}
    rows = {group: snapshot.row("FLEX_COUNTER_TABLE", group) for group in wanted}
    return max(float(rows[group].get("POLL_INTERVAL", default)) for group, default in wanted.items()) / 1000
