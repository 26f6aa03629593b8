"""What only a real BMv2 can tell: that the test server answers as it does, and that its oddities are dealt with."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_client import Client
from flowcheck_net.drivers.p4runtime_errors import Refused
from flowcheck_net.drivers.p4runtime_reference import parse_reference
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Step, StepKind, SwitchAddress
from tests.conformance import bench_p4runtime
from tests.conformance.bench import Cannot, create, session
from tests.conformance.bench_p4runtime import UPLINK, P4RuntimeBench
from tests.conformance.test_driver import read, write
from tests.doubles.bmv2_lab import Bmv2Lab
from tests.doubles.ovs_lab import frame
from tests.doubles.p4runtime_device import BMV2
from tests.doubles.p4runtime_entries import ALL_PORT, DELETE, MODIFY, clone_update, rule, table_update
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_server import Server
from tests.doubles.p4runtime_wrong import before, wrong_updates
from tests.p4.artefacts import ARTEFACTS
from tests.p4.artefacts import BMV2 as PROGRAM

HEADER = {"dst_mac": 1, "src_mac": 2, "switch_id": 3}


@pytest.fixture
def bmv2(tmp_path: Path) -> Iterator[P4RuntimeBench]:
    try:
        with bench_p4runtime.real(tmp_path) as made:
            yield made
    except Cannot as why:
        pytest.skip(str(why))


@pytest.fixture
def lab(bmv2: P4RuntimeBench) -> Bmv2Lab:
    del bmv2
    return bench_p4runtime._shared[0]


def codes(address: str, updates: list[p4runtime_pb2.Update]) -> list[str]:
    client = Client(parse_reference(f"p4rt:{address}?device=1"))
    try:
        with client.primary():
            return [error.code if error else "OK" for error in client.write_all(updates)]
    finally:
        client.close()


def test_the_test_server_refuses_with_the_codes_of_bmv2(lab: Bmv2Lab):
    lab.reset()
    updates = [update for update, _ in wrong_updates(lab.info)] + [clone_update(9, (3, 1))]
    with Server(BMV2) as server:
        server.put(*before(server.device.p4info()))
        lab.put(before(lab.info)[0])
        lab.put(before(lab.info)[1])
        assert codes(lab.relay.address, updates) == codes(server.address, updates)


def test_a_full_table_is_unknown_on_both(lab: Bmv2Lab):
    lab.reset()
    every = [table_update(lab.info, "fc.monitor_ports", {"port": port}, "fc.with_header", HEADER) for port in range(65)]
    with Server(BMV2) as server:
        assert codes(lab.relay.address, every) == ["OK"] * 64 + ["UNKNOWN"]
        server.device.quirks = replace(BMV2, backwards=False)
        assert codes(server.address, every) == ["OK"] * 64 + ["UNKNOWN"]


def test_stale_replicas_of_somebody_elses_push_get_no_copies_with_ours(bmv2: P4RuntimeBench, lab: Bmv2Lab):
    lab.put(clone_update(2, (48, 1)))
    lab.load()
    bmv2._forward()
    with lab.place.listening("f48") as elsewhere, lab.place.listening("f31") as monitor:
        write(bmv2, create(session(bmv2, 0, "0:rx")))
        lab.cross(1, UPLINK, [frame(UPLINK, None, n) for n in range(20)], [2])
        assert (len(monitor.waiting()), len(elsewhere.waiting())) == (20, 0)


def test_the_oddity_is_there(lab: Bmv2Lab, bmv2: P4RuntimeBench):
    """The test above would see red: an insert alone adds to what the push has left."""
    lab.put(clone_update(2, (48, 1)))
    lab.load()
    bmv2._forward()
    lab.put(clone_update(2, (31, 1)))
    lab.put(rule(lab.info, "ingress", {"port": (1, ALL_PORT)}, 2))
    with lab.place.listening("f48") as elsewhere:
        frames = [frame(UPLINK, None, n) for n in range(20)]
        with pytest.raises(TimeoutError):
            lab.cross(1, UPLINK, frames, [2])
        assert len(elsewhere.waiting()) == 20
    lab.put(rule(lab.info, "ingress", {"port": (1, ALL_PORT)}, 2, kind=DELETE))
    lab.put(clone_update(2, kind=DELETE))


def test_a_refused_change_of_a_session_is_half_done_on_both(lab: Bmv2Lab):
    wanted = clone_update(5, (32, 1), kind=MODIFY, length=64)
    lab.reset()
    lab.put(clone_update(5, (31, 1)))
    with Server(BMV2) as server:
        server.put(clone_update(5, (31, 1)))
        assert codes(lab.relay.address, [wanted]) == codes(server.address, [wanted]) == ["UNKNOWN"]
        asked = p4runtime_pb2.Entity()
        asked.packet_replication_engine_entry.clone_session_entry.session_id = 5
        for (found,) in (lab.read(asked), list(server.device.read(asked))):
            replicas = found.packet_replication_engine_entry.clone_session_entry.replicas
            assert [r.egress_port for r in replicas] == [32]


def test_the_driver_loads_the_pipeline_and_our_copies_do_not_linger(lab: Bmv2Lab, tmp_path: Path):
    lab.reset()
    info = tmp_path / "fc.p4info.txtpb"
    info.write_text(text_format.MessageToString(build_p4info(sizes={"fc.loss": 128})))
    words = f"device=1&ports=Ethernet&p4info={info}&program={ARTEFACTS / PROGRAM}&push=replace"
    reference = f"p4rt:{lab.relay.address}?{words}"
    made = session(P4RuntimeBench, 0, "0:rx")  # type: ignore[arg-type]
    for _ in range(2):
        with open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", reference), "gpt", tmp_path) as driver:
            steps = [] if made in driver.read().owned else [Step(StepKind.CREATE, made)]
            driver.write(steps)
            assert driver.read().owned == (made,)


def test_a_switch_without_a_pipeline_says_so_or_is_given_one_by_the_first_write(lab: Bmv2Lab, tmp_path: Path):
    lab.revive()
    info = tmp_path / "fc.p4info.txtpb"
    info.write_text(text_format.MessageToString(lab.info))
    plain = f"p4rt:{lab.relay.address}?device=1&ports=Ethernet"
    made = session(P4RuntimeBench, 0, "0:rx")  # type: ignore[arg-type]
    with (
        open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", plain), "gpt", tmp_path) as driver,
        pytest.raises(ConnectError, match="runs no pipeline"),
    ):
        driver.read()
    words = f"{plain}&p4info={info}&program={ARTEFACTS / PROGRAM}&push=empty"
    with open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", words), "gpt", tmp_path) as driver:
        assert driver.read().restart_mark == ""
        driver.write([Step(StepKind.CREATE, made)])
        assert driver.read().owned == (made,)
        assert driver.read().restart_mark.startswith("cookie 0x")


def test_a_stranger_with_a_higher_id_is_named_and_one_that_comes_stops_us(bmv2: P4RuntimeBench, lab: Bmv2Lab):
    high = Client(parse_reference(f"p4rt:{lab.relay.address}?device=1&election=20"))
    low = Client(parse_reference(f"p4rt:{lab.relay.address}?device=1"))
    try:
        with high.primary(), pytest.raises(Refused, match="election id 20 is the primary"), low.primary():
            pass
        with low.primary(), high.primary(), pytest.raises(Refused, match=r"20 has taken over|another controller"):
            low.write_all([clone_update(9, (3, 1))])
    finally:
        high.close()
        low.close()
    assert read(bmv2).foreign == bmv2.foreign
