"""Clients by hand for the side channel's listener, which can do everything wrong, and one who stands between."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.checkpoint.side_client import enveloped, framed, job_key, proof_of
from flowcheck_net.checkpoint.side_server import Guard, Listener, ListenReport

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


def told(step: int, sequence: int, **more: Any) -> dict[str, Any]:
    head: dict[str, Any] = {"v": 1, "run": "a", "rank": 0, "seq": sequence, "step": step, "at": 0.0, "dropped": 0}
    rest: dict[str, Any] = {"lost": [], "refused": [], "values": {}, "fields": {"x": step}, "job": "gpt", "life": "l"}
    return head | rest | more


OPENED: list[socket.socket] = []


WHO = {"run": "a", "rank": 0, "life": "l", "job": "gpt", "nonce": "00" * 32}
HELLO = json.dumps({"v": 1, "hello": WHO}).encode()
SIGNED = framed(told(1, 0), JOB)


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
