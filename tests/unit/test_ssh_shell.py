"""A command line that misbehaves: pagers, cut prompts, log lines, rejections. The box plays, the dialects talk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.drivers.ssh import SshDriver
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.intent import RemarkKind, SwitchAddress, SwitchState
from tests.conformance.bench import create, delete, session
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.doubles.eos_box import EosBox
from tests.doubles.junos_box import JunosBox
from tests.doubles.nxos_box import NxosBox
from tests.doubles.ssh_box import PASSWORD, Fault, Planned, Session, SshBox


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(EosBench, tmp_path) as bench:
        yield bench


@pytest.fixture
def nxos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(NxosBench, tmp_path) as bench:
        yield bench


def read(bench: SshBench) -> SwitchState:
    with bench.open() as driver:
        return driver.read()


@pytest.mark.parametrize("fault", [Fault.LOG_IN_OUTPUT, Fault.LOG_BEFORE_PROMPT, Fault.CUT_PROMPT, Fault.SLOW])
@pytest.mark.parametrize("line", ["show running-config", "terminal length"])
def test_what_bursts_into_a_read_changes_nothing_of_it(eos: SshBench, fault: Fault, line: str):
    wanted = read(eos)
    eos.box.faults.append(Planned(fault, line))
    assert read(eos) == wanted
    assert eos.box.faults[0].struck


@pytest.mark.parametrize("fault", [Fault.LOG_IN_OUTPUT, Fault.LOG_BEFORE_PROMPT, Fault.CUT_PROMPT, Fault.SLOW])
@pytest.mark.parametrize("line", ["source interface", "configure terminal"])
def test_what_bursts_into_a_write_changes_nothing_of_it(nxos: SshBench, fault: Fault, line: str):
    nxos.box.faults.append(Planned(fault, line))
    made = session(nxos, 0, "0:rx")
    with nxos.open() as driver:
        driver.write(create(made))
    assert nxos.box.faults[0].struck
    assert read(nxos).owned == (made,)


def test_a_pager_that_is_on_again_is_turned_off_and_the_answer_asked_for_again(eos: SshBench):
    wanted = read(eos)
    short_pages(eos)
    eos.box.faults.append(Planned(Fault.PAGER, "show interfaces status"))
    assert read(eos) == wanted
    assert eos.box.faults[0].struck


def short_pages(bench: SshBench) -> None:
    login = bench.box.platform.login

    def with_short_pages() -> Session:
        made = login()
        made.page = 5
        return made

    bench.box.platform.login = with_short_pages  # type: ignore[method-assign]


def test_a_pager_that_cannot_be_turned_off_is_an_error_and_no_short_answer(eos: SshBench):
    short_pages(eos)
    eos.box.faults += [Planned(Fault.PAGER, "show interfaces status") for _ in range(3)]
    with pytest.raises(ConnectError, match="a pager stops its output"):
        read(eos)


@pytest.mark.parametrize("answer", ["% Ambiguous command", "% Invalid input", "% Incomplete command"])
def test_a_rejected_line_is_named_and_the_candidate_thrown_away(eos: SshBench, answer: str):
    eos.box.faults.append(Planned(Fault.REJECT, "destination Ethernet31", text=answer))
    with eos.open() as driver, pytest.raises(Rejected) as caught:
        driver.write(create(session(eos, 0, "0:rx")))
    assert "'monitor session fcn-gpt-0 destination Ethernet31'" in caught.value.message
    assert answer in caught.value.message
    assert isinstance(eos.box.platform, EosBox)
    assert eos.box.platform.pending == {}


def test_within_an_access_list_too_the_candidate_is_thrown_away(eos: SshBench):
    """``abort`` inside a submode only leaves the submode (ansible #36979)."""
    eos.box.faults.append(Planned(Fault.REJECT, "permit udp"))
    with eos.open() as driver, pytest.raises(Rejected, match="permit udp"):
        driver.write(create(session(eos, 0, "0:rx", filters=[("10.0.0.1", "10.0.0.2")])))
    assert isinstance(eos.box.platform, EosBox)
    assert eos.box.platform.pending == {}


@pytest.mark.parametrize(
    "line", ["permit udp", "switchport monitor", "filter access-group", "source interface", "no shut"]
)
def test_where_each_line_is_in_effect_a_rejected_one_leaves_nothing_of_its_step(nxos: SshBench, line: str):
    assert isinstance(nxos.box.platform, NxosBox)
    before = repr((nxos.box.platform.monitors, nxos.box.platform.lists, nxos.box.platform.ports))
    nxos.box.faults.append(Planned(Fault.REJECT, line))
    with nxos.open() as driver, pytest.raises(Rejected, match=line):
        driver.write(create(session(nxos, 0, "0:rx", filters=[("10.0.0.1", "10.0.0.2")])))
    assert repr((nxos.box.platform.monitors, nxos.box.platform.lists, nxos.box.platform.ports)) == before


def test_what_was_done_to_a_destination_is_undone_with_its_session(nxos: SshBench):
    assert isinstance(nxos.box.platform, NxosBox)
    nxos.box.platform.ports["Ethernet1/31"] = ["no switchport", "shutdown"]
    made = session(nxos, 0, "0:rx")
    with nxos.open() as driver:
        driver.write(create(made))
        assert nxos.box.platform.ports["Ethernet1/31"] == ["switchport", "switchport monitor"]
        driver.write(delete(made))
    assert sorted(nxos.box.platform.ports["Ethernet1/31"]) == ["no switchport", "shutdown"]


def test_a_destination_with_an_address_is_not_taken(nxos: SshBench):
    assert isinstance(nxos.box.platform, NxosBox)
    nxos.box.platform.ports["Ethernet1/31"] = ["no switchport", "ip address 10.0.0.1/31"]
    with nxos.open() as driver, pytest.raises(Rejected, match="is in use: ip address"):
        driver.write(create(session(nxos, 0, "0:rx")))


def test_a_commit_that_was_cut_off_is_confirmed_by_the_next_write(eos: SshBench):
    box = eos.box.platform
    assert isinstance(box, EosBox)
    made = session(eos, 0, "0:rx")
    eos.box.faults.append(Planned(Fault.DIE_AFTER, "^commit timer"))
    with eos.open() as driver, pytest.raises(StateUnknown):
        driver.write(create(made))
    state = read(eos)
    assert state.owned == (made,)
    assert [r.kind for r in state.remarks if "waits for its confirmation" in r.text] == [RemarkKind.OTHER]
    with eos.open() as driver:
        driver.write(())
    box.expire()
    assert read(eos).owned == (made,)


def test_a_commit_that_nobody_confirms_is_taken_back_by_the_switch(eos: SshBench):
    eos.box.faults.append(Planned(Fault.DIE_AFTER, "^commit timer"))
    with eos.open() as driver, pytest.raises(StateUnknown):
        driver.write(create(session(eos, 0, "0:rx")))
    assert isinstance(eos.box.platform, EosBox)
    eos.box.platform.expire()
    assert read(eos).owned == ()


def test_while_somebody_elses_commit_waits_nothing_is_sent(eos: SshBench):
    assert isinstance(eos.box.platform, EosBox)
    eos.box.platform.timed = "netops-change"
    with eos.open() as driver, pytest.raises(Rejected, match="netops-change waits for its confirmation"):
        driver.write(create(session(eos, 0, "0:rx")))


def test_leftovers_of_our_own_job_are_cleared_away_and_nobody_elses(eos: SshBench):
    box = eos.box.platform
    assert isinstance(box, EosBox)
    for name in ("fcn-gpt-00000001", "fcn-gpt-00000002", "fcn-bert-00000003", "netops", "ansible_1"):
        box.pending[name] = box.running
    made = session(eos, 0, "0:rx")
    with eos.open() as driver:
        driver.write(create(made))
    assert sorted(box.pending) == ["ansible_1", "fcn-bert-00000003", "netops"]
    assert read(eos).owned == (made,)


def test_a_session_limit_is_foreseen(eos: SshBench):
    eos.box.typed.clear()
    with eos.open() as driver, pytest.raises(Rejected, match="which is all that platform eos takes"):
        driver.write(create(*(session(eos, n, f"{n}:rx", to=n) for n in range(3))))
    assert not [line for line in eos.box.lines() if "configure session" in line]


def with_words(bench: SshBench, words: str, host: str = "127.0.0.1") -> SshDriver:
    address = SwitchAddress(bench.address().name, bench.PLATFORM, f"ssh:{host}:{bench.box.port}?retries=0&{words}")
    return SshDriver(address, "gpt", bench.open()._limits)


def test_a_host_key_that_is_not_known_is_refused_and_shown(eos: SshBench, tmp_path: Path):
    (tmp_path / "empty").write_text("")
    with (
        pytest.raises(ConnectError, match="is not known") as caught,
        with_words(eos, f"known_hosts={tmp_path / 'empty'}"),
    ):
        pass
    assert eos.box.fingerprint in caught.value.message
    assert eos.box.typed == []


def test_a_pinned_host_key_is_enough_and_another_one_is_refused(eos: SshBench):
    with with_words(eos, f"hostkey={eos.box.fingerprint}") as driver:
        assert driver.read().foreign == eos.foreign
    other = "SHA256:" + "A" * 43
    with pytest.raises(ConnectError, match="is asked for"), with_words(eos, f"hostkey={other}"):
        pass


def test_a_wrong_password_is_said_without_it(eos: SshBench):
    os.environ["FLOWCHECK_SWITCH_PASSWORD"] = wrong = f"not-{PASSWORD}"
    with pytest.raises(ConnectError, match="user fcn was not let in") as caught, eos.open():
        pass
    assert wrong not in caught.value.message + caught.value.hint


def test_a_wrong_enable_password_is_said_without_it(eos: SshBench):
    os.environ["FLOWCHECK_SWITCH_ENABLE"] = wrong = "not-it-9"
    with pytest.raises(ConnectError, match="Bad secrets") as caught, eos.open():
        pass
    assert wrong not in caught.value.message + caught.value.hint


def test_through_a_jump_host(eos: SshBench, tmp_path: Path):
    with SshBox(EosBox("bastion"), tmp_path) as bastion:
        both = tmp_path / "both"
        both.write_text(eos.box.known_hosts.read_text() + bastion.known_hosts.read_text())
        with with_words(eos, f"known_hosts={both}&jump=127.0.0.1:{bastion.port}") as driver:
            assert driver.read().foreign == eos.foreign
        assert bastion.typed == []


def test_a_login_file_that_others_can_read_is_refused(eos: SshBench, tmp_path: Path):
    file = tmp_path / "login"
    file.write_text(f"user=fcn\npassword={PASSWORD}\nenable=en-s3same\n")
    words = f"known_hosts={eos.box.known_hosts}&login=file:{file}"
    file.chmod(0o640)
    with pytest.raises(ConnectError, match="chmod 600"), with_words(eos, words):
        pass
    file.chmod(0o600)
    with with_words(eos, words) as driver:
        assert driver.read().foreign == eos.foreign


def test_while_somebody_holds_the_candidate_nothing_is_written_and_the_holder_is_named(tmp_path: Path):
    with boxed(JunosBench, tmp_path) as bench:
        box = bench.box.platform
        assert isinstance(box, JunosBox)
        box.candidate = {}
        with bench.open() as driver, pytest.raises(Rejected, match="locked by: netops terminal") as caught:
            driver.write(create(session(bench, 0, "0:rx")))
        assert caught.value.hint == "wait until the other one has ended"
        box.candidate = None
        with bench.open() as driver:
            driver.write(create(session(bench, 0, "0:rx")))
        assert "fcn-gpt-0" in box.running
