"""Linux: mirrors by tc filters with a mirred action, here, in a namespace or over ssh. See docs/drivers/tc.md.

A session is one filter for each source and address pair, in preferences 4096 to 8191; the action's cookie says whose it
is. A step is one ``tc -batch``; where it fails midway, what it left is removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.lldpd import neighbors_from, speed_from
from flowcheck_net.drivers.tc_change import Refusal, check, kinds_for, lines_to_add, lines_to_remove
from flowcheck_net.drivers.tc_filters import Filter, Link, Machine, documents, filters_from, links_from, qdiscs_from
from flowcheck_net.drivers.tc_sessions import Found, find, foreign_of, remarks_on
from flowcheck_net.drivers.tc_shell import Lost, Refused, Shell, Unreachable, shell_of
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    Capabilities,
    Counters,
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

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NO_CLASSIFIER = ("classifier not found", "Unknown filter")
"""What the kernel, or an old tc, says where it lacks one."""


def open_tc(address: SwitchAddress, job: str, state_dir: Path) -> "TcDriver":
    """The driver of one machine, not connected yet."""
    del state_dir
    try:
        shell = shell_of(address.management)
    except ValueError as error:
        raise DriverError(address.name, str(error)) from error
    return TcDriver(address, job, limits_of(address), shell)


class TcDriver:
    """One Linux machine as a switch."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities, shell: Shell) -> None:
        self._switch = address.name
        self._job = job
        self._limits = limits
        self._shell = shell
        self._open = False
        self._missing: set[str] = set()
        """Classifiers that the kernel does not have."""

    def __enter__(self) -> Self:
        try:
            self._shell.open()
        except Unreachable as error:
            raise ConnectError(self._switch, str(error)) from error
        self._open = True
        return self

    def __exit__(self, *exc: object) -> None:
        self._open = False
        self._shell.close()

    def capabilities(self) -> Capabilities:
        """The table of plain Linux."""
        return self._limits

    def read(self) -> SwitchState:
        """Every filter of the machine that copies packets."""
        machine = self._look()
        found = find(machine, self._job)
        return split_state(
            (*(f.session for f in found.values()), *foreign_of(machine)),
            self._job,
            remarks=remarks_on(machine, found, self._job),
            restart_mark=machine.boot,
        )

    def hold(self) -> AbstractContextManager[None]:
        """Linux has no lock; two writers that take one place get an error each by the kernel."""
        return nullcontext()

    def write(self, steps: Sequence[Step]) -> None:
        """Step by step; see ``Driver.write``. Deletes must name sessions as they are."""
        refuse_foreign(self._switch, steps, self._job)
        for done, step in enumerate(steps):
            try:
                self._step(step)
            except (Refusal, Refused) as error:
                text = f"step {done + 1} ({step.kind} {step.session.name}) refused: {error}"
                if done:
                    raise PartialWrite(self._switch, text, done=done) from error
                raise Rejected(self._switch, text) from error
            except ConnectError as error:
                if not done:
                    raise
                raise PartialWrite(self._switch, error.message, done=done) from error

    def counters(self) -> Counters:
        """As the kernel has them now."""
        machine = self._look()
        ours = {n: f for n, f in find(machine, self._job).items() if is_owned(n, self._job)}
        watched = {s for f in ours.values() for s in f.session.sources}
        return Counters(
            {name: f.packets() for name, f in ours.items()},
            {place: count for f in ours.values() for place, count in f.by_source().items()},
            {s: count for s in sorted(watched) if (count := _passed(machine, s)) is not None},
        )

    def surroundings(self) -> Surroundings:
        """What lldpd hears, and speeds as the kernel has them."""
        try:
            heard = self._run(["lldpcli", "-f", "json0", "show", "neighbors", "details"])
            links = links_from(_one(self._run(["ip", "-j", "-d", "-s", "address", "show"])))
            return Surroundings(neighbors_from(heard), self._speeds(links))
        except Lost as error:
            self._open = False
            raise ConnectError(self._switch, f"the connection was lost: {error}") from error
        except (Refused, ValueError) as error:
            raise ConnectError(self._switch, f"lldpd does not tell its neighbours: {error}") from error

    def _speeds(self, links: Mapping[str, Link]) -> dict[PortName, int]:
        told = {link.name: self._speed(link.name) for link in links.values()}
        return {port: mbit for port, mbit in told.items() if mbit is not None}

    def _speed(self, port: PortName) -> int | None:
        try:
            return speed_from(self._run(["ethtool", port]))
        except (Refused, ConnectError):
            return None  # no such question to this interface, or no ethtool: the speed is left to the user

    def _step(self, step: Step) -> None:
        machine = self._look()
        found = find(machine, self._job)
        check(step, machine, found, self._job)
        if step.kind is StepKind.DELETE:
            self._remove(found[step.session.name])
        else:
            self._add(step.session, machine)

    def _add(self, session: MirrorSession, machine: Machine) -> None:
        kinds = [k for k in kinds_for(session, machine) if k not in self._missing]
        if not kinds:
            raise Refusal(f"this kernel has none of the classifiers {', '.join(kinds_for(session, machine))}")
        for kind in kinds:
            try:
                self._batch(lines_to_add(session, machine, self._job, kind))
            except Refused as error:
                self._clear(session.name)
                if not any(words in str(error) for words in _NO_CLASSIFIER) or kind == kinds[-1]:
                    raise
                self._missing.add(kind)
                machine = self._look_again(error)  # the qdisc that the batch began with is there now
            else:
                return

    def _remove(self, found: Found) -> None:
        try:
            self._batch(lines_to_remove(found.filters))
        except Refused as error:
            left = find(self._look_again(error), self._job).get(found.session.name)
            if left is None or left.session != found.session or len(left.filters) != len(found.filters):
                text = f"{found.session.name} could not be removed wholly: {error}"
                raise StateUnknown(self._switch, text) from error
            raise

    def _clear(self, name: SessionName) -> None:
        """Take away what a failed batch left of the session."""
        try:
            now = self._look()
            left = find(now, self._job).get(name)
            filters: tuple[Filter, ...] = left.filters if left else ()
            if filters:
                self._batch(lines_to_remove(filters))
        except (Refused, ConnectError) as error:
            raise StateUnknown(
                self._switch, f"{name} failed, and what it left could not be removed: {error}"
            ) from error

    def _look_again(self, cause: Exception) -> Machine:
        try:
            return self._look()
        except ConnectError as error:
            raise StateUnknown(self._switch, f"{cause}; then: {error.message}") from error

    def _batch(self, lines: Sequence[str]) -> None:
        """One ``tc -batch`` that changes something; raises Refused or StateUnknown."""
        try:
            self._run(["tc", "-batch", "-"], "\n".join(lines) + "\n")
        except Lost as error:
            self._open = False
            raise StateUnknown(self._switch, f"tc did not come back: {error}") from error

    def _look(self) -> Machine:
        try:
            links = links_from(_one(self._run(["ip", "-j", "-d", "-s", "address", "show"])))
            qdiscs = qdiscs_from(_one(self._run(["tc", "-j", "qdisc", "show"])))
            filters, unread = self._filters(
                [links[p].name for p in links if {"clsact", "ingress"} & {*qdiscs.get(p, ())}]
            )
            return Machine(links, qdiscs, tuple(filters), tuple(unread), self._run(["cat", _BOOT_ID]).strip())
        except Lost as error:
            self._open = False
            raise ConnectError(self._switch, f"the connection was lost: {error}") from error
        except Refused as error:
            raise ConnectError(self._switch, f"cannot be read: {error}") from error
        except ValueError as error:
            raise ConnectError(
                self._switch, f"ip or tc wrote no JSON (iproute2 5.0 or later is needed): {error}"
            ) from error

    def _filters(self, ports: Sequence[PortName]) -> tuple[list[Filter], list[tuple[str, str]]]:
        """Filters at these ports; where one cannot be read, the others are, one by one."""
        if not ports:
            return [], []
        try:
            return list(self._shown(ports)), []
        except Refused:
            found: list[Filter] = []
            unread = []
            for port in ports:
                try:
                    found += self._shown([port])
                except Refused as error:
                    unread.append((str(port), str(error)))
            return found, unread

    def _shown(self, ports: Sequence[PortName]) -> Iterable[Filter]:
        places = [(p, d) for p in ports for d in Direction]
        lines = [f"filter show dev {p} {'ingress' if d is Direction.RX else 'egress'}\n" for p, d in places]
        tables = documents(self._run(["tc", "-s", "-j", "-batch", "-"], "".join(lines)))
        if len(tables) != len(places):
            raise ValueError(f"{len(places)} tables were asked for, {len(tables)} came")
        return [f for table, (port, side) in zip(tables, places, strict=True) for f in filters_from(table, port, side)]

    def _run(self, words: Sequence[str], stdin: str = "") -> str:
        if not self._open:
            raise ConnectError(self._switch, "not connected")
        try:
            return self._shell.run(words, stdin)
        except Unreachable as error:
            raise ConnectError(self._switch, str(error)) from error


def _one(text: str) -> object:
    found = documents(text)
    return found[0] if found else []


def _passed(machine: Machine, source: MirrorSource) -> int | None:
    link = machine.links.get(source.port)
    return link.packets(source.direction) if link is not None else None
