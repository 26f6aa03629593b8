"""The receiving end of the side channel: messages of all ranks into one log, whole and checked."""

import os
import selectors
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.checkpoint.side import unframe
from flowcheck_net.checkpoint.side_client import LARGEST
from flowcheck_net.errors import OutputError

_CHUNK = 1 << 20


@dataclass(slots=True)
class ListenReport:
    """What a listener saw."""

    messages: int = 0
    damaged: int = 0
    """Stretches of bytes that were no message; they are not kept."""
    cut: int = 0
    """Connections that ended in mid-message."""
    connections: int = 0


class Listener:
    """Takes connections at a Unix or TCP socket and appends what they send to a log.

    A batch of messages is on the disk (fsync) before the next is read.
    """

    def __init__(self, address: str, log: Path) -> None:
        """Bind and open. Raises OutputError where the address or the file cannot be used."""
        self.report = ListenReport()
        self._pending: dict[socket.socket, bytearray] = {}
        with ExitStack() as stack:
            try:
                self._socket = stack.enter_context(_bound(address))
                self._file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except (OSError, ValueError) as error:
                raise OutputError(f"{address}, {log}: {error}", hint="choose another address or file") from error
            stack.callback(os.close, self._file)
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._selector.register(self._socket, selectors.EVENT_READ)
            self._stack = stack.pop_all()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._pending):
            self._forget(connection)
        self._stack.close()

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system chose for port 0."""
        name = self._socket.getsockname()
        return f"unix:{name}" if isinstance(name, str) else f"tcp:{name[0]}:{name[1]}"

    def run(self, until: Callable[[], bool], pause: float = 0.2) -> ListenReport:
        """Serve until ``until`` says so; it is asked every ``pause`` seconds or more often."""
        while not until():
            for key, _ in self._selector.select(pause):
                if key.fileobj is self._socket:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj)
        return self.report

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        connection.setblocking(False)
        self._pending[connection] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ)
        self.report.connections += 1

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        pending = self._pending[connection]
        if not data:
            self.report.cut += bool(pending)
            self._forget(connection)
            return
        pending += data
        self._keep(pending)
        if len(pending) > 2 * LARGEST:
            self.report.cut += 1
            self._forget(connection)

    def _keep(self, pending: bytearray) -> None:
        """Write all whole messages, and leave the rest."""
        at, view = 0, bytes(pending)
        whole = bytearray()
        while at < len(view):
            found = unframe(view, at)
            if isinstance(found, int):
                break
            body, end = found
            if body is None:
                self.report.damaged += 1
            else:
                whole += view[at:end]
                self.report.messages += 1
            at = end
        del pending[:at]
        if whole:
            _write(self._file, whole)
            os.fsync(self._file)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._pending[connection]
        connection.close()


def _write(file: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _bound(address: str) -> socket.socket:
    kind, _, place = address.partition(":")
    if kind == "unix":
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            made.bind(place)
        except OSError:
            made.close()
            raise
        finally:
            os.umask(before)
        made.listen()
        return made
    host, _, port = place.rpartition(":")
    if kind != "tcp" or not host:
        raise ValueError("an address is unix:PATH or tcp:HOST:PORT")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host.strip("[]"), int(port)), family=family)
