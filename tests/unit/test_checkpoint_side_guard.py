"""Strangers at the side channel: whatever they send is refused by name, and nothing of it reaches the log."""

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.checkpoint.side import Cause, SideTail, read_side
from flowcheck_net.checkpoint.side_client import ACK, HEAD, SideChannel, enveloped, framed, job_key, proof_of, signature
from tests.doubles.side_talk import (
    HELLO,
    JOB,
    KEY,
    OPENED,
    OTHER,
    SIGNED,
    Between,
    Raw,
    listening,
    told,
    until,
)


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
