"""The compiled program, run from its JSON in Python, beside the twin: packet by packet and counter by counter."""

import json
from typing import Any

import pytest

from tests.p4.artefacts import ARTEFACTS, BMV2
from tests.p4.json_switch import JsonSwitch
from tests.p4.scene import by_port, equipped, timed


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ARTEFACTS / BMV2).read_text())
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_program_does_what_the_twin_does(seed: int, program: dict[str, Any]) -> None:
    twin, model = equipped(), equipped()
    switch = JsonSwitch(program, model.tables, model.clone_sessions, model.default_forward)
    for now, port, frame in timed(seed):
        expected = twin.receive(port, frame, now)
        assert by_port(switch.receive(port, frame, now)) == by_port(expected), (now, frame.hex())
    assert {slot: cell[0] for slot, cell in switch.counters["fc.verdicts"].items()} == twin.follower.verdicts
    for name in ("fc.ingress_copies", "fc.egress_copies", "fc.sent_copies"):
        assert switch.counters[name] == twin.counters[name]
    assert {index: cell[0] for index, cell in switch.counters["fc.lost"].items()} == {
        index: cell[0] for index, cell in twin.counters["fc.lost"].items()
    }
    for table in ("fc.ingress_acl", "fc.egress_acl", "fc.flows"):
        assert [(e.packets, e.octets) for e in model.tables[table].entries] == [
            (e.packets, e.octets) for e in twin.tables[table].entries
        ]
    assert switch.registers["fc.flow_count"] == {index: r.count for index, r in twin.follower.state.items()}
    assert switch.registers["fc.flow_seen"] == {index: r.seen for index, r in twin.follower.state.items()}
    assert switch.registers["fc.flow_after"] == {index: r.after << 8 for index, r in twin.follower.state.items()}
    assert switch.registers["fc.flow_next"] == {index: r.next_psn << 8 for index, r in twin.follower.state.items()}
