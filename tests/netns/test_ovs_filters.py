"""Filtered mirroring by OpenFlow rules: exactly the pairs, the bridge's own pipeline untouched, refusals by name."""

from pathlib import Path

import pytest

from flowcheck_net.errors import Rejected, StateUnknown
from flowcheck_net.ids import Address
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, StepKind, SwitchState
from tests.doubles.ovs_lab import frame
from tests.doubles.switches import session
from tests.netns.ovs_two_leaf import ADDRESSES, TwoLeaves

PAIR = (ADDRESSES["host1"], ADDRESSES["host2"])
SIX = ("fd77::1", "fd77::2")
FILTERED = session("fcn-gpt-0", "l1h1:rx", "l1h2:rx", to="l1c0", filters=[PAIR, SIX])


def flow(source: str, destination: str) -> FlowFilter:
    return FlowFilter(Address(source), Address(destination))


def read(leaves: TwoLeaves) -> SwitchState:
    with leaves.open() as driver:
        return driver.read()


def rules(leaves: TwoLeaves) -> list[str]:
    """The bridge's rules without their counts."""
    text = leaves.lab.run(
        "ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", f"unix:{leaves.lab.directory}/leaf1.mgmt"
    )
    return sorted(line.strip() for line in text.splitlines() if "actions=" in line)


def test_exactly_the_pairs_are_copied_and_everything_is_forwarded_once(leaves: TwoLeaves):
    leaves.write(FILTERED)
    to = leaves.lab.number("l1h2")
    wanted = [frame(to, flow(*PAIR), n) for n in range(3)] + [frame(to, flow(*SIX), n) for n in range(4)]
    others = [
        *(frame(to, flow(PAIR[1], PAIR[0]), n) for n in range(5)),
        *(frame(to, flow("10.77.0.9", PAIR[1]), n) for n in range(5)),
        frame(to),
    ]
    with leaves.listening("l1c0", "l1h2") as heard:
        leaves.lab.send("l1h1", others + wanted)
        heard["l1h2"].wait_for(len(others + wanted))
        heard["l1c0"].wait_for(len(wanted))
        heard["l1c0"].count()
        assert sorted(heard["l1c0"].frames) == sorted(wanted)
        assert sorted(heard["l1h2"].frames) == sorted(others + wanted)
    with leaves.open() as driver:
        found = driver.counters()
    assert found.sessions == {"fcn-gpt-0": 7}
    assert sorted(found.sources.values()) == [0, 7]


def test_the_capture_port_is_reserved_even_where_the_bridge_floods(leaves: TwoLeaves):
    """With NORMAL as the pipeline an unknown address is flooded: to every port but the mirror's output."""
    leaves.lab.ofctl("leaf1", "replace-flows", "-", stdin="table=0,priority=0,actions=NORMAL")
    leaves.write(FILTERED)
    with leaves.listening("l1c0", "l1c1", "l1h2") as heard:
        leaves.lab.send("l1h1", [frame(0xBEEF, flow(*PAIR))] * 2 + [frame(0xBEEF)] * 3)
        heard["l1h2"].wait_for(5)
        assert [heard[p].count() for p in ("l1c0", "l1c1", "l1h2")] == [2, 5, 5]


def test_the_rules_of_others_stay_word_for_word(leaves: TwoLeaves):
    before, database = rules(leaves), leaves.lab.dump()
    leaves.write(FILTERED)
    theirs = [line for line in rules(leaves) if "cookie=0xfc4e" not in line]
    assert theirs == before
    assert len(rules(leaves)) == len(before) + 4
    leaves.write(FILTERED, kind=StepKind.DELETE)
    assert rules(leaves) == before
    assert leaves.lab.dump() == database


def test_a_bridge_with_other_rules_in_its_first_table_is_refused_with_the_way_out(leaves: TwoLeaves):
    leaves.lab.ofctl("leaf1", "add-flow", "table=0,priority=50,arp,actions=drop")
    before, database = rules(leaves), leaves.lab.dump()
    with pytest.raises(Rejected, match=r"rules of others \(1\), such as `arp`.*move the rules of leaf1 to table 1"):
        leaves.write(FILTERED)
    assert (rules(leaves), leaves.lab.dump()) == (before, database)
    with leaves.open() as driver:
        assert not driver.capabilities().filters


