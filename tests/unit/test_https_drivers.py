"""What is not the same over HTTPS as over SSH: certificates, logins, and requests that succeed and say ERROR."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from tests.conformance import bench_eapi, bench_nxapi
from tests.conformance.bench import create, session
from tests.conformance.bench_ssh import SshBench
from tests.doubles.https_server import HttpsServer
from tests.doubles.ssh_box import Fault, Planned

KINDS = {"eapi": bench_eapi.real_client, "nxapi": bench_nxapi.real_client}


@pytest.fixture(params=sorted(KINDS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SshBench]:
    with KINDS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def nxapi(tmp_path: Path) -> Iterator[bench_nxapi.NxapiBench]:
    with bench_nxapi.real_client(tmp_path) as made:
        yield made


def fails(bench: SshBench, reference: str, platform: str = "") -> ConnectError:
    address = SwitchAddress(SwitchName("leaf1"), platform or bench.PLATFORM, reference)
    with pytest.raises(ConnectError) as caught, open_driver(address, "gpt", Path("/nonexistent")):
        pass
    return caught.value


def test_a_certificate_that_nobody_vouches_for_is_refused(bench: SshBench):
    reference = bench.address().management
    error = fails(bench, reference.split("?")[0])
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert error.hint == "give the switch's CA with ca=FILE"
    server = bench.box
    assert isinstance(server, HttpsServer)
    assert server.requests == []


def test_a_ca_file_that_is_not_there_is_told(bench: SshBench):
    reference = bench.address().management.split("?")[0]
    assert "No such file" in fails(bench, f"{reference}?ca=/nonexistent/ca.pem").message


def test_a_wrong_password_is_told_and_not_shown(bench: SshBench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWCHECK_SWITCH_PASSWORD", "wrong-pw")
    error = fails(bench, bench.address().management)
    assert "uth" in error.message
    assert "wrong-pw" not in f"{error.message}{error.hint}"


def test_another_makers_platform_is_refused(bench: SshBench):
    assert "dialect is junos" in fails(bench, bench.address().management, "junos-qfx").message


def test_a_request_that_succeeds_and_says_error_is_a_rejection(nxapi: bench_nxapi.NxapiBench):
    text = (
        "ERROR: TCAM region is not configured. Please configure TCAM region Ingress SPAN [span] and retry the command."
    )
    nxapi.box.faults.append(Planned(Fault.REJECT, "^filter access-group", text=text))
    with nxapi.open() as driver:
        with pytest.raises(Rejected, match=r"filter access-group fcn-gpt-0.*TCAM region"):
            driver.write(create(session(nxapi, 0, "0:rx", filters=[("10.0.0.1", "10.0.0.2")])))
        assert driver.read().owned == ()
    assert sorted(nxapi.switch.monitors) == [2, 7]
    assert nxapi.switch.lists == {}


def test_number_and_name_of_a_session_go_in_one_request(nxapi: bench_nxapi.NxapiBench):
    with nxapi.open() as driver:
        driver.write(create(session(nxapi, 0, "0:rx")))
    server = nxapi.box
    assert isinstance(server, HttpsServer)
    assert ["configure terminal", "monitor session 1", "description fcn-gpt-0 +m1/31"] in server.requests
