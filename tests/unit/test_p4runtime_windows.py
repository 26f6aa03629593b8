"""Message windows over P4Runtime: entries by hand, read back, refused by name; a planned job's copies on the twin."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.drivers.p4runtime_flows import Flow, NoRoom, flows_for
from flowcheck_net.errors import Rejected
from flowcheck_net.ids import Address, Qpn
from flowcheck_net.intent import RemarkKind, Step, StepKind, SwitchState, WindowRule
from flowcheck_net.plan.diff import diff
from flowcheck_net.plan.plan import Plan
from tests.doubles.p4runtime_device import STRATUM
from tests.doubles.p4runtime_entries import ALL_PORT, DELETE, MODIFY, forward, rule, table_update, wide
from tests.doubles.p4runtime_faults import Fault
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_world import A, B, World, world
from tests.doubles.synth_reading import Seen, every_host_port, example, read
from tests.doubles.window_world import World as Captures

RULE = WindowRule(Address("10.0.0.2"), Qpn(0x514), 12, 6, 12)
OTHER = WindowRule(Address("2001:db8::2"), Qpn(0x514), 4, 3, 1)
WINDOWED = replace(B, windows=(RULE, OTHER))
ONES, QPS = (1 << 128) - 1, (1 << 24) - 1


def followed(here: World) -> list[tuple[dict[str, tuple[int, int]], dict[str, int]]]:
    """Match and parameters of each entry, by destination."""
    entries = here.server.device.twin.tables["fc.flows"].entries
    return sorted(((dict(e.match), dict(e.parameters)) for e in entries), key=lambda each: each[0]["dst"])


def test_what_is_written_is_what_the_contract_says() -> None:
    with world(STRATUM, "tofino") as here:
        here.create(A, WINDOWED)
        one, two = followed(here)
        assert one[0] == {"dst": (wide("10.0.0.2"), ONES), "qp": (0x514, QPS)}
        assert two[0] == {"dst": (wide("2001:db8::2"), ONES), "qp": (0x514, QPS)}
        shown = ("index", "anchored", "anchor", "period", "low", "high")
        assert [one[1][key] for key in shown] == [0, 1, 0, 12, 6, 12]
        assert [two[1][key] for key in shown] == [1, 1, 0, 4, 3, 1]
        assert one[1]["epoch"] % 1024 == two[1]["epoch"] % 1024 == 3, "its clone session"
        entries = here.server.device.twin.tables["fc.ingress_acl"].entries
        assert {(e.parameters["session"], e.parameters["windowed"]) for e in entries} == {(2, 0), (3, 1)}


def test_what_was_written_is_read_and_not_written_again() -> None:
    with world() as here:
        here.create(A, WINDOWED)
        assert here.read() == SwitchState((A, WINDOWED), ())
        assert here.read().remarks == ()
        assert list(diff((A, WINDOWED), here.read())) == []


def test_a_delete_leaves_nothing() -> None:
    with world() as here:
        here.create(WINDOWED)
        here.delete(WINDOWED)
        assert here.server.device.entries == {}


@pytest.mark.parametrize("on", ["description", "clone", "fc.flows", "rule"])
def test_a_refused_step_leaves_nothing(on: str) -> None:
    with world() as here:
        here.server.script.fault = Fault("refuse", on)
        with here.open() as driver, pytest.raises(Rejected):
            driver.write([Step(StepKind.CREATE, WINDOWED)])
        assert here.server.device.entries == {}


def test_a_changed_window_is_a_difference() -> None:
    with world() as here:
        here.create(WINDOWED)
        info = here.server.device.p4info()
        parameters = {**followed(here)[0][1], "low": 7}
        match: dict[str, int | tuple[int, int]] = {"dst": wide("10.0.0.2"), "qp": 0x514}
        here.server.put(table_update(info, "fc.flows", match, "fc.follow", parameters, kind=MODIFY))
        (found,) = here.read().owned
        assert found.windows == tuple(sorted((replace(RULE, low=7), OTHER)))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"anchor": 256}, RemarkKind.FILTER, "queue pair 0x514 at 10.0.0.2 is not counted from PSN 0"),
        ({"anchored": 0}, RemarkKind.FILTER, "is not counted from PSN 0"),
    ],
)
def test_another_anchor_is_remarked(change: dict[str, int], kind: RemarkKind, words: str) -> None:
    with world() as here:
        here.create(WINDOWED)
        info = here.server.device.p4info()
        match: dict[str, int | tuple[int, int]] = {"dst": wide("10.0.0.2"), "qp": 0x514}
        parameters = {**followed(here)[0][1], **change}
        here.server.put(table_update(info, "fc.flows", match, "fc.follow", parameters, kind=MODIFY))
        assert [(r.kind, words in r.text) for r in here.read().remarks] == [(kind, True)]


def test_a_rule_that_lost_its_window_makes_another_session() -> None:
    """One of two rules copies all: what the session says as a whole cannot be said."""
    with world() as here:
        here.create(WINDOWED)
        info = here.server.device.p4info()
        pairs = [("10.0.0.1", "10.0.0.2")]
        (match,) = ({"src": (wide(a), ONES), "dst": (wide(b), ONES)} for a, b in pairs)
        whole = {"port": (2, ALL_PORT), **match, "udp_dst": (4791, 0xFFFF)}
        here.server.put(rule(info, "ingress", whole, 2, 0, 1000, windowed=0, kind=MODIFY))
        state = here.read()
        assert state.owned[0].windows == ()
        texts = [r.text for r in state.remarks]
        assert any("only a window of the messages" in text for text in texts)
        assert any("2 queue pairs are followed for it in vain" in text for text in texts)


def test_a_lost_entry_is_a_missing_window() -> None:
    with world() as here:
        here.create(WINDOWED)
        info = here.server.device.p4info()
        match: dict[str, int | tuple[int, int]] = {"dst": wide("10.0.0.2"), "qp": 0x514}
        here.server.put(table_update(info, "fc.flows", match, "fc.follow", followed(here)[0][1], kind=DELETE))
        assert here.read().owned[0].windows == (OTHER,)


def test_a_queue_pair_is_followed_once() -> None:
    """For our other session, or for another job: refused by name, before anything is sent."""
    with world() as here:
        here.create(WINDOWED)
        again = replace(A, windows=(RULE,))
        for job, session in (("gpt", again), ("bert", replace(again, name=type(A.name)("fcn-bert-0")))):
            sent = len(here.server.writes)
            words = "queue pair 0x514 at 10.0.0.2 is followed for clone session 2 already"
            with here.open(job) as driver, pytest.raises(Rejected, match=words):
                driver.write([Step(StepKind.CREATE, session)])
            assert len(here.server.writes) == sent


def test_another_job_keeps_its_windows() -> None:
    with world() as here:
        with here.open("bert") as driver:
            driver.write([Step(StepKind.CREATE, replace(A, name=type(A.name)("fcn-bert-0"), windows=(OTHER,)))])
        mine = replace(B, windows=(RULE,))
        here.create(mine)
        here.delete(mine)
        assert [e[1]["index"] for e in followed(here)] == [0]
        assert here.read().owned == ()


def test_a_program_that_follows_nothing_takes_whole_ports_only() -> None:
    with world() as here:
        here.server.load(info=build_p4info(without=["fc.flows"]))
        here.create(A)
        with here.open() as driver, pytest.raises(Rejected, match=r"no fc\.flows"):
            driver.write([Step(StepKind.CREATE, WINDOWED)])
        assert here.read().owned == (A,)


def test_epochs_and_indices_are_not_used_again() -> None:
    """The table by hand: two entries, of which the one at index 1 goes in the same write."""
    here = [Flow(1, 1, 0, 5 << 10 | 2, 1, 0, 4, 2, 4)]
    gone = [Flow(1, 2, 1, 6 << 10 | 3, 1, 0, 4, 2, 4)]
    (made,) = flows_for([RULE], 3, here, gone, 4096, 5)
    assert (made.index, made.epoch >> 10, made.clone) == (1, 7, 3)
    with pytest.raises(NoRoom, match="all 1 entries"):
        flows_for([RULE], 3, here, gone, 1, 5)


def programmed(here: World, plan: Plan) -> None:
    """The plan's sessions, by the driver, and forwarding to every host."""
    with here.open(plan.job.name, ports="Ethernet") as driver:
        driver.write([Step(StepKind.CREATE, planned.session) for planned in plan.sessions])


