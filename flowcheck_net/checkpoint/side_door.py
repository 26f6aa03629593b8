"""Who is let in at the side channel, and which of their messages are kept: bytes in, bytes out, no socket.

A wrong learning rate or step mark from a stranger would make a wrong state look right. So each end shows that it has
the job's key before the first message, and each message is signed with it, numbered, and bound to the sender that
was let in: none can be made up, changed, sent again, or brought over from another job, run, rank or process.
"""

import hashlib
import hmac
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from flowcheck_net.checkpoint.side import Message, read_message
from flowcheck_net.checkpoint.side_client import ACK, VERSION, proof_of, signature
from flowcheck_net.checkpoint.side_frame import signed_parts
from flowcheck_net.errors import OutputError

_HELLO = b'{"v": %d, "hello"' % VERSION


class Refusal(StrEnum):
    """Why a connection, or a message of it, was refused."""

    NO_HELLO = "no-hello"
    """It sent something before it was let in."""
    NO_PROOF = "no-proof"
    """It could not show that it has the key."""
    NO_KEY = "no-key-here"
    """It wants to see that we have a key, and we were given none."""
    JOB = "other-job"
    SENDER = "other-sender"
    """A message of another run, rank or process than the one that was let in."""
    SIGNATURE = "wrong-signature"
    REPLAYED = "replayed"
    """Its number was there already, with another content, or later ones were."""
    USER = "other-user"
    """A Unix socket's other end belongs to another user."""
    TLS = "no-certificate"
    """TLS was not agreed upon: no certificate, or one of another authority."""
    SLOW = "not-in-time"
    """It was not let in within ten seconds, or sent too much before."""
    CROWD = "too-many-strangers"
    """Of too many that were not let in yet, the one that had waited longest."""


class RefusedError(Exception):
    """A connection ends here."""

    def __init__(self, refusal: Refusal, detail: str = "") -> None:
        shown = ascii(detail)[1:-1]  # a stranger's words: no line of its own in a log, nothing a terminal obeys
        super().__init__(f"{refusal}: {shown}" if detail else str(refusal))
        self.refusal = refusal


@dataclass(slots=True)
class Door:
    """What all connections of a listener share."""

    key: bytes | None = None
    """Of the job; None: connections are guarded by TLS, by the file system, or not at all."""
    job: str = ""
    """Its name; empty: any."""
    newest: dict[tuple[str, int, str], tuple[int, bytes]] = field(default_factory=dict)
    """Sender (run, rank, process) -> number and digest of its newest message."""


class Guest:
    """One connection."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.let_in = door.key is None
        self._hello = self._nonce = b""
        self._sender: tuple[str, int, str] | None = None

    def take(self, body: bytes) -> tuple[bytes, bytes]:
        """Take what a frame holds.

        Returns:
            What is to be sent back once all is on the disk, and what is to be kept; either may be empty.

        Raises:
            RefusedError: The connection must be ended, and nothing of the frame kept.
        """
        if body.startswith(_HELLO):
            return self._greeted(body), b""
        if not self.let_in:
            self._show(body)
            return b"", b""
        return self._taken(body)

    def _greeted(self, body: bytes) -> bytes:
        """The proof that we have the key, which only whoever has it can ask for with use."""
        key = self._door.key
        if key is None:
            raise RefusedError(Refusal.NO_KEY)
        try:
            told = json.loads(body)["hello"]
            sender, job = (str(told["run"]), int(told["rank"]), str(told["life"])), str(told["job"])
            bytes.fromhex(told["nonce"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise RefusedError(Refusal.NO_HELLO, "damaged") from error
        if self._hello:
            raise RefusedError(Refusal.NO_HELLO, "a second hello")
        if job != self._door.job:
            raise RefusedError(Refusal.JOB, job[:80])
        self._hello, self._nonce, self._sender = body, os.urandom(32), sender
        return self._nonce + proof_of(key, b"listener", body, self._nonce)

    def _show(self, proof: bytes) -> None:
        if not self._hello or self._door.key is None:
            raise RefusedError(Refusal.NO_HELLO)
        if not hmac.compare_digest(proof, proof_of(self._door.key, b"trainer", self._hello, self._nonce)):
            raise RefusedError(Refusal.NO_PROOF)
        self.let_in = True

    def _taken(self, body: bytes) -> tuple[bytes, bytes]:
        signed, text = signed_parts(body)
        if self._door.key is not None and not hmac.compare_digest(signed, signature(self._door.key, text)):
            raise RefusedError(Refusal.SIGNATURE)
        message = read_message(body)
        if message is None:
            raise RefusedError(Refusal.SIGNATURE, "no message")
        if self._door.job and message.job != self._door.job:
            raise RefusedError(Refusal.JOB, message.job[:80])
        sender = (message.run, message.rank, message.life)
        if self._sender is not None and sender != self._sender:
            raise RefusedError(Refusal.SENDER, f"rank {message.rank}")
        return ACK.pack(message.sequence), body if self._is_new(message, sender, body) else b""

    def _is_new(self, message: Message, sender: tuple[str, int, str], body: bytes) -> bool:
        """False: the newest one again, whose acknowledgement was lost with a connection."""
        number, before = self._door.newest.get(sender, (-1, b""))
        digest = hashlib.sha256(body).digest()
        if message.sequence == number and digest == before:
            return False
        if message.sequence <= number:
            raise RefusedError(Refusal.REPLAYED, f"number {message.sequence} of rank {message.rank}")
        self._door.newest[sender] = (message.sequence, digest)
        return True


def server_tls(files: tuple[Path, Path, Path]) -> ssl.SSLContext:
    """TLS 1.3 for those alone whose certificate the authority signed.

    Args:
        files: The authority's certificate, our certificate, our key.

    Raises:
        OutputError: They cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files[0])
        context.load_cert_chain(files[1], files[2], lambda: b"")  # asks nobody for a password
    except OSError as error:
        names = ", ".join(map(str, files))
        raise OutputError(f"{names}: {error}", hint="give certificates in PEM, the key without a password") from error
    return context


class Tls:
    """TLS on one connection, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_side=True)
        self.agreed = False

    def take(self, data: bytes) -> bytes:
        """What the other end said, decrypted. Raises RefusedError."""
        self._in.write(data)
        found = bytearray()
        try:
            if not self.agreed:
                self._object.do_handshake()
                self.agreed = True
            while more := self._object.read(1 << 16):
                found += more
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            raise RefusedError(Refusal.TLS, error.reason or str(error)) from error
        return bytes(found)

    def answer(self, data: bytes) -> bytes:
        """What must be sent: ``data`` encrypted, behind what TLS itself has to say."""
        if data:
            self._object.write(data)
        return self._out.read()


def counted(refused: Mapping[str, int]) -> str:
    """``no-proof 3, replayed 1``."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(refused.items()))
