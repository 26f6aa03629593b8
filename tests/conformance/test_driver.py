"""What every driver must do. One suite; a driver joins by adding itself to ``RIGS``."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.fake import FakeDriver
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import ConnectError, DriverError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchState
from tests.doubles.switches import FOREIGN, LIMITS, FakeFabric, session, undoing

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", "Ethernet2:tx", to="Ethernet32")
C = session("fcn-gpt-2", "Ethernet3:rx", to="Ethernet32")
OTHER_JOB = session("fcn-bert-0", "Ethernet9:rx", to="Ethernet47")


class FakeRig:
    """A fake switch and a hand on it that is not the driver's."""

    driver_class: type = FakeDriver

    def __init__(self, state_dir: Path | None) -> None:
        self._fabric = FakeFabric(state_dir)
        self._fabric.seed("leaf1", FOREIGN, OTHER_JOB)

    def open(self) -> Driver:
        return self._fabric.open("leaf1")

    def traffic(self, port: str, direction: str, packets: int) -> None:
        self._fabric.offer("leaf1", port, direction, packets)

    def fail_write(self, kind: FaultKind, step: int) -> None:
        self._fabric.script("leaf1", Fault(Call.WRITE, kind, step))

    def fail_connect(self) -> None:
        self._fabric.script("leaf1", Fault(Call.CONNECT, FaultKind.UNREACHABLE))


RIGS: dict[str, Callable[[Path], FakeRig]] = {"fake-memory": lambda _: FakeRig(None), "fake-file": FakeRig}


@pytest.fixture(params=sorted(RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> FakeRig:
    return RIGS[request.param](tmp_path)


def create(*sessions: MirrorSession) -> list[Step]:
    return [Step(StepKind.CREATE, s) for s in sessions]


def delete(*sessions: MirrorSession) -> list[Step]:
    return [Step(StepKind.DELETE, s) for s in sessions]


def read(rig: FakeRig) -> SwitchState:
    with rig.open() as driver:
        return driver.read()


def write(rig: FakeRig, steps: list[Step]) -> None:
    with rig.open() as driver:
        driver.write(steps)


def test_the_protocol_has_seven_members_and_the_driver_their_signatures(rig: FakeRig):
    members = [n for n, m in vars(Driver).items() if inspect.isfunction(m) and n != "__init__" and "no_init" not in n]
    assert sorted(set(members) - {"__subclasshook__"}) == [
        "__enter__",
        "__exit__",
        "capabilities",
        "counters",
        "hold",
        "read",
        "write",
    ]
    for name in ("capabilities", "counters", "hold", "read", "write", "__exit__"):
        ours, theirs = inspect.signature(getattr(rig.driver_class, name)), inspect.signature(getattr(Driver, name))
        assert ours == theirs, name


def test_foreign_sessions_are_read_as_foreign_even_of_another_flowcheck_job(rig: FakeRig):
    assert read(rig) == SwitchState(owned=(), foreign=(FOREIGN, OTHER_JOB))


def test_what_is_written_is_read_back_by_another_connection(rig: FakeRig):
    filtered = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32", filters=[("10.0.0.1", "10.0.0.2")])
    write(rig, create(A, filtered))
    assert read(rig).owned == (A, filtered)
    write(rig, delete(A))
    assert read(rig).owned == (filtered,)


def test_reading_changes_nothing(rig: FakeRig):
    write(rig, create(A))
    assert read(rig) == read(rig)


def test_no_steps_no_change(rig: FakeRig):
    before = read(rig)
    write(rig, [])
    assert read(rig) == before


def test_steps_are_carried_out_in_order(rig: FakeRig):
    write(rig, create(A))
    moved = session("fcn-gpt-0", "Ethernet1:rx", to="Ethernet33")
    write(rig, delete(A) + create(moved))
    assert read(rig).owned == (moved,)


def test_a_step_on_a_foreign_session_is_rejected_before_anything_is_sent(rig: FakeRig):
    before = read(rig)
    for stranger in (FOREIGN, OTHER_JOB):
        with pytest.raises(Rejected, match=stranger.name):
            write(rig, create(A) + delete(stranger))
    assert read(rig) == before


def test_foreign_sessions_count_against_the_session_limit(rig: FakeRig):
    with rig.open() as driver:
        assert driver.capabilities().max_sessions == LIMITS.max_sessions == 4
    with pytest.raises(PartialWrite, match="session table full: 4 of 4") as caught:
        write(rig, create(A, B, C))
    assert caught.value.done == 2
    assert read(rig) == SwitchState(owned=(A, B), foreign=(FOREIGN, OTHER_JOB))


def test_a_first_step_that_is_refused_is_a_rejection(rig: FakeRig):
    too_many = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet2:rx", "Ethernet3:rx", "Ethernet4:rx")
    with pytest.raises(Rejected, match="4 sources, at most 3"):
        write(rig, create(too_many))
    assert read(rig).owned == ()


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_refused_step_leaves_exactly_the_steps_before_it(rig: FakeRig, step: int):
    write(rig, create(C))
    rig.fail_write(FaultKind.REFUSE, step)
    with pytest.raises(DriverError) as caught:
        write(rig, delete(C) + create(A, B))
    done = caught.value.done if isinstance(caught.value, PartialWrite) else 0
    assert done == step
    assert isinstance(caught.value, Rejected if step == 0 else PartialWrite)
    assert read(rig).owned == [(C,), (), (A,)][step]


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("kind", [FaultKind.LOST_BEFORE, FaultKind.LOST_AFTER])
def test_a_connection_lost_in_a_write_leaves_the_state_unknown(rig: FakeRig, kind: FaultKind, step: int):
    rig.fail_write(kind, step)
    with rig.open() as driver, pytest.raises(StateUnknown):
        driver.write(create(A, B))
    in_effect = step + (kind is FaultKind.LOST_AFTER)
    assert read(rig).owned == (A, B)[:in_effect]


def test_a_step_cut_in_half_is_an_unknown_state_too(rig: FakeRig):
    rig.fail_write(FaultKind.HALF, 0)
    with pytest.raises(StateUnknown):
        write(rig, create(A))
    assert read(rig).owned == (session("fcn-gpt-0", "Ethernet1:rx"),)


def test_a_driver_is_dead_after_its_connection_is_lost(rig: FakeRig):
    rig.fail_write(FaultKind.LOST_BEFORE, 0)
    with rig.open() as driver:
        with pytest.raises(StateUnknown):
            driver.write(create(A))
        with pytest.raises(ConnectError):
            driver.read()
    assert read(rig).owned == ()


def test_a_switch_that_cannot_be_reached_is_a_connect_error(rig: FakeRig):
    rig.fail_connect()
    with pytest.raises(ConnectError, match="leaf1"):
        read(rig)


def test_the_inverse_steps_restore_the_former_state(rig: FakeRig):
    write(rig, create(A))
    before = read(rig)
    steps = delete(A) + create(B, C)
    write(rig, steps)
    write(rig, undoing(steps))
    assert read(rig) == before


def test_counters_count_the_packets_of_the_sources_and_of_nothing_else(rig: FakeRig):
    write(rig, create(A, C))
    rig.traffic("Ethernet1", "rx", 5)
    rig.traffic("Ethernet1", "tx", 2)
    rig.traffic("Ethernet3", "tx", 100)
    rig.traffic("Ethernet7", "rx", 1000)
    with rig.open() as driver:
        assert driver.counters().sessions == {"fcn-gpt-0": 7, "fcn-gpt-2": 0}
