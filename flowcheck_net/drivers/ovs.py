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

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.ovs_bridge import Bridge
from flowcheck_net.drivers.ovs_change import Change, Refusal, by_flows, change_of, operations
from flowcheck_net.drivers.ovs_flows import (
    FlowDoubt,
    FlowError,
    Rule,
    base_rule,
    cookie_of,
    line_without,
    lines_for,
    session_of,
)
from flowcheck_net.drivers.ovs_link import KeyTaken, Link, Picture
from flowcheck_net.drivers.ovs_remarks import PROMPT, Surroundings, remarks_on
from flowcheck_net.drivers.ovs_rpc import Lost, RemoteError, Unreachable
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
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
    split_state,
)

_KEY_TRIES = 5


def open_ovs(address: SwitchAddress, job: str, state_dir: Path) -> "OvsDriver":
    """The driver of one bridge, not connected yet."""
    del state_dir
    return OvsDriver(address, job, limits_of(address))


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
        try:
            remarks = remarks_on(picture.bridge, picture.found, around)
        except (Unreachable, Lost, RemoteError) as error:
            raise ConnectError(self._switch, f"ovs-vswitchd went away or hangs: {error}") from error
        return split_state(
            (*(f.session for f in picture.found.values()), *picture.bridge.foreign_of(self._job)),
            self._job,
            remarks=remarks,
            restart_mark=self._link.restart_mark(picture.bridge),
        )

    def hold(self) -> AbstractContextManager[None]:
        """The database's lock of our name for this bridge; it goes with the connection."""
        return self._hold()

    def write(self, steps: Sequence[Step]) -> None:
        """Make all steps effective at once, or none; see ``Driver.write``. Deletes must name sessions as they are."""
        refuse_foreign(self._switch, steps, self._job)
        if not steps:
            self._take_effect()
            return
        with nullcontext() if self._holding else self._hold():
            # Guarded by what the caller read on this connection, where it did: it decided by that.
            picture, self._seen = self._seen or self._link.look(), None
            try:
                change = self._change(steps, picture)
                config = self._transact(change, picture.bridge) if change.removed or change.added else None
            except Refusal as error:
                raise Rejected(self._switch, str(error)) from error
            if config is not None:
                self._complete(change, picture, config)

    def counters(self) -> Counters:
        """Counts not older than this call: waits until the switch has counted anew, 6 s unless set otherwise."""
        picture = self._link.look_refreshed() if self._link.look().found else None
        if picture is None:
            return Counters()
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
                self._refuse_taken(session, picture)
            if addresses := self._addresses(session):
                raise Refusal(
                    f"{session.name}: {session.destination} has the address {addresses[0]}, and as the output of a "
                    "mirror it would carry nothing else any more"
                )
        return change

    def _refuse_taken(self, session: MirrorSession, picture: Picture) -> None:
        """A rule of equal match would replace that of another job of ours: there the other's copies end."""
        watched = {p.number: p.name for s in session.sources if (p := picture.bridge.port(s.port)) is not None}
        for rule in picture.rules:
            if not rule.ours or session_of(rule.cookie, self._job) is not None or rule.port not in watched:
                continue
            if rule.pair in session.filters:
                raise Refusal(
                    f"{session.name}: another flowcheck-net job filters {rule.pair.source} -> {rule.pair.destination} "
                    f"at {watched[rule.port]} already, and one rule cannot make two copies"
                )

    def _addresses(self, session: MirrorSession) -> tuple[str, ...]:
        try:
            return self._link.control.addresses(session.destination) if self._link.control else ()
        except (Unreachable, Lost, RemoteError) as error:
            raise Refusal(f"ovs-vswitchd does not tell the addresses of its ports: {error}") from error

    def _transact(self, change: Change, bridge: Bridge) -> int:
        """One transaction; again with other keys for tunnels where a writer on another bridge was faster."""
        for _ in range(_KEY_TRIES):
            try:
                return self._link.transact(self._operations(change, bridge))
            except KeyTaken:
                bridge = replace(bridge, tunnels=self._link.look().bridge.tunnels)
        return self._link.transact(self._operations(change, bridge))

    def _operations(self, change: Change, bridge: Bridge) -> list[dict[str, object]]:
        column = self._link.filter_column
        return operations(change, bridge, self._job, column=column, lock=self._lock)

    def _complete(self, change: Change, picture: Picture, config: int) -> None:
        """After the transaction: rules beside it, and the hot flows of old versions. What fails now is no refusal."""
        link = self._link
        try:
            link.await_config(config)
            self._change_rules(change, picture)
            self._purge(picture.bridge)
        except ConnectError as error:
            raise StateUnknown(self._switch, f"the mirror rows are written, then: {error.message}") from error
        except (Unreachable, Lost, RemoteError) as error:
            text = f"written, but flows under way may keep the former mirrors: revalidator/purge failed: {error}"
            raise StateUnknown(self._switch, text) from error

    def _rule_lines(self, coming: Sequence[MirrorSession], picture: Picture) -> list[str]:
        """The rules that come; all is read again: a new port has its number only now, and others may have written."""
        now, base = self._link.look(), self._base(picture.rules)
        if coming and self._base(now.rules).actions != base.actions:
            raise Refusal(f"table 0 of {self._link.bridge_name} was changed by someone else meanwhile")
        lines = []
        for session in coming:
            ports = [now.bridge.port(s.port) for s in session.sources]
            rows = now.bridge.sessions_of(self._job).get(session.name, ())
            output = now.bridge.ports.get(rows[0].output) if rows else None
            if output is None or None in ports:
                raise Refusal(f"a port or the row of {session.name} was taken away by someone else meanwhile")
            inputs = [p.number for p in ports if p is not None]
            lines += lines_for(session, self._cookie(session.name), inputs, output.number, base)
        return lines

    def _take_effect(self) -> None:
        try:
            self._purge(self._link.look().bridge)
        except (Unreachable, Lost, RemoteError) as error:
            text = f"flows under way may keep the former mirrors: revalidator/purge failed: {error}"
            raise StateUnknown(self._switch, text) from error

    def _purge(self, bridge: Bridge) -> None:
        """Old versions keep the former mirrors in their hot flows."""
        if self._link.control and self._link.version(bridge) < PROMPT:
            self._link.control.purge()

    def _change_rules(self, change: Change, picture: Picture) -> None:
        """Rules go beside the transaction: where they fail, it is taken back, so that still nothing was changed."""
        gone = [s.name for s in change.removed if picture.found[s.name].rules]
        coming = [s for s in change.added if by_flows(s, self._link.filter_column)]
        if not gone and not coming:
            return
        if self._link.flows is None:
            raise StateUnknown(self._switch, "the mirror rows are written, and there is no way to the OpenFlow rules")
        try:
            lines = [line_without(self._cookie(name)) for name in gone]
            self._link.flows.change([*lines, *(self._rule_lines(coming, picture) if coming else ())])
        except FlowDoubt as error:
            raise StateUnknown(self._switch, f"the mirror rows are written; of the OpenFlow rules {error}") from error
        except (FlowError, Refusal) as error:
            try:
                self._transact(change.inverse(), self._link.look().bridge)
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
