"""A switch with a command line, behind a real SSH server (asyncssh): the stateful base of the doubles of all platforms.

A platform double derives from ``Platform`` (the switch: one state for all logins) and ``Session`` (one login: its mode
and what a line does). It knows nothing of the dialect under test. Here are the parts that all have in common: echo,
pager, log lines that burst in, prompts that are cut, slow and dying connections, a bound on logins, and what was typed.
"""

import asyncio
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import asyncssh

USER, PASSWORD, ENABLE = "fcn", "pw-s3same", "en-s3same"


class Fault(Enum):
    """What goes wrong at a line."""

    REJECT = "reject"
    """The switch refuses it, with ``Platform.rejection``."""
    DIE_BEFORE = "die before"
    """The connection ends before the line acts."""
    DIE_AFTER = "die after"
    """The line acts, then the connection ends without an answer."""
    LOG_BEFORE_PROMPT = "log before prompt"
    """A log line comes right behind the prompt, and no new prompt after it."""
    LOG_IN_OUTPUT = "log in output"
    """A log line comes in the middle of the output, on a line of its own."""
    PAGER = "pager"
    """Paging is on again, whatever was said."""
    CUT_PROMPT = "cut prompt"
    """The prompt after the line comes in two pieces, with the log between them."""
    SLOW = "slow"
    """The answer comes letter by letter."""
    SILENT = "silent"
    """The line acts, and nothing ever comes again."""


@dataclass
class Planned:
    """A fault at the ``after``-th line (from 0) that matches."""

    kind: Fault
    pattern: str
    after: int = 0
    text: str = ""
    """Answer of a REJECT; empty: the platform's."""
    seen: int = field(default=0, init=False)
    struck: bool = field(default=False, init=False)

    def strikes(self, line: str) -> bool:
        """Is it now? Once only."""
        if self.struck or not re.search(self.pattern, line):
            return False
        self.seen += 1
        self.struck = self.seen > self.after
        return self.struck


class Session(ABC):
    """One login."""

    paging = True
    page = 24
    """Lines of a page."""
    closed = False
    hidden: "Callable[[str], str] | None" = None
    """Takes the next line, which is not echoed (a password), and returns what is printed."""
    question = ""
    """What is asked instead of a prompt, while ``hidden`` or ``answering`` waits."""
    answering: "Callable[[str], str] | None" = None
    """Takes the next line as the answer to a question."""

    @abstractmethod
    def prompt(self) -> str:
        """As the mode has it."""

    def close(self) -> None:  # noqa: B027 -- most need nothing
        """The connection ended, however that came about: what the switch throws away then."""

    @abstractmethod
    def do(self, line: str) -> str:
        """Carry a line out; what is printed, lines joined by newlines, empty for nothing."""


class Platform(ABC):
    """One switch."""

    name = "leaf1"
    banner = ""
    """Printed at login, before the first prompt."""
    rejection = "% Invalid input"
    log_line = "Nov 30 22:00:00 leaf1 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet9 changed to up"
    pager = "--More-- "
    most_logins = 8
    comments = ("!",)
    """Lines that begin so do nothing."""

    @abstractmethod
    def login(self) -> Session:
        """A new terminal."""


class SshBox:
    """The server of one switch; use it as a context."""

    def __init__(self, platform: Platform, directory: Path) -> None:
        self.platform = platform
        self.faults: list[Planned] = []
        self.typed: list[tuple[str, str]] = []
        """(prompt, line) of all logins, passwords left out."""
        self.refuse_connections = 0
        """So many of the next connections are dropped before a word."""
        self.logins = 0
        self.port = 0
        self.broken: Exception | None = None
        """Why the double itself failed: raised when the context ends."""
        self.lock = threading.Lock()
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self.known_hosts = directory / f"known_hosts-{id(self):x}"
        self.fingerprint = _host_key().get_fingerprint("sha256")

    def __enter__(self) -> "SshBox":
        self._server = _run(self._listen())
        self.port = self._server.get_port()
        key = _host_key().export_public_key().decode().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}\n")
        return self

    def __exit__(self, *exc: object) -> None:
        _run(self._close())
        if self.broken is not None:
            raise AssertionError("the double is broken") from self.broken

    def lines(self) -> list[str]:
        """What was typed, with the prompt before it, without end markers."""
        return [f"{prompt.splitlines()[-1]}{line}" for prompt, line in self.typed if "fcn-end-" not in line and line]

    async def converse(self, session: Session, process: "asyncssh.SSHServerProcess[str]") -> None:
        """With one client, until either ends it."""
        await _Terminal(self, session, process).run()

    async def _listen(self) -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            lambda: _Server(self),
            "127.0.0.1",
            0,
            server_host_keys=[_host_key()],
            process_factory=self._serve,
            line_editor=False,
            encoding="utf-8",
            allow_pty=True,
        )

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _serve(self, process: "asyncssh.SSHServerProcess[str]") -> None:
        with self.lock:
            if self.logins >= self.platform.most_logins:
                process.stdout.write("% Too many sessions\r\n")
                process.exit(1)
                return
            self.logins += 1
            session = self.platform.login()
        try:
            await self.converse(session, process)
        except (asyncssh.Error, OSError, EOFError):  # the other end is gone
            pass
        except Exception as error:  # noqa: BLE001 -- a fault of the double, not of the driver
            self.broken = error
        finally:
            with self.lock:
                self.logins -= 1
                session.close()
            process.exit(0)


