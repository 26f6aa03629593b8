"""A stream between a driver and ovsdb-server that breaks where it is told to."""

import json
import socket
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Self


class Cut(StrEnum):
    """What happens to the first transaction that changes something."""

    BEFORE = "before"
    """It never reaches the server."""
    AFTER = "after"
    """The server answers, and nobody hears it."""
    ABORT = "abort"
    """The server is told to abort it in the end."""


class Proxy:
    """Listens at ``path``; passes on to ``target`` what it does not spoil. Each connection has a thread of its own."""

    def __init__(self, path: Path, target: Path, cut: Cut, strike: Callable[[], None] = lambda: None) -> None:
        """``strike`` is called where the stream breaks: to kill the server at that very moment."""
        self._target = target
        self._cut: Cut | None = cut
        self._strike = strike
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """No more connections."""
        # A thread in accept() does not notice a close; a shutdown wakes it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._target))
            pending = ""
            while piece := client.recv(1 << 20):
                pending += piece.decode()
                try:
                    message, end = json.JSONDecoder().raw_decode(pending)
                except ValueError:
                    continue
                pending = pending[end:]
                if not self._pass_on(message, client, server):
                    return

    def _pass_on(self, message: dict[str, object], client: socket.socket, server: socket.socket) -> bool:
        params = message["params"]
        changes = isinstance(params, list) and any(isinstance(p, dict) and p.get("op") == "mutate" for p in params)
        cut, self._cut = (self._cut, None) if changes else (None, self._cut)
        if cut is Cut.BEFORE:
            self._strike()
            return False
        if cut is Cut.ABORT:
            assert isinstance(params, list)
            params.append({"op": "abort"})
        server.sendall(json.dumps(message).encode())
        answer = b""
        while not _whole(answer):
            piece = server.recv(1 << 20)
            if not piece:
                return False
            answer += piece
        if cut is Cut.AFTER:
            self._strike()
            return False
        client.sendall(answer)
        return True


def _whole(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
