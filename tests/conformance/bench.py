"""What a driver brings to the conformance suite: a switch, and a hand on it that is not the driver's.

To join, write ``bench_NAME.py`` with a class of this protocol and a function that sets it up and takes it down, and
add that function to ``conftest.BENCHES``. A case that the bench cannot play raises ``Cannot(why)``: the test is skipped
with that reason. What a switch really cannot do (filters, a lock) is told by ``capabilities`` and ``lock``.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from flowcheck_net.drivers.base import Driver
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, RemarkKind, Step, StepKind

JOB = "gpt"
OTHER_JOB = "bert"


class Cannot(Exception):
    """The bench cannot play this case; the text says why."""


class Trouble(StrEnum):
    """How the next connection (UNREACHABLE) or the next write (the others) goes wrong, once."""

    UNREACHABLE = "unreachable"
    """Nothing is sent."""
    REFUSE = "refuse"
    """The switch refuses the given step."""
    HALF = "half"
    """The given step is carried out by half, then the connection is lost."""
    LOST_BEFORE = "lost before"
    """The connection is lost before the switch acts on the given step."""
    LOST_AFTER = "lost after"
    """The switch acts on the given step, then the connection is lost before it can say so."""


class Bench(Protocol):
    """One switch, fresh for each test, with two foreign sessions on it."""

    driver_class: type
    atomic: bool
    """True: a write takes effect wholly or not at all. False: step by step."""
    lock: bool
    """Has the switch a lock against other writers?"""
    sources: Sequence[PortName]
    """Ports that may be watched: six or more, none of them used by the foreign sessions."""
    destinations: Sequence[PortName]
    """Three ports that copies may be sent to, free too; equal ones where the switch has fewer, and shares them."""
    foreign: tuple[MirrorSession, ...]
    """The foreign sessions as they are to be read: one of somebody else, and one of flowcheck-net's job ``bert``."""

    def open(self, job: str = JOB) -> Driver:
        """A driver that is not connected yet."""
        ...

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """How a session of one job is read by another; where the switch does not keep the name, by another name."""
        ...

    def foreign_bytes(self) -> bytes:
        """All that the switch keeps of the foreign sessions, word for word, read without the driver."""
        ...

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """Let exactly so many packets pass the port in that direction, RoCEv2 ones where a flow is given.

        On their way they may pass other ports only where no session of ``sources`` or ``foreign`` looks.
        """
        ...

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """Make the next connection or write go wrong; steps are numbered from 0."""
        ...

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """Make a session that is there less than a whole copy behind the driver's back; what is to be remarked."""
        ...

    def restart(self) -> None:
        """Restart the switch; what it does to the sessions is its own affair."""
        ...


def session(
    bench: Bench, number: int, *watched: str, to: int = 0, filters: Sequence[tuple[str, str]] = (), job: str = JOB
) -> MirrorSession:
    """``session(bench, 0, "1:rx", "1:tx", to=1)``: ports by their place in ``sources`` and ``destinations``."""
    parts = [w.split(":") for w in watched]
    return MirrorSession(
        SessionName(f"fcn-{job}-{number}"),
        tuple(MirrorSource(bench.sources[int(place)], Direction(direction)) for place, direction in parts),
        bench.destinations[to],
        tuple(FlowFilter(Address(a), Address(b)) for a, b in filters),
    )


def create(*sessions: MirrorSession) -> list[Step]:
    """Steps that create them, in this order."""
    return [Step(StepKind.CREATE, s) for s in sessions]


def delete(*sessions: MirrorSession) -> list[Step]:
    """Steps that delete them, in this order."""
    return [Step(StepKind.DELETE, s) for s in sessions]
