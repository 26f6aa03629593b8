"""The journal as a file: opening it, refusing what is not ours, the lock of a change, transactions.

Everything is committed (WAL, synchronous=FULL) before the switch is told, so that after a crash at any point the file
says what may have happened. A file lock, which the kernel drops when a process dies, tells a run under way from one
that was cut off.
"""

import fcntl
import getpass
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from flowcheck_net.errors import JournalError

SCHEMA_VERSION = 2
APPLICATION_ID = 0x46434E4A
"""``FCNJ``: marks the file as ours in the SQLite header."""

_SCHEMA = f"""
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    plan_digest TEXT NOT NULL,
    job TEXT NOT NULL,
    who TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT,
    result TEXT,
    confirm_within REAL,
    confirm_by REAL,
    confirmed TEXT
) STRICT;
CREATE UNIQUE INDEX one_open_run ON run ((1)) WHERE finished IS NULL;
CREATE TABLE run_switch (
    run INTEGER NOT NULL REFERENCES run (id),
    switch TEXT NOT NULL,
    platform TEXT NOT NULL,
    management TEXT NOT NULL,
    owned_before TEXT NOT NULL,
    foreign_before TEXT NOT NULL,
    wanted TEXT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (run, switch)
) STRICT;
CREATE TABLE step (
    run INTEGER NOT NULL,
    switch TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    session TEXT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (run, switch, number),
    FOREIGN KEY (run, switch) REFERENCES run_switch (run, switch)
) STRICT;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

_FROM_VERSION_1 = f"""
ALTER TABLE run ADD COLUMN confirm_within REAL;
ALTER TABLE run ADD COLUMN confirm_by REAL;
ALTER TABLE run ADD COLUMN confirmed TEXT;
PRAGMA user_version = {SCHEMA_VERSION};
"""

_PRIMARY_CODE = 0xFF
"""SQLite's extended error codes hold the primary one in the low byte."""
_NO_PLACE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM})
"""The file may be sound, but it cannot be written."""


class JournalFile:
    """The file under a journal. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Open or create it.

        Raises:
            JournalError: the file is damaged, foreign, of a newer version, or cannot be used.
        """
        self._path = path
        self._mutex = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{path} cannot be opened: {error}", hint="choose another --state-dir") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise self._unusable(error) from error
        except JournalError:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the fabric for this process; raises JournalError, naming the holder, while another one does."""
        try:
            lock = self._path.with_suffix(".lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(str(error)) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                holder = lock.read().strip() or "another process"
                raise JournalError(f"another change is under way: {holder}", hint="wait until it has ended") from error
            lock.truncate(0)
            lock.write(f"{whoami()} since {now()}\n")
            lock.flush()
            yield

    def _prepare(self) -> None:
        self._db.row_factory = sqlite3.Row
        if self._is_new():
            self._pragma("journal_mode = WAL")
            with self._transaction() as db:
                # Another process may have been faster.
                for statement in _SCHEMA.split(";") if self._is_new() else ():
                    db.execute(statement)
        version = self._pragma("user_version")
        if self._pragma("application_id") != APPLICATION_ID:
            raise JournalError(
                f"{self._path} is a database of another program",
                hint="choose another --state-dir, or move the file away",
            )
        if version not in (1, SCHEMA_VERSION):
            raise JournalError(
                f"{self._path} has version {version}, this program reads {SCHEMA_VERSION}",
                hint="use the flowcheck-net that wrote it",
            )
        self._pragma("synchronous = FULL")
        self._pragma("foreign_keys = ON")
        if (mode := self._pragma("journal_mode")) != "wal":
            raise JournalError(
                f"{self._path} cannot use write-ahead logging (mode {mode})", hint="--state-dir needs a local disk"
            )
        if (check := self._pragma("quick_check")) != "ok":
            raise self._unusable(ValueError(str(check)))
        if version == 1:
            self._upgrade()

    def _upgrade(self) -> None:
        with self._transaction() as db:
            # Another process may have been faster.
            for statement in _FROM_VERSION_1.split(";") if self._pragma("user_version") == 1 else ():
                db.execute(statement)

    def _is_new(self) -> bool:
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return tables == 0 and self._pragma("application_id") == 0 and self._pragma("user_version") == 0

    def _pragma(self, text: str) -> object:
        row = self._db.execute(f"PRAGMA {text}").fetchone()
        return row[0] if row else None

    def _unusable(self, error: sqlite3.Error | ValueError) -> JournalError:
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _NO_PLACE:
            return self._unwritable(str(error))
        return JournalError(
            f"{self._path} cannot be used as a journal: {error}",
            hint="restore it from a backup; before you move it away, compare the switches with `flowcheck-net verify`",
        )

    def _unwritable(self, why: str) -> JournalError:
        return JournalError(
            f"the state directory {self._path.parent} cannot be written: {why}",
            hint="make it writable, with room; another --state-dir knows nothing of what was applied from this one",
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn a fault of the database into a JournalError."""
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise self._unusable(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._mutex, self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def now() -> str:
    """ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def whoami() -> str:
    """user@host and process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this uid in this container
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"