class _Server(asyncssh.SSHServer):
    def __init__(self, box: SshBox) -> None:
        self._box = box
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._box._connections.add(conn)
        if self._box.refuse_connections:
            self._box.refuse_connections -= 1
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._box._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """It may serve as a jump host, to this machine only."""
        return dest_host == "127.0.0.1"


class _Died(EOFError):
    pass


class _Terminal:
    """Echo, pager and faults of one login."""

    def __init__(self, box: SshBox, session: Session, process: "asyncssh.SSHServerProcess[str]") -> None:
        self._box = box
        self._platform = box.platform
        self._session = session
        self._process = process
        self._pending = ""
        self._forced_pager = False

    async def run(self) -> None:
        """Until the client or the switch ends it."""
        if self._platform.banner:
            self._print(self._platform.banner.replace("\n", "\r\n") + "\r\n")
        self._print(self._session.prompt())
        while not self._session.closed:
            await self._line(await self._read_line())

    async def _line(self, line: str) -> None:
        session = self._session
        if taker := session.hidden or session.answering:
            session.hidden = session.answering = None
            with self._box.lock:
                output = taker(line)
            await self._show(output, None)
            return
        with self._box.lock:
            self._box.typed.append((session.prompt(), line.strip()))
            fault = next((f for f in self._box.faults if f.strikes(line)), None)
        kind = fault.kind if fault else None
        if kind is Fault.DIE_BEFORE:
            self._die()
        if fault and kind is Fault.REJECT:
            output = fault.text or self._platform.rejection
        elif not line.strip() or line.strip().startswith(self._platform.comments):
            output = ""
        else:
            with self._box.lock:
                output = session.do(line.strip())
        if kind is Fault.DIE_AFTER:
            self._die()
        if kind is Fault.SILENT:
            await asyncio.sleep(3600)
        self._forced_pager = self._forced_pager or kind is Fault.PAGER
        await self._show(output, kind)

    async def _show(self, output: str, kind: Fault | None) -> None:
        lines = output.split("\n") if output else []
        if kind is Fault.LOG_IN_OUTPUT:
            lines.insert(len(lines) // 2, self._platform.log_line)
        if not await self._page(lines, slow=kind is Fault.SLOW) or self._session.closed:
            return
        prompt = self._session.question or self._session.prompt()
        self._session.question = ""
        if kind is Fault.CUT_PROMPT:
            self._print(prompt[: len(prompt) // 2])
            await asyncio.sleep(0.02)
            self._print(f"\r\n{self._platform.log_line}\r\n")
            return
        self._print(prompt)
        if kind is Fault.LOG_BEFORE_PROMPT:
            self._print(f"\r\n{self._platform.log_line}\r\n")

    async def _page(self, lines: list[str], *, slow: bool) -> bool:
        room = self._session.page - 1
        for line in lines:
            if (self._session.paging or self._forced_pager) and room == 0:
                self._print(self._platform.pager)
                key = await self._read_key()
                self._print("\r" + " " * len(self._platform.pager) + "\r")
                if key == "q":
                    break
                room = self._session.page - 1 if key == " " else 1
            room -= 1
            for piece in line if slow else (line,):
                self._print(piece)
                if slow:
                    await asyncio.sleep(0.001)
            self._print("\r\n")
        self._forced_pager = False
        return True

    async def _read_key(self) -> str:
        while not self._pending:
            self._pending += await self._read()
        key, self._pending = self._pending[0], self._pending[1:]
        return key

    async def _read_line(self) -> str:
        line = ""
        while True:
            key = await self._read_key()
            if key in "\r\n":
                self._print("\r\n")
                return line
            line += key
            if self._session.hidden is None:
                self._print(key)

    async def _read(self) -> str:
        found = await self._process.stdin.read(4096)
        if not found:
            raise _Died
        return str(found)

    def _print(self, text: str) -> None:
        self._process.stdout.write(text)

    def _die(self) -> None:
        self._process.channel.get_connection().abort()
        raise _Died


_keys: list[asyncssh.SSHKey] = []
_loops: list[asyncio.AbstractEventLoop] = []


def _host_key() -> asyncssh.SSHKey:
    if not _keys:
        _keys.append(asyncssh.generate_private_key("ssh-ed25519"))
    return _keys[0]


def _run(work: Any) -> Any:
    """In the one event loop of this process, which a thread of its own runs."""
    if not _loops:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="ssh boxes", daemon=True).start()
        _loops.append(loop)
    future: Future[Any] = asyncio.run_coroutine_threadsafe(work, _loops[0])
    return future.result(30)
