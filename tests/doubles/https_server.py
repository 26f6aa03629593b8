"""What the doubles of APIs over HTTPS have in common: a certificate, a login, connections that end."""

import base64
import json
import ssl
import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.doubles.ssh_box import PASSWORD, USER, Planned


class HttpsServer(ABC):
    """The server of one box; use it as a context. ``faults`` strike at commands, as those of ``SshBox`` at lines."""

    def __init__(self, directory: Path) -> None:
        self.faults: list[Planned] = []
        self.requests: list[list[str]] = []
        """The commands of each request."""
        self.refuse_connections = 0
        """So many of the next requests are hung up on before they are looked at."""
        self.refused_logins = 0
        """Requests with a wrong user or password."""
        self.lock = threading.Lock()
        self.ca = directory / "ca.pem"
        key_file = directory / "key.pem"
        _certificate(self.ca, key_file)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key_file)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @abstractmethod
    def respond(self, body: Any) -> tuple[int, Any]:
        """HTTP status and content of one request; raises ConnectionAbortedError to hang up."""


def _handler(server: HttpsServer) -> type[BaseHTTPRequestHandler]:
    allowed = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.refuse_connections:
                server.refuse_connections -= 1
                self.close_connection = True
                return
            if self.headers.get("Authorization") != allowed:
                server.refused_logins += 1
                self._answer(401, {"error": "Unauthorized"})
                return
            try:
                with server.lock:
                    status, content = server.respond(body)
            except ConnectionAbortedError:
                self.close_connection = True
                return
            self._answer(status, content)

        def _answer(self, status: int, content: Any) -> None:
            raw = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler


def _certificate(certificate: Path, key_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
