"""plan -> apply -> traffic -> every observation point sees the expected copies and no more; on a real Open vSwitch."""

import json
from pathlib import Path

import pytest

from flowcheck_net.cli.main import run
from tests.conformance.bench_ovs import add_mirror
from tests.doubles.ovs_lab import frame
from tests.netns.ovs_two_leaf import CAPTURES, SPARE, TwoLeaves

RING = (("host1", "host2", 3), ("host2", "host3", 5), ("host3", "host4", 7), ("host4", "host1", 11))
"""Hop of the ring and packets on it: every sum of some of them is another number."""
FOREIGN = "netops-span"


class Shell:
    """Runs the command line and keeps what it printed."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self._state = directory / "state"
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        state = () if words[0] == "plan" else ("--state-dir", str(self._state))
        self._monkeypatch.setattr("sys.argv", ["flowcheck-net", *words, *state])
        with pytest.raises(SystemExit) as ended:
            run()
        self.out, self.err = self._capsys.readouterr()
        return int(ended.value.code or 0)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def plan(leaves: TwoLeaves, shell: Shell, tmp_path: Path) -> Path:
    """The example's plan, for the lab; somebody else mirrors beside it."""
    add_mirror(leaves.lab, "leaf1", FOREIGN, "l1h2", SPARE, "owner=netops")
    made = tmp_path / "plan.json"
    assert shell("plan", str(leaves.specs(tmp_path / "specs")), "-o", str(made)) == 0
    return made


def expected(plan: Path) -> dict[str, list[tuple[str, str, int]]]:
    """The hops that pass the sources of each capture port, worked out from the cables and not by our own model."""
    sides = {("l1h1", "rx"): 0, ("l1h2", "rx"): 1, ("l2h3", "rx"): 2, ("l2h4", "rx"): 3}
    sides |= {("l1h2", "tx"): 0, ("l2h3", "tx"): 1, ("l2h4", "tx"): 2, ("l1h1", "tx"): 3}
    found: dict[str, list[tuple[str, str, int]]] = {port: [] for port in CAPTURES}
    for entry in json.loads(plan.read_text())["sessions"]:
        for source in entry["session"]["sources"]:
            found[entry["session"]["destination"]].append(RING[sides[source["port"], source["direction"]]])
    return found


def test_every_observation_point_sees_its_hops_and_nothing_else(leaves: TwoLeaves, shell: Shell, plan: Path):
    assert shell("apply", str(plan)) == 0, shell.err
    wanted = expected(plan)
    assert sum(bool(hops) for hops in wanted.values()) == 3
    with leaves.listening(*CAPTURES, SPARE) as heard:
        sent = {(a, b, n): leaves.offer(a, b, n) for a, b, n in RING}
        # A packet that no ring carries, to see that silence is not deafness: host1 to host3 enters at l1h1.
        other = leaves.offer("host1", "host3", 2, first=900)
        for port, hops in wanted.items():
            frames = [f for hop in hops for f in sent[hop]] + (other if ("host1", "host2", 3) in hops else [])
            heard[port].wait_for(len(frames))
            heard[port].count()
            assert sorted(heard[port].frames) == sorted(frames), port
        assert heard[SPARE].count() == 5


def test_a_second_apply_changes_nothing(leaves: TwoLeaves, shell: Shell, plan: Path):
    assert shell("apply", str(plan)) == 0
    before = leaves.lab.dump(), leaves.lab.vsctl("get", "open", ".", "next_cfg")
    assert shell("apply", str(plan)) == 0
    assert "nothing was written" in shell.out
    assert (leaves.lab.dump(), leaves.lab.vsctl("get", "open", ".", "next_cfg")) == before


def test_rollback_leaves_the_database_as_before_and_the_foreign_mirror_as_it_was(
    leaves: TwoLeaves, shell: Shell, plan: Path
):
    before = leaves.lab.dump()
    foreign = [row for row in before["Mirror table"] if FOREIGN in row]
    assert len(foreign) == 1
    assert shell("apply", str(plan)) == 0
    during = leaves.lab.dump()
    assert during != before
    assert [row for row in during["Mirror table"] if FOREIGN in row] == foreign
    assert shell("rollback", str(plan)) == 0, shell.err
    assert leaves.lab.dump() == before
    with leaves.listening(*CAPTURES) as heard:
        leaves.offer("host1", "host2", 4)
        assert [h.count() for h in heard.values()] == [0, 0, 0, 0]


def test_hot_flows_take_up_a_new_mirror(leaves: TwoLeaves, shell: Shell, plan: Path):
    """Open vSwitch 3.1 keeps the former mirrors in its datapath flows: without a purge this sees no copy at all."""
    leaves.offer("host1", "host2", 50)
    assert shell("apply", str(plan)) == 0
    with leaves.listening("l1c0", "l1c1") as heard:
        leaves.offer("host1", "host2", 6)
        assert sum(h.count() for h in heard.values()) == 6
        assert shell("rollback", str(plan)) == 0
        leaves.offer("host1", "host2", 6)
        assert sum(h.count() for h in heard.values()) == 6


def test_verify_names_what_somebody_did_to_our_mirror(leaves: TwoLeaves, shell: Shell, plan: Path):
    assert shell("apply", str(plan)) == 0
    with leaves.lab.counting_often(SPARE):
        assert shell("verify", str(plan)) == 0, shell.out
        leaves.lab.vsctl("clear", "Mirror", "fcn-gpt-ovs-2", "select_dst_port")
        assert shell("verify", str(plan)) == 6
    assert "lacks source" in shell.out + shell.err


def test_a_frame_for_nobody_is_mirrored_and_goes_nowhere(leaves: TwoLeaves, shell: Shell, plan: Path):
    assert shell("apply", str(plan)) == 0
    with leaves.listening("l1c0", "l1h2") as heard:
        leaves.lab.send("l1h1", [frame(0xABCD)] * 3)
        heard["l1c0"].wait_for(3)
        assert (heard["l1c0"].count(), heard["l1h2"].count()) == (3, 0)
