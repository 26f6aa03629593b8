"""The fake switch: its limits, its packet model, its fault script, its file."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flowcheck_net.drivers.fake_device import Call, FakeSwitch, Fault, FaultKind, Refused
from flowcheck_net.drivers.fake_store import FileStore, switch_from_json, switch_to_json
from flowcheck_net.errors import ConnectError
from flowcheck_net.ids import Address, PortName, SessionName, SwitchName
from flowcheck_net.intent import Capabilities, Direction, FlowFilter, MirrorSource, Remark, RemarkKind
from tests.doubles.switches import FOREIGN, LIMITS, FakeFabric, session

RX_ONLY = Capabilities("small", 2, 3, frozenset({Direction.RX}), filters=False, source_in_many_sessions=True)


def switch(limits: Capabilities = LIMITS, *, exclusive: bool = False) -> FakeSwitch:
    made = FakeSwitch("leaf1", limits, destination_exclusive=exclusive)
    made.create(FOREIGN)
    return made


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        (session("netops-span", "Ethernet1:rx"), "exists already"),
        (session("s"), "no source"),
        (session("s", "Ethernet7:rx"), "Ethernet7 is already a source of netops-span"),
        (session("s", "Ethernet48:rx"), "a mirror of a mirror"),
        (session("s", "Ethernet1:rx", to="Ethernet7"), "a mirror of a mirror"),
        (session("s", "Ethernet1:rx", to="Ethernet1"), "source and destination"),
        (session("s", "Ethernet1:rx", to="Ethernet48"), "already the destination of netops-span"),
    ],
)
def test_the_switch_refuses_and_stays_as_it_was(wish, answer):
    device = switch(exclusive=True)
    with pytest.raises(Refused, match=answer):
        device.create(wish)
    assert list(device.sessions.values()) == [FOREIGN]


def test_a_platform_without_tx_and_filters_refuses_both_and_may_share_sources():
    device = switch(RX_ONLY)
    with pytest.raises(Refused, match="Ethernet1: tx cannot be mirrored"):
        device.create(session("s", "Ethernet1:tx"))
    with pytest.raises(Refused, match="filters are not supported"):
        device.create(session("s", "Ethernet1:rx", filters=[("10.0.0.1", "10.0.0.2")]))
    device.create(session("s", "Ethernet7:rx"))
    with pytest.raises(Refused, match="session table full: 2 of 2"):
        device.create(session("t", "Ethernet1:rx"))


def test_a_destination_may_be_shared_unless_it_is_exclusive():
    device = switch()
    device.create(session("s", "Ethernet1:rx", to="Ethernet48"))
    assert len(device.sessions) == 2


def test_offered_packets_are_copied_by_port_direction_and_filter():
    device = switch()
    device.create(session("plain", "Ethernet1:rx"))
    device.create(session("narrow", "Ethernet2:rx", filters=[("10.0.0.1", "10.0.0.2")]))
    flow = FlowFilter(Address("10.0.0.1"), Address("10.0.0.2"))
    back = FlowFilter(Address("10.0.0.2"), Address("10.0.0.1"))
    assert device.offer(PortName("Ethernet1"), Direction.RX, 3) == {"plain": 3}
    assert device.offer(PortName("Ethernet1"), Direction.TX, 3) == {}
    assert device.offer(PortName("Ethernet2"), Direction.RX, 4, flow) == {"narrow": 4}
    assert device.offer(PortName("Ethernet2"), Direction.RX, 4, back) == {}
    assert device.offer(PortName("Ethernet2"), Direction.RX, 4) == {}
    assert [device.packets(name) for name in device.sessions] == [0, 3, 4]
    assert device.ports == {
        MirrorSource(PortName("Ethernet1"), Direction.RX): 3,
        MirrorSource(PortName("Ethernet1"), Direction.TX): 3,
        MirrorSource(PortName("Ethernet2"), Direction.RX): 12,
    }


def test_the_fault_script_skips_strikes_and_ends():
    device = switch()
    device.faults.append(Fault(Call.READ, FaultKind.UNREACHABLE, skip=1, times=2))
    assert [device.strike(Call.READ) is not None for _ in range(5)] == [False, True, True, False, False]
    assert device.strike(Call.WRITE) is None


def test_a_fault_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="read can only be unreachable"):
        Fault(Call.READ, FaultKind.HALF)
    with pytest.raises(ValueError, match="1 or more"):
        Fault(Call.WRITE, FaultKind.HALF, times=0)


def test_the_file_holds_everything():
    device = switch(exclusive=True)
    device.create(session("s", "Ethernet1:rx", filters=[("10.0.0.1", "10.0.0.2")]))
    device.offer(PortName("Ethernet7"), Direction.RX, 9)
    device.faults.append(Fault(Call.WRITE, FaultKind.LOST_AFTER, step=1, skip=2, times=3))
    device.remarks.append(Remark(RemarkKind.SAMPLING, "1 packet in 16", session=SessionName("s")))
    device.restart_mark = "boot-7"
    device.latency = 0.25
    assert switch_from_json(switch_to_json(device), SwitchName("leaf1"), LIMITS) == device


def test_the_example_of_the_docstring_is_a_fake_switch():
    from flowcheck_net.drivers import fake

    assert fake.__doc__ is not None
    text = fake.__doc__.split("::\n\n")[1].split("\n\nOnly")[0]
    made = switch_from_json(text, SwitchName("leaf1"), LIMITS)
    assert list(made.sessions.values()) == [FOREIGN]
    assert made.faults == [Fault(Call.WRITE, FaultKind.LOST_AFTER, step=1)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "sessions": []}',
        '{"version": 1, "sessions": [], "latency": "slow"}',
        '{"version": 1, "sessions": [], "colour": 1}',
        '{"version": 1, "sessions": [{"name": "x"}]}',
        '{"version": 1, "sessions": [{"name": "x","destination": "e","sources": [{"port": "f", "direction": "up"}]}]}',
        '{"version": 1, "sessions": [{"name": "x", "destination": "e", "sources": [], "copies": '
        '[{"port": "f", "direction": "rx", "packets": 1}]}]}',
        '{"version": 1, "sessions": [], "remarks": [{"kind": "a feeling", "text": "bad"}]}',
        '{"version": 1, "sessions": [], "faults": [{"call": "read", "kind": "half"}]}',
        '{"version": 1, "sessions": [], "faults": [{"call": "write", "kind": "half", "step": -1}]}',
    ],
)
def test_a_file_that_is_no_fake_switch_is_a_clear_error(tmp_path: Path, text: str):
    path = tmp_path / "leaf1.json"
    path.write_text(text)
    with (
        pytest.raises(ConnectError, match=r"leaf1\.json is not a fake switch"),
        FileStore(SwitchName("leaf1"), path, LIMITS).transaction(),
    ):
        pass
    assert path.read_text() == text


def test_a_transaction_that_fails_leaves_the_file_as_it_was(tmp_path: Path):
    fabric = FakeFabric(tmp_path)
    fabric.seed("leaf1", FOREIGN)
    before = (tmp_path / "fake" / "leaf1.json").read_bytes()
    with pytest.raises(Refused):
        fabric.seed("leaf1", session("s", "Ethernet1:rx"), FOREIGN)
    assert (tmp_path / "fake" / "leaf1.json").read_bytes() == before


def test_users_of_one_file_do_not_overwrite_each_other(tmp_path: Path):
    FakeFabric(tmp_path).seed("leaf1", FOREIGN)

    def pass_packets(_: int) -> None:
        fabric = FakeFabric(tmp_path)
        for _ in range(25):
            fabric.offer("leaf1", "Ethernet7", "rx", 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pass_packets, range(4)))
    with FakeFabric(tmp_path).store("leaf1").transaction() as device:
        assert device.packets(FOREIGN.name) == 100


def test_latency_is_slept_a_call(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr("flowcheck_net.drivers.fake.time.sleep", slept.append)
    fabric = FakeFabric()
    with fabric.store("leaf1").transaction() as device:
        device.latency = 0.5
    with fabric.open("leaf1") as driver:
        driver.read()
    assert slept == [0.5, 0.5]


def test_names_in_the_file_are_those_of_the_intent(tmp_path: Path):
    fabric = FakeFabric(tmp_path)
    fabric.seed("leaf1", FOREIGN)
    raw = json.loads((tmp_path / "fake" / "leaf1.json").read_text())
    assert raw["sessions"] == [
        {
            "name": "netops-span",
            "sources": [{"port": "Ethernet7", "direction": "rx"}],
            "destination": "Ethernet48",
            "filters": [],
            "copies": [{"port": "Ethernet7", "direction": "rx", "packets": 0}],
        }
    ]


def test_a_restart_clears_counts_and_perhaps_the_sessions():
    device = switch()
    device.offer(PortName("Ethernet7"), Direction.RX, 9)
    device.restart("boot-2")
    assert (device.restart_mark, device.packets(FOREIGN.name), device.ports) == ("boot-2", 0, {})
    assert list(device.sessions.values()) == [FOREIGN]
    device.restart("boot-3", keep=False)
    assert not device.sessions
