"""The stream to ovsdb-server: cut in bytes, with echoes between, closed early, too late, no JSON; references."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.drivers.ovs_reference import Remote, parse_reference
from flowcheck_net.drivers.ovs_rpc import Connection, Lost, RemoteError, Unreachable

Play = Callable[[socket.socket], None]


@contextmanager
def server(path: Path, play: Play, seconds: float = 5.0) -> Iterator[Connection]:
    """A connection to a server that plays ``play`` once somebody has called."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def body() -> None:
        client, _ = listener.accept()
        with client:
            play(client)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        with Connection(Remote("unix", str(path)), seconds) as connection:
            yield connection
    finally:
        thread.join(5)
        listener.close()


def answer(number: int, result: object, error: object = None) -> bytes:
    return json.dumps({"id": number, "result": result, "error": error}).encode()


def test_an_answer_may_come_byte_by_byte_with_text_of_all_kinds(tmp_path: Path):
    words = ['{"}', 'ü\\"}{', {"a": "}"}, ["}"]]

    def play(client: socket.socket) -> None:
        client.recv(1000)
        for byte in answer(1, words):
            client.sendall(bytes([byte]))

    with server(tmp_path / "s", play) as connection:
        assert connection.call("echo", []) == words


def test_an_echo_of_the_server_is_answered_and_other_notices_are_passed_over(tmp_path: Path):
    heard: list[bytes] = []

    def play(client: socket.socket) -> None:
        client.recv(1000)
        client.sendall(b'{"method":"stolen","params":["x"],"id":null}{"method":"echo","params":["hi"],"id":"e"}')
        heard.append(client.recv(1000))
        client.sendall(answer(1, 7))

    with server(tmp_path / "s", play) as connection:
        assert connection.call("x", []) == 7
    assert json.loads(heard[0]) == {"result": ["hi"], "error": None, "id": "e"}


def test_an_error_is_told_in_its_own_words(tmp_path: Path):
    def play(client: socket.socket) -> None:
        client.recv(1000)
        client.sendall(answer(1, None, {"error": "unknown database", "details": "x"}))

    with server(tmp_path / "s", play) as connection, pytest.raises(RemoteError, match="unknown database: x"):
        connection.call("get_schema", ["x"])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", "closed by the other side"),
        (b'{"id": 1, "result": [1, 2', "closed by the other side"),
        (b"SSH-2.0-OpenSSH_9.2\r\n}", "not JSON"),
        (b"[1, 2]}", "not JSON|no JSON-RPC"),
    ],
)
def test_what_is_no_answer_is_a_loss(tmp_path: Path, said: bytes, text: str):
    def play(client: socket.socket) -> None:
        client.recv(1000)
        client.sendall(said)

    with server(tmp_path / "s", play) as connection, pytest.raises(Lost, match=text):
        connection.call("x", [])


def wait_for(event: threading.Event) -> None:
    event.wait(5)


def test_no_answer_in_time_is_a_loss(tmp_path: Path):
    ended = threading.Event()
    with server(tmp_path / "s", lambda _: wait_for(ended), 0.05) as connection:
        with pytest.raises(Lost, match="no reply within"):
            connection.call("x", [])
        ended.set()


def test_a_stream_that_ended_before_is_told_before_anything_is_sent(tmp_path: Path):
    """The caller may then promise that nothing was sent; a write to a closed stream would leave that open."""
    closed = threading.Event()

    def play(client: socket.socket) -> None:
        client.recv(1000)
        client.sendall(answer(1, 1))
        client.shutdown(socket.SHUT_RDWR)
        closed.set()

    with server(tmp_path / "s", play) as connection:
        connection.call("x", [])
        closed.wait(5)
        with pytest.raises(Unreachable, match="closed by the other side"):
            connection.call("x", [])


@pytest.mark.parametrize(
    ("management", "remote", "bridge"),
    [
        ("ovs:unix:/run/openvswitch/db.sock#br0", Remote("unix", "/run/openvswitch/db.sock"), "br0"),
        ("ovs:tcp:leaf1.example.net:6640#br-int", Remote("tcp", "leaf1.example.net", 6640), "br-int"),
        ("ovs:ssl:[fd00::1]:6640#leaf1", Remote("ssl", "fd00::1", 6640), "leaf1"),
    ],
)
def test_references(management: str, remote: Remote, bridge: str):
    assert parse_reference(management) == (remote, bridge)


def test_a_remote_is_shown_as_open_vswitch_writes_it():
    assert [str(parse_reference(m)[0]) for m in ("ovs:unix:/a#b", "ovs:tcp:h:1#b", "ovs:ssl:[::1]:2#b")] == [
        "unix:/a",
        "tcp:h:1",
        "ssl:[::1]:2",
    ]


@pytest.mark.parametrize(
    "management", ["ovs:", "ovs:unix:db.sock#b", "ovs:tcp:h#b", "ovs:tcp:h:0#b", "ovs:unix:/a#-b", "ovs:unix:/a#b c"]
)
def test_what_is_no_reference(management: str):
    with pytest.raises(ValueError, match="such as ovs:unix:"):
        parse_reference(management)
