"""Verify: every difference, its owner, and what the switches count."""

from dataclasses import replace

import pytest

from flowcheck_net.apply.compare import unified
from flowcheck_net.apply.effect import Effect, PointEffect
from flowcheck_net.apply.verify import verify_plan
from flowcheck_net.cli.verify_show import error_of, report_json, show
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.ids import CapturePort, PortName, SwitchName
from flowcheck_net.intent import Direction, Remark, RemarkKind, SwitchState
from flowcheck_net.plan.plan import Point
from tests.doubles.switches import FOREIGN, FakeFabric, address, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32", filters=[("10.0.0.1", "10.0.0.2")])
PLAN = plan_for({"leaf1": [A, B], "leaf2": [A]})


@pytest.fixture
def fabric() -> FakeFabric:
    made = FakeFabric()
    made.seed("leaf1", FOREIGN, A, B)
    made.seed("leaf2", A)
    return made


def found(report) -> list[tuple[str, str, str, str]]:
    return [(d.switch, d.session, d.owner, d.text) for d in report.differences]


def test_a_fabric_as_planned_has_no_difference_and_foreign_sessions_are_counted(fabric):
    report = verify_plan(PLAN, fabric.reach())
    assert found(report) == []
    assert report.failures == ()
    assert [(s.switch, s.foreign) for s in report.switches] == [("leaf1", 1), ("leaf2", 0)]


def test_packets_are_shown_a_session_and_unknown_where_there_is_none(fabric):
    fabric.offer("leaf1", "Ethernet1", "tx", 12)
    fabric.remove("leaf1", "fcn-gpt-1")
    (leaf1, _) = verify_plan(PLAN, fabric.reach()).switches
    assert [(c.session.name, c.packets) for c in leaf1.counts] == [("fcn-gpt-0", 12), ("fcn-gpt-1", None)]


def test_every_kind_of_difference_names_its_owner(fabric):
    fabric.remove("leaf1", "fcn-gpt-0")
    fabric.remove("leaf1", "fcn-gpt-1")
    fabric.seed("leaf1", session("fcn-gpt-1", "Ethernet3:rx", to="Ethernet32", filters=[("10.0.0.1", "10.0.0.2")]))
    fabric.seed("leaf1", session("fcn-gpt-7", "Ethernet9:rx", to="Ethernet40"))
    fabric.seed("leaf2", session("netops-late", "Ethernet8:rx", to="Ethernet31"))
    fabric.seed("leaf2", session("fcn-bert-0", "Ethernet9:rx", to="Ethernet31"))
    assert found(verify_plan(PLAN, fabric.reach())) == [
        ("leaf1", "fcn-gpt-0", "job gpt", "is missing"),
        ("leaf1", "fcn-gpt-1", "job gpt", "differs: lacks source Ethernet2 rx, has source Ethernet3 rx"),
        ("leaf1", "fcn-gpt-7", "job gpt", "is there, and should not be"),
        (
            "leaf2",
            "fcn-bert-0",
            "another flowcheck-net job",
            "stands in the way of fcn-gpt-0: destination Ethernet31 belongs to foreign session fcn-bert-0",
        ),
        (
            "leaf2",
            "netops-late",
            "foreign",
            "stands in the way of fcn-gpt-0: destination Ethernet31 belongs to foreign session netops-late",
        ),
    ]


def test_sessions_left_on_a_switch_outside_the_plan_are_a_difference(fabric):
    fabric.seed("leaf9", A)
    report = verify_plan(PLAN, fabric.reach(), [address("leaf9")])
    assert found(report) == [("leaf9", "fcn-gpt-0", "job gpt", "is there, and should not be")]


def test_a_switch_that_cannot_be_read_is_unknown_and_the_others_are_compared(fabric):
    fabric.remove("leaf2", "fcn-gpt-0")
    fabric.script("leaf1", Fault(Call.COUNTERS, FaultKind.UNREACHABLE))
    report = verify_plan(PLAN, fabric.reach())
    assert report.failures == ("leaf1: counters: unreachable",)
    assert found(report) == [("leaf2", "fcn-gpt-0", "job gpt", "is missing")]


def test_the_unified_diff_shows_our_sessions_only():
    state = SwitchState(owned=(session("fcn-gpt-0", "Ethernet1:rx"),), foreign=(FOREIGN,))
    assert unified(address("leaf1").name, [A, B], state) == (
        "--- leaf1 (now)",
        "+++ leaf1 (planned)",
        "@@ -1,3 +1,8 @@",
        " session fcn-gpt-0",
        "   source Ethernet1 rx",
        "+  source Ethernet1 tx",
        "   destination Ethernet31",
        "+session fcn-gpt-1",
        "+  source Ethernet2 rx",
        "+  destination Ethernet32",
        "+  filter 10.0.0.1 -> 10.0.0.2",
    )


def remarked(kind: RemarkKind, text: str) -> FakeFabric:
    fabric = FakeFabric()
    fabric.seed("leaf1", A)
    with fabric.store("leaf1").transaction() as switch:
        switch.remarks.append(Remark(kind, text, session=A.name, port=PortName("Ethernet31")))
    return fabric


@pytest.mark.parametrize("kind", list(RemarkKind))
def test_what_a_driver_remarks_is_a_statement_about_coverage(kind: RemarkKind, capsys):
    report = verify_plan(plan_for({"leaf1": [A]}), remarked(kind, "so it is").reach())
    words = f"leaf1: fcn-gpt-0 Ethernet31: {kind}: so it is"
    certain = kind in {
        RemarkKind.SAMPLING,
        RemarkKind.TRUNCATION,
        RemarkKind.FILTER,
        RemarkKind.INACTIVE,
        RemarkKind.DESTINATION_DOWN,
        RemarkKind.NO_NEXT_HOP,
    }
    assert (report.gaps, report.doubts) == (((words,), ()) if certain else ((), (words,)))
    assert report.differences == ()
    error = error_of(report, None)
    assert error is not None
    assert error.exit_code == (4 if certain else 10)
    assert words in error.message
    show(report, None)
    said = capsys.readouterr().out
    assert f"  {'incomplete' if certain else 'in doubt'}: fcn-gpt-0 Ethernet31: {kind}: so it is\n" in said
    assert f"'incomplete': {certain}" in str(report_json(report, None)["switches"])


def test_the_worst_that_is_known_is_the_exit_code():
    report = verify_plan(plan_for({"leaf1": [A]}), remarked(RemarkKind.SAMPLING, "1 in 16").reach())
    drifted = verify_plan(plan_for({"leaf1": []}), remarked(RemarkKind.SAMPLING, "1 in 16").reach())
    working = PointEffect(
        Point(SwitchName("leaf1"), PortName("e"), Direction.RX, CapturePort("c:d")), Effect.WORKING, ""
    )
    sound = replace(report, switches=tuple(replace(s, remarks=()) for s in report.switches))
    unread = replace(sound, switches=tuple(replace(s, failure="leaf1: gone") for s in sound.switches))
    cases = {
        6: (drifted, [working]),
        4: (sound, [replace(working, effect=Effect.TOO_MANY)]),
        5: (unread, [replace(working, effect=Effect.UNKNOWN)]),
        10: (sound, [replace(working, effect=Effect.ACCEPTED)]),
    }
    for code, (found, effects) in cases.items():
        error = error_of(found, effects)
        assert error is not None
        assert error.exit_code == code
    assert error_of(sound, [working]) is None
    assert error_of(sound, None) is None
