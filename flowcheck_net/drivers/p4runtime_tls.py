"""TLS of the management connection: files named by the environment, and what is wrong when a connection fails.

gRPC tells of a failed connection in words of its many layers. So after a failure, and only then, the server is asked
once more by a plain socket, whose errors are clear.
"""

import os
import socket
import ssl
import warnings
from pathlib import Path

import grpc

from flowcheck_net.drivers.p4runtime_errors import Unreachable
from flowcheck_net.drivers.p4runtime_reference import Reference

PRIVATE_KEY, CERTIFICATE, CA = (f"FLOWCHECK_P4RT_{word}" for word in ("PRIVATE_KEY", "CERTIFICATE", "CA_CERT"))
"""Environment variables with the paths of PEM files."""
_SECONDS = 3.0


def credentials() -> grpc.ChannelCredentials:
    """Of the files that the environment names; raises Unreachable where they are missing or no PEM files."""
    authority = _pem(CA, "CERTIFICATE")
    if authority is None:
        raise Unreachable("tls=yes needs to know whom to trust", f"set {CA} to the PEM file of the authority")
    certificate, key = _pem(CERTIFICATE, "CERTIFICATE"), _pem(PRIVATE_KEY, "PRIVATE KEY")
    if (certificate is None) != (key is None):
        raise Unreachable(
            "of our certificate and its key only one is named", f"set both {CERTIFICATE} and {PRIVATE_KEY}"
        )
    _context()
    return grpc.ssl_channel_credentials(authority, key, certificate)


def _pem(variable: str, kind: str) -> bytes | None:
    path = os.environ.get(variable, "")
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise Unreachable(f"{variable} names {path}: {error.strerror}") from error
    if f"{kind}-----".encode() not in content:
        raise Unreachable(f"{variable} names {path}, which is not a PEM file with a {kind}")
    return content


def _context() -> ssl.SSLContext:
    """As gRPC uses the files; raises Unreachable where they do not fit together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(os.environ[CA])
        if os.environ.get(CERTIFICATE):
            context.load_cert_chain(os.environ[CERTIFICATE], os.environ[PRIVATE_KEY], password="")
    except (ssl.SSLError, OSError) as error:
        names = f"{CA}, {CERTIFICATE} and {PRIVATE_KEY}"
        raise Unreachable(
            f"the certificate files cannot be used: {error}",
            f"look at the files named by {names}: does the key belong to the certificate, and has it no password?",
        ) from error
    return context


def diagnose(where: Reference, told: str) -> Unreachable:
    """Why no connection came about; ``told`` is what gRPC said."""
    try:
        with _connect(where) as plain:
            return _try_tls(where, plain, told) if where.tls else _try_plain(where, plain, told)
    except OSError as error:
        text = f"{where.server} cannot be reached: {error.strerror or error}"
        return Unreachable(text, "is the P4Runtime server running, and do host and port fit?")


def _connect(where: Reference) -> socket.socket:
    """As gRPC does it; raises OSError."""
    if where.port:
        return socket.create_connection((where.host, where.port), timeout=_SECONDS)
    local = socket.socket(socket.AF_UNIX)
    local.settimeout(_SECONDS)
    try:
        local.connect(where.host)
    except OSError:
        local.close()
        raise
    return local


def _try_tls(where: Reference, plain: socket.socket, told: str) -> Unreachable:
    try:
        with _context().wrap_socket(plain, server_hostname=where.name or where.host) as secured:
            # With TLS 1.3 a server refuses our certificate only after the handshake: the first byte tells.
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            if not secured.recv(1):
                return _refused_by_server(where, "it hung up")
    except ssl.SSLCertVerificationError as error:
        return _bad_certificate(where, error.verify_message)
    except ssl.SSLError as error:
        if error.reason in (
            "WRONG_VERSION_NUMBER",
            "RECORD_LAYER_FAILURE",
            "HTTP_REQUEST",
            "UNEXPECTED_EOF_WHILE_READING",
        ):
            return Unreachable(f"{where.server} does not speak TLS", "leave tls=yes out, or use the server's TLS port")
        return _refused_by_server(where, (error.reason or str(error)).replace("_", " ").lower())
    except TimeoutError:
        return Unreachable(f"{where.server} does not speak TLS", "leave tls=yes out, or use the server's TLS port")
    except OSError as error:
        return _refused_by_server(where, str(error.strerror or error))
    return Unreachable(f"{where.server} speaks TLS, but no P4Runtime: {told}", "is it the right port?")


def _bad_certificate(where: Reference, reason: str) -> Unreachable:
    text = f"the certificate of {where.server} is not good: {reason}"
    if "expired" in reason or "not yet valid" in reason:
        return Unreachable(text, "renew the switch's certificate, or set the clocks right")
    if "mismatch" in reason or "doesn't match" in reason:
        return Unreachable(text, "say which name it bears: name=NAME in the reference")
    return Unreachable(text, f"is {CA} the authority that signed it?")


def _refused_by_server(where: Reference, reason: str) -> Unreachable:
    ours = "our certificate" if os.environ.get(CERTIFICATE) else "a connection without a certificate"
    return Unreachable(
        f"{where.server} refuses {ours}: {reason}",
        f"it needs a valid certificate of an authority that it trusts: {CERTIFICATE} and {PRIVATE_KEY}",
    )


def _try_plain(where: Reference, plain: socket.socket, told: str) -> Unreachable:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only to see whether TLS is spoken at all; nothing is sent over it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with warnings.catch_warnings(), context.wrap_socket(plain):
            return Unreachable(f"{where.server} speaks TLS", f"add &tls=yes to the reference, and set {CA}")
    except (ssl.SSLError, OSError):
        return Unreachable(f"{where.server} answers, but no P4Runtime: {told}", "is it the right port?")
