"""Strangers at the side channel: whatever they send is refused by name, and nothing of it reaches the log."""

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from flowcheck_net.checkpoint.side import Cause, SideTail, read_message, read_side
from flowcheck_net.checkpoint.side_client import ACK, HEAD, SideChannel, enveloped, framed, job_key, proof_of, signature
from flowcheck_net.checkpoint.side_server import Guard, Listener, ListenReport
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import OutputError

KEY = bytes(range(32))
OTHER = bytes(32)
JOB = job_key(KEY, "gpt")


def until(condition: Callable[[], bool]) -> None:
    for _ in range(12000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("it never came to pass")


@contextmanager
def serving(listener: Listener) -> Iterator[ListenReport]:
    ended = threading.Event()
    with listener:
        thread = threading.Thread(target=listener.run, args=(ended.is_set, 0.01))
        thread.start()
        try:
            yield listener.report
        finally:
            ended.set()
            thread.join()


@contextmanager
def listening(tmp_path: Path, guard: Guard | None = None) -> Iterator[tuple[str, ListenReport]]:
    listener = Listener("tcp:127.0.0.1:0", tmp_path / "log", guard or Guard("gpt", KEY))
    with serving(listener) as report:
        yield listener.address, report


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "side.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return str(path)


def told(step: int, sequence: int, **more: Any) -> dict[str, Any]:
    head: dict[str, Any] = {"v": 1, "run": "a", "rank": 0, "seq": sequence, "step": step, "at": 0.0, "dropped": 0}
    rest: dict[str, Any] = {"lost": [], "refused": [], "values": {}, "fields": {"x": step}, "job": "gpt", "life": "l"}
    return head | rest | more


OPENED: list[socket.socket] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


WHO = {"run": "a", "rank": 0, "life": "l", "job": "gpt", "nonce": "00" * 32}
HELLO = json.dumps({"v": 1, "hello": WHO}).encode()


class Raw:
    """A client by hand, which can do everything wrong."""

    def __init__(self, address: str, key: bytes = KEY, **hello: Any) -> None:
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        OPENED.append(self.socket)
        words = WHO | hello
        self.hello = json.dumps({"v": 1, "hello": words}).encode()
        self.key = job_key(key, str(words["job"]))

    def let_in(self) -> "Raw":
        self.socket.sendall(enveloped(self.hello))
        answer = self.read(64)
        assert answer[32:] == proof_of(self.key, b"listener", self.hello, answer[:32])
        self.socket.sendall(enveloped(proof_of(self.key, b"trainer", self.hello, answer[:32])))
        return self

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := self.socket.recv(size - len(found))):
            found += more
        return found

    def ended(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    """RFC 2104: H((K ^ opad) || H((K ^ ipad) || text)), the key padded to the block of 64 bytes."""
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in block) + message).digest()
    return hashlib.sha256(bytes(each ^ 0x5C for each in block) + inner).digest()


def test_signatures_are_what_the_page_says() -> None:
    key = hmac_by_hand(KEY, b"flowcheck-net side channel\0gpt")
    assert job_key(KEY, "gpt") == key
    assert signature(key, b"{}") == hmac_by_hand(key, b"message\0{}").hex().encode()
    assert proof_of(key, b"trainer", b"hello", b"n" * 32) == hmac_by_hand(key, b"trainer\0" + b"n" * 32 + b"hello")


def test_signed_messages_arrive_and_can_be_checked_again(tmp_path: Path, key_file: str) -> None:
    with listening(tmp_path) as (address, report):
        sides = [SideChannel(address, rank=rank, run="r", job="gpt", key_file=key_file) for rank in (0, 1)]
        for step in (1, 2, 3):
            for rank, side in enumerate(sides):
                assert side.step(step, learning_rates=[0.5], fields={f"rng.rank{rank}": step})
        assert all(side.close(60) for side in sides)
        assert [(side.sent, side.failed, side.why) for side in sides] == [(3, 0, "")] * 2
    assert (report.messages, report.refused, report.repeated) == (6, {}, 0)
    for shared in (KEY, None):
        log = read_side(tmp_path / "log", shared)
        assert log.fields(2, ["rng.rank0", "rng.rank1"]) == ({"rng.rank0": 2, "rng.rank1": 2}, ())
        assert (set(log.jobs), len(log.unproven), log.values()[3].learning_rates) == ({"gpt"}, 0, (0.5,))
    log = read_side(tmp_path / "log", OTHER)
    assert (log.messages, len(log.unproven), log.step, log.values()) == ((), 6, None, {})
    assert log.fields(2, ["rng.rank0"])[1][0].cause is Cause.UNPROVEN
    assert KEY.hex() not in (tmp_path / "log").read_bytes().decode(errors="replace")


def test_a_forged_message_in_the_log_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "log"
    good, bad = framed(told(1, 0), JOB), framed(told(2, 1, values={"learning_rates": [9.0]}))
    moved = enveloped(good[HEAD.size : HEAD.size + 64] + framed(told(3, 2))[HEAD.size :])
    other = framed(told(4, 3, job="bert"), JOB)  # the key of one job says nothing of another
    path.write_bytes(good + bad + moved + other)
    log = read_side(path, KEY)
    assert [each.step for each in log.messages] == [1]
    assert [each.step for each in log.unproven] == [2, 3, 4]
    assert log.values() == {}


