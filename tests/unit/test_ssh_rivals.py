"""Other operators and other jobs on the same switch: what is theirs stays, whatever it looks like. The boxes play."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowcheck_net.errors import PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import is_candidate, is_owned
from tests.conformance.bench import create, delete, session
from tests.conformance.bench_numbered import ComwareBench, Os10Bench
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.doubles.comware_box import ComwareBox
from tests.doubles.eos_box import EosBox
from tests.doubles.junos_box import JunosBox
from tests.doubles.nxos_box import Monitor, NxosBox
from tests.doubles.os10_box import Os10Box
from tests.doubles.ssh_box import Fault, Planned, Session


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(EosBench, tmp_path) as bench:
        yield bench


@pytest.fixture
def nxos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(NxosBench, tmp_path) as bench:
        yield bench


@pytest.fixture
def junos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(JunosBench, tmp_path) as bench:
        yield bench


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *(("fcn-gpt-0", True), ("fcn-gpt-10", True)),
        *(("fcn-gpt-01", False), ("fcn-gpt-0-1", False), ("fcn-gp-0", False), ("fcn-gpt-0 ", False)),
        *(
            ("FCN-gpt-0", False),
            ("fcn-GPT-0", False),
            ("fcn-gpt-", False),
            ("fcn-gpt-0\n", False),
            ("fcn-gpt-٣", False),
        ),
    ],
)
def test_only_names_that_we_give_are_ours(name: str, ours: bool):
    assert is_owned(name, "gpt") is ours


def test_a_pending_change_of_a_job_whose_name_begins_alike_is_not_ours():
    assert is_candidate("fcn-gpt-0123abcd", "gpt")
    assert not is_candidate("fcn-gpt-0-0123abcd", "gpt")
    assert is_candidate("fcn-gpt-0-0123abcd", "gpt-0")
    assert not is_candidate("fcn-gpt-0123abcd and-quit", "gpt")


def test_eos_leaves_the_candidate_and_the_trial_of_a_job_whose_name_begins_alike(eos: SshBench):
    box = eos.box.platform
    assert isinstance(box, EosBox)
    box.pending["fcn-gpt-2-00000001"] = box.running
    with eos.open() as driver:
        driver.write(create(session(eos, 0, "0:rx")))
    assert list(box.pending) == ["fcn-gpt-2-00000001"]
    box.timed = "fcn-gpt-2-00000001"
    with eos.open() as driver:
        driver.write(())
        with pytest.raises(Rejected, match="waits for its confirmation"):
            driver.write(create(session(eos, 1, "1:rx", to=1)))
    assert box.timed == "fcn-gpt-2-00000001"


@pytest.mark.parametrize("comment", ["made by hand", "fcn-gpt-2-00000001", "fcn-bert-00000001"])
def test_junos_never_confirms_the_trial_of_somebody_else(junos: SshBench, comment: str):
    box = junos.box.platform
    assert isinstance(box, JunosBox)
    box.commits.insert(
        0, f"2026-11-30 22:00:00 UTC by netops via cli commit confirmed, rollback in 10mins\n    {comment}"
    )
    before = list(box.commits)
    with junos.open() as driver:
        driver.write(())
        with pytest.raises(Rejected, match="ours would confirm it"):
            driver.write(create(session(junos, 0, "0:rx")))
    assert box.commits == before


def at(bench: SshBench, pattern: str, act: Callable[[], str | None]) -> None:
    """Just before the first line that matches somebody does something; where a text comes back, it is the answer."""
    login = bench.box.platform.login
    struck: list[str] = []

    def watched() -> Session:
        made = login()
        do = made.do

        def first(line: str) -> str:
            if not struck and re.search(pattern, line):
                struck.append(line)
                if (answer := act()) is not None:
                    return answer
            return do(line)

        made.do = first  # type: ignore[method-assign]
        return made

    bench.box.platform.login = watched  # type: ignore[method-assign]


THEIRS = Monitor("erspan-source", "netops urgent", {"Ethernet1/5": "both"}, address="10.1.1.1", shut=False)


def test_a_session_that_came_in_our_number_survives_the_line_that_it_makes_fail(nxos: SshBench):
    """Undoing would be ``no monitor session 1``."""
    box = nxos.box.platform
    assert isinstance(box, NxosBox)

    def theirs() -> str:
        box.monitors[1] = THEIRS
        return "ERROR: Session 1 exists with another type"

    at(nxos, "^monitor session 1 ; description", theirs)
    with nxos.open() as driver, pytest.raises(StateUnknown, match="session-1 came or changed meanwhile"):
        driver.write(create(session(nxos, 0, "0:rx")))
    assert box.monitors[1] == THEIRS


def test_numbers_are_looked_for_anew_before_each_step(nxos: SshBench):
    box = nxos.box.platform
    assert isinstance(box, NxosBox)
    del box.monitors[7]
    at(nxos, "^no shut$", lambda: box.monitors.__setitem__(3, THEIRS))
    with nxos.open() as driver:
        driver.write(create(session(nxos, 0, "0:rx"), session(nxos, 1, "1:rx", to=1)))
    assert box.monitors[3] == THEIRS
    assert {n: m.description.split(" ")[0] for n, m in box.monitors.items()} == {
        1: "fcn-gpt-0",
        2: "fcn-bert-0",
        3: "netops",
        4: "fcn-gpt-1",
    }


def test_what_comes_in_the_way_of_a_later_step_stops_there_and_says_what_is_done(nxos: SshBench):
    box = nxos.box.platform
    assert isinstance(box, NxosBox)
    full = {n: Monitor(description="x", sources={"Ethernet1/8": "tx"}, shut=False) for n in range(10, 20)}
    at(nxos, "^no shut$", lambda: box.monitors.update(full))
    with nxos.open() as driver, pytest.raises(PartialWrite, match="which is all that platform") as caught:
        driver.write(create(session(nxos, 0, "0:rx"), session(nxos, 1, "1:rx", to=1)))
    assert caught.value.done == 1
    assert box.monitors.items() >= full.items()


def test_a_group_that_came_in_our_number_survives_the_undoing(tmp_path: Path):
    """``mirroring-group 2 local`` changes nothing of a local group 2 that is there."""
    with boxed(ComwareBench, tmp_path) as bench:
        box = bench.box.platform
        assert isinstance(box, ComwareBox)
        port = "Ten-GigabitEthernet1/0/{}".format
        at(
            bench,
            "^mirroring-group 2 local",
            lambda: box.configure(
                f"interface {port(33)}",
                "undo stp enable",
                "quit",
                "mirroring-group 2 local",
                f"mirroring-group 2 mirroring-port {port(6)} both",
                f"mirroring-group 2 monitor-port {port(33)}",
            ),
        )
        bench.box.faults.append(
            Planned(Fault.REJECT, f"monitor-port {port(31)}", text=" It has a monitor port already.")
        )
        with bench.open() as driver, pytest.raises(StateUnknown, match="came or changed meanwhile"):
            driver.write(create(session(bench, 0, "0:rx")))
        assert port(6) in box.groups[2].sources


@pytest.mark.parametrize("platform", ["eos", "nxos"])
def test_a_stray_access_list_of_our_name_is_not_filled_up(platform: str, eos: SshBench, nxos: SshBench):
    """Its own entries would be mirrored as well."""
    bench = {"eos": eos, "nxos": nxos}[platform]
    box = bench.box.platform
    assert isinstance(box, EosBox | NxosBox)
    lists = box.running.lists if isinstance(box, EosBox) else box.lists
    lists["ip access-list fcn-gpt-0"] = ["1000 permit ip any any"]
    with bench.open() as driver, pytest.raises(Rejected, match="an access list fcn-gpt-0 is there already"):
        driver.write(create(session(bench, 0, "0:rx", filters=[("10.0.0.1", "10.0.0.2")])))
    assert lists == {"ip access-list fcn-gpt-0": ["1000 permit ip any any"]}


def test_a_port_that_others_send_to_by_now_is_not_set_back_nxos(nxos: SshBench):
    box = nxos.box.platform
    assert isinstance(box, NxosBox)
    with nxos.open() as driver:
        driver.write(create(session(nxos, 0, "0:rx")))
    box.ports["Ethernet1/32"].append("switchport monitor")
    box.monitors[1].destination = "Ethernet1/32"
    box.monitors[9] = Monitor("local", "netops", {"Ethernet1/5": "rx"}, "Ethernet1/31", shut=False)
    with nxos.open() as driver:
        driver.write(delete(*driver.read().owned))
    assert 1 not in box.monitors
    assert box.ports["Ethernet1/31"] == ["switchport", "switchport monitor"]


@pytest.mark.parametrize("lent", [False, True])
def test_a_destination_that_was_moved_is_not_put_into_our_vlan_os10(tmp_path: Path, lent: bool):
    with boxed(Os10Bench, tmp_path) as bench:
        box = bench.box.platform
        assert isinstance(box, Os10Box)
        theirs, ours = "ethernet1/1/32", "ethernet1/1/31"
        before = {port: list(lines) for port, lines in box.ports.items()}
        with bench.open() as driver:
            driver.write(create(session(bench, 0, "0:rx")))
        moved = box.ports[theirs] = ["no switchport", "ip address 10.0.0.1/31"]
        moved = list(moved)
        box.monitors[2].destination = theirs
        if lent:
            box.configure(
                "monitor session 9", "source interface ethernet1/1/5", f"destination interface {ours}", "exit"
            )
        with bench.open() as driver:
            driver.write(delete(*driver.read().owned))
        assert box.ports[theirs] == moved
        assert ("switchport access vlan 1" in box.ports[ours]) is not lent
        assert lent or box.ports[ours] == before[ours]