def test_what_leaves_a_port_cannot_be_filtered_here(leaves: TwoLeaves):
    with leaves.open() as driver:
        assert driver.capabilities().filter_directions == {Direction.RX}
    with pytest.raises(Rejected, match=r"not what leaves by l1h1 \(tx\)"):
        leaves.write(session("fcn-gpt-0", "l1h1:tx", to="l1c0", filters=[PAIR]))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (session("fcn-gpt-1", "l1h1:rx", to="l1c1", filters=[PAIR]), "filters the same packets at l1h1"),
        (session("fcn-gpt-1", "l1h1:rx", to="l1c1", filters=[("10.0.0.1", "fd77::1")]), "two IP versions"),
        (session("fcn-gpt-16777216", "l1h1:rx", to="l1c1", filters=[SIX]), "cookie"),
    ],
)
def test_filters_that_no_rule_can_be(leaves: TwoLeaves, wrong: MirrorSession, text: str):
    leaves.write(session("fcn-gpt-0", "l1h1:rx", to="l1c0", filters=[PAIR]))
    with pytest.raises(Rejected, match=text):
        leaves.write(wrong)


def test_rules_that_a_restart_forgot_are_read_as_missing_and_can_be_written_again(leaves: TwoLeaves):
    leaves.write(FILTERED)
    leaves.lab.kill("vswitchd")
    leaves.lab.start_vswitchd()
    leaves.reset_rules()
    (found,) = read(leaves).owned
    assert (found.name, found.sources, found.filters) == (FILTERED.name, (), FILTERED.filters)
    leaves.write(found, kind=StepKind.DELETE)
    leaves.write(FILTERED)
    assert read(leaves).owned == (FILTERED,)


def test_one_rule_less_is_one_pair_less(leaves: TwoLeaves):
    leaves.write(FILTERED)
    match = f"in_port={leaves.lab.number('l1h2')},udp,tp_dst=4791,nw_src={PAIR[0]},nw_dst={PAIR[1]}"
    leaves.lab.ofctl("leaf1", "del-flows", f"table=0,{match}")
    state = read(leaves)
    assert [(f.source, f.destination) for f in state.owned[0].filters] == [SIX]
    assert any("not at every source" in r.text for r in state.remarks)


def test_rules_whose_row_is_gone_are_a_session_that_can_be_removed(leaves: TwoLeaves):
    before = rules(leaves)
    leaves.write(FILTERED)
    leaves.lab.vsctl("clear", "bridge", "leaf1", "mirrors")
    state = read(leaves)
    assert state.owned == (FILTERED,)
    assert any("without their mirror row" in r.text for r in state.remarks)
    leaves.write(*state.owned, kind=StepKind.DELETE)
    assert read(leaves).owned == ()
    assert rules(leaves) == before


def test_a_pipeline_that_changed_since_is_remarked(leaves: TwoLeaves):
    leaves.write(FILTERED)
    assert read(leaves).remarks == ()
    leaves.lab.ofctl("leaf1", "add-flow", "table=0,priority=0,actions=resubmit(,2)")
    assert any(r.kind is RemarkKind.OTHER and "table 0 was changed" in r.text for r in read(leaves).remarks)


def fake_ofctl(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """An ovs-ofctl that fails at bundles, before the real one in the path."""
    script = directory / "ovs-ofctl"
    script.write_text(f'#!/bin/sh\ncase "$*" in *--bundle*) {body} ;; esac\nexec /usr/bin/ovs-ofctl "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin:/usr/sbin:/sbin")


def test_rules_that_are_refused_take_the_rows_back_with_them(
    leaves: TwoLeaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plain = session("fcn-gpt-5", "l1h1:tx", to="l1c1")
    leaves.write(plain)
    before, database = rules(leaves), leaves.lab.dump()
    fake_ofctl(tmp_path, monkeypatch, "echo table full >&2; exit 1")
    with pytest.raises(Rejected, match="table full; nothing was changed"):
        leaves.write(FILTERED)
    assert read(leaves).owned == (plain,)
    assert (rules(leaves), leaves.lab.dump()) == (before, database)


def test_rules_of_which_nothing_is_heard_are_an_unknown_state_that_a_look_clears_up(
    leaves: TwoLeaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fake_ofctl(tmp_path, monkeypatch, "kill -9 $$")
    with pytest.raises(StateUnknown, match="OpenFlow rules"):
        leaves.write(FILTERED)
    (half,) = read(leaves).owned
    assert half.sources == ()
    leaves.write(half, kind=StepKind.DELETE)
    assert read(leaves).owned == ()
