"""A real redis-server of the tests' own, on a Unix socket, and as much of its protocol as they need."""

import shutil
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.doubles.ovs_lab import wait_until


def missing() -> str:
    """Why there can be none here; empty: there can."""
    return "" if shutil.which("redis-server") else "redis-server is not installed (Debian package redis-server)"


class RedisServer:
    """Databases by number; ``close`` ends it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fcn-redis-", dir="/tmp"))
        path = self.directory / "redis.sock"
        words = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--databases", "16"]
        # The parent whose death ends a process is a thread: this one lives as long as the server.
        self._spawner = ThreadPoolExecutor(1)
        command = ["setpriv", "--pdeathsig", "KILL", "--", *words, "--dir", str(self.directory)]
        self._process = self._spawner.submit(lambda: subprocess.Popen(command, stdout=-3, stderr=-3)).result()
        wait_until(path.exists, "redis-server")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._database = -1

    def close(self) -> None:
        """End the server and remove its files."""
        self._file.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._spawner.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, database: int, *words: str) -> object:
        """One command; texts, whole numbers and lists of them."""
        with self._lock:
            if database != self._database:
                self._send("SELECT", str(database))
                self._database = database
            return self._send(*words)

    def hash(self, database: int, key: str) -> dict[str, str]:
        """All fields of a hash; empty: it is not there."""
        flat = self.call(database, "HGETALL", key)
        assert isinstance(flat, list)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def hashes(self, database: int, pattern: str) -> dict[str, dict[str, str]]:
        """All hashes whose keys match, asked for at once."""
        keys = self.keys(database, pattern)
        with self._lock:
            self._socket.sendall(b"".join(_packed("HGETALL", k) for k in keys))
            flat = [self._answer() for _ in keys]
        return {
            k: dict(zip(f[::2], f[1::2], strict=True)) for k, f in zip(keys, flat, strict=True) if isinstance(f, list)
        }

    def load(self, database: int, rows: dict[str, dict[str, str]]) -> None:
        """Set many hashes at once."""
        self.call(database, "PING")
        words = [("HSET", key, *(word for pair in fields.items() for word in pair)) for key, fields in rows.items()]
        with self._lock:
            self._socket.sendall(b"".join(_packed(*w) for w in words))
            for _ in words:
                self._answer()

    def set(self, database: int, key: str, fields: dict[str, str]) -> None:
        """Replace a hash; empty: remove it."""
        self.call(database, "DEL", key)
        if fields:
            self.call(database, "HSET", key, *(word for pair in fields.items() for word in pair))

    def keys(self, database: int, pattern: str) -> list[str]:
        """Keys that match, sorted."""
        found = self.call(database, "KEYS", pattern)
        assert isinstance(found, list)
        return sorted(found)

    def _send(self, *words: str) -> object:
        self._socket.sendall(_packed(*words))
        return self._answer()

    def _answer(self) -> object:
        line = self._file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._answer() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()


def _packed(*words: str) -> bytes:
    raw = [w.encode() for w in words]
    return b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in raw)
