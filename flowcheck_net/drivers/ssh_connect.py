"""The way to a switch's command line: netmiko over SSH, with the host key checked, perhaps through a jump host."""

import base64
import codecs
import hashlib
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never, TypeVar

from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_reference import Reference

if TYPE_CHECKING:
    import paramiko
    from netmiko import BaseConnection
    from paramiko import Channel, SSHClient

    Clients = tuple[SSHClient, SSHClient | None]
    """To the switch, and to the jump host."""

Made = TypeVar("Made")
_TICK = 0.05
"""Seconds that a look for what has arrived waits."""
_WIDTH = 511
"""Columns of the terminal: no line of ours is as long, so no echo is wrapped."""


class Unreachable(Exception):
    """There is no connection; nothing was sent to the command line."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Lost(Exception):
    """The connection ended, or the switch fell silent. What was sent last may have been carried out."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    complaint: str
    """What it wrote to stderr."""


class Wire:
    """What is written to a terminal and what comes back."""

    def __init__(self, connection: "BaseConnection", jump: "SSHClient | None") -> None:
        self._connection = connection
        self._jump = jump
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        """What has arrived since, after a short wait; empty: nothing. Raises Lost where the switch hung up."""
        # netmiko's read_channel looks and does not wait; the channel below it wakes up with the first byte.
        remote: Any = self._connection.remote_conn
        try:
            remote.settimeout(_TICK)
            raw = remote.recv(1 << 16)
        except TimeoutError:
            return ""
        except Exception as error:
            raise Lost(f"the connection broke: {error}") from error
        if not raw:
            raise Lost("the switch closed the connection")
        return self._decoder.decode(raw)

    def write(self, text: str) -> None:
        """Send; raises Lost."""
        try:
            self._connection.write_channel(text)
        except Exception as error:
            raise Lost(f"the connection broke: {error}") from error

    def execute(self, command: str, stdin: str, seconds: float) -> "Ended":
        """Run a command beside the terminal, without one of its own; raises Lost where its end is not known."""
        client: Any = self._connection.remote_conn_pre
        output, complaint = bytearray(), bytearray()
        try:
            channel = client.get_transport().open_session(timeout=seconds)
            channel.settimeout(seconds)
            channel.exec_command(command)
            channel.sendall(stdin.encode())
            channel.shutdown_write()
            deadline = time.monotonic() + seconds
            while not (channel.closed or (channel.exit_status_ready() and channel.eof_received)):
                _take(channel, output, complaint)
                if time.monotonic() > deadline:
                    raise Lost(f"no answer within {seconds:g} s")
            _take(channel, output, complaint)
            code = channel.recv_exit_status() if channel.exit_status_ready() else -1
            channel.close()
        except Lost:
            raise
        except Exception as error:
            raise Lost(f"the connection broke: {error or type(error).__name__}") from error
        if code < 0:
            raise Lost("the connection ended before the command")
        return Ended(code, output.decode(errors="replace"), complaint.decode(errors="replace"))

    def close(self) -> None:
        """Hang up; never raises."""
        with suppress(Exception):
            self._connection.paramiko_cleanup()
        if self._jump is not None:
            with suppress(Exception):
                self._jump.close()


def _take(channel: "paramiko.Channel", output: bytearray, complaint: bytearray) -> None:
    """What has arrived, after a short wait where nothing has."""
    had = len(output) + len(complaint)
    while channel.recv_ready():
        output += channel.recv(1 << 16)
    while channel.recv_stderr_ready():
        complaint += channel.recv_stderr(1 << 16)
    if len(output) + len(complaint) == had:
        time.sleep(_TICK / 25)


def connect(where: Reference, login: Login, jump_login: Login, device_type: str) -> Wire:
    """A terminal on the switch; connecting is tried again, nothing else is. Raises Unreachable."""
    return try_connecting(where, lambda: _connect(where, login, jump_login, device_type))


def connect_plain(where: Reference, login: Login, jump_login: Login) -> "Clients":
    """A connection to the switch without a terminal, checked and tried again like ``connect``; raises Unreachable."""
    return try_connecting(where, lambda: _connect_plain(where, login, jump_login))


def try_connecting(where: Reference, attempt: Callable[[], Made]) -> Made:
    """Connect, ``retries`` times again where the host cannot be reached; raises Unreachable."""
    for left in reversed(range(where.retries + 1)):
        try:
            return attempt()
        except Unreachable as error:
            # A refused key or password does not become right by trying, and locks accounts.
            if not left or error.hint:
                raise
            time.sleep(0.5)
    raise ValueError("retries is 0 or more")


def _connect(where: Reference, login: Login, jump_login: Login, device_type: str) -> Wire:
    from netmiko import ConnectHandler
    from netmiko.exceptions import NetmikoAuthenticationException, NetmikoTimeoutException

    jump, sock = _through(where, jump_login) if where.jump else (None, _socket(where))
    connection = ConnectHandler(
        device_type=device_type,
        host=where.host,
        port=where.port,
        username=login.user,
        password=login.password or None,
        secret=login.enable,
        use_keys=login.key is not None or not login.password,
        key_file=str(login.key) if login.key else None,
        allow_agent=not login.password and login.key is None,
        conn_timeout=where.connect,
        auth_timeout=where.connect,
        banner_timeout=where.connect,
        ssh_strict=True,
        system_host_keys=not where.hostkey and where.known_hosts is None,
        alt_host_keys=where.known_hosts is not None and not where.hostkey,
        alt_key_file=str(where.known_hosts or ""),
        sock=sock,
        auto_connect=False,
    )
    policy: Any = _Policy(where.hostkey)
    connection.key_policy = policy
    try:
        connection.establish_connection(width=_WIDTH, height=1000)
    except (NetmikoAuthenticationException, NetmikoTimeoutException, OSError, ValueError, EOFError) as error:
        Wire(connection, jump).close()
        _explain(where, login, policy, error)
    except Exception as error:  # noqa: BLE001 -- paramiko's own, such as a host key that differs
        Wire(connection, jump).close()
        _explain(where, login, policy, error)
    return Wire(connection, jump)


