"""What every driver must do: the protocol, ownership, steps, limits. One suite; see ``bench.py`` for how to join."""

import inspect
from dataclasses import replace

import pytest

from flowcheck_net.drivers.base import Driver
from flowcheck_net.errors import DriverError, PartialWrite, Rejected
from flowcheck_net.ids import Address, Qpn
from flowcheck_net.intent import MirrorSession, Step, SwitchState, WindowRule
from flowcheck_net.plan.diff import diff
from tests.conformance.bench import OTHER_JOB, Bench, Cannot, create, delete, session
from tests.doubles.switches import undoing

MEMBERS = ["__enter__", "__exit__", "capabilities", "counters", "hold", "read", "write"]


def read(bench: Bench) -> SwitchState:
    with bench.open() as driver:
        return driver.read()


def write(bench: Bench, steps: list[Step]) -> None:
    with bench.open() as driver:
        driver.write(steps)


def a(bench: Bench) -> MirrorSession:
    return session(bench, 0, "0:rx", "0:tx")


def b(bench: Bench) -> MirrorSession:
    return session(bench, 1, "1:rx", "1:tx", to=1)


def with_filter(bench: Bench) -> MirrorSession:
    with bench.open() as driver:
        if not driver.capabilities().filters:
            raise Cannot("the switch has no filters")
    return session(bench, 1, "1:rx", to=1, filters=[("10.0.0.1", "10.0.0.2")])


def test_the_protocol_has_seven_members_and_the_driver_their_signatures(bench: Bench):
    members = [n for n, m in vars(Driver).items() if inspect.isfunction(m) and n != "__init__" and "no_init" not in n]
    assert sorted(set(members) - {"__subclasshook__"}) == MEMBERS
    for name in MEMBERS[1:]:
        ours, theirs = inspect.signature(getattr(bench.driver_class, name)), inspect.signature(getattr(Driver, name))
        assert ours == theirs, name


def test_foreign_sessions_are_read_as_foreign_even_of_another_flowcheck_job(bench: Bench):
    assert read(bench) == SwitchState(owned=(), foreign=bench.foreign)


def test_a_write_without_steps_changes_nothing(bench: Bench):
    write(bench, create(a(bench)))
    before = read(bench)
    write(bench, [])
    with bench.open() as driver, driver.hold():
        driver.write(())
    assert read(bench) == before


def test_ownership_is_by_job(bench: Bench):
    write(bench, create(a(bench)))
    with bench.open(OTHER_JOB) as driver:
        theirs = driver.read()
    assert [s.name for s in theirs.owned] == [f"fcn-{OTHER_JOB}-0"]
    assert bench.as_foreign(a(bench)) in theirs.foreign


def test_what_is_written_is_read_back_by_another_connection(bench: Bench):
    write(bench, create(a(bench), b(bench)))
    assert read(bench).owned == (a(bench), b(bench))
    write(bench, delete(a(bench)))
    assert read(bench).owned == (b(bench),)


def test_message_windows_are_read_back_or_refused(bench: Bench):
    """Never left out: whole ports would be another load than planned."""
    rules = tuple(WindowRule(Address("10.0.0.2"), Qpn(number), 12, 6, 12) for number in (0x514, 0x515))
    windowed = replace(a(bench), windows=rules)
    with bench.open() as driver:
        able = driver.capabilities().message_window
    if not able:
        with pytest.raises(Rejected, match="message windows"):
            write(bench, create(windowed))
        assert read(bench).owned == ()
        return
    write(bench, create(windowed))
    assert read(bench).owned == (windowed,)
    write(bench, delete(windowed))
    assert read(bench).owned == ()


def test_a_filter_is_read_back(bench: Bench):
    filtered = with_filter(bench)
    write(bench, create(filtered))
    assert read(bench).owned == (filtered,)


def test_several_connections_may_read_at_once(bench: Bench):
    write(bench, create(a(bench)))
    with bench.open() as one, bench.open() as other:
        assert one.read() == other.read() == one.read()


def test_no_steps_no_change(bench: Bench):
    before = read(bench)
    write(bench, [])
    assert read(bench) == before


def test_a_second_apply_finds_nothing_to_do(bench: Bench):
    wanted = (a(bench), b(bench))
    write(bench, list(diff(wanted, read(bench))))
    assert diff(wanted, read(bench)) == ()


def test_steps_are_carried_out_in_order(bench: Bench):
    write(bench, create(a(bench)))
    moved = session(bench, 0, "0:rx", to=2)
    write(bench, delete(a(bench)) + create(moved))
    assert read(bench).owned == (moved,)


def test_a_step_on_a_foreign_session_is_rejected_before_anything_is_sent(bench: Bench):
    before, theirs = read(bench), bench.foreign_bytes()
    for stranger in bench.foreign:
        with pytest.raises(Rejected, match=stranger.name):
            write(bench, create(a(bench)) + delete(stranger))
    assert read(bench) == before
    assert bench.foreign_bytes() == theirs


def test_foreign_sessions_stay_byte_for_byte(bench: Bench):
    before = bench.foreign_bytes()
    write(bench, create(a(bench), b(bench)))
    write(bench, delete(a(bench)) + create(session(bench, 0, "2:rx")))
    write(bench, delete(session(bench, 0, "2:rx"), b(bench)))
    assert bench.foreign_bytes() == before
    assert read(bench) == SwitchState((), bench.foreign)


def test_the_inverse_steps_restore_the_former_state(bench: Bench):
    write(bench, create(a(bench)))
    before = read(bench)
    steps = delete(a(bench)) + create(b(bench), session(bench, 2, "2:rx", to=2))
    write(bench, steps)
    write(bench, undoing(steps))
    assert read(bench) == before


def test_foreign_sessions_count_against_the_session_limit(bench: Bench):
    with bench.open() as driver:
        room = driver.capabilities().max_sessions - len(bench.foreign)
    if room >= len(bench.sources):
        raise Cannot(f"the bench has {len(bench.sources)} ports, too few for {room + 1} sessions")
    every = [session(bench, n, f"{n}:rx", to=n % len(bench.destinations)) for n in range(room + 1)]
    with pytest.raises((PartialWrite, Rejected)) as caught:
        write(bench, create(*every))
    assert read(bench) == SwitchState(tuple(every[: _done(caught.value)]), bench.foreign)
    # A driver that foresees it sends nothing at all.
    assert _done(caught.value) in (0, 0 if bench.atomic else room)


def test_too_many_sources_are_refused_and_nothing_is_left_of_them(bench: Bench):
    with bench.open() as driver:
        most = driver.capabilities().max_sources_per_session
    if most >= 2 * len(bench.sources):
        raise Cannot(f"the bench has {len(bench.sources)} ports, too few for {most + 1} sources")
    watched = [f"{place}:{direction}" for place in range(len(bench.sources)) for direction in ("rx", "tx")]
    with pytest.raises(Rejected):
        write(bench, create(session(bench, 0, *watched[: most + 1])))
    assert read(bench) == SwitchState((), bench.foreign)


def test_a_session_that_is_there_is_not_created_again_and_one_that_is_not_cannot_be_deleted(bench: Bench):
    write(bench, create(a(bench)))
    for steps in (create(a(bench)), delete(b(bench))):
        with pytest.raises(Rejected):
            write(bench, steps)
    assert read(bench) == SwitchState((a(bench),), bench.foreign)


def _done(error: DriverError) -> int:
    return error.done if isinstance(error, PartialWrite) else 0
