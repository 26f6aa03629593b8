"""What gradients do not tell, said by the trainer: a few lines in the training loop.

::

    from flowcheck_net.checkpoint.side_client import SideChannel, rng_states
    side = SideChannel("tcp:10.0.0.9:7788", rank=rank, job="gpt", key_file="/etc/flowcheck/side.key")
    ...
    optimizer.step()
    side.step(k, learning_rates=[g["lr"] for g in optimizer.param_groups],
              fields={"rng": rng_states(), "dataloader": loader.state_dict()})

Training is never harmed: ``step`` copies the values, puts them into a bounded queue and returns; it neither waits nor
raises. What the queue has no room for is dropped and counted, and the reader is told which steps. This file imports
nothing but the standard library and may be copied beside a training script.

What lies on the wire and in the file: docs/side-channel.md.
"""

import base64
import hmac
import json
import os
import queue
import random
import socket
import struct
import sys
import threading
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MAGIC = b"\xf5FCS"
"""Its first byte is in no JSON: a reader finds the next message behind a damaged one."""
HEAD = struct.Struct("<4sII")
ACK = struct.Struct("<Q")
"""What comes back once a message is on the disk: its number."""
VERSION = 1
LARGEST = 64 << 20  # bytes of one message
SIGNED = 64  # bytes of a signature
_TOLD = 64  # dropped steps that a message names

_AS: Mapping[str, Callable[[Any], Any]] = {
    "loss_scale": float,
    "learning_rates": lambda rates: [float(r) for r in rates],
}


