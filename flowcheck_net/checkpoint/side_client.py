"""What gradients do not tell, said by the trainer: a few lines in the training loop.

::

    from flowcheck_net.checkpoint.side_client import SideChannel, rng_states
    side = SideChannel("tcp:10.0.0.9:7788", rank=rank)          # or unix:/run/side.sock, or file:/shared/side.log
    ...
    optimizer.step()
    side.step(k, learning_rates=[g["lr"] for g in optimizer.param_groups],
              fields={"rng": rng_states(), "dataloader": loader.state_dict()})

Training is never harmed: ``step`` copies the values, puts them into a bounded queue and returns; it neither waits nor
raises. What the queue has no room for is dropped and counted, and the reader is told which steps. This file imports
nothing but the standard library and may be copied beside a training script.

On the wire and in the file: F5 hex, ``FCS``, length and CRC-32 of the message (two little-endian u32), the message in
JSON.
"""

import base64
import itertools
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
from collections.abc import Mapping, Sequence
from typing import Any

MAGIC = b"\xf5FCS"
"""Its first byte is in no JSON: a reader finds the next message behind a damaged one."""
HEAD = struct.Struct("<4sII")
VERSION = 1
LARGEST = 64 << 20
"""Bytes of one message."""
_TOLD = 64
"""How many dropped steps a message names."""


class SideChannel:
    """Sends the values of steps from a thread of its own."""

    def __init__(self, address: str, *, rank: int = 0, run: str = "", room: int = 256, timeout: float = 5.0) -> None:
        """Begin to send; nothing has to listen yet.

        Args:
            address: ``file:PATH``, ``unix:PATH`` or ``tcp:HOST:PORT``.
            rank: Of this process.
            run: The same for all ranks of one start of the job, another after a restart. Default: by torchrun or Slurm,
                else of this process alone.
            room: Messages that may wait.
            timeout: Seconds for one attempt to connect or send.

        Raises:
            ValueError: The address has another form. Nothing else of this class raises.
        """
        _parsed(address)
        self.dropped = 0
        """Messages that the queue had no room for."""
        self.failed = 0
        """Attempts to send that failed; each is repeated."""
        self.sent = 0
        self._address, self._timeout = address, timeout
        self._rank, self._run = rank, run or _this_run()
        self._sequence = 0
        self._lost: deque[int] = deque(maxlen=_TOLD)
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(room)
        self._ending = threading.Event()
        self._out: _Socket | _File | None = None
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
        values: dict[str, Any] = {}
        refused = []
        for name, value in (
            ("learning_rates", learning_rates),
            ("loss_scale", loss_scale),
            ("skipped", skipped),
            ("optimizer", optimizer),
        ):
            if value is not None:
                values[name] = value
        kept = {}
        for name, value in (fields or {}).items():
            try:
                kept[str(name)] = plain(value)
            except Exception:  # noqa: BLE001 - whatever a value does when it is read, training goes on
                refused.append(str(name))
        message = {"v": VERSION, "run": self._run, "rank": self._rank, "seq": self._sequence, "step": int(step)}
        message |= {"at": time.time(), "values": _floats(values), "fields": kept, "refused": refused}
        message |= {"dropped": self.dropped, "lost": list(self._lost)}
        self._sequence += 1
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            self.dropped += 1
            self._lost.append(int(step))
            return False
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Send what waits, for ``timeout`` seconds at most. True: all was sent that was not dropped."""
        self._ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive() and self.sent == self._sequence - self.dropped

    def _work(self) -> None:
        while not (self._ending.is_set() and self._queue.empty()):
            try:
                message = self._queue.get(timeout=0.05)
            except queue.Empty:
                continue
            if self._send(message):
                self.sent += 1
        if self._out is not None:
            self._out.close()

    def _send(self, message: Mapping[str, Any]) -> bool:
        """Again and again; False: it cannot be sent, or the end has come and nobody listens."""
        try:
            data = framed(message)
        except ValueError:
            self.failed += 1
            return False  # larger than a message may be: the reader sees that its number is missing
        for attempt in itertools.count():
            try:
                if self._out is None:
                    self._out = _open(self._address, self._timeout)
                self._out.send(data)
            except OSError:
                self.failed += 1
                if self._out is not None:
                    self._out.close()
                    self._out = None
                if self._ending.is_set() and attempt:
                    return False
                self._ending.wait(min(0.05 * 2**attempt, 5.0))
            else:
                return True
        return False


class _Socket:
    def __init__(self, kind: int, place: Any, timeout: float) -> None:  # noqa: ANN401 - as socket has it
        self._socket = socket.socket(kind, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(place)
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


class _File:
    """Appended whole, so that several ranks may share one on a local disk."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def send(self, data: bytes) -> None:
        if os.write(self._file, data) != len(data):
            raise OSError("the disk is full")

    def close(self) -> None:
        os.close(self._file)


def _open(address: str, timeout: float) -> _Socket | _File:
    kind, place, port = _parsed(address)
    if kind == "file":
        return _File(place)
    if kind == "unix":
        return _Socket(socket.AF_UNIX, place, timeout)
    return _Socket(socket.AF_INET6 if ":" in place else socket.AF_INET, (place, port), timeout)


def _parsed(address: str) -> tuple[str, str, int]:
    """Kind, path or host, port."""
    kind, _, place = address.partition(":")
    if kind in ("file", "unix") and place:
        return kind, place, 0
    host, _, port = place.rpartition(":")
    if kind != "tcp" or not host or not port.isdecimal():
        raise ValueError(f"{address!r} is none of file:PATH, unix:PATH, tcp:HOST:PORT")
    return kind, host.strip("[]"), int(port)


def framed(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent. Raises ValueError where it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > LARGEST:
        raise ValueError(f"a message of {len(data):,} bytes")
    return HEAD.pack(MAGIC, len(data), zlib.crc32(data)) + data


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


def _floats(values: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(values)
    if "learning_rates" in found:
        found["learning_rates"] = [float(rate) for rate in found["learning_rates"]]
    if "loss_scale" in found:
        found["loss_scale"] = float(found["loss_scale"])
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
