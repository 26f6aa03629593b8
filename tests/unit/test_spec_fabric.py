"""What topology.yaml may say of bonds, other owners' sessions and capture addresses."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from flowcheck_net.spec.check_topology import check_topology
from flowcheck_net.spec.topology import Topology
from tests.oracle.plan_specs import Raw, leaf_fabric


def faults(topology: Raw) -> list[str]:
    return [fault.message for fault in check_topology(Topology.model_validate_json(json.dumps(topology)))]


def fabric() -> Raw:
    return leaf_fabric({"h1": "leaf1", "h2": "leaf1"}, [("n", "leaf1", "400G")])


def bonded(speed: str, lag: str | None) -> Raw:
    made = fabric()
    made["hosts"][0]["nics"][0]["lag"] = "bond0"
    made["hosts"][0]["nics"].append({"name": "nic1", "speed": speed, "addresses": ["10.1.0.1"], "lag": lag})
    made["switches"][0]["ports"].append({"name": "P9", "speed": speed})
    made["links"].append(["h1:nic1", "leaf1:P9"])
    return made


def test_a_bond_of_two_equal_nics_is_fine() -> None:
    assert faults(bonded("400G", "bond0")) == []


def test_a_bond_needs_two_nics_of_one_speed() -> None:
    assert faults(bonded("400G", None)) == ["h1 has no second NIC in bond0"]
    assert faults(bonded("100G", "bond0")) == ["the NICs of h1 in bond0 differ in speed"]


def test_a_capture_address_is_nobody_elses() -> None:
    made = fabric()
    made["checkpoint_nodes"][0]["nics"][0]["address"] = "10.0.0.2"
    assert faults(made) == ["the address 10.0.0.2 belongs to h2:nic0 already"]


def test_a_foreign_session_is_named_once_and_not_its_own_source() -> None:
    made = fabric()
    session = {"name": "ids", "sources": ["P1:both"], "destination": "P1"}
    made["switches"][0]["foreign_sessions"] = [session, {**session, "sources": []}]
    assert faults(made) == ["P1 would be mirrored to itself", "leaf1 has a session 'ids' already"]


@pytest.mark.parametrize(
    "change",
    [
        {"foreign_sessions": [{"name": "ids", "sources": ["P1"], "destination": "P2"}]},
        {"limits": {"max_sessions": -1}},
        {"limits": {"session_limits": [{"counts": "both", "most": 1}]}},
        {"limits": {"sampling": 2}},
    ],
)
def test_what_is_no_limit(change: dict[str, Any]) -> None:
    made = fabric()
    made["switches"][0].update(change)
    with pytest.raises(ValidationError):
        Topology.model_validate_json(json.dumps(made))
