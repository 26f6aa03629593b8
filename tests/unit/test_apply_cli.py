"""apply, verify and rollback as a user runs them: separate calls over the file-backed fake, texts and exit codes."""

import json
import time
from pathlib import Path

import pytest

from flowcheck_net.cli.main import run
from flowcheck_net.cli.switches import default_state_dir
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.model.platforms import capabilities
from flowcheck_net.plan.plan import plan_to_json
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")


class Shell:
    """Runs the command line and keeps what it printed."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.state = directory / "state"
        self.plan = directory / "plan.json"
        self.plan.write_text(plan_to_json(plan_for({"leaf1": [A], "leaf2": [A, B]})))
        self.fabric = FakeFabric(self.state, capabilities("fake"))
        self.fabric.seed("leaf1", FOREIGN)
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        self._monkeypatch.setattr("sys.argv", ["flowcheck-net", *words, "--state-dir", str(self.state)])
        with pytest.raises(SystemExit) as ended:
            run()
        self.out, self.err = self._capsys.readouterr()
        return int(ended.value.code or 0)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_an_option_that_would_be_passed_over_is_refused(shell: Shell):
    plan = str(shell.plan)
    for words in (["--window", "5s"], ["--count", "7"], ["--probe", "--count", "7"]):
        assert shell("verify", plan, *words) == 2
        assert words[-2] in shell.err


def test_the_usual_path(shell: Shell):
    plan = str(shell.plan)
    assert shell("apply", plan, "--dry-run") == 0
    assert "leaf1: 1 step; foreign, not touched: netops-span\n--- leaf1 (now)\n+++ leaf1 (planned)\n" in shell.out
    assert "+  source Ethernet1 tx\n" in shell.out
    assert shell.out.endswith("verdict: dry run: 2 of 2 switches would change, nothing was written\n")
    assert shell("verify", plan) == 6
    assert shell("apply", plan) == 0
    assert shell.out == (
        "leaf1: written: 1 created, 0 deleted, read back equal (canary)\n"
        "leaf2: written: 2 created, 0 deleted, read back equal\n"
        "verdict: applied: run 1: 2 switches written and read back\n"
    )
    shell.fabric.offer("leaf2", "Ethernet2", "rx", 42)
    assert shell("verify", plan) == 0
    assert "leaf1: accepted: 1 session planned, 1 foreign\n" in shell.out
    assert "  fcn-gpt-1: Ethernet2:rx -> Ethernet32: 42 packets mirrored\n" in shell.out
    assert shell("apply", plan) == 0
    assert shell.out == "verdict: unchanged: every switch is as planned already; nothing was written\n"
    assert shell("rollback") == 0
    assert "leaf2: restored: 2 steps undone\n" in shell.out
    assert shell.fabric.state("leaf1").owned == ()
    assert shell.fabric.state("leaf1").foreign == (FOREIGN,)
    assert shell("rollback", plan) == 0
    assert "nothing to undo" in shell.out


def test_drift_names_each_difference_and_its_owner(shell: Shell):
    shell("apply", str(shell.plan))
    shell.fabric.remove("leaf2", "fcn-gpt-1")
    assert shell("verify", str(shell.plan)) == 6
    assert "  fcn-gpt-1 (job gpt) is missing\n" in shell.out
    assert shell.err.startswith("error: drift: 1 difference on leaf2\nwhat to do: ")
    assert shell("verify", str(shell.plan), "--json") == 6
    report = json.loads(shell.out)
    assert report["verdict"] == "drift"
    assert report["switches"][1]["differences"] == [{"session": "fcn-gpt-1", "owner": "job gpt", "text": "is missing"}]
    assert shell("rollback") == 8
    assert "leaf2: fcn-gpt-1 (job gpt) is missing" in shell.err


def test_a_switch_that_cannot_be_read_is_exit_5(shell: Shell):
    shell("apply", str(shell.plan))
    shell.fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE))
    assert shell("verify", str(shell.plan)) == 5
    assert "leaf2: unknown: connect: unreachable\n" in shell.out
    assert shell.out.endswith("verdict: unknown: leaf2: connect: unreachable\n")


def test_a_failure_is_rolled_back_with_exit_7_and_said_in_json(shell: Shell):
    shell.fabric.script("leaf2", Fault(Call.WRITE, FaultKind.REFUSE, step=1))
    assert shell("apply", str(shell.plan), "--json") == 7
    said = json.loads(shell.out)
    assert said["verdict"] == "rolled back"
    events = [(e["switch"], e["result"]) for e in said["events"]]
    assert events[:2] == [("leaf1", "written"), ("leaf2", "failed")]
    # Both are restored at once, in any order.
    assert sorted(events[2:]) == [("leaf1", "restored"), ("leaf2", "restored")]
    assert "every switch is in its former state (run 1, 2 switches touched)" in shell.err


def test_a_failure_that_is_not_rolled_back_is_exit_8_and_can_be_resumed(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flowcheck_net.apply.reach.time.sleep", lambda _: None)
    shell.fabric.script("leaf2", Fault(Call.WRITE, FaultKind.LOST_AFTER))
    shell.fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE, skip=2, times=6))
    assert shell("apply", str(shell.plan)) == 8
    assert "leaf2: not restored: connect: unreachable\n" in shell.out
    assert (
        "error: leaf2: connection lost during step 1 (create fcn-gpt-0), then it could not be read back: connect: "
        "unreachable; not in the former state: leaf2: connect: unreachable\n"
    ) in shell.err
    assert "not in the former state: leaf2: connect: unreachable" in shell.err
    assert shell("apply", str(shell.plan)) == 2
    assert "was cut off or is not wholly rolled back" in shell.err
    assert shell("apply", str(shell.plan), "--resume") == 0
    assert shell.fabric.state("leaf2").owned == (A, B)


def test_a_plan_changed_by_hand_is_exit_3(shell: Shell):
    shell.plan.write_text(shell.plan.read_text().replace("Ethernet32", "Ethernet33"))
    assert shell("apply", str(shell.plan)) == 3
    assert not (shell.state / "journal.sqlite").exists()


def test_a_foreign_journal_is_exit_2(shell: Shell):
    shell.state.mkdir(exist_ok=True)
    (shell.state / "journal.sqlite").write_text("no database" * 100)
    assert shell("apply", str(shell.plan)) == 2
    assert "cannot be used as a journal" in shell.err


def test_dry_run_and_resume_exclude_each_other(shell: Shell):
    assert shell("apply", str(shell.plan), "--dry-run", "--resume") == 2


def test_a_dry_run_in_json_lists_the_steps_and_the_foreign_sessions(shell: Shell):
    assert shell("apply", str(shell.plan), "--dry-run", "--json") == 0
    assert json.loads(shell.out)["switches"][0] == {
        "switch": "leaf1",
        "foreign": ["netops-span"],
        "steps": [
            {
                "kind": "create",
                "session": [
                    "session fcn-gpt-0",
                    "  source Ethernet1 rx",
                    "  source Ethernet1 tx",
                    "  destination Ethernet31",
                ],
            }
        ],
    }


def test_the_default_state_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/var/tmp/xdg")
    assert default_state_dir() == Path("/var/tmp/xdg/flowcheck-net")
    monkeypatch.setenv("HOME", "/home/someone")
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_STATE_HOME", ignored)
        assert default_state_dir() == Path("/home/someone/.local/state/flowcheck-net")


def test_a_change_to_be_confirmed(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    watched: list[int] = []
    monkeypatch.setattr("flowcheck_net.cli.guardian.start_guardian", lambda _, run: watched.append(run))
    plan = str(shell.plan)
    assert shell("confirm", plan) == 2
    assert shell("apply", plan, "--confirm-within", "5m") == 0
    assert "2 switches written and read back; to be undone at 20" in shell.out
    assert watched == [1]
    assert shell("apply", plan) == 2
    assert "awaits its confirmation until" in shell.err
    assert shell("confirm", plan, "--json") == 0
    assert json.loads(shell.out)["verdict"] == "confirmed"
    assert shell("apply", plan) == 0
    assert shell("apply", plan, "--resume", "--confirm-within", "5m") == 2


def test_an_overdue_change_is_undone_before_anything_else(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flowcheck_net.cli.guardian.start_guardian", lambda _, __: None)
    plan = str(shell.plan)
    shell("apply", plan, "--confirm-within", "10s")
    real = time.time
    monkeypatch.setattr("flowcheck_net.apply.confirm.undo_overdue.__defaults__", (lambda: real() + 11,))
    assert shell("confirm", plan) == 7
    assert "was not confirmed by" in shell.out
    assert shell.fabric.state("leaf1").owned == ()
    shell("apply", plan, "--confirm-within", "10s")
    assert shell("apply", plan) == 0
    words = [line.split(": ")[1] for line in shell.out.splitlines() if line.startswith("verdict")]
    assert words == ["overdue", "rolled back", "applied"]


def test_where_each_switch_stands_is_said_in_json(shell: Shell):
    with shell.fabric.store("leaf2").hold("somebody"):
        assert shell("apply", str(shell.plan), "--json", "--workers", "1") == 7
    assert json.loads(shell.out)["switches"] == {"leaf1": "undone", "leaf2": "refused"}
    assert shell("apply", str(shell.plan), "--json") == 0
    assert json.loads(shell.out)["switches"] == {"leaf1": "done", "leaf2": "done"}


def test_names_of_others_do_not_reach_the_terminal_as_commands(shell: Shell):
    """A session that somebody called so that its name clears the screen and sets the window's title."""
    shell.fabric.seed("leaf2", session("span\x1b[2J\x1b]0;all is well\x07\x9b", "Ethernet5:rx", to="Ethernet31"))
    assert shell("apply", str(shell.plan)) == 5
    assert "span\\x1b[2J" in shell.err
    assert shell("apply", str(shell.plan), "--dry-run") == 5
    shell.fabric.remove("leaf2", "span\x1b[2J\x1b]0;all is well\x07\x9b")
    shell.fabric.seed("leaf2", session("span\x1b[2J", "Ethernet5:rx", to="Ethernet48"))
    assert shell("apply", str(shell.plan), "--dry-run") == 0
    assert "span\\x1b[2J" in shell.out
    assert "\x1b" not in shell.out + shell.err