SIGNED = framed(told(1, 0), JOB)


def inside(address: str) -> Raw:
    return Raw(address).let_in()


STRANGERS: dict[str, tuple[Callable[[str], Raw], bytes, str]] = {
    "a message at once": (Raw, SIGNED, "no-hello"),
    "plain text": (Raw, framed(told(1, 0)), "no-hello"),
    "no hello that can be read": (Raw, enveloped(b'{"v": 1, "hello": 7}'), "no-hello"),
    "another key": (lambda at: Raw(at, OTHER), b"", "no-proof"),
    "another job": (lambda at: Raw(at, job="bert"), b"", "other-job"),
    "no signature": (inside, framed(told(1, 0)), "wrong-signature"),
    "another key's signature": (inside, framed(told(1, 0), job_key(OTHER, "gpt")), "wrong-signature"),
    "a message of another rank": (inside, framed(told(1, 0, rank=1), JOB), "other-sender"),
    "a message of another run": (inside, framed(told(1, 0, run="b"), JOB), "other-sender"),
    "a message of another process": (inside, framed(told(1, 0, life="k"), JOB), "other-sender"),
    "another job's message": (inside, framed(told(1, 0, job="x"), JOB), "other-job"),
    "no message, but signed": (inside, enveloped(signature(JOB, b"{}") + b"{}"), "wrong-signature"),
    "a second hello": (inside, enveloped(HELLO), "no-hello"),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_strangers_are_refused_by_name(tmp_path: Path, what: str) -> None:
    knock, data, refused = STRANGERS[what]
    with listening(tmp_path) as (address, report):
        stranger = knock(address)
        if what in ("another key", "another job"):
            stranger.socket.sendall(enveloped(stranger.hello))
            answer = stranger.read(64)
            if answer:
                data = enveloped(proof_of(stranger.key, b"trainer", stranger.hello, answer[:32]))
        stranger.socket.sendall(data)
        assert stranger.ended()
        until(lambda: bool(report.refused))
    assert report.refused == {refused: 1}
    assert report.messages == 0
    assert (tmp_path / "log").read_bytes() == b""


def test_a_message_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    first, second, third = (framed(told(step, step - 1), JOB) for step in (1, 2, 3))
    with listening(tmp_path) as (address, report):
        one = Raw(address).let_in()
        one.socket.sendall(first + second)
        assert one.read(16) == ACK.pack(0) + ACK.pack(1)
        one.socket.close()
        again = Raw(address, nonce="11" * 32).let_in()  # the acknowledgement was lost: the same message once more
        again.socket.sendall(second)
        assert again.read(8) == ACK.pack(1)
        again.socket.sendall(first)  # who stands between sends an old one
        assert again.ended()
        other = Raw(address, nonce="22" * 32).let_in()
        other.socket.sendall(framed(told(9, 1), JOB))  # the number is used
        assert other.ended()
        last = Raw(address, nonce="33" * 32).let_in()
        last.socket.sendall(third)
        assert last.read(8) == ACK.pack(2)
    assert (report.messages, report.repeated, report.refused) == (3, 1, {"replayed": 2})
    assert (tmp_path / "log").read_bytes() == first + second + third


def test_a_recorded_greeting_opens_nothing(tmp_path: Path) -> None:
    """Whoever recorded a whole connection and plays it back to the listener is asked for a fresh proof."""
    with listening(tmp_path) as (address, report):
        true = Raw(address)
        true.socket.sendall(enveloped(true.hello))
        nonce = true.read(64)[:32]
        recorded = enveloped(proof_of(JOB, b"trainer", true.hello, nonce))
        true.socket.sendall(recorded + SIGNED)
        assert true.read(8) == ACK.pack(0)
        played = Raw(address)
        played.socket.sendall(enveloped(true.hello) + recorded + SIGNED)
        played.read(64)
        assert played.ended()
    assert report.refused == {"no-proof": 1}
    assert (tmp_path / "log").read_bytes() == SIGNED


def test_a_follower_hears_only_its_own_job_and_key(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail, trusting = SideTail(path, KEY, "gpt"), SideTail(path, None, "gpt")
    assert tail.values() == {}
    rate: dict[str, Any] = {"values": {"learning_rates": [0.5]}}
    words = framed(told(1, 0, **rate), JOB) + framed(told(2, 1, **rate))
    path.write_bytes(words + framed(told(3, 0, job="bert", life="k", **rate), job_key(KEY, "bert")))
    assert list(tail.values()) == [1]
    assert list(trusting.values()) == [1, 2]


def test_an_old_message_in_the_log_does_not_bring_its_values_back(tmp_path: Path) -> None:
    """A listener that was started again does not know the numbers before; the reader does."""
    said, mended = framed(told(5, 4, fields={"x": 1}), JOB), framed(told(5, 5, fields={"x": 2}), JOB)
    (tmp_path / "log").write_bytes(said + mended + said)
    assert read_side(tmp_path / "log", KEY).fields(5, ["x"]) == ({"x": 2}, ())


class Between:
    """A machine in the middle: passes everything on, and does something to what the trainer sends."""

    def __init__(self, to: str, harm: Callable[[int, bytes], bytes]) -> None:
        self._to, self._harm = ("127.0.0.1", int(to.rpartition(":")[2])), harm
        self._listen = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listen.getsockname()[1]}"
        self._count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one = self._listen.accept()[0]
            except OSError:
                return
            two = socket.create_connection(self._to)
            OPENED.extend((one, two))
            threading.Thread(target=self._pass, args=(two, one, None), daemon=True).start()
            threading.Thread(target=self._pass, args=(one, two, self._harm), daemon=True).start()

    def _pass(self, one: socket.socket, two: socket.socket, harm: Callable[[int, bytes], bytes] | None) -> None:
        try:
            while data := one.recv(1 << 20):
                if harm is not None:
                    data = harm(self._count, data)
                    self._count += 1
                two.sendall(data)
        except OSError:
            pass
        for each in (one, two):
            with_shutdown(each)

    def close(self) -> None:
        self._listen.close()


def with_shutdown(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def test_whoever_stands_between_can_break_connections_and_nothing_else(tmp_path: Path, key_file: str) -> None:
    """Bytes are changed with the checksum made right again, old messages sent again, and others put before them."""
    seen: list[bytes] = []

    def harm(count: int, data: bytes) -> bytes:
        if data.startswith(HEAD.pack(b"\xf5FCS", 0, 0)[:4]) and b'"seq":' in data:
            seen.append(data)
            if count % 5 == 2:
                return enveloped(data[HEAD.size :].replace(b'"step":', b'"step":1', 1))
            if count % 5 == 3:
                return seen[0] + data
            if count % 5 == 4:
                return framed(told(77, 1000)) + data
        return data

    with listening(tmp_path) as (address, report):
        between = Between(address, harm)
        side = SideChannel(between.address, run="r", job="gpt", key_file=key_file)
        for step in range(1, 21):
            assert side.step(step, fields={"x": step})
        until(lambda: side.sent == 20)
        assert side.close(60)
        between.close()
    assert side.failed > 0
    assert set(report.refused) <= {"wrong-signature", "replayed", "other-sender"}
    assert report.refused["wrong-signature"] > 0
    log = read_side(tmp_path / "log", KEY)
    assert [(each.step, each.fields["x"]) for each in log.messages] == [(step, step) for step in range(1, 21)]
    assert not log.unproven


@pytest.mark.parametrize("answer", [b"", b"\0" * 64, b"silent"])
def test_a_listener_without_the_key_learns_nothing_and_stops_nobody(
    tmp_path: Path, key_file: str, answer: bytes
) -> None:
    heard = bytearray()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one = server.accept()[0]
            except OSError:
                return
            try:
                heard.extend(one.recv(1 << 20))
                if answer == b"silent":
                    heard.extend(one.recv(1 << 20))
                one.sendall(answer)
            except OSError:
                return
            finally:
                one.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    address = f"tcp:127.0.0.1:{server.getsockname()[1]}"
    side = SideChannel(address, run="r", job="gpt", key_file=key_file, room=4, timeout=0.2)
    for step in range(1, 30):
        side.step(step, fields={"secret": "in the clear"})
    until(lambda: side.failed > 1)
    assert not side.close(0.2)
    assert (side.sent, side.dropped >= 24) == (0, True)
    assert side.why
    assert b"in the clear" not in heard
    assert b'"hello"' in heard
    server.close()


def test_room_is_counted_in_bytes_as_well(tmp_path: Path) -> None:
    side = SideChannel(f"unix:{tmp_path / 'nobody'}", room_bytes=20_000)
    kept = [step for step in range(1, 8) if side.step(step, fields={"x": b"0" * 6000})]
    assert kept == [1, 2]  # about 8,200 bytes each in base64
    assert (side.dropped, side.why) == (5, "the queue is full")
    assert not side.close(0.1)


def test_odd_values_never_reach_the_training_loop(tmp_path: Path) -> None:
    class Hostile:
        def __float__(self) -> float:
            raise RuntimeError("no")

        def __repr__(self) -> str:
            raise RuntimeError("no")

    side = SideChannel(f"file:{tmp_path / 'log'}")
    deep: list[Any] = []
    deep.append(deep)
    odd: dict[str, Any] = {"a": deep, "b": 10**5000, "ok": 1}
    assert side.step(1, learning_rates=[Hostile()], fields=odd)  # type: ignore[list-item]
    assert not side.step(Hostile())  # type: ignore[arg-type]
    assert side.step(2, learning_rates=[1], fields={"big": "x" * (65 << 20), "ok": 2})
    assert side.close(60)
    log = read_side(tmp_path / "log")
    assert [each.cause for each in log.fields(1, ["a", "b", "ok"])[1]] == [Cause.REFUSED] * 3
    assert (log.values(), log.dropped) == ({2: log.values()[2]}, 1)
    assert log.fields(2, ["big"])[1][0].cause is Cause.REFUSED


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