def test_the_example_on_a_switch_of_the_real_program(tmp_path: Path) -> None:
    """All that the hosts send enters the twin, programmed by the driver: its copies are those that synth writes."""
    plan = example("p4-window")
    captures = Captures(tmp_path)
    fault = ["retransmit:hop=dp0/0/0,iteration=1,packet=5,window=9,seen=no"]
    port_of = {place.address: place.rank + 1 for place in plan.job.places}
    frames = read(captures.capture(every_host_port(plan), iterations=2, faults=fault))[0]
    with world(STRATUM, "tofino") as here:
        info = here.server.device.p4info()
        macs = {packet.frame[:6]: port_of[type(plan.job.places[0].address)(packet.destination)] for packet in frames}
        here.server.put(*(forward(info, mac, port) for mac, port in macs.items()))
        programmed(here, plan)
        copies: dict[int, Counter[bytes]] = {31: Counter(), 32: Counter()}
        for packet in frames:
            enters = port_of[type(plan.job.places[0].address)(packet.source)]
            for sent in here.server.offer(enters, [packet.frame]):
                if sent.port in copies:
                    copies[sent.port][sent.frame] += 1
    written: dict[str, Counter[bytes]] = {"ckpt1:cap0": Counter(), "ckpt1:cap1": Counter()}
    found: list[Seen] = read(captures.capture(plan, iterations=2, faults=fault))[0]
    for packet in found:
        written[packet.interface][packet.frame] += 1
    assert copies[31] == written["ckpt1:cap0"]
    assert copies[32] == written["ckpt1:cap1"]
    assert min(sum(c.values()) for c in copies.values()) > 100
