"""What is known about past applies: the only reader and writer of the rows of ``journal.sqlite``."""

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence

from flowcheck_net.apply.journal_file import JournalFile, now, whoami
from flowcheck_net.apply.run import Run, RunResult, RunSwitch, StepStatus, SwitchResult
from flowcheck_net.drivers.session_json import items, session_from_json, session_to_json
from flowcheck_net.errors import JournalError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchAddress, SwitchState


class Journal(JournalFile):
    """The journal of a state directory. Safe to use from the engine's threads."""

    def begin(
        self, plan_digest: str, job: str, switches: Sequence[RunSwitch], confirm_within: float | None = None
    ) -> int:
        """Journal a whole change before its first write; returns the run's id.

        Args:
            plan_digest: of the plan file.
            job: whose sessions are ours.
            switches: those that change.
            confirm_within: seconds after which the run is to be undone unless it is confirmed; None: it stays.

        Raises:
            JournalError: a run is open, or awaits its confirmation; the message says whose and since when.
        """
        self.require_settled()
        deadline = None if confirm_within is None else time.time() + confirm_within
        with self._transaction() as db:
            cursor = db.execute(
                """INSERT INTO run (plan_digest, job, who, started, confirm_within, confirm_by)
                   VALUES (?, ?, ?, ?, ?, ?)""",
                (plan_digest, job, whoami(), now(), confirm_within, deadline),
            )
            run_id = int(cursor.lastrowid or 0)
            for switch in switches:
                self._insert_switch(db, run_id, switch)
        return run_id

    def open_run(self) -> Run | None:
        """The run that was begun and not finished, if any."""
        return self._one("SELECT * FROM run WHERE finished IS NULL", ())

    def require_settled(self) -> None:
        """Raise JournalError where no other run may begin: one is open, or awaits its confirmation."""
        if run := self.open_run():
            raise JournalError(
                f"{run} was cut off or is not wholly rolled back (plan {run.plan_digest[:12]})",
                hint="`flowcheck-net apply PLAN --resume` finishes it, `flowcheck-net rollback` undoes it",
            )
        if run := self.unconfirmed():
            raise JournalError(
                f"{run} awaits its confirmation until {run.deadline}",
                hint="`flowcheck-net confirm PLAN` keeps it, `flowcheck-net rollback` undoes it",
            )

    def unconfirmed(self) -> Run | None:
        """The run, open or finished, that is to be undone unless it is confirmed, if any.

        Only the newest that needed it can be: no other begins before it is settled.
        """
        run = self._one("SELECT * FROM run WHERE confirm_by IS NOT NULL ORDER BY id DESC LIMIT 1", ())
        return run if run is not None and run.unconfirmed else None

    def run(self, run_id: int) -> Run | None:
        """The run of that number."""
        return self._one("SELECT * FROM run WHERE id = ?", (run_id,))

    def confirm(self, run_id: int) -> None:
        """Note that the run is to stay."""
        with self._transaction() as db:
            db.execute("UPDATE run SET confirmed = ? WHERE id = ?", (now(), run_id))

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
        """Close a run; the time for its confirmation, if it needs one, begins now."""
        with self._transaction() as db:
            db.execute(
                "UPDATE run SET finished = ?, result = ?, confirm_by = ? + confirm_within WHERE id = ?",
                (now(), result.value, time.time(), run_id),
            )

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
                confirm_within=row["confirm_within"],
                confirm_by=row["confirm_by"],
                confirmed=row["confirmed"],
                switches=tuple(_switch(s, [t for t in steps if t["switch"] == s["switch"]]) for s in switches),
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
