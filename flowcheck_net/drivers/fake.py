"""A stateful stand-in for a switch: for tests in memory, for the command line in a file.

``management: fake:leaf1`` keeps the switch in ``<state dir>/fake/leaf1.json``, so that apply, verify and rollback see
the same switch from process to process. A file that is not there is a switch without sessions. Its limits are those of
the switch's platform. The file may be written by hand to hold foreign sessions and faults to come::

    {"version": 1,
     "sessions": [{"name": "netops-span",
                   "sources": [{"port": "Ethernet7", "direction": "rx"}],
                   "destination": "Ethernet48",
                   "filters": [],
                   "packets": 0}],
     "destination_exclusive": false,
     "latency": 0.0,
     "faults": [{"call": "write", "kind": "lost_after", "step": 1, "skip": 0, "times": 1}]}

Only ``version`` and ``sessions`` are needed. A session whose name is not ``fcn-<job>-<number>`` of the job at hand is
foreign. ``latency`` is in seconds a call. For ``faults`` see ``fake_device.Fault``.
"""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Never, Self

from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind, Refused
from flowcheck_net.drivers.fake_store import FileStore, Store
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, PlanError, Rejected, StateUnknown
from flowcheck_net.ids import SessionName, SwitchName
from flowcheck_net.intent import Capabilities, Step, SwitchAddress, SwitchState, is_owned, split_state

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def open_fake(address: SwitchAddress, job: str, state_dir: Path) -> "FakeDriver":
    """The file-backed fake that ``address`` refers to, not connected yet."""
    # The platform tables are read when the first switch is opened, not when this module is loaded.
    from flowcheck_net.model.platforms import capabilities

    _, _, reference = address.management.partition(":")
    if not _REFERENCE.fullmatch(reference):
        raise ConnectError(address.name, f"{address.management!r} does not name a fake switch, such as fake:leaf1")
    path = state_dir / "fake" / f"{reference}.json"
    try:
        limits = capabilities(address.platform)
    except PlanError as error:
        raise PlanError(f"{address.name}: {error.message}", hint=error.hint) from error
    return FakeDriver(address.name, job, FileStore(address.name, path, limits))


class FakeDriver:
    """Speaks to a fake switch the way a real driver speaks to a real one."""

    def __init__(self, switch: SwitchName, job: str, store: Store) -> None:
        self._switch = switch
        self._job = job
        self._store = store
        self._connected = False

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
            return split_state(switch.sessions.values(), self._job)

    def write(self, steps: Sequence[Step]) -> None:
        """Carry out the steps one by one; see ``Driver.write``."""
        for step in steps:
            if not is_owned(step.session.name, self._job):
                raise Rejected(self._switch, f"{step.session.name} is not a session of job {self._job}")
        fault = self._call(Call.WRITE)
        struck = min(fault.step, len(steps) - 1) if fault else -1
        for index, step in enumerate(steps):
            if fault and index == struck:
                self._fail(fault, index, step)
            try:
                with self._store.transaction() as switch:
                    switch.carry_out(step)
            except Refused as refusal:
                self._refuse(index, step, str(refusal))

    def counters(self) -> Mapping[SessionName, int]:
        """Packets of each of our sessions."""
        self._call(Call.COUNTERS)
        with self._store.transaction() as switch:
            return {name: count for name, count in switch.packets.items() if is_owned(name, self._job)}

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
