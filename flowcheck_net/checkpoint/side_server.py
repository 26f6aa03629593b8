"""The receiving end of the side channel: messages of all ranks into one log, whole, checked, of known senders."""

import os
import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from flowcheck_net.checkpoint.side_client import LARGEST, enveloped, is_loopback, job_key
from flowcheck_net.checkpoint.side_door import Door, Guest, Refusal, RefusedError, Tls, server_tls
from flowcheck_net.checkpoint.side_frame import unframe
from flowcheck_net.errors import OutputError

_CHUNK = 1 << 20
_STRANGERS = 64
"""Connections that may be open and not let in yet."""
_STRANGE_BYTES = 1 << 16
"""What one of them may send."""
_GREETING = 10.0
"""Seconds until it must be let in."""


@dataclass(slots=True)
class ListenReport:
    """What a listener saw."""

    messages: int = 0
    repeated: int = 0
    """Messages that came again after a broken connection; they are not kept twice."""
    damaged: int = 0
    """Stretches of bytes that were no message; they are not kept."""
    cut: int = 0
    """Connections that ended in mid-message."""
    connections: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """``Refusal`` -> connections that were ended for it; nothing of what was refused is kept."""


@dataclass(frozen=True, slots=True)
class Guard:
    """How the listener knows who sends."""

    job: str = ""
    """Only its messages are taken; empty: of any job."""
    shared: bytes | None = None
    """Key of trainers and listener."""
    tls: tuple[Path, Path, Path] | None = None
    """Authority's certificate, own certificate, own key; for ``tls:``."""
    plain_text: bool = False
    """Allow ``tcp:`` without a key, on the loopback."""

    def check(self, kind: str) -> None:
        """Raises OutputError where it does not fit the kind of address."""
        if self.shared is not None and not self.job:
            raise OutputError("a key is bound to a job", hint="give its name as in job.yaml: --job NAME")
        if kind == "tls" and self.tls is None:
            raise OutputError("tls: needs certificates", hint="give --tls-authority, --tls-certificate and --tls-key")
        if kind == "tcp" and self.shared is None and not self.plain_text:
            hint = "give --key-file and --job, or listen at tls: with certificates; --plain-text is for the loopback"
            raise OutputError("anybody could send to tcp: without a key", hint=hint)


@dataclass(slots=True)
class _Line:
    """One connection."""

    guest: Guest
    tls: Tls | None
    since: float
    """Seconds of the monotonic clock."""
    peer: str
    pending: bytearray = field(default_factory=bytearray)

    @property
    def known(self) -> bool:
        return self.guest.let_in and (self.tls is None or self.tls.agreed)


