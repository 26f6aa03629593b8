"""Junos over NETCONF: the lock, what a refused load leaves, host keys, framing; other clients on the same double."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from jnpr.junos import Device
from jnpr.junos.utils.config import Config
from napalm.junos import JunOSDriver

from flowcheck_net.drivers.netconf import NetconfDriver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from tests.conformance.bench import create, delete, session
from tests.conformance.bench_netconf import NetconfBench, real_client
from tests.doubles.netconf_box import NetconfBox
from tests.doubles.ssh_box import PASSWORD, USER, Fault, Planned, SshBox


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NetconfBench]:
    with real_client(tmp_path) as made:
        yield made


def requests(bench: NetconfBench) -> list[str]:
    return [line for _, line in bench.box.typed if not line.startswith("show ")]


def opened(bench: NetconfBench, reference: str, platform: str = "") -> NetconfDriver:
    driver = open_driver(
        SwitchAddress(SwitchName("leaf1"), platform or bench.PLATFORM, reference), "gpt", Path("/nonexistent")
    )
    assert isinstance(driver, NetconfDriver)
    return driver


def test_a_write_is_one_locked_trial_that_is_confirmed(bench: NetconfBench):
    made = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(made))
    name = next(line.split()[-1] for line in requests(bench) if line.startswith("commit confirmed"))
    path = "set forwarding-options analyzer fcn-gpt-0"
    assert requests(bench) == [
        "configure exclusive",
        f"{path} input ingress interface xe-0/0/1.0",
        f"{path} output interface xe-0/0/31.0",
        "commit check",
        f"commit confirmed 2 comment {name}",
        f"commit comment {name}",
        "exit configuration-mode",
    ]
    assert name.startswith("fcn-gpt-")


@pytest.mark.parametrize("line", ["output interface", "commit check", "commit confirmed"])
def test_a_refused_line_leaves_no_lock_and_nothing_in_the_candidate(bench: NetconfBench, line: str):
    """napalm #1445: a failed load leaves the configuration locked."""
    bench.box.faults.append(Planned(Fault.REJECT, line, text="error: this port is in use\nerror: check-out failed"))
    before = dict(bench.switch.running)
    with bench.open() as driver:
        with pytest.raises(Rejected, match=rf"{line}.*this port is in use"):
            driver.write(create(session(bench, 0, "0:rx")))
        assert bench.switch.candidate is None
        assert requests(bench)[-2:] == ["rollback 0", "exit configuration-mode"]
        # The session goes on.
        driver.write(create(session(bench, 1, "1:rx")))
    assert list(bench.switch.running) == [*before, "fcn-gpt-1"]


def test_who_holds_the_configuration_is_named_and_nothing_is_sent(bench: NetconfBench):
    bench.switch.candidate = {"theirs": []}
    with bench.open() as driver:
        with pytest.raises(Rejected, match=r"another one holds.*locked by: netops"):
            driver.write(create(session(bench, 0, "0:rx")))
        with pytest.raises(Rejected, match="netops"), driver.hold():
            pass
        assert len(driver.read().foreign) == 2
    assert set(requests(bench)) == {"configure exclusive"}
    assert bench.switch.candidate == {"theirs": []}


def test_the_lock_is_kept_over_two_writes_of_one_hold(bench: NetconfBench):
    one, other = session(bench, 0, "0:rx"), session(bench, 1, "1:rx")
    with bench.open() as driver, driver.hold():
        driver.write(create(one))
        driver.write(delete(one) + create(other))
        assert bench.switch.candidate is not None
    assert bench.switch.candidate is None
    assert [requests(bench).count(line) for line in ("configure exclusive", "exit configuration-mode")] == [1, 1]


def test_a_trial_that_was_cut_off_from_its_confirmation_is_confirmed_by_the_next_write(bench: NetconfBench):
    bench.box.faults.append(Planned(Fault.DIE_BEFORE, "^commit comment"))
    with bench.open() as driver, pytest.raises(StateUnknown):
        driver.write(create(session(bench, 0, "0:rx")))
    assert bench.switch.before_trial is not None
    with bench.open() as driver:
        driver.write(())
    assert bench.switch.before_trial is None
    assert "fcn-gpt-0" in bench.switch.running


