"""What counters prove of an observation point: readings written out by hand, and counted on the fake switch."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flowcheck_net.apply.effect import Effect, Window, judge_counters
from flowcheck_net.apply.measure import count_effect
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.ids import Address, Channel, GroupName, PortName, Qpn, SwitchName
from flowcheck_net.intent import Counters, Direction, MirrorSource, SessionSource, WindowRule
from flowcheck_net.plan.plan import Plan, PlannedHop
from tests.doubles.switches import FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx")
BOTH = session("fcn-gpt-1", "Ethernet2:rx", "Ethernet2:tx", to="Ethernet32")
FLOW = ("10.0.0.1", "10.0.0.2")
NARROW = session("fcn-gpt-0", "Ethernet1:rx", filters=[FLOW])
LEAF1 = SwitchName("leaf1")
SOURCE = MirrorSource(PortName("Ethernet1"), Direction.RX)


def readings(copies: Sequence[int], packets: Sequence[int] | None, *, apart: bool = True) -> Window:
    """Four readings of session A and its port."""

    def at(place: int) -> Counters:
        return Counters(
            sessions={A.name: copies[place]},
            sources={SessionSource(A.name, SOURCE): copies[place]} if apart else {},
            ports={SOURCE: packets[place]} if packets else {},
        )

    return Window((at(0), at(1), at(2), at(3)), one_copy=False)


@pytest.mark.parametrize(
    ("copies", "packets", "effect", "text"),
    [
        # Traffic rests at both ends: 40 - 0 of 1040 - 1000, exactly.
        ((0, 0, 40, 40), (1000, 1000, 1040, 1040), Effect.WORKING, "40 copies of 40 packets"),
        # It never rests: 100 to 120 copies, 102 to 118 packets. Neither 0 nor 2 copies of each can be meant.
        ((0, 10, 110, 120), (1, 9, 111, 119), Effect.WORKING, "100 to 120 copies of 102 to 118 packets"),
        ((5, 5, 5, 5), (0, 0, 40, 40), Effect.SILENT, "0 copies of 40 packets"),
        # At most 30 copies, and at least 31 packets.
        ((0, 0, 30, 30), (0, 0, 31, 31), Effect.TOO_FEW, "30 copies of 31 packets"),
        ((0, 0, 80, 80), (0, 0, 40, 40), Effect.TOO_MANY, "80 copies of 40 packets"),
        ((0, 0, 41, 41), (0, 0, 40, 40), Effect.TOO_MANY, "41 copies of 40 packets"),
        # At most 20 copies of at least 10 packets: each could have been copied twice.
        ((0, 5, 15, 20), (0, 5, 15, 20), Effect.ACCEPTED, "10 to 20 copies of 10 to 20 packets: too little passed"),
        ((0, 0, 0, 0), (7, 7, 7, 7), Effect.ACCEPTED, "no packet passed while we counted"),
        ((0, 0, 40, 40), None, Effect.ACCEPTED, "40 copies counted; the switch does not count what passes the port"),
        ((9, 9, 3, 4), (0, 0, 40, 40), Effect.UNKNOWN, "the counter of Ethernet1 went back"),
        ((0, 0, 40, 40), (50, 50, 2, 3), Effect.UNKNOWN, "the counter of Ethernet1 went back"),
    ],
)
def test_the_arithmetic(copies, packets, effect, text):
    plan = plan_for({"leaf1": [A]})
    (found,) = judge_counters(plan, {LEAF1: readings(copies, packets)})
    assert (found.effect, found.point) == (effect, plan.points[0])
    assert found.text.startswith(text)
    assert judge_counters(plan, {LEAF1: readings(copies, packets, apart=False)})[0].effect is effect


def test_a_switch_that_counts_nothing_or_cannot_be_read():
    plan = plan_for({"leaf1": [A]})
    nothing = Window((Counters(),) * 4, one_copy=False)
    assert judge_counters(plan, {LEAF1: nothing})[0].effect is Effect.ACCEPTED
    assert judge_counters(plan, {LEAF1: "unreachable"})[0].effect is Effect.UNKNOWN


class Bed:
    """A fabric that carries the plan, and what passes while we count."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.fabric = plan, FakeFabric()
        for planned in plan.sessions:
            self.fabric.seed(planned.switch, planned.session)

    def effects(self, *traffic: tuple[str, str, str, int], flow: tuple[str, str] | None = None) -> dict[str, Effect]:
        def pass_traffic(_: float) -> None:
            for switch, port, direction, packets in traffic:
                self.fabric.offer(switch, port, direction, packets, flow)

        return {e.point.id: e.effect for e in count_effect(self.plan, self.fabric.reach(), 10, pass_traffic)}


