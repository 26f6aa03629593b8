"""What every driver must report: counts that are exact or left out, and remarks on what is less than a whole copy."""

import pytest

from flowcheck_net.ids import Address
from flowcheck_net.intent import Counters, Direction, FlowFilter, MirrorSource, SessionSource
from tests.conformance.bench import Bench, Cannot, create, delete, session
from tests.conformance.test_driver import a, read, with_filter, write


def counters(bench: Bench) -> Counters:
    with bench.open() as driver:
        return driver.counters()


def one_way(bench: Bench) -> tuple[SessionSource, MirrorSource]:
    """A session with two sources is there; its first source, as session source and as port."""
    made = session(bench, 0, "0:rx", "1:rx")
    write(bench, create(made, session(bench, 2, "2:rx", to=1)))
    return SessionSource(made.name, made.sources[0]), made.sources[0]


def test_a_session_counts_the_packets_of_its_sources_and_of_nothing_else(bench: Bench):
    first, _ = one_way(bench)
    bench.traffic(bench.sources[0], Direction.RX, 5)
    bench.traffic(bench.sources[1], Direction.RX, 2)
    bench.traffic(bench.sources[3], Direction.RX, 100)
    found = counters(bench).sessions
    if not found:
        raise Cannot("the switch does not count by session")
    assert found == {first.session: 7, "fcn-gpt-2": 0}


@pytest.mark.parametrize("direction", list(Direction))
def test_both_directions_of_a_port_are_told_apart(bench: Bench, direction: Direction):
    made = session(bench, 0, f"0:{direction}")
    write(bench, create(made))
    bench.traffic(bench.sources[0], Direction.RX, 3)
    bench.traffic(bench.sources[0], Direction.TX, 4)
    found = counters(bench).sessions
    if not found:
        raise Cannot("the switch does not count by session")
    assert found == {made.name: 3 if direction is Direction.RX else 4}


def test_each_source_is_counted_apart_where_the_switch_can(bench: Bench):
    first, _ = one_way(bench)
    if not counters(bench).sources:
        raise Cannot("the switch does not count the sources of a session apart")
    bench.traffic(bench.sources[0], Direction.RX, 5)
    bench.traffic(bench.sources[1], Direction.RX, 2)
    found = counters(bench).sources
    assert found[first] == 5
    assert sum(count for place, count in found.items() if place.session == first.session) == 7


def test_a_watched_port_counts_what_passes_it(bench: Bench):
    _, port = one_way(bench)
    before = counters(bench).ports
    if not before:
        raise Cannot("the switch gives no port counters")
    bench.traffic(port.port, port.direction, 5)
    assert counters(bench).ports[port] - before[port] == 5


def test_a_filter_lets_only_its_flow_through(bench: Bench):
    filtered = with_filter(bench)
    write(bench, create(filtered))
    wanted, other = (FlowFilter(Address("10.0.0.1"), Address(f"10.0.0.{n}")) for n in (2, 3))
    bench.traffic(bench.sources[1], Direction.RX, 3, wanted)
    bench.traffic(bench.sources[1], Direction.RX, 4, other)
    bench.traffic(bench.sources[1], Direction.RX, 5)
    found = counters(bench).sessions
    if not found:
        raise Cannot("the switch does not count by session")
    assert found == {filtered.name: 3}


def test_nothing_of_foreign_sessions_is_counted_as_ours(bench: Bench):
    watched = bench.foreign[0].sources[0]
    bench.traffic(watched.port, watched.direction, 6)
    assert counters(bench) == Counters()


def test_a_session_made_again_counts_from_zero(bench: Bench):
    write(bench, create(a(bench)))
    bench.traffic(bench.sources[0], Direction.RX, 5)
    write(bench, delete(a(bench)))
    write(bench, create(a(bench)))
    assert counters(bench).sessions.get(a(bench).name, 0) == 0


def test_a_whole_session_has_no_remark_that_its_copies_are_incomplete(bench: Bench):
    write(bench, create(a(bench)))
    assert [r for r in read(bench).remarks if r.kind.incomplete] == []


def test_what_makes_a_session_less_than_a_whole_copy_is_remarked(bench: Bench):
    write(bench, create(a(bench)))
    kind = bench.spoil(a(bench))
    found = [r for r in read(bench).remarks if r.kind is kind]
    assert found
    assert all(r.text and (r.session == a(bench).name or r.port) for r in found)


def test_foreign_sessions_are_not_judged(bench: Bench):
    bench.spoil(bench.foreign[0])
    assert [r for r in read(bench).remarks if r.session] == []
