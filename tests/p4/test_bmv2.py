"""The compiled program on BMv2 beside the twin, packet by packet and counter by counter."""

import os
from pathlib import Path

import pytest

from tests.p4.scene import PORTS, by_port, equipped, once_at_the_anchor, traffic


@pytest.fixture
def binary() -> Path:
    named = os.environ.get("FLOWCHECK_BMV2")
    if not named:
        pytest.skip("no BMv2 (FLOWCHECK_BMV2=/path/to/simple_switch_grpc)")
    pytest.importorskip("p4.v1.p4runtime_pb2", reason="the p4 extra is not installed", exc_type=ImportError)
    return Path(named)


@pytest.mark.parametrize("seed", [1, 2])
def test_bmv2_does_what_the_twin_does(seed: int, binary: Path, tmp_path: Path) -> None:
    from tests.p4.bmv2 import run

    twin, packets = equipped(), once_at_the_anchor(traffic(seed))
    expected = [sent for port, frame in packets for sent in twin.receive(port, frame)]
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with run(binary, folder, equipped(), packets, PORTS) as (switch, sent):
            # the ingress loses nothing: these hold in every run
            assert {index: n for index, (n, _) in switch.counter("fc.verdicts").items()} == twin.follower.verdicts
            for name in ("fc.ingress_copies", "fc.lost"):
                assert {i: n for i, (n, _) in switch.counter(name).items()} == {
                    i: cell[0] for i, cell in twin.counters[name].items()
                }
            for table in ("fc.ingress_acl", "fc.flows"):
                assert switch.direct(table) == sorted((e.packets, e.octets) for e in twin.tables[table].entries)
            if len(sent) < len(expected):
                continue  # a queue of a busy BMv2 overflowed, which it does not tell: nothing can be said of the egress
            assert by_port(sent) == by_port(expected)
            for name in ("fc.egress_copies", "fc.sent_copies"):
                assert switch.counter(name) == {index: tuple(cell) for index, cell in twin.counters[name].items()}
            assert switch.direct("fc.egress_acl") == [
                (e.packets, e.octets) for e in twin.tables["fc.egress_acl"].entries
            ]
            return
    pytest.skip("BMv2 lost packets in its queues in each of four runs: the machine is too busy")