class Listener:
    """Takes connections at a Unix or TCP socket and appends what they send to a log.

    A batch of messages is on the disk (fsync) before it is acknowledged and the next is read.
    """

    def __init__(
        self, address: str, log: Path, guard: Guard | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        """Bind and open.

        Args:
            address: ``unix:PATH``, ``tcp:HOST:PORT`` or ``tls:HOST:PORT``.
            log: Made if it is not there.
            guard: How senders are known. Default: Unix sockets by their user; ``tcp:`` not at all, so it is refused.
            say: Is told of each connection that is refused.

        Raises:
            OutputError: Address, file, key or certificates cannot be used.
        """
        self.report = ListenReport()
        guard = guard or Guard()
        self._kind = address.partition(":")[0]
        guard.check(self._kind)
        self._door = Door(None if guard.shared is None else job_key(guard.shared, guard.job), guard.job)
        self._context = server_tls(guard.tls) if self._kind == "tls" and guard.tls else None
        self._say = say or (lambda _: None)
        self._lines: dict[socket.socket, _Line] = {}
        with ExitStack() as stack:
            try:
                self._socket = stack.enter_context(_bound(address, plain=self._kind == "tcp" and guard.shared is None))
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
        for connection in list(self._lines):
            self._forget(connection)
        self._stack.close()

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system chose for port 0."""
        name = self._socket.getsockname()
        if isinstance(name, str):
            return f"unix:{name}"
        return f"{self._kind}:{f'[{name[0]}]' if ':' in name[0] else name[0]}:{name[1]}"

    def run(self, until: Callable[[], bool], pause: float = 0.2) -> ListenReport:
        """Serve until ``until`` says so; it is asked every ``pause`` seconds or more often. Raises OutputError."""
        while not until():
            for key, _ in self._selector.select(pause):
                if key.fileobj is self._socket:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._lines:  # not ended just now
                    self._serve(key.fileobj)
            self._end_slow()
        return self.report

    def _accept(self) -> None:
        try:
            connection, name = self._socket.accept()
        except OSError:
            return  # it has gone already, or there are too many files: those who wait are looked at again
        connection.setblocking(False)
        self.report.connections += 1
        tls = Tls(self._context) if self._context is not None else None
        peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a process of this machine"
        line = _Line(Guest(self._door), tls, time.monotonic(), peer)
        strangers = [other for other, each in self._lines.items() if not each.known]
        self._lines[connection] = line
        self._selector.register(connection, selectors.EVENT_READ)
        if not line.known and len(strangers) >= _STRANGERS:  # a trainer is let in at once: who waits longest is none
            self._refuse(strangers[0], RefusedError(Refusal.CROWD))
        try:
            if self._kind == "unix":
                _refuse_other_user(connection)
        except RefusedError as refused:
            self._refuse(connection, refused)

    def _end_slow(self) -> None:
        now = time.monotonic()
        for connection, line in list(self._lines.items()):
            if not line.known and now - line.since > _GREETING:
                self._refuse(connection, RefusedError(Refusal.SLOW))

    def _refuse(self, connection: socket.socket, refused: RefusedError) -> None:
        self.report.refused[refused.refusal.value] += 1
        self._say(f"refused {self._lines[connection].peer}: {refused}")
        self._forget(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        line = self._lines[connection]
        if not data:
            self.report.cut += bool(line.pending)
            self._forget(connection)
            return
        answer = b""
        try:
            line.pending += data if line.tls is None else line.tls.take(data)
            answer = self._keep(line)
            if len(line.pending) > (2 * LARGEST if line.known else _STRANGE_BYTES):
                raise RefusedError(Refusal.SLOW, "no message ends")
        except RefusedError as refused:
            self._answer(connection, line, answer)
            self._refuse(connection, refused)
            return
        if not self._answer(connection, line, answer):
            self._forget(connection)

    def _answer(self, connection: socket.socket, line: _Line, data: bytes) -> bool:
        """False: the other end does not read, or is gone."""
        out = data if line.tls is None else line.tls.answer(data)
        try:
            return not out or connection.send(out) == len(out)
        except OSError:
            return False

    def _keep(self, line: _Line) -> bytes:
        """Bring all whole messages to the disk, and leave the rest; what is to be sent back. Raises RefusedError."""
        at, view = 0, bytes(line.pending)
        whole, back = bytearray(), bytearray()
        try:
            while at < len(view):
                found = unframe(view, at)
                if isinstance(found, int):
                    break
                body, at = found
                if body is None:
                    self.report.damaged += 1
                    continue
                answer, kept = line.guest.take(body)
                back += answer
                whole += enveloped(kept) if kept else b""
                self.report.messages += bool(kept)
                self.report.repeated += bool(answer and not kept and line.guest.let_in)
        finally:
            del line.pending[:at]
            if whole:
                self._write(whole)
        return bytes(back)

    def _write(self, data: bytearray) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError as error:
            hint = "nothing was acknowledged: mend the disk and listen again, the trainers send what they still have"
            raise OutputError(f"the log cannot be written: {error.strerror or error}", hint=hint) from error

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._lines[connection]
        connection.close()


def _owner(connection: socket.socket) -> int:
    """User of the process at the other end of a Unix socket, by the kernel."""
    user: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    return user


def _refuse_other_user(connection: socket.socket) -> None:
    user = _owner(connection)
    if user not in (0, os.geteuid()):
        raise RefusedError(Refusal.USER, f"user {user}")


def _bound(address: str, *, plain: bool) -> socket.socket:
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
    if kind not in ("tcp", "tls") or not host:
        raise ValueError("an address is unix:PATH, tcp:HOST:PORT or tls:HOST:PORT")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host.strip("[]"), int(port)), family=family)
    if plain and not is_loopback(made.getsockname()[0]):
        made.close()
        raise ValueError("plain text is for the loopback only")
    return made