def test_chunks_of_base_1_1_are_read_and_written(bench: NetconfBench):
    assert isinstance(bench.box, NetconfBox)
    bench.box.chunked = True
    made = session(bench, 0, "0:rx", "0:tx")
    with bench.open() as driver:
        driver.write(create(made))
        assert driver.read().owned == (made,)


def test_an_unknown_host_key_is_refused_and_a_pinned_one_taken(bench: NetconfBench, tmp_path: Path):
    plain = f"netconf:127.0.0.1:{bench.box.port}?retries=0"
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(ConnectError, match=f"host key {bench.box.fingerprint}".replace("+", r"\+")):
        opened(bench, f"{plain}&known_hosts={empty}").__enter__()
    with pytest.raises(ConnectError, match="is asked for"):
        opened(bench, f"{plain}&hostkey=SHA256:{'A' * 43}").__enter__()
    assert bench.box.typed == []
    with opened(bench, f"{plain}&hostkey={bench.box.fingerprint}") as driver:
        assert len(driver.read().foreign) == 2


def test_a_wrong_password_is_told_and_not_shown(bench: NetconfBench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWCHECK_SWITCH_PASSWORD", "wrong-pw")
    with pytest.raises(ConnectError, match=f"user {USER} was not let in") as caught:
        opened(bench, bench.address().management).__enter__()
    assert "wrong-pw" not in f"{caught.value.message}{caught.value.hint}"


def test_a_switch_without_netconf_is_told(bench: NetconfBench, tmp_path: Path):
    with SshBox(NetconfBench.platform(), tmp_path) as box, pytest.raises(ConnectError) as caught:
        opened(bench, f"netconf:127.0.0.1:{box.port}?known_hosts={box.known_hosts}&retries=0&timeout=2").__enter__()
    assert "no NETCONF session" in caught.value.message
    assert "system services netconf ssh" in caught.value.hint


def test_another_makers_platform_is_refused(bench: NetconfBench):
    with pytest.raises(ConnectError, match="dialect is eos"):
        opened(bench, bench.address().management, "eos").__enter__()


def test_through_a_jump_host(bench: NetconfBench, tmp_path: Path):
    with SshBox(NetconfBench.platform(), tmp_path) as jump:
        both = tmp_path / "both"
        both.write_text(jump.known_hosts.read_text() + bench.box.known_hosts.read_text())
        reference = f"netconf:127.0.0.1:{bench.box.port}?known_hosts={both}&jump=127.0.0.1:{jump.port}"
        with opened(bench, reference) as driver:
            assert len(driver.read().foreign) == 2


def test_the_double_speaks_with_napalm_and_pyez(bench: NetconfBench):
    """Clients that know nothing of ours find a Junos there: lock, load, compare, discard, commit on trial, text."""
    line = "set forwarding-options analyzer theirs output interface xe-0/0/33.0"
    napalm = JunOSDriver("127.0.0.1", USER, PASSWORD, optional_args={"port": bench.box.port})
    napalm.open()
    napalm.load_merge_candidate(config=line)
    assert napalm.compare_config() == "+ analyzer theirs"
    assert bench.switch.candidate is not None
    napalm.discard_config()
    assert "theirs" not in bench.switch.running
    napalm.close()
    with Device("127.0.0.1", user=USER, password=PASSWORD, port=bench.box.port, gather_facts=False) as device:
        with Config(device) as there:
            there.lock()
            there.load(line, format="set")
            assert there.commit_check()
            assert there.commit(confirm=2, comment="theirs")
            there.unlock()
        assert "analyzer theirs" in device.cli("show configuration forwarding-options analyzer | display set")
    assert bench.switch.commits[0].endswith("commit confirmed, rollback in 2mins\n    theirs")
