"""Proof of effect over every driver: what passes in the window is counted, and what is not copied is silent."""

from dataclasses import replace

from flowcheck_net.apply.effect import Effect, PointEffect
from flowcheck_net.apply.measure import count_effect
from flowcheck_net.apply.reach import Reach
from flowcheck_net.intent import Direction, MirrorSession
from tests.conformance.bench import Bench, Cannot, create, session
from tests.conformance.test_driver import write
from tests.doubles.switches import plan_for


def counted(bench: Bench, planned: MirrorSession, packets: int) -> PointEffect:
    """The one point of ``planned``, while so many packets pass it."""
    plan = plan_for({"leaf1": [planned]})
    source = planned.sources[0]

    def pass_traffic(_: float) -> None:
        bench.traffic(source.port, source.direction, packets)

    (found,) = count_effect(plan, Reach(lambda _: bench.open()), 0, pass_traffic)
    return found


def needs_counts(bench: Bench, made: MirrorSession) -> None:
    with bench.open() as driver:
        found = driver.counters()
    if made.name not in found.sessions or made.sources[0] not in found.ports:
        raise Cannot("the switch does not count both sessions and ports")


def test_a_point_that_copies_each_packet_is_working_and_exact(bench: Bench):
    for direction in Direction:
        made = session(bench, 0 if direction is Direction.RX else 1, f"{direction is Direction.TX:d}:{direction}")
        write(bench, create(made))
        needs_counts(bench, made)
        bench.traffic(made.sources[0].port, direction, 3)
        found = counted(bench, made, 40)
        assert (found.effect, found.text.split(" (")[0]) == (Effect.WORKING, "40 copies of 40 packets")


def test_without_traffic_nothing_is_working(bench: Bench):
    made = session(bench, 0, "0:rx")
    write(bench, create(made))
    assert counted(bench, made, 0).effect is Effect.ACCEPTED


def test_a_port_that_the_session_does_not_watch_is_silent(bench: Bench):
    """The session watches another port than the plan says."""
    write(bench, create(session(bench, 0, "1:rx"), session(bench, 1, "0:rx", to=1)))
    planned = session(bench, 0, "0:rx")
    needs_counts(bench, replace(planned, name=session(bench, 1, "0:rx").name))
    assert counted(bench, planned, 40).effect is Effect.SILENT
