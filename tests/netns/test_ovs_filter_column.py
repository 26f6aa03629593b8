"""The Mirror table's ``filter`` column of Open vSwitch 3.5: rows and what is read of them, on a database that has it.

Debian 12's switch does not know the column, so what the switch would do with it is not seen here.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Direction, RemarkKind, Step, StepKind, SwitchAddress
from flowcheck_net.lab.switch import SCHEMA
from tests.doubles.switches import session
from tests.netns.ovs_two_leaf import TwoLeaves

PAIRS = [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")]
BOTH = session("fcn-gpt-0", "l1h1:rx", "l1h1:tx", to="l1c0", filters=PAIRS)
PLAIN = session("fcn-gpt-1", "l1h2:rx", to="l1c1")


@pytest.fixture
def newer(leaves: TwoLeaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SwitchAddress]:
    """A copy of the database under a schema with the column."""
    monkeypatch.setattr("flowcheck_net.drivers.ovs_link._TAKE_UP", 0.0)
    schema = json.loads(SCHEMA.read_text())
    schema["tables"]["Mirror"]["columns"]["filter"] = {"type": {"key": "string", "min": 0, "max": 1}}
    (tmp_path / "newer.ovsschema").write_text(json.dumps(schema))
    path = tmp_path / "newer.sock"

    def convert(copy: Path) -> None:
        subprocess.run(["ovsdb-tool", "convert", str(copy), str(tmp_path / "newer.ovsschema")], check=True)

    leaves.lab.serve_copy(f"--remote=punix:{path}", change=convert)
    yield SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:unix:{path}#leaf1")
    leaves.lab.kill("copy")


def test_a_session_has_a_row_for_each_pair_in_both_directions(newer: SwitchAddress, leaves: TwoLeaves, tmp_path: Path):
    with open_driver(newer, "gpt", tmp_path) as driver:
        limits = driver.capabilities()
        assert (limits.filters, limits.filter_directions) == (True, frozenset(Direction))
        driver.write([Step(StepKind.CREATE, s) for s in (BOTH, PLAIN)])
        assert driver.read().owned == (BOTH, PLAIN)
        where = f"unix:{tmp_path}/newer.sock"
        dump = leaves.lab.run("ovsdb-client", "--no-headings", "dump", where, "Open_vSwitch", "Mirror", "filter")
        rows = [line for line in dump.splitlines() if line.startswith(('"', "["))]
        assert sorted(rows) == [
            '"udp,udp_dst=4791,nw_src=10.77.0.1,nw_dst=10.77.0.2"',
            '"udp6,udp_dst=4791,ipv6_src=fd77::1,ipv6_dst=fd77::2"',
            "[]",
        ]
        driver.write([Step(StepKind.DELETE, BOTH)])
        assert driver.read().owned == (PLAIN,)


def test_a_filter_that_is_not_in_our_words_is_remarked(newer: SwitchAddress, leaves: TwoLeaves, tmp_path: Path):
    with open_driver(newer, "gpt", tmp_path) as driver:
        driver.write([Step(StepKind.CREATE, PLAIN)])
        change = {"op": "update", "table": "Mirror", "where": [["name", "==", PLAIN.name]], "row": {"filter": "icmp"}}
        where = f"unix:{tmp_path}/newer.sock"
        leaves.lab.run("ovsdb-client", "transact", where, json.dumps(["Open_vSwitch", change]))
        state = driver.read()
    assert state.owned == (PLAIN,)
    assert any(r.kind is RemarkKind.FILTER and "icmp" in r.text for r in state.remarks)
