"""What is on disk about past applies: the only reader and writer of ``journal.sqlite``.

Everything is committed (WAL, synchronous=FULL) before the switch is told, so that after a crash at any point the file
says what may have happened. A file lock, which the kernel drops when a process dies, tells a run under way from one
that was cut off.
"""

import fcntl
import getpass
import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from flowcheck_net.apply.run import Run, RunResult, RunSwitch, StepStatus, SwitchResult
from flowcheck_net.drivers.session_json import items, session_from_json, session_to_json
from flowcheck_net.errors import JournalError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchAddress, SwitchState

SCHEMA_VERSION = 1
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
    result TEXT
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

_PRIMARY_CODE = 0xFF
"""SQLite's extended error codes hold the primary one in the low byte."""
_NO_PLACE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM})
"""The file may be sound, but it cannot be written."""


class Journal:
    """The journal of a state directory. Safe to use from the engine's threads."""

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
            lock.write(f"{_whoami()} since {_now()}\n")
            lock.flush()
            yield

    def begin(self, plan_digest: str, job: str, switches: Sequence[RunSwitch]) -> int:
        """Journal a whole change before its first write; returns the run's id.

        Raises:
            JournalError: a run is open already; the message says whose and since when.
        """
        if open_run := self.open_run():
            raise still_open(open_run)
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO run (plan_digest, job, who, started) VALUES (?, ?, ?, ?)",
                (plan_digest, job, _whoami(), _now()),
            )
            run_id = int(cursor.lastrowid or 0)
            for switch in switches:
                self._insert_switch(db, run_id, switch)
        return run_id

    def open_run(self) -> Run | None:
        """The run that was begun and not finished, if any."""
        return self._one("SELECT * FROM run WHERE finished IS NULL", ())

    def last_run(self, job: str | None) -> Run | None:
        """The newest run, of ``job`` or of any job."""
        return self._one("SELECT * FROM run WHERE ?1 IS NULL OR job = ?1 ORDER BY id DESC LIMIT 1", (job,))

    def mark_steps(self, run_id: int, switch: SwitchName, status: StepStatus) -> None:
        """Set the status of every step of a switch."""
        with self._transaction() as db:
            db.execute("UPDATE step SET status = ? WHERE run = ? AND switch = ?", (status.value, run_id, switch))

    def settle(self, run_id: int, switch: SwitchName, result: SwitchResult) -> None:
        """Record where a switch stands, and with it its steps."""
        steps = {SwitchResult.WRITTEN: StepStatus.DONE, SwitchResult.RESTORED: StepStatus.UNDONE}.get(result)
        with self._transaction() as db:
            db.execute("UPDATE run_switch SET result = ? WHERE run = ? AND switch = ?", (result.value, run_id, switch))
            if steps is not None:
                db.execute("UPDATE step SET status = ? WHERE run = ? AND switch = ?", (steps.value, run_id, switch))

    def finish(self, run_id: int, result: RunResult) -> None:
        """Close a run."""
        with self._transaction() as db:
            db.execute("UPDATE run SET finished = ?, result = ? WHERE id = ?", (_now(), result.value, run_id))

    def reopen(self, run_id: int) -> None:
        """Open a finished run again because it is about to be undone."""
        with self._transaction() as db:
            db.execute("UPDATE run SET finished = NULL, result = NULL WHERE id = ?", (run_id,))

    def leftovers(self, job: str, planned: Iterable[SwitchName]) -> tuple[SwitchAddress, ...]:
        """Switches, other than the planned ones, on which earlier runs of ``job`` may have left sessions of ours."""
        skip = set(planned)
        with self._mutex, self._explained():
            rows = self._db.execute(
                """SELECT s.*, r.finished FROM run_switch s JOIN run r ON r.id = s.run
                   WHERE r.job = ? AND s.run = (SELECT max(t.run) FROM run_switch t JOIN run q ON q.id = t.run
                                                WHERE t.switch = s.switch AND q.job = r.job)
                   ORDER BY s.switch""",
                (job,),
            ).fetchall()
        return tuple(_address(row) for row in rows if row["switch"] not in skip and _may_hold_sessions(row))

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
        if version != SCHEMA_VERSION:
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

    @staticmethod
    def _insert_switch(db: sqlite3.Connection, run_id: int, switch: RunSwitch) -> None:
        address = switch.address
        db.execute(
            "INSERT INTO run_switch VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(run_id, address.name, address.platform, address.management),
                *(_dump(switch.before.owned), _dump(switch.before.foreign), _dump(switch.wanted)),
                switch.result.value,
            ),
        )
        db.executemany(
            "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?)",
            [
                (run_id, address.name, number, step.kind.value, json.dumps(session_to_json(step.session)), status.value)
                for number, (step, status) in enumerate(zip(switch.steps, switch.statuses, strict=True))
            ],
        )

    def _one(self, query: str, values: tuple[object, ...]) -> Run | None:
        with self._mutex, self._explained():
            row = self._db.execute(query, values).fetchone()
            if row is None:
                return None
            switches = self._db.execute(
                "SELECT * FROM run_switch WHERE run = ? ORDER BY switch", (row["id"],)
            ).fetchall()
            steps = self._db.execute(
                "SELECT * FROM step WHERE run = ? ORDER BY switch, number", (row["id"],)
            ).fetchall()
            return Run(
                id=row["id"],
                plan_digest=row["plan_digest"],
                job=row["job"],
                who=row["who"],
                started=row["started"],
                finished=row["finished"],
                result=RunResult(row["result"]) if row["result"] is not None else None,
                switches=tuple(_switch(s, [t for t in steps if t["switch"] == s["switch"]]) for s in switches),
            )


def still_open(run: Run) -> JournalError:
    """Why no other run may begin."""
    return JournalError(
        f"{run} was cut off or is not wholly rolled back (plan {run.plan_digest[:12]})",
        hint="`flowcheck-net apply PLAN --resume` finishes it, `flowcheck-net rollback` undoes it",
    )


def _switch(row: sqlite3.Row, steps: Sequence[sqlite3.Row]) -> RunSwitch:
    return RunSwitch(
        address=_address(row),
        before=SwitchState(owned=_load(row["owned_before"]), foreign=_load(row["foreign_before"])),
        wanted=_load(row["wanted"]),
        steps=tuple(Step(StepKind(s["kind"]), session_from_json(json.loads(s["session"]))) for s in steps),
        statuses=tuple(StepStatus(s["status"]) for s in steps),
        result=SwitchResult(row["result"]),
    )


def _address(row: sqlite3.Row) -> SwitchAddress:
    return SwitchAddress(SwitchName(row["switch"]), row["platform"], row["management"])


def _may_hold_sessions(row: sqlite3.Row) -> bool:
    """May sessions of ours be on this switch, after the newest run that knew it?"""
    result = SwitchResult(row["result"])
    if result is SwitchResult.WRITTEN:
        return bool(_load(row["wanted"]))
    if result is SwitchResult.RESTORED or (result is SwitchResult.PENDING and row["finished"] is not None):
        return bool(_load(row["owned_before"]))
    return result is not SwitchResult.FORGOTTEN


def _dump(sessions: Iterable[MirrorSession]) -> str:
    return json.dumps([session_to_json(s) for s in sessions], sort_keys=True, separators=(",", ":"))


def _load(text: str) -> tuple[MirrorSession, ...]:
    return tuple(session_from_json(s) for s in items(json.loads(text), "sessions"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _whoami() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this uid in this container
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"