def test_points_of_one_session_are_told_apart_and_before_the_window_nothing_counts():
    bed = Bed(plan_for({"leaf1": [A, BOTH]}))
    bed.fabric.offer("leaf1", "Ethernet2", "tx", 1000)
    assert bed.effects(("leaf1", "Ethernet1", "rx", 5), ("leaf1", "Ethernet2", "rx", 7)) == {
        "leaf1:Ethernet1:rx": Effect.WORKING,
        "leaf1:Ethernet2:rx": Effect.WORKING,
        "leaf1:Ethernet2:tx": Effect.ACCEPTED,
    }


def test_a_session_that_is_gone_is_no_proof_of_anything():
    bed = Bed(plan_for({"leaf1": [A]}))
    bed.fabric.remove("leaf1", A.name)
    assert bed.effects(("leaf1", "Ethernet1", "rx", 5)) == {"leaf1:Ethernet1:rx": Effect.ACCEPTED}


def test_a_switch_that_answers_only_at_first_is_unknown():
    bed = Bed(plan_for({"leaf1": [A], "leaf2": [A]}))
    bed.fabric.script("leaf2", Fault(Call.COUNTERS, FaultKind.UNREACHABLE, skip=3))
    found = bed.effects(("leaf1", "Ethernet1", "rx", 5), ("leaf2", "Ethernet1", "rx", 5))
    assert found == {"leaf1:Ethernet1:rx": Effect.WORKING, "leaf2:Ethernet1:rx": Effect.UNKNOWN}


def seen_twice() -> Plan:
    """Two filtered points on two leaves that see the same hop."""
    plan = plan_for({"leaf1": [NARROW], "leaf2": [NARROW]})
    first, second = (p.id for p in plan.points)
    return replace(plan, hops=(PlannedHop(GroupName("dp0"), Channel(0), 0, first, 2, also=(second,)),))


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ((40, 40), (Effect.WORKING, Effect.WORKING)),
        ((40, 0), (Effect.ACCEPTED, Effect.SILENT)),
        ((40, 30), (Effect.WORKING, Effect.TOO_FEW)),
        ((0, 0), (Effect.ACCEPTED, Effect.ACCEPTED)),
    ],
)
def test_filtered_points_of_the_same_hop_must_count_the_same(passes, expected):
    bed = Bed(seen_twice())
    traffic = [(f"leaf{n}", "Ethernet1", "rx", packets) for n, packets in enumerate(passes, 1)]
    assert tuple(bed.effects(*traffic, flow=FLOW).values()) == expected


def test_a_filter_alone_is_never_more_than_accepted():
    bed = Bed(plan_for({"leaf1": [NARROW]}))
    assert bed.effects(("leaf1", "Ethernet1", "rx", 40), flow=FLOW) == {"leaf1:Ethernet1:rx": Effect.ACCEPTED}


def test_one_copy_for_a_packet_that_two_sources_select_is_no_loss():
    """50 packets come in at one port and leave at the other: 100 pass the two sources, 50 are copied."""
    crossing = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet2:tx")
    plan = plan_for({"leaf1": [crossing]})

    def at(copies: int) -> Counters:
        return Counters(sessions={crossing.name: copies}, ports=dict.fromkeys(crossing.sources, copies))

    four = at(0), at(0), at(50), at(50)
    assert {e.effect for e in judge_counters(plan, {LEAF1: Window(four, one_copy=True)})} == {Effect.ACCEPTED}
    assert {e.effect for e in judge_counters(plan, {LEAF1: Window(four, one_copy=False)})} == {Effect.TOO_FEW}


def test_fewer_copies_than_packets_are_no_fault_of_a_window():
    """Half of each loop is not copied: how much of it there was, counters cannot tell. More copies than packets are."""
    rule = WindowRule(Address("10.0.0.2"), Qpn(7), 12, 6, 12)
    plan = plan_for({"leaf1": [replace(A, windows=(rule,))]})

    def at(copies: int, packets: int) -> Counters:
        return Counters(sessions={A.name: copies}, ports=dict.fromkeys(A.sources, packets))

    def effects(copies: int, packets: int) -> set[Effect]:
        four = at(0, 0), at(0, 0), at(copies, packets), at(copies, packets)
        return {e.effect for e in judge_counters(plan, {LEAF1: Window(four, one_copy=False)})}

    assert effects(50, 100) == {Effect.ACCEPTED}
    assert effects(0, 100) == {Effect.ACCEPTED}
    assert effects(100 * len(A.sources) + 1, 100) == {Effect.TOO_MANY}
