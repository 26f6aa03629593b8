"""apply, verify, a second apply and rollback from the command line, over P4Runtime; and what they leave."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.cli.main import run
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import Direction, MirrorSession, SwitchAddress
from flowcheck_net.plan.plan import plan_to_json
from tests.conformance.bench_p4runtime import P4RuntimeBench, TwinSwitch
from tests.doubles.p4runtime_device import BMV2, STRATUM
from tests.doubles.p4runtime_entries import MODIFY, clone_update
from tests.doubles.p4runtime_faults import Fault
from tests.doubles.p4runtime_server import Server
from tests.doubles.switches import plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx", to="Ethernet31")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")


class Fabric:
    """leaf1 is BMv2, leaf2 is Stratum on Tofino; the command line and a plan for both."""

    def __init__(self, servers: tuple[Server, Server], directory: Path) -> None:
        self.servers = servers
        self.benches = [
            P4RuntimeBench(TwinSwitch(server), platform, directory)
            for server, platform in zip(servers, ("bmv2", "tofino"), strict=True)
        ]
        self.plan = directory / "plan.json"
        self._state = directory / "state"
        plan = plan_for({"leaf1": [A, B], "leaf2": [A]})
        addresses = tuple(
            SwitchAddress(SwitchName(f"leaf{n}"), platform, f"p4rt:{server.address}?device=1&ports=Ethernet")
            for n, (server, platform) in enumerate(zip(servers, ("bmv2", "tofino"), strict=True), 1)
        )
        self.plan.write_text(plan_to_json(replace(plan, switches=addresses)))

    def shell(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
        monkeypatch.setattr("sys.argv", ["flowcheck-net", *words, str(self.plan), "--state-dir", str(self._state)])
        with pytest.raises(SystemExit) as ended:
            run()
        return int(ended.value.code or 0)

    def owned(self) -> list[tuple[MirrorSession, ...]]:
        found = []
        for bench in self.benches:
            with bench.open() as driver:
                found.append(driver.read().owned)
        return found


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    with Server(BMV2) as one, Server(STRATUM) as two:
        yield Fabric((one, two), tmp_path)


def test_from_apply_to_rollback(fabric: Fabric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    theirs = [bench.foreign_bytes() for bench in fabric.benches]
    assert fabric.shell(monkeypatch, "apply") == 0
    assert fabric.owned() == [(A, B), (A,)]
    sent = [len(server.writes) for server in fabric.servers]
    assert fabric.shell(monkeypatch, "apply") == 0
    assert "nothing was written" in capsys.readouterr().out
    assert [len(server.writes) for server in fabric.servers] == sent
    assert fabric.shell(monkeypatch, "verify") == 0
    assert fabric.shell(monkeypatch, "rollback") == 0
    assert fabric.owned() == [(), ()]
    assert [bench.foreign_bytes() for bench in fabric.benches] == theirs


def test_copies_that_stop_are_a_gap_and_named(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert fabric.shell(monkeypatch, "apply") == 0
    fabric.servers[0].put(clone_update(2, kind=MODIFY))
    capsys.readouterr()
    assert fabric.shell(monkeypatch, "verify") in (4, 6)
    said = "".join(capsys.readouterr())
    assert "fcn-gpt-0" in said
    assert "leaf1" in said


def test_where_one_switch_refuses_the_other_is_put_back(fabric: Fabric, monkeypatch: pytest.MonkeyPatch):
    fabric.servers[1].script.fault = Fault("refuse", "clone")
    assert fabric.shell(monkeypatch, "apply") == 7
    assert fabric.owned() == [(), ()]


def test_another_primary_is_named_and_nothing_is_written(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for server in fabric.servers:
        server.arbitration.join_stranger(20)
    assert fabric.shell(monkeypatch, "apply") in (5, 7)
    assert "election id 20" in "".join(capsys.readouterr())
    assert [server.writes for server in fabric.servers] == [[], []]


def test_traffic_is_proven_by_copies_that_were_sent(fabric: Fabric, monkeypatch: pytest.MonkeyPatch):
    assert fabric.shell(monkeypatch, "apply") == 0
    fabric.benches[0].traffic(PortName("Ethernet1"), Direction.RX, 7)
    with fabric.benches[0].open() as driver:
        counted = driver.counters()
    assert counted.sessions[A.name] == 7
    assert sum(counted.ports.values()) == 7
