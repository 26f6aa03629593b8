"""What apply says of a state directory, a fake switch or a plan that is damaged: one clear error, nothing written."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flowcheck_net.apply.journal import Journal
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import ConnectError, FlowcheckError, JournalError, PlanError
from flowcheck_net.plan.plan import plan_to_json
from tests.doubles.switches import plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx")


def apply(tmp_path: Path, plan: str, *words: str) -> BaseException | None:
    (tmp_path / "plan.json").write_text(plan)
    asked = ["apply", str(tmp_path / "plan.json"), "--state-dir", str(tmp_path / "state"), *words]
    return CliRunner().invoke(cli, asked).exception


def switch_file(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "fake" / "leaf1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


PLAN = plan_to_json(plan_for({"leaf1": [A]}))


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            "{",
            "[]",
            "[" * 100_000,
            '{"version":1}',
            '{"version":2,"sessions":[]}',
            '{"version":true,"sessions":[]}',
        ),
        *(f'{{"version":1,"sessions":[],"latency":{n}}}' for n in ("NaN", "1e999", "-1", "61", '"x"', "9" * 5000)),
        '{"version":1,"sessions":[{"name":"\\ud800","sources":[],"destination":"Ethernet9"}]}',
        '{"version":1,"sessions":[{"name":"x","sources":[{"port":"a","direction":"up"}],"destination":"b"}]}',
    ],
)
def test_a_damaged_fake_switch_is_named_and_left_as_it_is(content: str, tmp_path: Path) -> None:
    path = switch_file(tmp_path)
    path.write_text(content)
    error = apply(tmp_path, PLAN)
    assert isinstance(error, ConnectError)
    assert error.message.startswith(f"leaf1: {path} is not a fake switch: ")
    assert path.read_text() == content


def test_a_platform_without_a_table_is_named_with_its_switch(tmp_path: Path) -> None:
    body: dict[str, Any] = json.loads(PLAN)
    del body["digest"]
    body["switches"][0]["platform"] = "nosuch"
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    error = apply(tmp_path, json.dumps({**body, "digest": digest}))
    assert isinstance(error, PlanError)
    assert error.message.startswith("leaf1: platform 'nosuch' is not known")


def test_a_session_of_another_job_is_foreign_and_said_to_be_of_another_job(tmp_path: Path) -> None:
    path = switch_file(tmp_path)
    other = {"name": "fcn-other-1", "sources": [{"port": "Ethernet7", "direction": "rx"}], "destination": A.destination}
    path.write_text(before := json.dumps({"version": 1, "sessions": [other]}))
    error = apply(tmp_path, PLAN)
    assert isinstance(error, FlowcheckError)
    assert (
        f"fcn-gpt-0: destination {A.destination} belongs to foreign session fcn-other-1 (another flowcheck-net job)"
        in error.message
    )
    assert [s["name"] for s in json.loads(path.read_text())["sessions"]] == ["fcn-other-1"]
    path.write_text(before.replace(A.destination, "Ethernet30"))
    assert apply(tmp_path, PLAN) is None
    assert [s["name"] for s in json.loads(path.read_text())["sessions"]] == ["fcn-other-1", "fcn-gpt-0"]


def test_a_journal_that_cannot_be_written_is_no_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own read-only mode stands for a read-only directory: the tests may run as root."""
    state = tmp_path / "state"
    with Journal(state_file := state / "journal.sqlite"):
        pass
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda _, **options: connect(f"file:{state_file}?mode=ro", uri=True, **options)
    )
    error = apply(tmp_path, PLAN)
    assert isinstance(error, JournalError)
    assert error.message.startswith(f"the state directory {state} cannot be written: ")
    assert "make it writable" in error.hint
    assert json.loads((state / "fake" / "leaf1.json").read_text())["sessions"] == []


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state" / "journal.lock").mkdir(parents=True)
    error = apply(tmp_path, PLAN)
    assert isinstance(error, JournalError)
    assert error.message.startswith(f"the state directory {tmp_path / 'state'} cannot be written: ")
