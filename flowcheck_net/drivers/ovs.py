"""Open vSwitch: mirrors in its database (OVSDB), filters by column or by OpenFlow rules. See docs/drivers/ovs.md.

``management: ovs:unix:/run/openvswitch/db.sock#leaf1``, or ``ovs:tcp:HOST:PORT#leaf1``, ``ovs:ssl:HOST:PORT#leaf1``.
A write is one transaction, off if anything of the bridge's mirrors or ports is not as it was read. Ours are the rows
with our marks in external_ids; nothing else is ever named in a change.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from flowcheck_net.drivers.ovs_change import Change, Refusal, by_flows, change_of, operations
from flowcheck_net.drivers.ovs_flows import FlowDoubt, FlowError, Rule, base_rule, cookie_of, line_without, lines_for
from flowcheck_net.drivers.ovs_link import Link, Picture
from flowcheck_net.drivers.ovs_remarks import PROMPT, Surroundings, remarks_on
from flowcheck_net.drivers.ovs_rpc import Lost, RemoteError, Unreachable
from flowcheck_net.errors import ConnectError, PlanError, Rejected, StateUnknown
from flowcheck_net.ids import SessionName
from flowcheck_net.intent import (
    Capabilities,
    Counters,
    Direction,
    MirrorSession,
    MirrorSource,
    SessionSource,
    Step,
    SwitchAddress,
    SwitchState,
    is_owned,
    split_state,
)


def open_ovs(address: SwitchAddress, job: str, state_dir: Path) -> "OvsDriver":
    """The driver of one bridge, not connected yet."""
    # The platform tables are read when the first switch is opened, not when this module is loaded.
    from flowcheck_net.model.platforms import capabilities

    del state_dir
    try:
        return OvsDriver(address, job, capabilities(address.platform))
    except PlanError as error:
        raise PlanError(f"{address.name}: {error.message}", hint=error.hint) from error


class OvsDriver:
    """One bridge over one connection to its database server."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        self._switch = address.name
        self._job = job
        self._limits = limits
        self._link = Link(address, job)
        # A lock for each bridge: two leaves in one database are written at once. Its name has letters, digits and _.
        self._lock = "flowcheck_net_" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in self._link.bridge_name)
        self._holding = False
        self._seen: Picture | None = None

    def __enter__(self) -> Self:
        self._link.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self._link.close()
        self._holding, self._seen = False, None

    def capabilities(self) -> Capabilities:
        """The platform's table, with filters as this very bridge has them."""
        if self._link.filter_column:
            return replace(self._limits, filters=True, filter_directions=frozenset(Direction))
        try:
            self._base(self._link.look().rules)
        except Refusal:
            return replace(self._limits, filters=False)
        return replace(self._limits, filters=True, filter_directions=frozenset({Direction.RX}))

    def read(self) -> SwitchState:
        """All mirrors of the bridge, and rules of ours that have lost theirs."""
        self._seen = picture = self._link.look()
        around = Surroundings(self._link.control, self._link.version(picture.bridge), picture.rules)
        return split_state(
            (*(f.session for f in picture.found.values()), *picture.bridge.foreign_of(self._job)),
            self._job,
            remarks=remarks_on(picture.bridge, picture.found, around),
            restart_mark=self._link.restart_mark(picture.bridge),
        )

    def hold(self) -> AbstractContextManager[None]:
        """The database's lock of our name for this bridge; it goes with the connection."""
        return self._hold()

    def write(self, steps: Sequence[Step]) -> None:
        """Make all steps effective at once, or none; see ``Driver.write``. Deletes must name sessions as they are."""
        for step in steps:
            if not is_owned(step.session.name, self._job):
                raise Rejected(self._switch, f"{step.session.name} is not a session of job {self._job}")
        if not steps:
            return
        with nullcontext() if self._holding else self._hold():
            # Guarded by what the caller read on this connection, where it did: it decided by that.
            picture, self._seen = self._seen or self._link.look(), None
            try:
                change = self._change(steps, picture)
                work = self._operations(change, picture)
            except Refusal as error:
                raise Rejected(self._switch, str(error)) from error
            if change.removed or change.added:
                self._complete(change, picture, self._link.transact(work))

    def counters(self) -> Counters:
        """Counts not older than this call: waits until the switch has refreshed them, 6 s at the most."""
        if not self._link.look().found:
            return Counters()
        picture = self._link.look_refreshed()
        sessions = {name: count for name, f in picture.found.items() if (count := f.packets()) is not None}
        sources = {
            SessionSource(name, source): count
            for name, f in picture.found.items()
            for source, count in f.packets_by_source(picture.bridge).items()
        }
        return Counters(sessions, sources, _port_counts(picture))

    @contextmanager
    def _hold(self) -> Iterator[None]:
        answer = self._link.call("lock", [self._lock])
        if not (isinstance(answer, dict) and answer.get("locked") is True):
            self._link.call("unlock", [self._lock])
            raise Rejected(
                self._switch,
                f"another flowcheck-net holds the lock {self._lock} of the database",
                hint="wait for it to end; the lock goes with its connection",
            )
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            # Where the connection is gone, so is the lock; and what was written does not become unwritten by it.
            with suppress(ConnectError):
                self._link.call("unlock", [self._lock])

    def _change(self, steps: Sequence[Step], picture: Picture) -> Change:
        """What is to be done, checked as far as can be before anything is sent; raises Refusal."""
        change = change_of(steps, [f.session for f in picture.found.values()], picture.bridge, self._link.filter_column)
        for session in change.added:
            if by_flows(session, self._link.filter_column):
                self._base(picture.rules)
                self._cookie(session.name)
            if addresses := self._addresses(session):
                raise Refusal(
                    f"{session.name}: {session.destination} has the address {addresses[0]}, and as the output of a "
                    "mirror it would carry nothing else any more"
                )
        return change

    def _addresses(self, session: MirrorSession) -> tuple[str, ...]:
        try:
            return self._link.control.addresses(session.destination) if self._link.control else ()
        except (Unreachable, Lost, RemoteError) as error:
            raise Refusal(f"ovs-vswitchd does not tell the addresses of its ports: {error}") from error

    def _operations(self, change: Change, picture: Picture) -> list[dict[str, object]]:
        column = self._link.filter_column
        return operations(change, picture.bridge, self._job, column=column, lock=self._lock)

    def _complete(self, change: Change, picture: Picture, config: int) -> None:
        """After the transaction: rules beside it, and the hot flows of old versions. What fails now is no refusal."""
        link = self._link
        try:
            link.await_config(config)
            if lines := self._rule_lines(change, picture):
                self._change_rules(change, lines)
            if link.control and link.version(picture.bridge) < PROMPT:
                link.control.purge()
        except ConnectError as error:
            raise StateUnknown(self._switch, f"the mirror rows are written, then: {error.message}") from error
        except (Unreachable, Lost, RemoteError) as error:
            text = f"written, but flows under way may keep the former mirrors: revalidator/purge failed: {error}"
            raise StateUnknown(self._switch, text) from error

    def _rule_lines(self, change: Change, picture: Picture) -> list[str]:
        """The rules that go and come; the ports are read again, since a new one has its number only now."""
        gone = [s.name for s in change.removed if picture.found[s.name].rules]
        coming = [s for s in change.added if by_flows(s, self._link.filter_column)]
        lines = [line_without(self._cookie(name)) for name in gone]
        if coming:
            now, base = self._link.look(), base_rule(picture.rules, self._link.bridge_name)
            for session in coming:
                inputs = [p.number for s in session.sources if (p := now.bridge.port(s.port)) is not None]
                rows = now.found[session.name].mirrors
                output = now.bridge.ports[rows[0].output].number if rows else 0
                lines += lines_for(session, self._cookie(session.name), inputs, output, base)
        return lines

    def _change_rules(self, change: Change, lines: list[str]) -> None:
        """Rules go beside the transaction: where they fail, it is taken back, so that still nothing was changed."""
        if self._link.flows is None:
            raise StateUnknown(self._switch, "the mirror rows are written, and there is no way to the OpenFlow rules")
        try:
            self._link.flows.change(lines)
        except FlowDoubt as error:
            raise StateUnknown(self._switch, f"the mirror rows are written; of the OpenFlow rules {error}") from error
        except FlowError as error:
            try:
                self._link.transact(self._operations(change.inverse(), self._link.look()))
            except (Rejected, Refusal) as second:
                text = (
                    f"the OpenFlow rules were refused ({error}), and the mirror rows could not be taken back: {second}"
                )
                raise StateUnknown(self._switch, text) from error
            raise Rejected(self._switch, f"the OpenFlow rules were refused: {error}; nothing was changed") from error

    def _cookie(self, name: SessionName) -> int:
        try:
            return cookie_of(self._job, name)
        except ValueError as error:
            raise Refusal(str(error)) from error

    def _base(self, rules: Sequence[Rule]) -> Rule:
        """The rule that ours stand above; raises Refusal where there can be none of ours."""
        if not self._link.rules_reachable:
            raise Refusal(
                "filters are OpenFlow rules in this Open vSwitch, and its OpenFlow socket cannot be reached from here: "
                "run flowcheck-net on the switch (ovs:unix:...), or use Open vSwitch 3.5 or later"
            )
        try:
            return base_rule(rules, self._link.bridge_name)
        except ValueError as error:
            raise Refusal(str(error)) from error


def _port_counts(picture: Picture) -> dict[MirrorSource, int]:
    watched = {s for f in picture.found.values() for s in f.session.sources}
    ports = {s: picture.bridge.port(s.port) for s in watched}
    return {s: count for s, p in ports.items() if p and (count := p.packets(s.direction)) is not None}