def knock(where: Reference) -> None:
    """Is anybody there? For clients that wait as long for a connection as for an answer. Raises Unreachable."""
    _socket(where).close()


def _socket(where: Reference) -> socket.socket:
    try:
        made = socket.create_connection((where.host, where.port), where.connect)
    except OSError as error:
        raise Unreachable(f"{where}: {error.strerror or error}") from error
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _connect_plain(where: Reference, login: Login, jump_login: Login) -> "Clients":
    jump, sock = _through(where, jump_login) if where.jump else (None, _socket(where))
    policy = _Policy(where.hostkey)
    try:
        return _client(where, (where.host, where.port), login, policy, sock), jump
    except Exception as error:  # noqa: BLE001 -- paramiko's own, such as a host key that differs
        if jump is not None:
            jump.close()
        _explain(where, login, policy, error)


def _client(
    where: Reference,
    there: tuple[str, int],
    login: Login,
    policy: "_Policy",
    sock: "socket.socket | Channel | None" = None,
) -> "SSHClient":
    import paramiko

    client = paramiko.SSHClient()
    taken: Any = policy
    client.set_missing_host_key_policy(taken)
    try:
        if policy.pinned:
            pass
        elif where.known_hosts is None:
            client.load_system_host_keys()
        else:
            client.load_host_keys(str(where.known_hosts))
        client.connect(
            *there,
            login.user,
            login.password or None,
            key_filename=str(login.key) if login.key else None,
            allow_agent=not login.password and login.key is None,
            look_for_keys=not login.password and login.key is None,
            timeout=where.connect,
            auth_timeout=where.connect,
            banner_timeout=where.connect,
            sock=sock,
        )
    except Exception:
        client.close()
        raise
    return client


def _through(where: Reference, login: Login) -> tuple["SSHClient", "Channel"]:
    """A connection to the jump host, and a socket through it."""
    host, port = where.jump or ("", 0)
    policy, client = _Policy(""), None
    try:
        client = _client(where, (host, port), login, policy)
        transport = client.get_transport()
        if transport is None:
            raise Unreachable(f"jump host {host}: no connection")
        return client, transport.open_channel("direct-tcpip", (where.host, where.port), ("127.0.0.1", 0), where.connect)
    except Exception as error:
        if client is not None:
            client.close()
        import paramiko

        cure = policy.cure
        if isinstance(error, paramiko.AuthenticationException):
            cure = f"check user and password or key for the jump host ({where.jump_login or where.login})"
        elif isinstance(error, paramiko.BadHostKeyException):
            cure = "if the jump host was replaced: ssh-keygen -R; if not, somebody stands between"
        text = f"jump host {host}:{port}: {policy.complaint or login.without_secrets(str(error) or repr(error))}"
        raise Unreachable(text, cure) from error


class _Policy:
    """Takes a host key that known_hosts does not have only where it is the pinned one."""

    def __init__(self, pinned: str) -> None:
        self.pinned = pinned
        self.complaint = ""
        self.cure = ""

    def missing_host_key(self, client: object, hostname: str, key: "paramiko.PKey") -> None:
        """Called by paramiko; raises its SSHException to refuse."""
        del client
        import paramiko

        shown = fingerprint(key.asbytes())
        if shown == self.pinned:
            return
        if self.pinned:
            self.complaint = f"its host key is {shown}, and hostkey={self.pinned} is asked for"
            self.cure = "if the switch was replaced, change hostkey; if not, somebody stands between"
        else:
            self.complaint = f"its host key {shown} is not known"
            self.cure = (
                f"compare it on the switch's console, then `ssh-keyscan` it into known_hosts or write hostkey={shown}"
            )
        raise paramiko.SSHException(f"{hostname}: {self.complaint}")


def fingerprint(key: bytes) -> str:
    """As OpenSSH shows it: ``SHA256:`` and the digest without its padding."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _explain(where: Reference, login: Login, policy: _Policy, error: Exception) -> Never:
    import paramiko
    from netmiko.exceptions import NetmikoAuthenticationException

    if policy.complaint:
        raise Unreachable(f"{where}: {policy.complaint}", policy.cure) from error
    changed = error if isinstance(error, paramiko.BadHostKeyException) else error.__context__
    if isinstance(changed, paramiko.BadHostKeyException):
        text = f"{where}: its host key {fingerprint(changed.key.asbytes())} is not the one in known_hosts"
        raise Unreachable(text, "if the switch was replaced: ssh-keygen -R; if not, somebody stands between") from error
    if isinstance(error, (NetmikoAuthenticationException, paramiko.AuthenticationException)):
        text = f"{where}: user {login.user} was not let in"
        raise Unreachable(text, f"check user and password or key ({where.login})") from error
    reason = next((line for line in login.without_secrets(str(error)).splitlines() if line.strip()), repr(error))
    raise Unreachable(f"{where}: {reason}") from error
