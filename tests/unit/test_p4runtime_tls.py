"""TLS and mutual TLS of the management connection, and what is said when a side or a certificate is wrong."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from flowcheck_net.errors import ConnectError
from flowcheck_net.intent import Step, StepKind
from tests.doubles.p4runtime_server import Server
from tests.doubles.p4runtime_world import A, World, world

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words: str, where: Path) -> None:
    subprocess.run(["openssl", *words], cwd=where, check=True, capture_output=True)


def certificate(where: Path, name: str, signer: str, days: int = 2, host: str = "IP:127.0.0.1") -> None:
    (where / "names").write_text(f"subjectAltName={host}\n")
    openssl("req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}", where=where)
    signing = ("-CA", f"{signer}.pem", "-CAkey", f"{signer}.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem", "-days", str(days), where=where)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    where = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        out = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
        openssl("req", "-x509", *NEW_KEY, *out, where=where)
    certificate(where, "switch", "ours")
    certificate(where, "elsewhere", "ours", host="DNS:leaf1.example")
    certificate(where, "old", "ours", days=-1)
    certificate(where, "client", "ours")
    certificate(where, "stranger", "theirs")
    return where


@contextmanager
def switch(keys: Path, name: str = "switch", *, mutual: bool = False) -> Iterator[World]:
    """A server with that certificate, which asks for one of ours where ``mutual``."""
    pair = ((keys / f"{name}.key").read_bytes(), (keys / f"{name}.pem").read_bytes())
    authority = (keys / "ours.pem").read_bytes()
    credentials = grpc.ssl_server_credentials([pair], authority if mutual else None, mutual)
    with Server(credentials=credentials) as server:
        yield World(server)


def trust(monkeypatch: pytest.MonkeyPatch, keys: Path, authority: str = "ours", own: str = "") -> None:
    monkeypatch.setenv("FLOWCHECK_P4RT_CA_CERT", str(keys / f"{authority}.pem"))
    for word, ending in (("CERTIFICATE", "pem"), ("PRIVATE_KEY", "key")):
        monkeypatch.delenv(f"FLOWCHECK_P4RT_{word}", raising=False)
        if own:
            monkeypatch.setenv(f"FLOWCHECK_P4RT_{word}", str(keys / f"{own}.{ending}"))


def refused(here: World, **words: str) -> ConnectError:
    with pytest.raises(ConnectError) as caught, here.open(**words) as driver:
        driver.read()
    assert "BEGIN" not in caught.value.message
    return caught.value


def test_over_tls_all_works(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys)
    with switch(keys) as here, here.open(tls="yes") as driver, driver.hold():
        assert driver.read().owned == ()


def test_mutual_tls(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys, own="client")
    with switch(keys, mutual=True) as here:
        with here.open(tls="yes") as driver, driver.hold():
            assert driver.read().owned == ()
        trust(monkeypatch, keys)
        told = refused(here, tls="yes")
        assert "refuses a connection without a certificate" in told.message
        assert "FLOWCHECK_P4RT_CERTIFICATE" in told.hint
        trust(monkeypatch, keys, own="stranger")
        assert "refuses our certificate" in refused(here, tls="yes").message
        trust(monkeypatch, keys, own="old")
        assert "refuses our certificate" in refused(here, tls="yes").message


def test_a_certificate_of_another_authority(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys, authority="theirs")
    with switch(keys) as here:
        told = refused(here, tls="yes")
    assert "the certificate of 127.0.0.1" in told.message
    assert told.hint == "is FLOWCHECK_P4RT_CA_CERT the authority that signed it?"


def test_an_expired_certificate(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys)
    with switch(keys, "old") as here:
        told = refused(here, tls="yes")
    assert "is not good: certificate has expired" in told.message
    assert "renew the switch's certificate" in told.hint


def test_a_certificate_for_another_name_and_how_to_say_that_it_is_meant(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys)
    with switch(keys, "elsewhere") as here:
        assert "name=NAME" in refused(here, tls="yes").hint
        with here.open(tls="yes", name="leaf1.example") as driver:
            assert driver.read().owned == ()


def test_plain_text_to_a_tls_port(keys: Path):
    with switch(keys) as here:
        told = refused(here)
    assert "speaks TLS" in told.message
    assert "add &tls=yes" in told.hint


def test_tls_to_a_plain_port(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys)
    with world() as here:
        told = refused(here, tls="yes")
    assert "does not speak TLS" in told.message
    assert "leave tls=yes out" in told.hint


def test_files_that_cannot_be_used_are_named(keys: Path, monkeypatch: pytest.MonkeyPatch):
    with world() as here:
        monkeypatch.delenv("FLOWCHECK_P4RT_CA_CERT", raising=False)
        assert "set FLOWCHECK_P4RT_CA_CERT" in refused(here, tls="yes").hint
        trust(monkeypatch, keys, authority="nobody")
        assert "FLOWCHECK_P4RT_CA_CERT names" in refused(here, tls="yes").message
        trust(monkeypatch, keys, own="client")
        monkeypatch.setenv("FLOWCHECK_P4RT_PRIVATE_KEY", str(keys / "client.pem"))
        assert "not a PEM file with a PRIVATE KEY" in refused(here, tls="yes").message
        monkeypatch.setenv("FLOWCHECK_P4RT_PRIVATE_KEY", str(keys / "stranger.key"))
        assert "does the key belong to the certificate" in refused(here, tls="yes").hint
        monkeypatch.delenv("FLOWCHECK_P4RT_PRIVATE_KEY")
        assert "set both" in refused(here, tls="yes").hint


def test_no_secret_is_told_anywhere(keys: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    trust(monkeypatch, keys, own="stranger")
    secret = "".join((keys / "stranger.key").read_text().splitlines()[1:-1])
    with switch(keys, mutual=True) as here:
        told = refused(here, tls="yes")
    for text in (told.message, told.hint, repr(told), caplog.text, repr(told.__cause__)):
        assert secret[:20] not in text
        assert "PRIVATE KEY-----" not in text


PROGRAM = """
import sys
from pathlib import Path
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
try:
    open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", sys.argv[1]), "gpt", Path()).__enter__()
except ConnectError:
    sys.exit(5)
"""


def test_nothing_is_written_beside_the_error(keys: Path, monkeypatch: pytest.MonkeyPatch):
    """gRPC's core logs failed handshakes to standard error by itself."""
    trust(monkeypatch, keys)
    with switch(keys, "old") as here:
        words = [sys.executable, "-c", PROGRAM, f"p4rt:{here.server.address}?device=1&tls=yes"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


def test_a_write_over_mutual_tls(keys: Path, monkeypatch: pytest.MonkeyPatch):
    trust(monkeypatch, keys, own="client")
    with switch(keys, mutual=True) as here, here.open(tls="yes") as driver:
        driver.write([Step(StepKind.CREATE, A)])
        assert driver.read().owned == (A,)
