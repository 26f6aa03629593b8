"""Somebody else on the same Open vSwitch: other jobs of ours, copies of our rows, odd settings, deceiving names."""

import json

import pytest

from flowcheck_net.drivers.ovs_link import Link
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.intent import Counters, Step, StepKind
from tests.conformance.bench_ovs import add_mirror
from tests.doubles.switches import session
from tests.netns.ovs_two_leaf import ADDRESSES, SPARE, TwoLeaves

PAIR = (ADDRESSES["host1"], ADDRESSES["host2"])
PLAIN = session("fcn-gpt-0", "l1h1:rx", to="l1c0")
FILTERED = session("fcn-gpt-0", "l1h1:rx", to="l1c0", filters=[PAIR])
MARKS = ("flowcheck-net\\:job=gpt", "flowcheck-net\\:session=fcn-gpt-0")


def rules(leaves: TwoLeaves) -> str:
    return leaves.lab.run(
        "ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", f"unix:{leaves.lab.directory}/leaf1.mgmt"
    )


def test_the_rules_of_another_job_are_not_replaced(leaves: TwoLeaves):
    """The same pair at the same port: one rule of one match can be in the table, and it is theirs."""
    theirs = session("fcn-bert-0", "l1h1:rx", to="l1c1", filters=[PAIR])
    with leaves.open(job="bert") as driver:
        driver.write([Step(StepKind.CREATE, theirs)])
    before, database = rules(leaves), leaves.lab.dump()
    with pytest.raises(Rejected, match=r"another flowcheck-net job filters 10.77.0.1 -> 10.77.0.2 at l1h1 already"):
        leaves.write(FILTERED)
    assert (rules(leaves), leaves.lab.dump()) == (before, database)
    with leaves.open(job="bert") as driver:
        assert driver.read().owned == (theirs,)
    # Another port or another pair is no matter.
    leaves.write(session("fcn-gpt-0", "l1h2:rx", to="l1c0", filters=[PAIR]))
    leaves.write(session("fcn-gpt-1", "l1h1:rx", to="l1c0", filters=[PAIR[::-1]]))
    with leaves.open(job="bert") as driver:
        assert driver.read().owned == (theirs,)


def test_a_mirror_of_somebody_else_with_our_marks_is_not_ours(leaves: TwoLeaves):
    """Our row was copied, marks and all, by somebody who gave it a name of his own."""
    leaves.write(PLAIN)
    add_mirror(leaves.lab, "leaf1", "their\\\\nspan", "l1h2", SPARE, *MARKS)
    before = [m for m in leaves.lab.dump()["Mirror table"] if "their" in m]
    assert len(before) == 1
    with leaves.open() as driver:
        state = driver.read()
        assert state.owned == (PLAIN,)
        driver.write([Step(StepKind.DELETE, PLAIN)])
        assert driver.read().owned == ()
    assert "bears the marks of fcn-gpt-0" in state.foreign[0].name
    assert leaves.lab.dump()["Mirror table"] == before


def test_a_port_of_somebody_else_with_our_marks_stays(leaves: TwoLeaves):
    leaves.write(PLAIN)
    leaves.lab.vsctl("set", "Port", "l1h2", *(f"external_ids:{m}" for m in MARKS))
    try:
        leaves.write(PLAIN, kind=StepKind.DELETE)
        assert "l1h2" in leaves.lab.vsctl("list-ports", "leaf1").split()
    finally:
        leaves.lab.vsctl("clear", "Port", "l1h2", "external_ids")


def test_names_that_move_the_cursor_are_written_out(leaves: TwoLeaves):
    name = "span\x1b[2J\nverdict: applied\u202e"
    rows = {"name": name, "output_port": ["set", []]}
    mutation = [["mirrors", "insert", ["set", [["named-uuid", "m"]]]]]
    work = [
        "Open_vSwitch",
        {"op": "insert", "table": "Mirror", "uuid-name": "m", "row": rows},
        {"op": "mutate", "table": "Bridge", "where": [["name", "==", "leaf1"]], "mutations": mutation},
    ]
    leaves.lab.run("ovsdb-client", "transact", f"unix:{leaves.lab.database}", json.dumps(work))
    with leaves.open() as driver:
        (found,) = driver.read().foreign
    assert found.name == "span\\x1b[2J\\nverdict: applied\\u202e"


def test_a_counting_interval_of_nonsense_is_no_error_and_one_of_a_day_is_not_waited_for(
    leaves: TwoLeaves, monkeypatch: pytest.MonkeyPatch
):
    leaves.write(PLAIN)
    monkeypatch.setattr("flowcheck_net.drivers.ovs_link._SETTLE", 0.0)
    try:
        with leaves.open() as driver:
            leaves.lab.vsctl("--no-wait", "set", "open", ".", "other_config:stats-update-interval=often")
            with leaves.lab.counting_often("l1c1"):
                assert driver.counters().sessions == {"fcn-gpt-0": 0}
            leaves.lab.vsctl("--no-wait", "set", "open", ".", "other_config:stats-update-interval=86400000")
            assert driver.counters() == Counters()
    finally:
        leaves.lab.vsctl("clear", "open", ".", "other_config")


def test_a_switch_that_dies_while_it_is_read_is_named(leaves: TwoLeaves, monkeypatch: pytest.MonkeyPatch):
    leaves.write(PLAIN)
    look = Link.look

    def last_look(link: Link) -> object:
        found = look(link)
        leaves.lab.kill("vswitchd")
        return found

    monkeypatch.setattr(Link, "look", last_look)
    with leaves.open() as driver, pytest.raises(ConnectError, match="ovs-vswitchd went away"):
        driver.read()
