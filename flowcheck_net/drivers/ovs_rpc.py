"""JSON-RPC 1.0 over a byte stream, as ovsdb-server (RFC 7047) and the control socket of ovs-vswitchd speak it.

One call at a time, every call under a deadline. The other side's ``echo`` is answered while we wait; other
notifications are not for us. No thread, no retry: who holds the connection decides what a loss means.
"""

import json
import os
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from flowcheck_net.drivers.ovs_reference import Remote

MOST_BYTES = 64 << 20
"""A reply is refused beyond it: the whole database of a switch with thousands of ports has a few MiB."""
SECONDS = 10.0
"""For a connection, and for each reply."""
PRIVATE_KEY, CERTIFICATE, CA = "FLOWCHECK_OVS_PRIVATE_KEY", "FLOWCHECK_OVS_CERTIFICATE", "FLOWCHECK_OVS_CA_CERT"
"""Environment variables with the paths of PEM files, for ``ssl:``."""


class Unreachable(Exception):
    """No connection, or it ended before the request was sent: the other side did nothing."""


class Lost(Exception):
    """The request was sent, wholly or in part, and no reply came: the other side may have acted."""


class RemoteError(Exception):
    """The other side answered with an error."""


class Connection:
    """One stream to one server."""

    def __init__(self, remote: Remote, seconds: float = SECONDS) -> None:
        """Connect.

        Raises:
            Unreachable: what went wrong, and what to look at.
        """
        self._seconds = seconds
        self._buffer = b""
        self._decoder = json.JSONDecoder()
        self._last_id = 0
        self._name = str(remote)
        try:
            self._socket = _open(remote, seconds)
        except ssl.SSLError as error:
            raise Unreachable(f"TLS with {remote}: {_tls_words(error)}") from error
        except (OSError, ValueError) as error:
            raise Unreachable(f"{remote}: {_words(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; never raises."""
        self._socket.close()

    def call(self, method: str, params: Sequence[object]) -> object:
        """The ``result`` of one request.

        Raises:
            Unreachable: nothing was sent.
            Lost: it was sent, and the connection ended, or no reply came in time.
            RemoteError: the other side answered with an error.
        """
        deadline = time.monotonic() + self._seconds
        self._settle()
        self._last_id += 1
        self._send({"method": method, "params": list(params), "id": self._last_id})
        while True:
            message = self._receive(deadline)
            if message.get("id") == self._last_id and "method" not in message:
                if message.get("error") is not None:
                    raise RemoteError(_error_words(message["error"]))
                return message.get("result")
            self._answer(message)

    def _settle(self) -> None:
        """Answer what came while nobody listened; a connection that ended meanwhile is told before anything is sent."""
        try:
            while True:
                self._socket.settimeout(0.0)
                self._read_some()
                while (message := self._next()) is not None:
                    self._answer(message)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except (OSError, ValueError, Lost) as error:
            raise Unreachable(f"{self._name}: {_words(error)}") from error

    def _answer(self, message: dict[str, object]) -> None:
        if message.get("method") == "echo":
            self._send({"result": message.get("params"), "error": None, "id": message.get("id")})

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._socket.settimeout(self._seconds)
            self._socket.sendall(json.dumps(message).encode())
        except OSError as error:
            raise Lost(_words(error)) from error

    def _receive(self, deadline: float) -> dict[str, object]:
        while True:
            if (message := self._next()) is not None:
                return message
            left = deadline - time.monotonic()
            if left <= 0:
                raise Lost(f"no reply within {self._seconds:g} s")
            try:
                self._socket.settimeout(left)
                self._read_some()
            except TimeoutError:
                continue
            except (OSError, ValueError) as error:
                raise Lost(_words(error)) from error

    def _read_some(self) -> None:
        piece = self._socket.recv(1 << 18)
        if not piece:
            raise Lost("the connection was closed by the other side")
        self._buffer += piece
        if len(self._buffer) > MOST_BYTES:
            raise Lost(f"more than {MOST_BYTES >> 20} MiB in one reply")

    def _next(self) -> dict[str, object] | None:
        """The first whole message of what has come; None: there is none yet."""
        # A message ends with a brace: without this, every piece of a long one would be decoded again from its start.
        if not self._buffer.rstrip().endswith(b"}"):
            return None
        try:
            text = self._buffer.decode().lstrip()
            message, end = self._decoder.raw_decode(text)
        except ValueError as error:
            if self._buffer.lstrip()[:1] != b"{":
                raise Lost("what came is not JSON: no Open vSwitch database or control socket?") from error
            return None
        except RecursionError as error:
            raise Lost("what came is nested too deep for an Open vSwitch") from error
        self._buffer = text[end:].encode()
        if not isinstance(message, dict):
            raise Lost("what came is no JSON-RPC message")
        return message


def _open(remote: Remote, seconds: float) -> socket.socket:
    if remote.kind == "unix":
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plain.settimeout(seconds)
            plain.connect(remote.host)
        except OSError:
            plain.close()
            raise
        return plain
    stream = socket.create_connection((remote.host, remote.port), timeout=seconds)
    try:
        return stream if remote.kind == "tcp" else _context().wrap_socket(stream)
    except (OSError, ValueError):
        stream.close()
        raise


def _context() -> ssl.SSLContext:
    """TLS 1.2 or later; the switch must show a certificate of our authority, as Open vSwitch's own tools want it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Certificates of Open vSwitch (ovs-pki) name a person or a serial, not the host: the authority alone decides.
    context.check_hostname = False
    context.load_verify_locations(cafile=_pem(CA))
    context.load_cert_chain(_pem(CERTIFICATE), _pem(PRIVATE_KEY))
    return context


def _pem(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not path:
        raise ValueError(f"ssl: needs a PEM file, named by the environment variable {variable}")
    if not Path(path).is_file():
        raise ValueError(f"{variable} names {path}, which is not a file")
    return path


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the switch is refused: {error.verify_message}"
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "the other side hung up: does the port speak TLS, and is our certificate one that it knows?"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "the port does not speak TLS (a tcp: port?)"
    if reason == "KEY_VALUES_MISMATCH":
        return "our private key does not belong to our certificate"
    return f"failed: {reason.lower().replace('_', ' ')}"


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        # In TLS 1.3 the server judges our certificate only after our side thinks that it is connected.
        return f"the switch refused our TLS side (its view of our certificate?): {_tls_words(error)}"
    if isinstance(error, FileNotFoundError):
        return "there is no such socket: is ovsdb-server running, and is this its --remote=punix path?"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, PermissionError):
        return "permission denied: the socket belongs to root or the openvswitch group"
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _error_words(error: object) -> str:
    if isinstance(error, dict):
        return ": ".join(str(error[k]) for k in ("error", "details") if error.get(k))
    return str(error).strip()
