"""Writes: order, undoing a refused step, other rules unharmed, what a target cannot do, and BMv2's stale sessions."""

from dataclasses import replace

import pytest
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_client import Client
from flowcheck_net.errors import PartialWrite, Rejected, StateUnknown
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Step, StepKind
from flowcheck_net.plan.diff import diff
from tests.doubles.p4runtime_check import Refusal
from tests.doubles.p4runtime_device import BMV2, STRATUM
from tests.doubles.p4runtime_entries import ALL_PORT, MODIFY, clone_update, describe, rule, tag, wide
from tests.doubles.p4runtime_faults import Fault
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_world import UPLINK, A, B, World, world
from tests.doubles.switches import session

C = session("fcn-gpt-2", "3:rx", to="31")


def entries(here: World, table: str) -> list[tuple[dict[str, tuple[int, int]], dict[str, int], int]]:
    found = here.server.device.twin.tables[table].entries
    return [(dict(e.match), dict(e.parameters), e.priority) for e in found]


def test_what_is_written_is_what_the_contract_says():
    """p4/README.md, by hand: one clone session, its description, a rule for each source and filter."""
    with world(STRATUM, "tofino") as here:
        here.create(A, B)
        clones = here.server.device.clones
        assert {n: [(r.egress_port, r.instance) for r in c.replicas] for n, c in clones.items()} == {
            2: [(31, 1)],
            3: [(32, 1)],
        }
        assert [(p["job_tag"], p["session_number"]) for _, p, _ in entries(here, "fc.sessions")] == [
            (tag("gpt"), 0),
            (tag("gpt"), 1),
        ]
        (tx,) = entries(here, "fc.egress_acl")
        assert tx == ({"port": (1, 511)}, {"session": 2, "point": 1, "windowed": 0}, 1000)
        ones = (1 << 128) - 1
        pairs = [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")]
        expected = [
            {"port": (2, 511), "src": (wide(a), ones), "dst": (wide(b), ones), "udp_dst": (4791, 0xFFFF)}
            for a, b in pairs
        ]
        found = [m for m, p, _ in entries(here, "fc.ingress_acl") if p["session"] == 3]
        assert sorted(found, key=str) == sorted(expected, key=str)


def test_numbers_are_sent_in_their_canonical_bytes():
    with world() as here:
        here.create(B)
        sent = [u.entity.table_entry for w in here.server.writes for u in w.updates if u.entity.HasField("table_entry")]
        values = [p.value for e in sent for p in e.action.action.params]
        values += [v for e in sent for m in e.match for v in (m.ternary.value, m.ternary.mask, m.exact.value) if v]
        assert len(values) > 20
        assert all(v == b"\0" or v[0] for v in values)


def test_a_second_apply_sends_nothing():
    with world() as here:
        here.create(A, B)
        sent = len(here.server.writes)
        with here.open() as driver:
            driver.write(list(diff((A, B), driver.read())))
        assert len(here.server.writes) == sent


@pytest.mark.parametrize(
    ("kind", "on"),
    [
        *((StepKind.CREATE, on) for on in ("description", "counter", "clone", "rule")),
        *((StepKind.DELETE, on) for on in ("rule", "clone", "description")),
    ],
)
def test_a_step_that_is_refused_anywhere_leaves_nothing(kind: StepKind, on: str):
    with world() as here:
        if kind is StepKind.DELETE:
            here.create(A, B)
        before, tables = here.read(), [entries(here, t) for t in ("fc.ingress_acl", "fc.egress_acl", "fc.sessions")]
        here.server.script.fault = Fault("refuse", on)
        with here.open() as driver, pytest.raises(Rejected, match=r"step 1.*refused on script"):
            driver.write([Step(kind, A)])
        assert here.read() == before
        after = [entries(here, t) for t in ("fc.ingress_acl", "fc.egress_acl", "fc.sessions")]
        assert [sorted(t, key=str) for t in after] == [sorted(t, key=str) for t in tables]
        assert sorted(here.server.device.clones) == sorted(here.server.device.twin.clone_sessions)


def test_where_undoing_fails_the_state_is_unknown():
    with world() as here, here.open() as driver:
        here.server.script.fault = Fault("refuse", "rule")
        here.server.device = StubbornDevice(here)  # type: ignore[assignment]
        with pytest.raises(StateUnknown, match=r"could not be undone.*stubborn"):
            driver.write([Step(StepKind.CREATE, A)])


class StubbornDevice:
    """Deletes no description."""

    def __init__(self, here: World) -> None:
        self._device = here.server.device

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def update(self, wanted: p4runtime_pb2.Update) -> None:
        if wanted.type == wanted.DELETE and wanted.entity.HasField("table_entry"):
            raise Refusal(code_pb2.INTERNAL, "stubborn")
        self._device.update(wanted)


def test_a_full_table_is_seen_before_anything_is_sent():
    with world() as here:
        here.server.load(info=build_p4info(sizes={"fc.ingress_acl": 1}))
        with here.open() as driver, pytest.raises(Rejected, match="needs 2 rules for rx, and 1 of 1 are free"):
            driver.write([Step(StepKind.CREATE, B)])
        assert here.server.writes == []


def test_a_table_that_fills_up_behind_our_back_refuses_the_step():
    with world() as here:
        here.server.load(info=build_p4info(sizes={"fc.sessions": 1}))
        here.server.put(describe(here.server.device.p4info(), 900, "bert", 0))
        with here.open() as driver, pytest.raises(Rejected, match="the table is full"):
            driver.write([Step(StepKind.CREATE, A)])
        assert here.read().owned == ()


def test_a_rule_that_would_take_packets_from_another_is_refused():
    """One copy a packet and direction: a rule beside a foreign one would harm it, or miss what it takes."""
    with world() as here:
        info = here.server.device.p4info()
        here.server.put(clone_update(7, (48, 1)), rule(info, "ingress", {"udp_dst": (4791, 0xFFFF)}, 7, priority=5))
        here.forward()
        with here.open() as driver, pytest.raises(Rejected, match="would share packets with clone-session-7"):
            driver.write([Step(StepKind.CREATE, A)])
        assert here.server.writes == []
        # Rules that cannot meet stand side by side: another port, another direction.
        here.create(session("fcn-gpt-3", "1:tx", to="31"))


def test_two_sessions_of_ours_may_share_a_port_where_their_filters_differ():
    other = session("fcn-gpt-5", "2:rx", to="31", filters=[("10.0.0.1", "10.0.0.3")])
    same = session("fcn-gpt-6", "2:rx", to="31", filters=[("10.0.0.1", "10.0.0.2")])
    with world() as here:
        here.create(B, other)
        assert here.read().owned == (B, other)
        with here.open() as driver, pytest.raises(Rejected, match="would share packets with fcn-gpt-1"):
            driver.write([Step(StepKind.CREATE, same)])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (replace(A, destination=PortName("erspan:10.0.0.9")), "erspan:10.0.0.9 is no port of a P4 switch"),
        (replace(A, destination=PortName("511")), "0 to 510"),
        (replace(A, destination=PortName("031")), "write a plain number N"),
        (replace(A, sources=()), "has 0 sources; 1 to 256 are possible"),
        (replace(A, name=SessionName("fcn-gpt-65536")), "end at 65535"),
    ],
)
def test_what_a_p4_switch_cannot_do_is_refused_before_anything_is_sent(wrong, told: str):
    with world() as here:
        with here.open() as driver, pytest.raises(Rejected, match=told):
            driver.write([Step(StepKind.CREATE, B), Step(StepKind.CREATE, wrong)])
        assert here.server.writes == []


