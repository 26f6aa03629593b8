"""A stateful stand-in for a switch: for tests in memory, for the command line in a file.

``management: fake:leaf1`` keeps the switch in ``<state dir>/fake/leaf1.json``, so that apply, verify and rollback see
the same switch from process to process. A file that is not there is a switch without sessions. Its limits are those of
the switch's platform. The file may be written by hand to hold foreign sessions and faults to come::

    {"version": 1,
     "sessions": [{"name": "netops-span",
                   "sources": [{"port": "Ethernet7", "direction": "rx"}],
                   "destination": "Ethernet48",
                   "filters": []}],
     "remarks": [{"kind": "sampling", "text": "1 packet in 16", "session": "fcn-gpt-0"}],
     "restart_mark": "boot-1",
     "destination_exclusive": false,
     "latency": 0.0,
     "faults": [{"call": "write", "kind": "lost_after", "step": 1, "skip": 0, "times": 1}]}

Only ``version`` and ``sessions`` are needed. A session whose name is not ``fcn-<job>-<number>`` of the job at hand is
foreign. A remark on a session shows while that session is there. ``latency`` is in seconds a call. For ``faults`` see
``fake_device.Fault``. The switch itself adds what it counted (``copies`` of a session, ``ports``).
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Never, Self

from flowcheck_net.drivers.checks import limits_of, refuse_foreign
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind, Refused
from flowcheck_net.drivers.fake_store import FileStore, Store
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Capabilities, Counters, Step, SwitchAddress, SwitchState, is_owned, split_state

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def open_fake(address: SwitchAddress, job: str, state_dir: Path) -> "FakeDriver":
    """The file-backed fake that ``address`` refers to, not connected yet."""
    _, _, reference = address.management.partition(":")
    if not _REFERENCE.fullmatch(reference):
        raise ConnectError(address.name, f"{address.management!r} does not name a fake switch, such as fake:leaf1")
    path = state_dir / "fake" / f"{reference}.json"
    return FakeDriver(address.name, job, FileStore(address.name, path, limits_of(address)))


class FakeDriver:
    """Speaks to a fake switch the way a real driver speaks to a real one."""

    def __init__(self, switch: SwitchName, job: str, store: Store) -> None:
        self._switch = switch
        self._job = job
        self._store = store
        self._connected = False
        self._holding = False

    def __enter__(self) -> Self:
        self._connected = True
        self._call(Call.CONNECT)
        return self

    def __exit__(self, *exc: object) -> None:
        self._connected = False

    def capabilities(self) -> Capabilities:
        """The limits of the switch."""
        self._must_be_connected("capabilities")
        with self._store.transaction() as switch:
            return switch.limits

    def read(self) -> SwitchState:
        """All sessions."""
        self._call(Call.READ)
        with self._store.transaction() as switch:
            return split_state(
                switch.sessions.values(), self._job, remarks=switch.seen(), restart_mark=switch.restart_mark
            )

    def hold(self) -> AbstractContextManager[None]:
        """The switch's lock; see ``Driver.hold``."""
        return self._hold()

    def write(self, steps: Sequence[Step]) -> None:
        """Carry out the steps one by one; see ``Driver.write``."""
        refuse_foreign(self._switch, steps, self._job)
        fault = self._call(Call.WRITE)
        with nullcontext() if self._holding else self._store.hold(f"job {self._job}, process {os.getpid()}"):
            self._carry_out(steps, fault)

    def counters(self) -> Counters:
        """Packets of each of our sessions and of each of their sources, and of the ports that they watch."""
        self._call(Call.COUNTERS)
        with self._store.transaction() as switch:
            ours = [s for s in switch.sessions.values() if is_owned(s.name, self._job)]
            return Counters(
                sessions={s.name: switch.packets(s.name) for s in ours},
                sources={place: count for place, count in switch.copies.items() if is_owned(place.session, self._job)},
                ports={source: switch.ports.get(source, 0) for s in ours for source in s.sources},
            )

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self._call(Call.HOLD)
        with self._store.hold(f"job {self._job}, process {os.getpid()}"):
            self._holding = True
            try:
                yield
            finally:
                self._holding = False

    def _carry_out(self, steps: Sequence[Step], fault: Fault | None) -> None:
        struck = min(fault.step, len(steps) - 1) if fault else -1
        for index, step in enumerate(steps):
            if fault and index == struck:
                self._fail(fault, index, step)
            try:
                with self._store.transaction() as switch:
                    switch.carry_out(step)
            except Refused as refusal:
                self._refuse(index, step, str(refusal))

    def _must_be_connected(self, call: str) -> None:
        if not self._connected:
            raise ConnectError(self._switch, f"{call}: not connected")

    def _call(self, call: Call) -> Fault | None:
        """Reach the switch; returns the fault that is to strike a write."""
        self._must_be_connected(call)
        with self._store.transaction() as switch:
            fault = switch.strike(call)
            latency = switch.latency
        if latency:
            time.sleep(latency)
        if fault and fault.kind is FaultKind.UNREACHABLE:
            self._connected = False
            raise ConnectError(self._switch, f"{call}: unreachable")
        return fault

    def _fail(self, fault: Fault, index: int, step: Step) -> Never:
        if fault.kind is FaultKind.REFUSE:
            self._refuse(index, step, "refused on script")
        # A refusal would have come back over the connection that is lost.
        with self._store.transaction() as switch, suppress(Refused):
            if fault.kind is FaultKind.HALF:
                switch.carry_out_half(step)
            elif fault.kind is FaultKind.LOST_AFTER:
                switch.carry_out(step)
        self._connected = False
        raise StateUnknown(self._switch, f"connection lost during step {index + 1} ({_describe(step)})")

    def _refuse(self, index: int, step: Step, answer: str) -> Never:
        message = f"step {index + 1} ({_describe(step)}) refused: {answer}"
        error: DriverError = (
            PartialWrite(self._switch, message, done=index) if index else Rejected(self._switch, message)
        )
        raise error


def _describe(step: Step) -> str:
    return f"{step.kind} {step.session.name}"
