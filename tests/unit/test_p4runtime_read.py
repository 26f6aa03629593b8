"""Reads: sessions rebuilt from entries alone, what somebody changed on ours, and counts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from p4.v1 import p4runtime_pb2

from flowcheck_net.ids import Address, PortName
from flowcheck_net.intent import Counters, Direction, FlowFilter, MirrorSource, RemarkKind, SwitchState
from tests.doubles.p4runtime_device import STRATUM
from tests.doubles.p4runtime_entries import ALL_PORT, DELETE, MODIFY, clone_update, describe, rule, wide
from tests.doubles.p4runtime_world import UPLINK, A, B, World, world
from tests.doubles.switches import session

ONES = (1 << 128) - 1
ROCE = (4791, 0xFFFF)


def pair(port: int, source: str, destination: str) -> dict[str, tuple[int, int]]:
    return {"port": (port, ALL_PORT), "src": (wide(source), ONES), "dst": (wide(destination), ONES), "udp_dst": ROCE}


def put(here: World, *updates: p4runtime_pb2.Update) -> None:
    here.server.put(*updates)


def remarks(state: SwitchState) -> Sequence[tuple[RemarkKind, str]]:
    return [(r.kind, r.text) for r in state.remarks]


def test_a_session_that_our_contract_describes_is_ours_whoever_wrote_it():
    """Entries by hand from p4/README.md, rules in another order, with another id and priority."""
    with world() as here:
        info = here.server.device.p4info()
        put(here, clone_update(77, (32, 1)), describe(info, 77, "gpt", 1))
        put(here, rule(info, "ingress", pair(2, "2001:db8::1", "2001:db8::2"), 77, priority=9))
        put(here, rule(info, "ingress", pair(2, "10.0.0.1", "10.0.0.2"), 77, priority=9))
        assert here.read() == SwitchState((B,), ())
        assert remarks(here.read()) == []
        here.delete(B)
        assert here.server.device.entries == {}


def test_sessions_of_others_are_read_as_far_as_they_can_be_said():
    with world() as here:
        info = here.server.device.p4info()
        put(here, clone_update(5, (40, 1), (41, 1)), rule(info, "egress", {"port": (3, ALL_PORT)}, 5))
        put(here, clone_update(6, (42, 1)), describe(info, 6, "bert", 9))
        put(here, rule(info, "ingress", {"qp": (17, (1 << 24) - 1)}, 6, windowed=1))
        put(here, describe(info, 8, "bert", 10))
        state = here.read()
        assert state.owned == ()
        assert {s.name.split(":")[-1]: (s.sources, s.destination) for s in state.foreign} == {
            "clone-session-5": ((MirrorSource(PortName("3"), Direction.TX),), "40"),
            "9": ((), "42"),
            "10": ((), "(none)"),
        }
        assert state.remarks == ()


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ("no replica", RemarkKind.INACTIVE, "clone session 2 has no replica: nothing is copied"),
        ("session gone", RemarkKind.INACTIVE, "clone session 2 is gone: nothing is copied"),
        ("cut", RemarkKind.TRUNCATION, "copies are cut to 128 bytes"),
        ("class", RemarkKind.POLICER, "class of service 3"),
        ("two replicas", RemarkKind.OTHER, "copies are sent to 40 as well"),
        ("windowed", RemarkKind.FILTER, "only a window of the messages"),
        ("point", RemarkKind.OTHER, "copies of 1 rx bear point 9, not 0"),
        ("rival", RemarkKind.FILTER, "a rule of clone-session-7 takes packets from it"),
        ("half masked", RemarkKind.FILTER, "1 of its rules are not as we write them"),
        ("no rule", RemarkKind.INACTIVE, "no rule selects packets for it"),
    ],
)
def test_what_makes_a_session_less_than_whole_is_said(change: str, kind: RemarkKind, words: str):
    quirks = replace(STRATUM, references=False, most_replicas=4)
    with world(quirks, "tofino") as here:
        here.create(A)
        info = here.server.device.p4info()
        port = {"port": (1, ALL_PORT)}
        changes = {
            "no replica": [clone_update(2, kind=MODIFY)],
            "session gone": [clone_update(2, kind=DELETE)],
            "cut": [clone_update(2, (31, 1), kind=MODIFY, length=128)],
            "class": [clone_update(2, (31, 1), kind=MODIFY, service=3)],
            "two replicas": [clone_update(2, (31, 1), (40, 1), kind=MODIFY)],
            "windowed": [rule(info, "ingress", port, 2, 0, 1000, 1, kind=MODIFY)],
            "point": [rule(info, "ingress", port, 2, 9, 1000, kind=MODIFY)],
            "rival": [clone_update(7, (48, 1)), rule(info, "ingress", {"udp_dst": ROCE}, 7, priority=1000)],
            "half masked": [rule(info, "ingress", {"port": (4, 4)}, 2)],
            "no rule": [
                rule(info, "ingress", port, 2, 0, 1000, kind=DELETE),
                rule(info, "egress", port, 2, 1, 1000, kind=DELETE),
            ],
        }
        put(here, *changes[change])
        found = remarks(here.read())
        assert [k for k, text in found if words in text] == [kind], found


def test_a_missing_rule_is_a_missing_source_and_no_planned_state():
    """Two sources and two filters, one of four rules gone: the source is not whole."""
    both = session("fcn-gpt-0", "1:rx", "2:rx", to="31", filters=[("10.0.0.1", "10.0.0.2"), ("10.0.0.3", "10.0.0.2")])
    with world() as here:
        here.create(both)
        info = here.server.device.p4info()
        put(here, rule(info, "ingress", pair(1, "10.0.0.3", "10.0.0.2"), 2, 0, 1000, kind=DELETE))
        (found,) = here.read().owned
        assert found == replace(both, sources=(MirrorSource(PortName("2"), Direction.RX),))
        assert [(kind, text[:17]) for kind, text in remarks(here.read())] == [(RemarkKind.FILTER, "1 of its rules ar")]
        here.delete(found)
        assert here.server.device.entries == {}


def test_a_rule_without_addresses_makes_pairs_beside_it_meaningless():
    with world() as here:
        here.create(session("fcn-gpt-0", "1:rx", to="31"))
        info = here.server.device.p4info()
        put(here, rule(info, "ingress", pair(1, "10.0.0.3", "10.0.0.2"), 2, 0, 1000))
        (found,) = here.read().owned
        assert found.filters == ()
        assert any("stand" in text for _, text in remarks(here.read()))


def test_ipv4_and_ipv6_filters_come_back_in_their_canonical_text():
    mixed = session("fcn-gpt-0", "1:rx", to="31", filters=[("2001:db8::a", "2001:db8::b"), ("192.0.2.1", "10.0.0.2")])
    with world() as here:
        here.create(mixed)
        (found,) = here.read().owned
        assert FlowFilter(Address("192.0.2.1"), Address("10.0.0.2")) in found.filters
        assert found == mixed


def test_copies_that_were_sent_are_counted_and_ports_where_a_rule_sees_all_of_them():
    with world() as here:
        here.forward()
        here.create(A, B)
        here.offer(1, UPLINK, 5)
        here.offer(UPLINK, 1, 3)
        here.offer(2, UPLINK, 4)
        with here.open() as driver:
            found = driver.counters()
        rx, tx = (MirrorSource(PortName("1"), d) for d in (Direction.RX, Direction.TX))
        assert found == Counters({A.name: 8, B.name: 0}, {}, {rx: 5, tx: 3})


def test_copies_that_do_not_leave_are_missing_from_the_count():
    """The rule counts what it matched; the session counts what reached the monitor port."""
    with world() as here:
        here.forward()
        here.create(A)
        put(here, clone_update(2, kind=MODIFY))
        here.offer(1, UPLINK, 5)
        with here.open() as driver:
            found = driver.counters()
        assert found.sessions == {A.name: 0}
        assert found.ports[MirrorSource(PortName("1"), Direction.RX)] == 5


def test_nothing_that_is_not_described_is_counted():
    with world() as here:
        info = here.server.device.p4info()
        put(here, clone_update(5, (40, 1)), rule(info, "ingress", {"port": (1, ALL_PORT)}, 5))
        with here.open() as driver:
            assert driver.counters() == Counters()
