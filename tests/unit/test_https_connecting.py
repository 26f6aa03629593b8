"""`connect=` and `retries=` of eAPI and NX-API: connecting is tried again, a login is not, and no request ever is."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from flowcheck_net.drivers import ssh_connect
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, StateUnknown
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
from tests.conformance import bench_eapi, bench_nxapi
from tests.conformance.bench import create, session
from tests.conformance.bench_ssh import SshBench
from tests.doubles.https_server import HttpsServer
from tests.doubles.ssh_box import Fault, Planned

KINDS = {"eapi": bench_eapi.real_client, "nxapi": bench_nxapi.real_client}

ACTING: dict[type, str] = {bench_eapi.EapiBench: "^commit timer", bench_nxapi.NxapiBench: "^source interface"}
"""The first line that is in effect at once."""


@pytest.fixture(params=sorted(KINDS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SshBench]:
    with KINDS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between two tries, in seconds; none is waited for."""
    taken: list[float] = []
    monkeypatch.setattr(ssh_connect, "time", SimpleNamespace(sleep=taken.append, monotonic=time.monotonic))
    return taken


def server_of(bench: SshBench) -> HttpsServer:
    return cast(HttpsServer, cast(Any, bench.box))


def opened(bench: SshBench, words: str, port: int = 0) -> Any:
    server = server_of(bench)
    kind = bench.address().management.split(":")[0]
    reference = f"{kind}:127.0.0.1:{port or server.port}?ca={server.ca}&timeout=60&{words}"
    return open_driver(SwitchAddress(SwitchName("leaf1"), bench.PLATFORM, reference), "gpt", Path("/nonexistent"))


class Door:
    """A port that refuses all connections until ``open`` is called; then it leads to the server. Use as a context."""

    def __init__(self, to: int) -> None:
        self._to, self._ends = to, ExitStack()
        self._socket = self._ends.enter_context(socket.socket())
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._ends.close()

    def open(self) -> None:
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near = self._ends.enter_context(self._socket.accept()[0])
                far = self._ends.enter_context(socket.create_connection(("127.0.0.1", self._to)))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_a_refused_connection_is_tried_again_until_the_switch_answers(bench: SshBench, monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    with Door(server_of(bench).port) as door:

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                door.open()

        monkeypatch.setattr(ssh_connect, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
        with opened(bench, "retries=3", door.port) as driver:
            assert driver.read().owned == ()
    assert len(pauses) == 2


@pytest.mark.parametrize("retries", [0, 2])
def test_a_connection_that_stays_refused_is_tried_so_often_and_named(
    bench: SshBench, pauses: list[float], retries: int
):
    with Door(0) as door, pytest.raises(ConnectError, match="Connection refused") as caught:
        opened(bench, f"retries={retries}", door.port).__enter__()
    assert len(pauses) == retries
    assert caught.value.switch == "leaf1"


def test_a_login_whose_request_is_cut_off_is_tried_again(bench: SshBench, pauses: list[float]):
    server_of(bench).refuse_connections = 1
    with opened(bench, "retries=1") as driver:
        assert driver.read().owned == ()
    assert len(pauses) == 1


def test_a_refused_password_is_not_tried_again(bench: SshBench, pauses: list[float], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWCHECK_SWITCH_PASSWORD", "wrong-pw")
    with pytest.raises(ConnectError) as caught:
        opened(bench, "retries=5").__enter__()
    assert "check user and password" in caught.value.hint
    assert server_of(bench).refused_logins == 1
    assert pauses == []


@pytest.mark.parametrize("kind", [Fault.DIE_BEFORE, Fault.DIE_AFTER])
def test_a_request_that_was_sent_is_never_sent_again(bench: SshBench, pauses: list[float], kind: Fault):
    server = server_of(bench)
    with opened(bench, "retries=5") as driver:
        driver.read()
        server.faults.append(Planned(kind, ACTING[type(bench)]))
        with pytest.raises(StateUnknown):
            driver.write(create(session(bench, 0, "0:rx")))
    sent = [r for r in server.requests if any(re.search(ACTING[type(bench)], command) for command in r)]
    assert server.faults[0].struck
    assert len(sent) == 1
    assert pauses == []
    with opened(bench, "retries=0") as again:
        assert again.read() is not None


def test_an_answer_to_a_question_that_is_cut_off_is_not_asked_for_again(bench: SshBench, pauses: list[float]):
    server = server_of(bench)
    with opened(bench, "retries=5") as driver:
        server.faults.append(Planned(Fault.DIE_BEFORE, "^show running-config"))
        asked = len(server.requests)
        with pytest.raises(ConnectError):
            driver.read()
    asking = [r for r in server.requests[asked:] if any(c.startswith("show running-config") for c in r)]
    assert len(asking) == 1
    assert pauses == []


def test_connect_bounds_how_long_a_switch_may_keep_silent_before_there_is_a_connection(
    bench: SshBench, pauses: list[float]
):
    with ExitStack() as ends:
        full = ends.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        where = full.getsockname()
        # Nobody accepts: once the queue is full, further ones are not answered at all.
        with suppress(TimeoutError):
            while True:
                ends.enter_context(socket.create_connection(where, 1))
        with pytest.raises(ConnectError, match="timed out"):
            opened(bench, "connect=1&retries=1", where[1]).__enter__()
    assert len(pauses) == 1
