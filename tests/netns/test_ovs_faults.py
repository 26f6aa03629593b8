"""Other writers, dying servers, dead switches, ports that are not what they seem: on a real Open vSwitch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Reach
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, Rejected, RolledBack, StateUnknown
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import RemarkKind, Step, StepKind, SwitchAddress
from tests.conformance.bench_ovs import add_mirror
from tests.doubles.ovs_proxy import Cut, Proxy
from tests.doubles.switches import plan_for, session
from tests.netns.ovs_two_leaf import SPARE, TwoLeaves

A = session("fcn-gpt-0", "l1h1:rx", "l1h1:tx", to="l1c0")
B = session("fcn-gpt-1", "l1h2:rx", to="l1c1")
CREATE_A = [Step(StepKind.CREATE, A)]


@contextmanager
def server_dies(leaves: TwoLeaves, cut: Cut) -> Iterator[SwitchAddress]:
    """The address of leaf1 by way of a proxy, where the database server is killed at the first change."""
    lab = leaves.lab
    path = lab.directory / "proxy.sock"
    with Proxy(path, lab.database, cut, lambda: lab.kill("ovsdb")):
        yield SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:unix:{path}#leaf1")


@pytest.mark.parametrize(
    "meddle",
    [
        ("set", "Mirror", "netops-span", "snaplen=100"),
        ("clear", "bridge", "leaf1", "mirrors"),
        ("add-port", "leaf1", "meddler", "--", "set", "interface", "meddler", "type=internal"),
    ],
    ids=["a foreign mirror is changed", "the foreign mirror goes", "a port comes"],
)
def test_what_changed_between_reading_and_writing_is_refused_and_nothing_is_written(
    leaves: TwoLeaves, meddle: tuple[str, ...]
):
    add_mirror(leaves.lab, "leaf1", "netops-span", "l1h2", SPARE)
    with leaves.open() as driver:
        driver.read()
        leaves.lab.vsctl(*meddle)
        after = leaves.lab.dump()
        with pytest.raises(Rejected, match="changed by someone else since they were read; nothing written"):
            driver.write(CREATE_A)
        assert leaves.lab.dump() == after
        driver.read()
        driver.write(CREATE_A)
        assert driver.read().owned == (A,)


def test_a_session_that_somebody_changed_is_not_deleted(leaves: TwoLeaves):
    leaves.write(A)
    leaves.lab.vsctl("clear", "Mirror", "fcn-gpt-0", "select_dst_port")
    after = leaves.lab.dump()
    with pytest.raises(Rejected, match="changed by someone else"):
        leaves.write(A, kind=StepKind.DELETE)
    assert leaves.lab.dump() == after


@pytest.mark.parametrize(("cut", "wanted"), [(Cut.BEFORE, ()), (Cut.AFTER, (A,))])
def test_a_server_killed_before_or_after_its_answer_leaves_a_state_that_a_look_clears_up(
    leaves: TwoLeaves, cut: Cut, wanted: tuple[object, ...]
):
    with server_dies(leaves, cut) as address, open_driver(address, "gpt", leaves.lab.directory) as driver:
        with pytest.raises(StateUnknown, match="no answer to the transaction"):
            driver.write(CREATE_A)
        with pytest.raises(ConnectError):
            driver.read()
    with pytest.raises(ConnectError, match=r"is ovsdb-server running|nothing listens"), leaves.open():
        pass
    leaves.lab.start_ovsdb()
    with leaves.open() as driver:
        assert driver.read().owned == wanted


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_the_engine_finds_out_what_a_killed_server_has_done(
    leaves: TwoLeaves, tmp_path: Path, cut: Cut, monkeypatch: pytest.MonkeyPatch
):
    # The switch takes seconds to find a server that was killed.
    monkeypatch.setattr("flowcheck_net.drivers.ovs_link._TAKE_UP", 0.1)
    lab = leaves.lab
    before = lab.dump()
    path = lab.directory / "proxy.sock"

    def strike() -> None:
        lab.kill("ovsdb")
        lab.start_ovsdb()

    def reach(address: SwitchAddress) -> Reach:
        return Reach(lambda _: open_driver(address, "gpt", lab.directory), pause=0.1)

    plan = plan_for({"leaf1": [A, B]})
    with Journal(tmp_path / "journal.sqlite") as journal, Proxy(path, lab.database, cut, strike):
        there = reach(SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:unix:{path}#leaf1"))
        if cut is Cut.AFTER:
            assert apply_plan(plan, "d", journal, there).run == 1
        else:
            with pytest.raises(RolledBack, match="every switch is in its former state"):
                apply_plan(plan, "d", journal, there)
    with leaves.open() as driver:
        assert driver.read().owned == ((A, B) if cut is Cut.AFTER else ())
    if cut is Cut.BEFORE:
        assert lab.dump() == before


@pytest.fixture
def far(leaves: TwoLeaves, tmp_path: Path) -> SwitchAddress:
    """The bridge as it is seen from another machine: its database, and nothing of the sockets beside it."""
    (tmp_path / "db.sock").symlink_to(leaves.lab.database)
    return SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:unix:{tmp_path}/db.sock#leaf1")


def test_from_afar_there_are_no_rules_and_no_purge_and_that_is_said(
    leaves: TwoLeaves, far: SwitchAddress, tmp_path: Path
):
    filtered = session("fcn-gpt-1", "l1h2:rx", to="l1c1", filters=[("10.77.0.2", "10.77.0.1")])
    before = leaves.lab.dump()
    with open_driver(far, "gpt", tmp_path) as driver:
        assert not driver.capabilities().filters
        with pytest.raises(Rejected, match="run flowcheck-net on the switch"):
            driver.write([Step(StepKind.CREATE, filtered)])
        assert leaves.lab.dump() == before
        driver.write(CREATE_A)
        state = driver.read()
    assert state.owned == (A,)
    assert [r.kind for r in state.remarks] == [RemarkKind.OTHER]
    assert "run `ovs-appctl revalidator/purge` on the switch" in state.remarks[0].text


def test_a_switch_process_that_is_dead_is_remarked_from_afar_and_told_at_home(
    leaves: TwoLeaves, far: SwitchAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flowcheck_net.drivers.ovs_link._TAKE_UP", 0.1)
    leaves.lab.kill("vswitchd")
    with leaves.open() as driver, pytest.raises(ConnectError, match="is ovs-vswitchd running"):
        driver.read()
    with open_driver(far, "gpt", tmp_path) as driver:
        driver.write(CREATE_A)
        state = driver.read()
    assert state.owned == (A,)
    assert any(r.kind is RemarkKind.INACTIVE and "has not taken up the configuration" in r.text for r in state.remarks)


def test_a_port_that_went_away_leaves_the_session_without_it(leaves: TwoLeaves):
    leaves.lab.vsctl("add-port", "leaf1", "extra", "--", "set", "interface", "extra", "type=internal")
    leaves.write(session("fcn-gpt-0", "l1h1:rx", "extra:rx", to="l1c0"), session("fcn-gpt-1", "l1h2:rx", to="extra"))
    leaves.lab.vsctl("del-port", "leaf1", "extra")
    with leaves.open() as driver:
        state = driver.read()
    assert state.owned == (session("fcn-gpt-0", "l1h1:rx", to="l1c0"), session("fcn-gpt-1", "l1h2:rx", to="(none)"))
    assert any(r.kind is RemarkKind.INACTIVE and r.session == "fcn-gpt-1" for r in state.remarks)


def test_links_that_are_down_are_remarked(leaves: TwoLeaves):
    leaves.write(A)
    ends = {p: leaves.lab.far(p) for p in ("l1h1", "l1c0")}
    try:
        for far in ends.values():
            leaves.lab.run("ip", "link", "set", far, "down")
        for port in ends:
            leaves.lab.vsctl("--timeout=5", "wait-until", "Interface", port, "link_state=down")
        with leaves.open() as driver:
            found = {(r.kind, r.port) for r in driver.read().remarks}
        assert found == {(RemarkKind.DESTINATION_DOWN, "l1c0"), (RemarkKind.SOURCE_DOWN, "l1h1")}
    finally:
        for port, far in ends.items():
            leaves.lab.run("ip", "link", "set", far, "up")
            leaves.lab.vsctl("--timeout=5", "wait-until", "Interface", port, "link_state=up")


def test_output_ports_that_carry_something_else_are_refused(leaves: TwoLeaves):
    lab = leaves.lab
    patch = ("type=patch", "options:peer=nowhere")
    lab.vsctl("--", "add-port", "leaf1", "apatch", "--", "set", "interface", "apatch", *patch)
    lab.vsctl(
        "--", "add-port", "leaf1", "avm", "--", "set", "interface", "avm", "type=internal", "external_ids:iface-id=vm7"
    )
    lab.run("ip", "address", "add", "10.98.0.1/24", "dev", "l1c0")
    try:
        for port, why in (
            ("l1c0", "has the address 10.98.0.1"),
            ("leaf1", "is the bridge's own port"),
            ("apatch", "is a patch"),
            ("avm", "virtual machine"),
            ("nothing", "has no port nothing"),
            ("l1h1", "source and destination"),
        ):
            with pytest.raises(Rejected, match=why):
                leaves.write(session("fcn-gpt-0", "l1h1:rx", to=port))
        with pytest.raises(Rejected, match="apatch is a patch port, where Open vSwitch mirrors nothing"):
            leaves.write(session("fcn-gpt-0", "apatch:rx", to="l1c1"))
    finally:
        lab.run("ip", "address", "flush", "dev", "l1c0")
    with leaves.open() as driver:
        assert driver.read().owned == ()


def test_foreign_mirrors_of_every_form_are_read(leaves: TwoLeaves):
    """All ports, a VLAN as output, no output, no name, a name like ours without our mark."""
    lab = leaves.lab
    add_mirror(lab, "leaf1", "fcn-gpt-0", "l1h1", SPARE)
    add_mirror(lab, "leaf1", "rspan", "l1h2", SPARE)
    lab.vsctl("--", "clear", "Mirror", "rspan", "output_port", "--", "set", "Mirror", "rspan", "output_vlan=77")
    lab.vsctl("--", "--id=@m", "create", "Mirror", "name=everything", "select_all=true", "--", "add", "Bridge", "leaf1",
              "mirrors", "@m")  # fmt: skip
    with leaves.open() as driver:
        state = driver.read()
        assert state.owned == ()
        driver.write(CREATE_A)
        assert driver.read().owned == (A,)
    found = {str(s.name): s for s in state.foreign}
    assert set(found) == {"fcn-gpt-0 (not marked as ours)", "rspan", "everything"}
    assert found["rspan"].destination == "vlan:77"
    assert found["everything"].destination == "(none)"
    # Both directions of the five ports, the cable and the bridge itself.
    assert len(found["everything"].sources) == 2 * 7


def test_a_bridge_has_32_mirrors_and_no_more(leaves: TwoLeaves):
    words: list[str] = []
    for n in range(31):
        words += [
            "--",
            f"--id=@m{n}",
            "create",
            "Mirror",
            f"name=n{n}",
            "--",
            "add",
            "Bridge",
            "leaf1",
            "mirrors",
            f"@m{n}",
        ]
    leaves.lab.vsctl(*words)
    with pytest.raises(Rejected, match=r"step 2 .* a bridge has 32 mirrors"):
        leaves.write(A, B)
    leaves.write(A)


@pytest.mark.parametrize(
    ("management", "text"),
    [
        ("ovs:unix:/nowhere/db.sock#leaf1", "is ovsdb-server running"),
        ("ovs:tcp:127.0.0.1:1#leaf1", "connection refused"),
        ("ovs:leaf1", "such as ovs:unix:/run/openvswitch/db.sock#br0"),
        ("ovs:tcp:host:99999#leaf1", "such as ovs:unix:"),
        ("ovs:unix:/run/db.sock", "such as ovs:unix:"),
    ],
)
def test_references_that_lead_nowhere(management: str, text: str, tmp_path: Path):
    address = SwitchAddress(SwitchName("leaf1"), "ovs", management)
    with pytest.raises(ConnectError, match=text), open_driver(address, "gpt", tmp_path):
        pass


def test_a_bridge_that_is_not_there(leaves: TwoLeaves):
    with leaves.open("leaf7") as driver, pytest.raises(ConnectError, match="has no bridge leaf7"):
        driver.read()
