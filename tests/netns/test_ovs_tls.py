"""Management over TCP and mutual TLS, and what is said when a side or a certificate is wrong, with the real server."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Step, StepKind, SwitchAddress
from tests.doubles.switches import session
from tests.netns.ovs_two_leaf import TwoLeaves

TLS_PORT, PLAIN_PORT = 16640, 16641
A = session("fcn-gpt-0", "l1h1:rx", to="l1c0")
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words: str, where: Path) -> None:
    subprocess.run(["openssl", *words], cwd=where, check=True, capture_output=True)


def authority(where: Path, name: str) -> None:
    openssl("req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
            where=where)  # fmt: skip


def certificate(where: Path, name: str, signer: str, days: int = 2) -> None:
    openssl("req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}", where=where)
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", str(days), where=where)  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    where = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        authority(where, name)
    for name, signer, days in (
        ("switch", "ours", 2),
        ("client", "ours", 2),
        ("stranger", "theirs", 2),
        ("old", "ours", -1),
    ):
        certificate(where, name, signer, days)
    return where


@pytest.fixture
def tls(leaves: TwoLeaves, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoLeaves]:
    """A copy of the database, served over TLS and TCP; our certificate is in the environment."""
    serve(leaves, keys, "switch")
    trust(monkeypatch, keys)
    yield leaves
    leaves.lab.kill("copy")


def serve(leaves: TwoLeaves, keys: Path, name: str) -> None:
    leaves.lab.kill("copy")
    leaves.lab.serve_copy(
        *(f"--private-key={keys}/{name}.key", f"--certificate={keys}/{name}.pem", f"--ca-cert={keys}/ours.pem"),
        *(f"--remote=pssl:{TLS_PORT}:127.0.0.1", f"--remote=ptcp:{PLAIN_PORT}:127.0.0.1"),
    )


def trust(monkeypatch: pytest.MonkeyPatch, keys: Path, client: str = "client", ca: str = "ours") -> None:
    monkeypatch.setenv("FLOWCHECK_OVS_PRIVATE_KEY", str(keys / f"{client}.key"))
    monkeypatch.setenv("FLOWCHECK_OVS_CERTIFICATE", str(keys / f"{client}.pem"))
    monkeypatch.setenv("FLOWCHECK_OVS_CA_CERT", str(keys / f"{ca}.pem"))


@contextmanager
def connected(leaves: TwoLeaves, kind: str, port: int) -> Iterator[Driver]:
    address = SwitchAddress(SwitchName("leaf1"), "ovs", f"ovs:{kind}:127.0.0.1:{port}#leaf1")
    driver = open_driver(address, "gpt", leaves.lab.directory)
    # A stream stays in the namespace where it was made.
    entered = leaves.lab.within(driver.__enter__)
    try:
        yield entered
    finally:
        driver.__exit__(None, None, None)


@pytest.mark.parametrize(("kind", "port"), [("ssl", TLS_PORT), ("tcp", PLAIN_PORT)])
def test_a_session_is_written_and_read_over_the_network(
    tls: TwoLeaves, kind: str, port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flowcheck_net.drivers.ovs_link._TAKE_UP", 0.1)
    with connected(tls, kind, port) as driver:
        driver.write([Step(StepKind.CREATE, A)])
        assert driver.read().owned == (A,)


@pytest.mark.parametrize(
    ("client", "ca", "text"),
    [
        ("client", "theirs", "the certificate of the switch is refused: self-signed certificate in certificate chain"),
        ("stranger", "ours", "the switch refused our TLS side"),
    ],
)
def test_a_wrong_authority_on_either_side(
    tls: TwoLeaves, keys: Path, monkeypatch: pytest.MonkeyPatch, client: str, ca: str, text: str
):
    trust(monkeypatch, keys, client, ca)
    with pytest.raises(ConnectError, match=text), connected(tls, "ssl", TLS_PORT):
        pass


def test_an_expired_certificate_of_the_switch(tls: TwoLeaves, keys: Path):
    serve(tls, keys, "old")
    with (
        pytest.raises(ConnectError, match="the certificate of the switch is refused: certificate has expired"),
        connected(tls, "ssl", TLS_PORT),
    ):
        pass


def test_tls_to_a_plain_port_and_plain_text_to_a_tls_port(tls: TwoLeaves):
    with (
        pytest.raises(
            ConnectError, match=r"leaf1: TLS with ssl:127.0.0.1:16641: the other side hung up: does the port speak TLS"
        ),
        connected(tls, "ssl", PLAIN_PORT),
    ):
        pass
    with pytest.raises(ConnectError, match="does it speak TLS"), connected(tls, "tcp", TLS_PORT):
        pass


def test_a_key_that_is_not_there_or_of_another_certificate(tls: TwoLeaves, keys: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWCHECK_OVS_PRIVATE_KEY", str(keys / "switch.key"))
    with (
        pytest.raises(ConnectError, match="our private key does not belong to our certificate"),
        connected(tls, "ssl", TLS_PORT),
    ):
        pass
    monkeypatch.setenv("FLOWCHECK_OVS_PRIVATE_KEY", "/nowhere.key")
    with (
        pytest.raises(ConnectError, match=r"FLOWCHECK_OVS_PRIVATE_KEY names /nowhere.key, which is not a file"),
        connected(tls, "ssl", TLS_PORT),
    ):
        pass
    monkeypatch.delenv("FLOWCHECK_OVS_CA_CERT")
    with (
        pytest.raises(ConnectError, match="needs a PEM file, named by the environment variable FLOWCHECK_OVS_CA_CERT"),
        connected(tls, "ssl", TLS_PORT),
    ):
        pass