def test_sessions_of_ours_have_ids_that_stratum_takes_and_never_a_taken_one():
    with world(STRATUM, "tofino") as here:
        info = here.server.device.p4info()
        # 2 is cloned by somebody, 3 is described, 4 is named by a rule whose session is gone.
        here.server.put(clone_update(2, (40, 1)), describe(info, 3, "bert", 1), clone_update(4, (40, 1)))
        here.server.put(rule(info, "ingress", {"port": (9, ALL_PORT)}, 4))
        here.create(A)
        assert sorted(here.server.device.clones) == [2, 4, 5]


def test_a_write_of_more_rules_than_fit_a_message_goes_in_pieces():
    pairs = [("10.0.0.1", f"10.1.{n // 250}.{n % 250 + 1}") for n in range(510)]
    many = session("fcn-gpt-0", "1:rx", to="31", filters=pairs)
    with world() as here:
        here.create(many)
        assert here.read().owned == (many,)
        assert [len(w.updates) for w in here.server.writes][-2:] == [500, 10]


def test_a_stale_session_of_bmv2_gets_no_copies_with_ours():
    """Somebody pushed a pipeline over living sessions: unseen replicas stay, and an insert would add to them."""
    with world(BMV2) as here:
        here.server.put(clone_update(2, (48, 1)))
        here.server.load(cookie=2)
        assert here.server.device.twin.clone_sessions == {2: [(48, 1)]}
        here.create(session("fcn-gpt-0", "1:rx", to="31"))
        here.forward()
        assert here.offer(1, UPLINK, 3) == [UPLINK] * 3 + [31] * 3


def test_copies_go_to_the_monitor_port_and_nothing_else_is_harmed():
    with world() as here:
        here.forward()
        here.create(A, C)
        assert here.offer(1, UPLINK, 5) == [UPLINK] * 5 + [31] * 5
        assert here.offer(UPLINK, 1, 2) == [1] * 2 + [31] * 2
        assert here.offer(2, UPLINK, 4) == [UPLINK] * 4
        here.delete(A)
        assert here.offer(1, UPLINK, 5) == [UPLINK] * 5
        assert here.offer(3, UPLINK, 1) == [UPLINK, 31]


def test_a_session_that_somebody_changed_is_not_deleted():
    with world() as here:
        here.create(A)
        here.server.put(clone_update(2, (40, 1), kind=MODIFY))
        with here.open() as driver, pytest.raises(Rejected, match="somebody has changed it"):
            driver.write([Step(StepKind.DELETE, A)])
        here.delete(replace(A, destination=PortName("40")))
        assert here.read().owned == ()


def test_a_stalled_server_ends_in_an_unknown_state(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Client.__init__, "__defaults__", (0.8,))
    with world() as here:
        here.server.script.fault = Fault("stall", "clone")
        with here.open() as driver, pytest.raises(StateUnknown, match="no answer in time"):
            driver.write([Step(StepKind.CREATE, A)])


def test_a_refusal_in_a_later_step_names_the_step():
    with world() as here:
        here.server.script.fault = Fault("refuse", "rule", 1)
        with here.open() as driver, pytest.raises(PartialWrite, match=r"step 2 \(create fcn-gpt-1\)") as caught:
            driver.write([Step(StepKind.CREATE, A), Step(StepKind.CREATE, B)])
        assert caught.value.done == 1
        assert here.read().owned == (A,)
