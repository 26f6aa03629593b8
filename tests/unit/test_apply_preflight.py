"""Preflight against the fake switch, which was written without it: they must agree on what fits."""

from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.apply.preflight import obstacles
from flowcheck_net.drivers.fake_device import FakeSwitch, Refused
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Capabilities, Direction, FlowFilter, MirrorSession, MirrorSource
from tests.doubles.switches import FOREIGN, LIMITS, session

PORTS = st.sampled_from([PortName(f"e{n}") for n in range(5)])
SOURCES = st.lists(st.builds(MirrorSource, PORTS, st.sampled_from(Direction)), max_size=3).map(tuple)
FILTERS = st.sampled_from([(), (FlowFilter(Address("10.0.0.1"), Address("10.0.0.2")),)])
CAPABILITIES = st.builds(
    Capabilities,
    platform=st.just("any"),
    max_sessions=st.integers(0, 4),
    max_sources_per_session=st.integers(1, 3),
    directions=st.sampled_from([frozenset(Direction), frozenset({Direction.RX})]),
    filters=st.booleans(),
    source_in_many_sessions=st.booleans(),
)


def sessions(prefix: str):
    made = st.lists(st.tuples(SOURCES, PORTS, FILTERS), max_size=3)
    return made.map(
        lambda rows: [MirrorSession(SessionName(f"{prefix}{n}"), s, d, f) for n, (s, d, f) in enumerate(rows)]
    )


@given(wanted=sessions("fcn-gpt-"), foreign=sessions("netops-"), limits=CAPABILITIES)
def test_preflight_says_exactly_what_the_switch_will_say(wanted, foreign, limits):
    switch = FakeSwitch("leaf1", limits)
    # Foreign sessions are there already, whatever our limits say about them.
    switch.sessions = {s.name: s for s in foreign}
    shared = any(ours.destination == theirs.destination for ours in wanted for theirs in foreign)
    try:
        for each in wanted:
            switch.create(each)
        refused = False
    except Refused:
        refused = True
    # Stricter than this switch on purpose: a destination that a foreign session uses is never taken.
    assert bool(obstacles(wanted, foreign, limits)) == (refused or shared)


def test_foreign_sessions_that_take_the_place_are_named():
    crowd = [session(f"netops-{n}", f"Ethernet{40 + n}:rx", to="Ethernet48") for n in range(4)]
    (text,) = obstacles([session("fcn-gpt-0", "Ethernet1:rx")], crowd, LIMITS)
    assert text == (
        "1 sessions are planned beside 4 foreign ones (netops-0, netops-1, netops-2, netops-3), "
        "and platform fake has 4 in all"
    )


def test_a_destination_of_someone_else_is_never_taken():
    (text,) = obstacles([session("fcn-gpt-0", "Ethernet1:rx", to="Ethernet48")], [FOREIGN], LIMITS)
    assert text == "fcn-gpt-0: destination Ethernet48 belongs to foreign session netops-span"
