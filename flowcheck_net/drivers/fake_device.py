"""The fake switch itself: a mirror session table with limits, a packet model, and faults that strike on script.

It knows nothing about ownership: like a real switch it obeys whoever is connected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    Capabilities,
    Direction,
    FlowFilter,
    MirrorSession,
    MirrorSource,
    Remark,
    SessionSource,
    Step,
    StepKind,
)


class Refused(Exception):
    """The switch says no; nothing changed. The text is what it says."""


class Call(StrEnum):
    """What a driver does to the switch."""

    CONNECT = "connect"
    READ = "read"
    HOLD = "hold"
    WRITE = "write"
    COUNTERS = "counters"


class FaultKind(StrEnum):
    """How a call goes wrong."""

    UNREACHABLE = "unreachable"
    """Nothing is sent."""
    REFUSE = "refuse"
    """The switch refuses step ``step``; those before it are in effect."""
    HALF = "half"
    """Step ``step`` is carried out by half, then the connection is lost."""
    LOST_BEFORE = "lost_before"
    """The connection is lost before the switch acts on step ``step``."""
    LOST_AFTER = "lost_after"
    """The switch acts on step ``step``, then the connection is lost before it can say so."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the script. The first entry of a call's kind decides that call."""

    call: Call
    kind: FaultKind
    step: int = 0
    """0-based step of a write that is struck; past the end means the last step."""
    skip: int = 0
    """Calls that go well first."""
    times: int = 1
    """Calls that are struck."""

    def __post_init__(self) -> None:
        if self.call is not Call.WRITE and self.kind is not FaultKind.UNREACHABLE:
            raise ValueError(f"{self.call} can only be unreachable, not {self.kind}")
        if min(self.step, self.skip) < 0 or self.times < 1:
            raise ValueError("step and skip are 0 or more, times is 1 or more")


@dataclass(slots=True)
class FakeSwitch:
    """The state of the device. Mutable: it is the thing that is configured."""

    name: str
    limits: Capabilities
    sessions: dict[SessionName, MirrorSession] = field(default_factory=dict)
    copies: dict[SessionSource, int] = field(default_factory=dict)
    """Packets that each source of each session mirrored since the session was created."""
    ports: dict[MirrorSource, int] = field(default_factory=dict)
    """Packets that passed each port in each direction."""
    remarks: list[Remark] = field(default_factory=list)
    """What a driver notices beside the sessions; those on a session show while it is there."""
    restart_mark: str = "boot-1"
    faults: list[Fault] = field(default_factory=list)
    destination_exclusive: bool = False
    """May a port be the destination of one session only?"""
    latency: float = 0.0
    """Seconds that every call takes."""

    def carry_out(self, step: Step) -> None:
        """Create or delete a session; raises Refused and changes nothing where a limit forbids it."""
        if step.kind is StepKind.CREATE:
            self.create(step.session)
        else:
            self.delete(step.session.name)

    def create(self, session: MirrorSession) -> None:
        """Add a session with its packet count at 0; raises Refused."""
        if complaint := self._complaint(session):
            raise Refused(complaint)
        self._install(session)

    def delete(self, name: SessionName) -> None:
        """Remove a session, whoever owns it; raises Refused where there is none."""
        if name not in self.sessions:
            raise Refused(f"no mirror session {name}")
        self._forget(self.sessions.pop(name))

    def carry_out_half(self, step: Step) -> None:
        """Leave the session of ``step`` with its last source missing, as a create or delete cut in two does."""
        part = replace(step.session, sources=step.session.sources[:-1])
        if part.name in self.sessions:
            self._forget(self.sessions[part.name])
        self._install(part)

    def restart(self, mark: str, *, keep: bool = True) -> None:
        """Start again: counters at 0, sessions from the saved configuration or (``keep=False``) none of anybody's."""
        self.restart_mark = mark
        self.ports.clear()
        self.copies = dict.fromkeys(self.copies, 0)
        for name in () if keep else tuple(self.sessions):
            self.delete(name)

    def packets(self, name: SessionName) -> int:
        """Packets mirrored by a session since it was created."""
        return sum(count for place, count in self.copies.items() if place.session == name)

    def seen(self) -> list[Remark]:
        """The remarks that stand now."""
        return [r for r in self.remarks if not r.session or r.session in self.sessions]

    def offer(
        self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None
    ) -> Mapping[SessionName, int]:
        """Let packets pass a port; returns the copies that each session makes of them, and counts them.

        Args:
            port: where they pass.
            direction: as seen from the switch.
            packets: how many.
            flow: their RoCEv2 addresses; None: not RoCEv2, which no filter lets through.
        """
        source = MirrorSource(port, direction)
        copies = {
            s.name: packets
            for s in self.sessions.values()
            if source in s.sources and (not s.filters or flow in s.filters)
        }
        self.ports[source] = self.ports.get(source, 0) + packets
        for name, count in copies.items():
            self.copies[SessionSource(name, source)] += count
        return copies

    def strike(self, call: Call) -> Fault | None:
        """The fault that hits this call, if any; the script moves on."""
        for index, fault in enumerate(self.faults):
            if fault.call is not call:
                continue
            if fault.skip:
                self.faults[index] = replace(fault, skip=fault.skip - 1)
                return None
            if fault.times > 1:
                self.faults[index] = replace(fault, times=fault.times - 1)
            else:
                del self.faults[index]
            return fault
        return None

    def _install(self, session: MirrorSession) -> None:
        self.sessions[session.name] = session
        self.copies.update((SessionSource(session.name, source), 0) for source in session.sources)

    def _forget(self, session: MirrorSession) -> None:
        for source in session.sources:
            del self.copies[SessionSource(session.name, source)]

    def _complaint(self, session: MirrorSession) -> str:
        checks = (self._table_complaint(session), self._limit_complaint(session), self._port_complaint(session))
        return next((c for c in checks if c), "")

    def _table_complaint(self, session: MirrorSession) -> str:
        if session.name in self.sessions:
            return f"mirror session {session.name} exists already"
        if len(self.sessions) >= self.limits.max_sessions:
            return f"session table full: {len(self.sessions)} of {self.limits.max_sessions}"
        return ""

    def _limit_complaint(self, session: MirrorSession) -> str:
        if not session.sources:
            return f"{session.name} has no source"
        if len(session.sources) > self.limits.max_sources_per_session:
            return f"{len(session.sources)} sources, at most {self.limits.max_sources_per_session} a session"
        for source in session.sources:
            if source.direction not in self.limits.directions:
                return f"{source.port}: {source.direction} cannot be mirrored"
        if session.filters and not self.limits.filters:
            return "filters are not supported"
        if session.windows and not self.limits.message_window:
            return "message windows are not supported"
        return ""

    def _port_complaint(self, session: MirrorSession) -> str:
        ours = {s.port for s in session.sources}
        if session.destination in ours:
            return f"{session.destination} is source and destination"
        for other in self.sessions.values():
            theirs = {s.port for s in other.sources}
            if session.destination in theirs or other.destination in ours:
                return f"a mirror of a mirror: {session.name} and {other.name}"
            if self.destination_exclusive and session.destination == other.destination:
                return f"{session.destination} is already the destination of {other.name}"
            shared = set(session.sources) & set(other.sources)
            if shared and not self.limits.source_in_many_sessions:
                return f"{min(shared).port} is already a source of {other.name}"
        return ""
