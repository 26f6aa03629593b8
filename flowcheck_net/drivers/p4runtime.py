"""P4Runtime: our mirror block in BMv2 or on Tofino with Stratum. See docs/drivers/p4runtime.md and p4/README.md.

``management: p4rt:HOST:9559?device=1``. Reads are open to all; being the primary controller is the lock, held for a
write and no longer. Ours are clone sessions whose description bears our job's tag; nothing else is named in a write.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.p4runtime_change import Batch, Doubt, Impossible, Planner, Room, StepRefused, carry_out
from flowcheck_net.drivers.p4runtime_client import Client
from flowcheck_net.drivers.p4runtime_entries import (
    Picture,
    clone_query,
    counts_of,
    picture_of,
    queries,
    sent_queries,
    update_of,
)
from flowcheck_net.drivers.p4runtime_errors import Lost, Refused, Unreachable, UpdateError
from flowcheck_net.drivers.p4runtime_pipeline import Running, Wanted, judge, load_wanted
from flowcheck_net.drivers.p4runtime_reference import parse_reference
from flowcheck_net.drivers.p4runtime_schema import ACL, FLOWS
from flowcheck_net.drivers.p4runtime_sessions import FIRST_ID, LAST_ID, Found, Ports, Rivals, find_sessions, remarks_on
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import (
    Capabilities,
    Counters,
    MirrorSource,
    Remark,
    RemarkKind,
    Step,
    StepKind,
    SwitchAddress,
    SwitchState,
    is_owned,
    split_state,
)

Answer = TypeVar("Answer")


def open_p4runtime(address: SwitchAddress, job: str, state_dir: Path) -> "P4RuntimeDriver":
    """The driver of one device, not connected yet."""
    del state_dir
    return P4RuntimeDriver(address, job, limits_of(address))


class P4RuntimeDriver:
    """One device over one connection to its P4Runtime server."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        self._switch = address.name
        self._job = job
        # A session takes one id of ours, whatever the target allows.
        most = min(limits.max_sessions, LAST_ID - FIRST_ID + 1)
        self._limits = replace(limits, max_sessions=most)
        try:
            self._where = parse_reference(address.management)
        except ValueError as error:
            raise ConnectError(self._switch, str(error)) from error
        self._ports = Ports(self._where.ports)
        self._client: Client | None = None
        self._wanted: Wanted | None = None
        self._holding = False

    def __enter__(self) -> Self:
        try:
            self._wanted = load_wanted(self._where)
            self._client = Client(self._where)
        except Unreachable as error:
            raise ConnectError(self._switch, str(error), hint=error.hint) from error
        return self

    def __exit__(self, *exc: object) -> None:
        self._hang_up()
        self._holding = False

    def capabilities(self) -> Capabilities:
        """The platform's table, with what this driver has ids and words for."""
        self._live()
        return self._limits

    def read(self) -> SwitchState:
        """All clone sessions, with rules and descriptions of ours and of others."""
        return self._ask(self._read)

    def hold(self) -> AbstractContextManager[None]:
        """Be the device's primary controller; it goes with the connection."""
        return self._hold()

    def write(self, steps: Sequence[Step]) -> None:
        """Carry out the steps one by one; see ``Driver.write``. Deletes must name sessions as they are."""
        refuse_foreign(self._switch, steps, self._job)
        if not steps:
            return
        with nullcontext() if self._holding else self._hold():
            running, picture = self._ask(self._look)
            if running.push:
                self._load(running, picture)
                running, picture = self._ask(self._look)
            self._carry_out(steps, running, picture)

    def counters(self) -> Counters:
        """Copies that reached the monitor port, by session; packets of ports that a rule without addresses watches."""
        return self._ask(self._counters)

    def _read(self) -> SwitchState:
        running, picture = self._look()
        every = find_sessions(picture, self._job, self._ports)
        rivals = Rivals(every)
        remarks = [r for f in every if self._is_ours(f) for r in remarks_on(f, rivals, self._ports)]
        sessions = [f.session for f in every]
        if running.push:
            # All that is ours goes with the push: the plan is to be written anew.
            sessions, remarks = [f.session for f in every if not self._is_ours(f)], []
            text = f"{running.push}: the next write loads {self._where.program}, which empties all of its tables"
            remarks.append(Remark(RemarkKind.OTHER, text))
        if running.doubt:
            remarks.append(Remark(RemarkKind.OTHER, running.doubt))
        if picture.odd:
            text = f"{picture.odd} entries of the mirror tables have an action that is not ours"
            remarks.append(Remark(RemarkKind.OTHER, text))
        return split_state(sessions, self._job, remarks=remarks, restart_mark=_mark(running.cookie))

    def _counters(self) -> Counters:
        running, picture = self._look()
        if running.schema is None or running.push:
            return Counters()
        ours = [f for f in find_sessions(picture, self._job, self._ports) if self._is_ours(f)]
        sent = counts_of(self._live().read_all(sent_queries(running.schema, [f.id for f in ours])))
        matched = dict(picture.packets)
        ports: dict[MirrorSource, int] = {}
        for found in ours:
            for rule in found.rules:
                port = rule.field("port")
                if not found.session.filters and port and len(rule.match) == 1 and rule in matched:
                    ports[MirrorSource(self._ports.name(port[0]), rule.direction)] = matched[rule]
        return Counters({f.session.name: sent[f.id] for f in ours if f.id in sent}, {}, ports)

    def _look(self) -> tuple[Running, Picture]:
        client = self._live()
        pipeline = client.get_pipeline()
        running = judge(pipeline, self._wanted, self._where.push)
        wanted = queries(running.schema) if running.schema else [clone_query()]
        return running, picture_of(running.schema, client.read_all(wanted if pipeline else []))

    def _carry_out(self, steps: Sequence[Step], running: Running, picture: Picture) -> None:
        try:
            carry_out(steps, self._plan(steps, running, picture), lambda batch: self._send(running, batch))
        except Impossible as error:
            raise Rejected(self._switch, str(error)) from error
        except StepRefused as error:
            failure: DriverError = Rejected(self._switch, str(error), hint=error.hint)
            if error.index:
                failure = PartialWrite(self._switch, str(error), done=error.index, hint=error.hint)
            raise failure from error
        except Doubt as error:
            self._hang_up()
            raise StateUnknown(self._switch, str(error)) from error

    def _load(self, running: Running, picture: Picture) -> None:
        """Load our pipeline. Our sessions are deleted before: BMv2 keeps copying for those that a push finds."""
        every = [f.session for f in find_sessions(picture, self._job, self._ports)]
        others = sorted(s.name for s in every if not is_owned(s.name, self._job))
        if others:
            text = f"{running.push}, and loading ours would end mirror sessions of others: {', '.join(others)}"
            raise Rejected(self._switch, text, hint="ask their owner, or remove them first")
        if self._wanted is None:
            raise Rejected(self._switch, running.push)
        deletes = [Step(StepKind.DELETE, session) for session in every]
        try:
            if deletes:
                plan = self._plan(deletes, running, picture)
                carry_out(deletes, plan, lambda batch: self._send(running, batch))
            self._live().push_pipeline(self._wanted.p4info, self._wanted.program, self._wanted.new_cookie())
        except (StepRefused, Doubt, Refused, Lost) as error:
            if isinstance(error, Refused) and not deletes:
                raise Rejected(self._switch, f"loading the pipeline: {error}", hint=error.hint) from error
            self._hang_up()
            raise StateUnknown(self._switch, f"while loading the pipeline: {error}") from error

    def _plan(self, steps: Sequence[Step], running: Running, picture: Picture) -> list[list[Batch]]:
        tables = running.schema.tables if running.schema else {}
        sizes = {direction: tables[name].size for direction, name in ACL.items() if name in tables}
        room = Room(sizes, tables[FLOWS].size if FLOWS in tables else 0, int(time.time()))
        return Planner(picture, self._job, self._ports, self._limits, room).batches(steps)

    def _send(self, running: Running, batch: Batch) -> list[UpdateError | None]:
        schema = running.schema
        if schema is None:
            raise Refused("the pipeline that was loaded is not there")
        kinds = {True: p4runtime_pb2.Update.INSERT, False: p4runtime_pb2.Update.DELETE}
        groups = [update_of(schema, edit.entry, kinds[edit.comes]) for edit in batch]
        errors = iter(self._live().write_all([update for group in groups for update in group]))
        return [next((e for e in [next(errors) for _ in group] if e), None) for group in groups]

    @contextmanager
    def _hold(self) -> Iterator[None]:
        primary = self._live().primary()
        self._ask(primary.__enter__)
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            primary.__exit__(None, None, None)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Of a call that changes no session: what its failures mean."""
        try:
            return question()
        except Unreachable as error:
            raise ConnectError(self._switch, str(error), hint=error.hint) from error
        except Refused as error:
            raise Rejected(self._switch, str(error), hint=error.hint) from error
        except Lost as error:
            self._hang_up()
            raise ConnectError(self._switch, str(error)) from error

    def _is_ours(self, found: Found) -> bool:
        return is_owned(found.session.name, self._job)

    def _live(self) -> Client:
        if self._client is None:
            raise ConnectError(self._switch, "not connected")
        return self._client

    def _hang_up(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _mark(cookie: int) -> str:
    return f"cookie {cookie:#x}" if cookie else ""
