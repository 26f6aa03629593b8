"""Who may send over the side channel, with which keys and certificates, and which values count."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint import side_client, side_server
from flowcheck_net.checkpoint.gate import Bar, Run, reasons_against
from flowcheck_net.checkpoint.gradient import Proof
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.inventory import Inventory
from flowcheck_net.checkpoint.side import read_message, read_side
from flowcheck_net.checkpoint.side_client import ACK, HEAD, SideChannel, enveloped, framed
from flowcheck_net.checkpoint.side_server import Guard, Listener
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import OutputError
from tests.doubles.side_talk import JOB, KEY, OPENED, SIGNED, WHO, Between, Raw, listening, serving, told, until


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "side.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return str(path)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.mark.parametrize(
    ("words", "refusal"),
    [({"rank": float("inf")}, "no-hello"), ({"job": "\ud800"}, "other-job"), ({"job": "\n\x1b[2J"}, "other-job")],
)
def test_a_stranger_with_odd_words_neither_ends_the_listener_nor_writes_its_log(
    tmp_path: Path, words: dict[str, Any], refusal: str
) -> None:
    said: list[str] = []
    listener = Listener("tcp:127.0.0.1:0", tmp_path / "log", Guard("gpt", KEY), said.append)
    with serving(listener) as report:
        odd = socket.create_connection(("127.0.0.1", int(listener.address.rpartition(":")[2])), 60)
        OPENED.append(odd)
        odd.sendall(enveloped(json.dumps({"v": 1, "hello": WHO | words}).encode()))
        assert odd.recv(1) == b""
        Raw(listener.address).let_in()
    assert report.refused == {refusal: 1}
    assert [text for text in said if not (text.isascii() and text.isprintable())] == []


@pytest.mark.parametrize(
    "odd",
    [{"rank": float("inf")}, {"at": 10**400}, {"seq": -1}, {"seq": 1 << 64}, {"job": "\ud800"}, {"run": "\ud800"}],
)
def test_odd_numbers_and_names_are_no_message(odd: dict[str, Any]) -> None:
    assert read_message(json.dumps(told(1, 1)).encode()) is not None
    assert read_message(json.dumps(told(1, 1) | odd).encode()) is None


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rates": 5},
        {"learning_rates": ["x"]},
        {"learning_rates": [None]},
        {"loss_scale": [1]},
        {"skipped": "no"},
    ],
)
def test_values_of_another_kind_are_no_message(values: dict[str, Any]) -> None:
    assert read_message(json.dumps(told(1, 1) | {"values": values}).encode()) is None
    good = {"learning_rates": [0.5, 1], "loss_scale": 2, "skipped": True, "optimizer": "digest"}
    assert read_message(json.dumps(told(1, 1) | {"values": good}).encode()) is not None


def test_who_may_not_be_there_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_server, "_STRANGERS", 2)
    with listening(tmp_path) as (address, report):
        waiting = Raw(address)
        until(lambda: report.connections == 1)
        two = [Raw(address), Raw(address)]
        assert waiting.ended()  # the oldest goes
        trainer = two.pop().let_in()  # so that a trainer is heard, however many only wait
        trainer.socket.sendall(framed(told(1, 0), JOB))
        assert trainer.read(ACK.size) == ACK.pack(0)
        monkeypatch.setattr(side_server, "_GREETING", 0.0)
        assert two[0].ended()
        monkeypatch.setattr(side_server, "_GREETING", 1e6)
        flood = Raw(address)
        with suppress(ConnectionError):
            flood.socket.sendall(HEAD.pack(b"\xf5FCS", 1 << 20, 0) + b"x" * (1 << 18))
        assert flood.ended()
    assert report.refused == {"too-many-strangers": 1, "not-in-time": 2}


def test_a_unix_socket_hears_its_own_user_and_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(f"unix:{tmp_path / 's'}", tmp_path / "log")
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(str(tmp_path / "s"))
        assert side_server._owner(out) == os.geteuid()  # both ends are ours
        monkeypatch.setattr(side_server, "_owner", lambda _: 4711)
        with serving(listener) as report:
            out.settimeout(60)
            assert out.recv(1) == b""
    assert report.refused == {"other-user": 1}


def test_plain_text_is_asked_for_and_stays_on_the_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_file: str
) -> None:
    with pytest.raises(ValueError, match="needs a key"):
        SideChannel("tcp:127.0.0.1:1")
    with pytest.raises(ValueError, match="bound to a job"):
        SideChannel("tcp:127.0.0.1:1", key_file=key_file)
    with pytest.raises(ValueError, match="tls: needs"):
        SideChannel("tls:127.0.0.1:1")
    for address, guard, words in (
        ("tcp:127.0.0.1:0", Guard(), "anybody could send"),
        ("tcp:0.0.0.0:0", Guard(plain_text=True), "for the loopback only"),
        ("tcp:127.0.0.1:0", Guard(shared=KEY), "bound to a job"),
        ("tls:127.0.0.1:0", Guard(), "needs certificates"),
    ):
        with pytest.raises(OutputError, match=words):
            Listener(address, tmp_path / "log", guard)
    with listening(tmp_path, Guard(plain_text=True)) as (address, report):
        monkeypatch.setattr(side_client, "is_loopback", lambda _: False)
        side = SideChannel(address, plain_text=True)
        side.step(1)
        until(lambda: side.failed > 1)
        assert side.why == "plain text is for the loopback only"
        side.close(0.1)
    assert report.messages == 0


def test_a_client_with_a_key_tells_a_listener_without_nothing(tmp_path: Path, key_file: str) -> None:
    with listening(tmp_path, Guard(plain_text=True)) as (address, report):
        side = SideChannel(address, job="gpt", key_file=key_file)
        side.step(1)
        until(lambda: report.refused["no-key-here"] > 0)
        side.close(0.1)
    assert report.messages == 0


def test_keys_come_from_a_file_of_one_owner_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_file: str
) -> None:
    assert side_client.read_secret(key_file) == KEY
    Path(key_file).write_text(KEY.hex() + "\n")
    assert side_client.read_secret(key_file) == KEY
    assert side_client.read_secret() is None
    monkeypatch.setenv("FLOWCHECK_SIDE_KEY", KEY.hex())
    assert side_client.read_secret() == KEY
    monkeypatch.setenv("FLOWCHECK_SIDE_KEY", "short")
    with pytest.raises(ValueError, match="holds no key") as wrong:
        side_client.read_secret()
    assert "short" not in str(wrong.value)
    monkeypatch.setenv("FLOWCHECK_SIDE_KEY_FILE", key_file)
    assert side_client.read_secret() == KEY
    Path(key_file).chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        side_client.read_secret()
    ran = CliRunner().invoke(cli, ["checkpoint", "listen", "tcp:127.0.0.1:0", "--job", "gpt", "-o", "x"])
    assert isinstance(ran.exception, OutputError)
    for name in ("empty", "long"):
        path = tmp_path / name
        path.write_bytes(b"x" * (33 if name == "long" else 0))
        path.chmod(0o600)
        with pytest.raises(ValueError, match="holds no key"):
            side_client.read_secret(str(path))
    with pytest.raises(ValueError, match="cannot be read"):
        side_client.read_secret(str(tmp_path / "none"))


@pytest.mark.parametrize("jobs", [(), ("gpt",), ("bert", "gpt")])
def test_values_of_another_job_are_not_published(jobs: tuple[str, ...]) -> None:
    run = Run(1, 0, [(1, Proof("gpt", "p", 0, Verdict.COVERED, 0, (), ()))], {1: StepValues(1)}, None, jobs)
    found = [each.what for each in reasons_against(run, Inventory("", ()), ()) if each.bar is Bar.JOB]
    assert found == ["the side channel's log is of job bert, the gradients of gpt"] * ("bert" in jobs)


@pytest.fixture
def certificates(tmp_path: Path) -> Callable[[str, str], tuple[Path, Path, Path]]:
    """(authority, name) -> files of the authority, of a certificate for that name, and of its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed (make torch)")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    made: dict[str, tuple[Any, Any]] = {}

    def certificate(name: str, by: str | None) -> tuple[Any, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer, signer = (subject, key) if by is None else (made[by][0].subject, made[by][1])
        now = datetime.now(UTC)
        building = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        building = building.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        building = building.not_valid_after(now + timedelta(days=1))
        building = building.add_extension(x509.BasicConstraints(by is None, None), critical=True)
        if by is not None:
            building = building.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return building.sign(signer, hashes.SHA256()), key

    def files(authority: str, name: str) -> tuple[Path, Path, Path]:
        if authority not in made:
            made[authority] = certificate(authority, None)
        own, key = certificate(name, authority)
        found = tuple(tmp_path / f"{authority}-{name}.{kind}" for kind in ("authority", "certificate", "key"))
        for path, each in zip(found, (made[authority][0], own), strict=False):
            path.write_bytes(each.public_bytes(serialization.Encoding.PEM))
        found[2].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return found[0], found[1], found[2]

    return files


def test_tls_encrypts_and_both_ends_show_certificates(
    tmp_path: Path, certificates: Callable[[str, str], tuple[Path, Path, Path]], key_file: str
) -> None:
    words = [str(path) for path in certificates("ca", "trainer")]
    mine, strange = (words[0], words[1], words[2]), [str(path) for path in certificates("mallory", "trainer")]
    seen = bytearray()

    def look(_: int, data: bytes) -> bytes:
        seen.extend(data)
        return data

    listener = Listener("tls:127.0.0.1:0", tmp_path / "log", Guard("gpt", None, certificates("ca", "localhost")))
    with serving(listener) as report:
        port = listener.address.rpartition(":")[2]
        between = Between(listener.address, look)
        side = SideChannel(f"tls:localhost:{between.address.rpartition(':')[2]}", job="gpt", tls=mine)
        for step in (1, 2, 3):
            side.step(step, fields={"rng": "top secret " * 4000})
        assert side.close(60)
        assert b"top secret" not in seen
        assert len(seen) > 100_000
        between.close()
        # another authority's certificate, and none that fits the listener's name
        other = SideChannel(f"tls:localhost:{port}", job="gpt", tls=(words[0], strange[1], strange[2]))
        other.step(4)
        until(lambda: report.refused["no-certificate"] > 0)
        assert (other.sent, other.close(0.1)) == (0, False)
        lost = SideChannel(f"tls:127.0.0.1:{port}", job="gpt", tls=mine)
        lost.step(5)
        until(lambda: lost.failed > 0)
        assert "IP address mismatch" in lost.why
        lost.close(0.1)
        bert = SideChannel(f"tls:localhost:{port}", job="bert", tls=mine)
        bert.step(6)
        until(lambda: report.refused["other-job"] > 0)
        bert.close(0.1)
        plain = Raw(f"tcp:127.0.0.1:{port}")
        plain.socket.sendall(SIGNED)
        plain.read(100)  # TLS's own words on it
        assert plain.ended()
    assert [each.step for each in read_side(tmp_path / "log").messages] == [1, 2, 3]
    with pytest.raises(ValueError, match="nowhere"):
        SideChannel("tls:localhost:1", tls=("nowhere", "nowhere", "nowhere"))
    with pytest.raises(OutputError, match="nowhere"):
        Listener("tls:127.0.0.1:0", tmp_path / "log", Guard("gpt", None, (Path("nowhere"),) * 3))


def test_tls_and_a_key_together(
    tmp_path: Path, certificates: Callable[[str, str], tuple[Path, Path, Path]], key_file: str
) -> None:
    words = [str(path) for path in certificates("ca", "trainer")]
    guard = Guard("gpt", KEY, certificates("ca", "localhost"))
    listener = Listener("tls:127.0.0.1:0", tmp_path / "log", guard)
    with serving(listener) as report:
        address = f"tls:localhost:{listener.address.rpartition(':')[2]}"
        side = SideChannel(address, job="gpt", tls=(words[0], words[1], words[2]), key_file=key_file)
        assert side.step(1)
        assert side.close(60)
        keyless = SideChannel(address, job="gpt", tls=(words[0], words[1], words[2]))
        keyless.step(2)
        until(lambda: report.refused["no-hello"] > 0)
        keyless.close(0.1)
    assert [each.step for each in read_side(tmp_path / "log", KEY).messages] == [1]


def test_a_full_disk_is_told_and_nothing_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    (tmp_path / "log").symlink_to("/dev/full")
    listener = Listener(f"unix:{tmp_path / 's'}", tmp_path / "log")
    side = SideChannel(f"unix:{tmp_path / 's'}")
    side.step(1)
    with listener, pytest.raises(OutputError, match="No space left"):
        listener.run(lambda: False)
    assert not side.close(0.1)
    assert side.sent == 0
