"""What every driver must do when things go wrong: refusals, lost connections, half steps, other writers, restarts."""

import pytest

from flowcheck_net.errors import ConnectError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import SwitchState
from tests.conformance.bench import OTHER_JOB, Bench, Cannot, Trouble, create, delete, session
from tests.conformance.test_driver import a, b, read, write


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_refused_step_leaves_exactly_the_steps_before_it(bench: Bench, step: int):
    old = session(bench, 2, "2:rx", to=1)
    write(bench, create(old))
    bench.trouble(Trouble.REFUSE, step)
    with pytest.raises((Rejected, PartialWrite)) as caught:
        write(bench, delete(old) + create(a(bench), b(bench)))
    done = caught.value.done if isinstance(caught.value, PartialWrite) else 0
    assert done == (0 if bench.atomic else step)
    assert read(bench).owned == [(old,), (), (a(bench),)][done]


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("kind", [Trouble.LOST_BEFORE, Trouble.LOST_AFTER])
def test_a_connection_lost_in_a_write_leaves_the_state_unknown(bench: Bench, kind: Trouble, step: int):
    bench.trouble(kind, step)
    with bench.open() as driver, pytest.raises(StateUnknown):
        driver.write(create(a(bench), b(bench)))
    acted = kind is Trouble.LOST_AFTER
    in_effect = 2 * acted if bench.atomic else step + acted
    assert read(bench).owned == (a(bench), b(bench))[:in_effect]


def test_a_step_cut_in_half_is_an_unknown_state_and_can_be_cleared_away(bench: Bench):
    bench.trouble(Trouble.HALF, 0)
    with pytest.raises(StateUnknown):
        write(bench, create(a(bench)))
    found = read(bench)
    assert found.foreign == bench.foreign
    assert found.owned != (a(bench),)
    write(bench, delete(*found.owned))
    assert read(bench) == SwitchState((), bench.foreign)


def test_a_driver_is_dead_after_its_connection_is_lost_and_a_new_one_is_not(bench: Bench):
    bench.trouble(Trouble.LOST_BEFORE, 0)
    with bench.open() as driver:
        with pytest.raises(StateUnknown):
            driver.write(create(a(bench)))
        with pytest.raises(ConnectError):
            driver.read()
    assert read(bench).owned == ()
    write(bench, create(a(bench)))


def test_a_switch_that_cannot_be_reached_is_a_connect_error_that_names_it(bench: Bench):
    bench.trouble(Trouble.UNREACHABLE)
    with pytest.raises(ConnectError) as caught:
        read(bench)
    assert caught.value.switch in caught.value.message
    assert read(bench) == SwitchState((), bench.foreign)


def test_a_driver_that_is_not_connected_says_so(bench: Bench):
    driver = bench.open()
    with pytest.raises(ConnectError):
        driver.read()
    with driver:
        driver.read()
    with pytest.raises(ConnectError):
        driver.read()


def test_the_holder_of_the_switch_may_write_and_others_may_read(bench: Bench):
    with bench.open() as one, bench.open() as other:
        with one.hold():
            one.write(create(a(bench)))
            assert other.read().owned == (a(bench),)
        with other.hold():
            other.write(delete(a(bench)))
    assert read(bench).owned == ()


def test_while_one_holds_the_switch_others_can_neither_hold_nor_write(bench: Bench):
    if not bench.lock:
        raise Cannot("the switch has no lock")
    with bench.open() as one, bench.open() as other, bench.open(OTHER_JOB) as stranger, one.hold():
        for driver, steps in ((other, create(b(bench))), (stranger, create(session(bench, 1, "1:rx", job=OTHER_JOB)))):
            with pytest.raises(Rejected), driver.hold():
                pass
            with pytest.raises(Rejected):
                driver.write(steps)
        one.write(create(a(bench)))
    assert read(bench).owned == (a(bench),)


def test_a_lost_connection_lets_the_switch_go(bench: Bench):
    if not bench.lock:
        raise Cannot("the switch has no lock")
    bench.trouble(Trouble.LOST_AFTER, 0)
    with bench.open() as one, pytest.raises(StateUnknown), one.hold():
        one.write(create(a(bench)))
    with bench.open() as other, other.hold():
        other.write(create(b(bench)))
    assert read(bench).owned == (a(bench), b(bench))


def test_a_restart_changes_the_mark_and_nothing_else_does(bench: Bench):
    before = read(bench).restart_mark
    if not before:
        raise Cannot("the switch cannot say when it started")
    write(bench, create(a(bench)))
    assert read(bench).restart_mark == before
    bench.restart()
    assert read(bench).restart_mark not in ("", before)