class SideChannel:
    """Sends the values of steps from a thread of its own."""

    def __init__(
        self,
        address: str,
        *,
        rank: int = 0,
        run: str = "",
        job: str = "",
        key_file: str | None = None,
        tls: tuple[str, str, str] | None = None,
        plain_text: bool = False,
        room: int = 256,
        room_bytes: int = LARGEST,
        timeout: float = 5.0,
    ) -> None:
        """Begin to send; nothing has to listen yet.

        Args:
            address: ``file:PATH``, ``unix:PATH``, ``tcp:HOST:PORT`` or ``tls:HOST:PORT``.
            rank: Of this process.
            run: The same for all ranks of one start of the job, another after a restart. Default: by torchrun or Slurm,
                else of this process alone.
            job: Its name in job.yaml. Needed with a key.
            key_file: The key shared with the listener; for its owner only. Default: the file that
                FLOWCHECK_SIDE_KEY_FILE names, or 64 hexadecimal digits in FLOWCHECK_SIDE_KEY.
            tls: Files with the certificates that the listener's must be signed by, our certificate, and its key.
            plain_text: Allow ``tcp:`` without a key; on the loopback only.
            room: Messages that may wait.
            room_bytes: Of all messages that wait.
            timeout: Seconds for one attempt to connect, to be let in, or to send.

        Raises:
            ValueError: Address, key or certificates are not as said here. Nothing else of this class raises.
        """
        shared = read_secret(key_file)
        if shared is not None and not job:
            raise ValueError("a key is bound to a job: give its name with job=")
        self._key = None if shared is None else job_key(shared, job)
        self._line = _Line(address, timeout, tls, guarded=self._key is not None or plain_text)
        self.dropped = 0  # messages that the queue had no room for
        self.failed = 0  # attempts to send that failed; each is repeated
        self.sent = 0  # and acknowledged, where somebody listens
        self.why = ""  # the last attempt failed; empty: it did not
        self._told = {"run": run or _this_run(), "rank": rank, "job": job, "life": uuid.uuid4().hex}
        self._lost: deque[int] = deque(maxlen=_TOLD)
        self._queue: queue.Queue[tuple[int, bytes]] = queue.Queue(room)
        self._sequence, self._room = 0, room_bytes
        self._put = self._taken = 0  # bytes; each is written by one thread only
        self._ending = threading.Event()
        self._out: socket.socket | _File | None = None
        self._thread = threading.Thread(target=self._work, name="flowcheck-side", daemon=True)
        self._thread.start()

    def step(
        self,
        step: int,
        *,
        learning_rates: Sequence[float] | None = None,
        loss_scale: float | None = None,
        skipped: bool | None = None,
        optimizer: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> bool:
        """Step ``step`` is done: these are the values of the state after it. False: dropped.

        Args:
            step: As the trainer counts: the state of step k is the one after k gradients.
            learning_rates: With which it was made, one a parameter group.
            loss_scale: With which it was made.
            skipped: Did loss scaling skip the optimizer?
            optimizer: Digest of the description.
            fields: What a checkpoint after this step holds, by its name in the checkpoint (``scheduler``,
                ``rng_state.torch``): numbers, text, bytes, tensors, and plain containers of them.
        """
        told = {"learning_rates": learning_rates, "loss_scale": loss_scale, "skipped": skipped, "optimizer": optimizer}
        try:
            data = self._framed(int(step), told, fields or {})
            if self._put - self._taken + len(data) > self._room:
                raise queue.Full
            self._queue.put_nowait((self._sequence, data))
            self._put += len(data)
        except Exception as error:  # noqa: BLE001 - whatever a value does when it is read, training goes on
            self.dropped += 1
            self.why = "the queue is full" if isinstance(error, queue.Full) else type(error).__name__
            if isinstance(step, int):
                self._lost.append(step)
            return False
        finally:
            self._sequence += 1
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Send what waits, for ``timeout`` seconds at most. True: all was sent that was not dropped."""
        self._ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive() and self.sent == self._sequence - self.dropped

    def _framed(self, step: int, told: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
        """The message of a step; what cannot be in it is named in it."""
        parts: dict[str, dict[str, Any]] = {"values": {}, "fields": {}}
        refused = []
        given = [("values", name, value) for name, value in told.items() if value is not None]
        for kind, name, value in [*given, *(("fields", name, value) for name, value in fields.items())]:
            try:
                parts[kind][str(name)] = (_AS.get(name, plain) if kind == "values" else plain)(value)
            except Exception:  # noqa: BLE001 - as above
                refused.append(str(name))
        head = {"v": VERSION, **self._told, "seq": self._sequence, "step": step, "at": time.time(), "refused": refused}
        head |= {"dropped": self.dropped, "lost": list(self._lost)}
        try:
            return framed({**head, **parts}, self._key)
        except ValueError:  # too large, or with a value that JSON refuses: the step is told without its fields
            head["refused"] = [*refused, *parts["fields"]]
            return framed({**head, "values": parts["values"], "fields": {}}, self._key)

    def _work(self) -> None:
        while not (self._ending.is_set() and self._queue.empty()):
            try:
                number, data = self._queue.get(timeout=0.05)
            except queue.Empty:
                continue
            if self._send(number, data):
                self.sent += 1
            self._taken += len(data)
        if self._out is not None:
            self._out.close()

    def _send(self, number: int, data: bytes) -> bool:
        """Again and again; False: the end has come and nobody listens."""
        attempt = 0
        while True:
            try:
                if self._out is None:
                    self._out = self._line.open(self._told, self._key)
                self._out.sendall(data)
                if not isinstance(self._out, _File) and _exactly(self._out, ACK.size) != ACK.pack(number):
                    raise OSError("the listener acknowledged something else")
            except Exception as error:  # noqa: BLE001 - the thread outlives whatever a listener does
                self.failed, self.why = self.failed + 1, str(error) or type(error).__name__
                if self._out is not None:
                    self._out.close()
                    self._out = None
                if self._ending.is_set() and attempt:
                    return False
                self._ending.wait(min(0.05 * 2 ** min(attempt, 10), 5.0))
                attempt += 1
            else:
                self.why = ""
                return True


class _File:
    """Appended whole, so that several ranks may share one on a local disk."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def sendall(self, data: bytes) -> None:
        if os.write(self._file, data) != len(data):
            raise OSError("the disk is full")

    def close(self) -> None:
        os.close(self._file)


class _Line:
    """How to reach the listener, and how each end knows the other."""

    def __init__(self, address: str, timeout: float, tls: tuple[str, str, str] | None, *, guarded: bool) -> None:
        self._kind, self._place, self._port = _parsed(address)
        self._timeout = timeout
        self._context: Any = _tls_context(tls) if self._kind == "tls" else None
        if self._kind == "tcp" and not guarded:
            raise ValueError("tcp: needs a key, or plain_text=True on the loopback; or use tls: with certificates")

    def open(self, told: Mapping[str, Any], key: bytes | None) -> socket.socket | _File:
        """Connect; with a key, only to a listener that has it too. Raises OSError, ValueError."""
        if self._kind == "file":
            return _File(self._place)
        kind = socket.AF_UNIX if self._kind == "unix" else socket.AF_INET6 if ":" in self._place else socket.AF_INET
        made = socket.socket(kind)
        try:
            made.settimeout(self._timeout)
            made.connect(self._place if self._kind == "unix" else (self._place, self._port))
            if self._kind == "tcp" and key is None and not is_loopback(made.getpeername()[0]):
                raise OSError("plain text is for the loopback only")
            if self._context is not None:
                made = self._context.wrap_socket(made, server_hostname=self._place)
            if key is not None:
                _be_known(made, told, key)
        except BaseException:
            made.close()
            raise
        return made


def is_loopback(address: str) -> bool:
    """Is it an address of this machine that no other can reach?"""
    return address == "::1" or address.startswith("127.")


def _tls_context(files: tuple[str, str, str] | None) -> Any:  # noqa: ANN401 - ssl is imported only where it is used
    import ssl

    if files is None:
        raise ValueError("tls: needs tls=(authority, certificate, key)")
    try:
        context = ssl.create_default_context(cafile=files[0])
        context.load_cert_chain(files[1], files[2], lambda: b"")  # asks nobody for a password
    except OSError as error:
        raise ValueError(f"{', '.join(files)}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _be_known(line: socket.socket, told: Mapping[str, Any], key: bytes) -> None:
    """Show that we have the key, and go on only if the other end has it. Raises OSError."""
    hello = json.dumps({"v": VERSION, "hello": {**told, "nonce": os.urandom(32).hex()}}).encode()
    line.sendall(enveloped(hello))
    answer = _exactly(line, 64)
    if not hmac.compare_digest(proof_of(key, b"listener", hello, answer[:32]), answer[32:]):
        raise OSError("the listener did not prove that it has the key")
    line.sendall(enveloped(proof_of(key, b"trainer", hello, answer[:32])))


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = line.recv(size - len(found))
        if not more:
            raise OSError("the listener ended the connection: another job or key, a message it refused, or its end")
        found += more
    return found


def read_secret(path: str | None = None) -> bytes | None:
    """The shared key of a file or of the environment: 32 bytes, or 64 hexadecimal digits. Raises ValueError."""
    path = path or os.environ.get("FLOWCHECK_SIDE_KEY_FILE")
    data = os.environ.get("FLOWCHECK_SIDE_KEY", "").encode()
    if path:
        try:
            mode, data = Path(path).stat().st_mode, Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
        if mode & 0o077:
            raise ValueError(f"{path} may be read by others than its owner: chmod 600 {path}")
    elif not data:
        return None
    with suppress(ValueError):
        data = data if len(data) == 32 else bytes.fromhex(data.decode("ascii").strip())
    if len(data) != 32:
        raise ValueError(f"{path or 'FLOWCHECK_SIDE_KEY'} holds no key: 32 bytes, or 64 hexadecimal digits")
    return data


def job_key(shared: bytes, job: str) -> bytes:
    """What one job's messages are signed with."""
    return hmac.digest(shared, b"flowcheck-net side channel\0" + job.encode(), "sha256")


def proof_of(key: bytes, end: bytes, hello: bytes, nonce: bytes) -> bytes:
    """That ``end`` (``listener`` or ``trainer``) has the key, for this one connection."""
    return hmac.digest(key, end + b"\0" + nonce + hello, "sha256")


def signature(key: bytes, message: bytes) -> bytes:
    """64 hexadecimal digits that stand before a message."""
    return hmac.digest(key, b"message\0" + message, "sha256").hex().encode()


def enveloped(body: bytes) -> bytes:
    """With length and checksum."""
    return HEAD.pack(MAGIC, len(body), zlib.crc32(body)) + body


def _parsed(address: str) -> tuple[str, str, int]:
    """Kind, path or host, port."""
    kind, _, place = address.partition(":")
    if kind in ("file", "unix") and place:
        return kind, place, 0
    host, _, port = place.rpartition(":")
    if kind not in ("tcp", "tls") or not host or not port.isdecimal():
        raise ValueError(f"{address!r} is none of file:PATH, unix:PATH, tcp:HOST:PORT, tls:HOST:PORT")
    return kind, host.strip("[]"), int(port)


def framed(message: Mapping[str, Any], key: bytes | None = None) -> bytes:
    """A message as it is sent; ``key``: of the job. Raises ValueError where it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if key is not None:
        data = signature(key, data) + data
    if len(data) > LARGEST:
        raise ValueError(f"a message of {len(data):,} bytes")
    return enveloped(data)


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """A copy in JSON's words; what JSON lacks has a key with a dollar sign. Raises TypeError."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"$tuple": [plain(each) for each in value]}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: plain(each) for key, each in value.items()}
        return {"$dict": [[plain(key), plain(each)] for key, each in value.items()]}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().view(-1).view(torch.uint8)
        told = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
        return {"$tensor": told | {"data": base64.b64encode(flat.numpy().tobytes()).decode()}}
    if hasattr(value, "tolist"):
        return plain(value.tolist())  # numpy's arrays and numbers
    raise TypeError(f"a value of {type(value).__name__} cannot be sent")


def rng_states() -> dict[str, Any]:
    """States of the generators of Python, and of NumPy and PyTorch where the script uses them."""
    found: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state()
    if torch is not None:
        found["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            found["cuda"] = list(torch.cuda.get_rng_state_all())
    return found


def _this_run() -> str:
    """The same in all ranks where the launcher gives a word for it."""
    for name, count in (
        ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
        ("SLURM_JOB_ID", "SLURM_RESTART_COUNT"),
    ):
        told = os.environ.get(name, "none")
        if told != "none":
            return f"{told}.{os.environ.get(count, '0')}"
    return uuid.uuid4().hex
