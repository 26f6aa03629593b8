"""A fabric of fake switches and a plan for it, for tests of drivers and apply."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flowcheck_net.apply.reach import Event, Reach
from flowcheck_net.drivers.fake import FakeDriver
from flowcheck_net.drivers.fake_device import FakeSwitch, Fault
from flowcheck_net.drivers.fake_store import FileStore, MemoryStore, Store
from flowcheck_net.ids import Address, CapturePort, PortName, SessionName, SwitchName
from flowcheck_net.intent import (
    Capabilities,
    Direction,
    FlowFilter,
    MirrorSession,
    MirrorSource,
    Step,
    StepKind,
    SwitchAddress,
    SwitchState,
    split_state,
)
from flowcheck_net.model.job import Bucket, Dtype, Job, Nccl, Protocol, Wire
from flowcheck_net.plan.plan import Cost, Fingerprint, Picture, Plan, PlannedSession, Point, Proof

JOB = "gpt"
LIMITS = Capabilities(
    platform="fake",
    max_sessions=4,
    max_sources_per_session=3,
    directions=frozenset(Direction),
    filters=True,
    source_in_many_sessions=False,
)


def session(name: str, *sources: str, to: str = "Ethernet31", filters: Sequence[tuple[str, str]] = ()) -> MirrorSession:
    """``session("fcn-gpt-0", "Ethernet1:rx", to="Ethernet31")``."""
    parts = [s.rsplit(":", 1) for s in sources]
    return MirrorSession(
        SessionName(name),
        tuple(MirrorSource(PortName(port), Direction(direction)) for port, direction in parts),
        PortName(to),
        tuple(FlowFilter(Address(a), Address(b)) for a, b in filters),
    )


def undoing(steps: Sequence[Step]) -> list[Step]:
    """The steps that undo these ones."""
    other = {StepKind.CREATE: StepKind.DELETE, StepKind.DELETE: StepKind.CREATE}
    return [Step(other[step.kind], step.session) for step in reversed(steps)]


FOREIGN = session("netops-span", "Ethernet7:rx", to="Ethernet48")


def address(name: str) -> SwitchAddress:
    return SwitchAddress(SwitchName(name), "fake", f"fake:{name}")


def capture(mirrored: MirrorSession) -> CapturePort:
    """Where a session's copies arrive: one port a session."""
    return CapturePort(f"ckpt1:{mirrored.name}")


def plan_for(sessions: Mapping[str, Sequence[MirrorSession]], job: str = JOB) -> Plan:
    """A plan with these sessions on these switches; all that apply does not read is empty."""
    nccl = Nccl((2, 19, 3), Protocol.LL, 1, 512, False, 1, False, False, 8192)
    return Plan(
        fingerprint=Fingerprint("t", "j", "p"),
        job=Job(job, Wire(nccl, 1024, (Bucket("b", 1000, Dtype.FP32),), ()), (), (), 0.5),
        switches=tuple(address(name) for name in sorted(sessions)),
        points=tuple(
            sorted(
                Point(SwitchName(name), source.port, source.direction, capture(s))
                for name, every in sessions.items()
                for s in every
                for source in s.sources
                if s.name.startswith(f"fcn-{job}-")
            )
        ),
        sessions=tuple(
            PlannedSession(SwitchName(name), s, capture(s)) for name in sorted(sessions) for s in sorted(sessions[name])
        ),
        hops=(),
        coverage=(),
        cost=Cost(0, 0, 0, 4000, sum(map(len, sessions.values())), len(sessions)),
        proof=Proof("none", "optimal", 0.0, 0.0),
        picture=Picture((), (), (), ()),
    )


class FakeFabric:
    """Fake switches by name, in memory, or in files under ``state_dir``."""

    def __init__(self, state_dir: Path | None = None, limits: Capabilities = LIMITS) -> None:
        self.limits = limits
        self._state_dir = state_dir
        self._stores: dict[str, Store] = {}
        self.events: list[Event] = []

    def store(self, name: str) -> Store:
        if name not in self._stores:
            self._stores[name] = (
                MemoryStore(FakeSwitch(name, self.limits))
                if self._state_dir is None
                else FileStore(SwitchName(name), self._state_dir / "fake" / f"{name}.json", self.limits)
            )
        return self._stores[name]

    def open(self, name: str, job: str = JOB) -> FakeDriver:
        return FakeDriver(SwitchName(name), job, self.store(name))

    def reach(self, job: str = JOB, *, workers: int = 8, attempts: int = 3) -> Reach:
        connect: Callable[[SwitchAddress], FakeDriver] = lambda a: self.open(a.name, job)  # noqa: E731
        return Reach(connect, workers, attempts, pause=0.0, tell=self.events.append)

    def seed(self, name: str, *sessions: MirrorSession) -> None:
        """Somebody configures sessions on the switch."""
        with self.store(name).transaction() as switch:
            for each in sessions:
                switch.create(each)

    def remove(self, name: str, session_name: str) -> None:
        """Somebody removes a session."""
        with self.store(name).transaction() as switch:
            switch.delete(SessionName(session_name))

    def script(self, name: str, *faults: Fault) -> None:
        """Faults to come."""
        with self.store(name).transaction() as switch:
            switch.faults.extend(faults)

    def heal(self) -> None:
        """No more faults."""
        for store in self._stores.values():
            with store.transaction() as switch:
                switch.faults.clear()

    def state(self, name: str, job: str = JOB) -> SwitchState:
        with self.store(name).transaction() as switch:
            return split_state(switch.sessions.values(), job)

    def offer(self, name: str, port: str, direction: str, packets: int, flow: tuple[str, str] | None = None) -> None:
        with self.store(name).transaction() as switch:
            switch.offer(
                PortName(port),
                Direction(direction),
                packets,
                FlowFilter(Address(flow[0]), Address(flow[1])) if flow else None,
            )
