"""Watching: what begins, what is over, what restarted; unreachable switches; input files; memory between calls."""

import json
import shutil
import time
from pathlib import Path

import pytest

from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.watch import LONGEST_BACKOFF, Kind, Look, Seen, Watcher
from flowcheck_net.apply.watch_memory import recall, remember
from flowcheck_net.cli.main import run
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import OutputError
from flowcheck_net.ids import SessionName, SwitchName
from flowcheck_net.intent import Remark, RemarkKind
from flowcheck_net.model.platforms import capabilities
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import plan_from_json, plan_to_json
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.bench.measure import ROOT
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
PLAN = plan_for({"leaf1": [A, B], "leaf2": [A]})


@pytest.fixture
def fabric() -> FakeFabric:
    made = FakeFabric()
    made.seed("leaf1", FOREIGN, A, B)
    made.seed("leaf2", A)
    return made


def told(look: Look) -> tuple[list[str], list[str]]:
    return [str(c) for c in look.began], [str(c) for c in look.over]


def test_what_begins_is_told_once_and_what_is_over_too(fabric):
    watcher = Watcher(PLAN, fabric.reach())
    assert told(watcher.look()) == ([], [])
    fabric.remove("leaf1", B.name)
    gone = "leaf1: drift: fcn-gpt-1 (job gpt) is missing"
    assert told(watcher.look()) == ([gone], [])
    look = watcher.look()
    assert told(look) == ([], [])
    assert [str(c) for c in look.standing] == [gone]
    fabric.seed("leaf1", B)
    assert told(watcher.look()) == ([], [gone])


def test_restarts_and_cleared_counts_are_noticed(fabric):
    watcher = Watcher(PLAN, fabric.reach())
    fabric.offer("leaf1", "Ethernet1", "rx", 40)
    watcher.look()
    with fabric.store("leaf1").transaction() as switch:
        switch.restart("boot-2")
    fabric.offer("leaf1", "Ethernet1", "rx", 39)
    assert told(watcher.look())[0] == [
        "leaf1: restarted: it was boot-1, it is boot-2",
        "leaf1: counted anew: fcn-gpt-0 (job gpt) had 40 packets, it has 39",
    ]
    assert told(watcher.look()) == ([], [])


def test_a_restart_that_loses_the_sessions_is_drift_too(fabric):
    watcher = Watcher(PLAN, fabric.reach())
    watcher.look()
    with fabric.store("leaf2").transaction() as switch:
        switch.restart("boot-2", keep=False)
    assert [c.kind for c in watcher.look().began] == [Kind.RESTARTED, Kind.DRIFT]


def test_remarks_are_told_by_what_they_do(fabric):
    watcher = Watcher(PLAN, fabric.reach())
    with fabric.store("leaf1").transaction() as switch:
        switch.remarks += [
            Remark(RemarkKind.DESTINATION_DOWN, "no link", session=A.name),
            Remark(RemarkKind.POLICER, "10 Gbit/s", session=B.name),
        ]
    assert told(watcher.look())[0] == [
        "leaf1: in doubt: fcn-gpt-1: policer: 10 Gbit/s",
        "leaf1: incomplete: fcn-gpt-0: destination down: no link",
    ]


def test_an_unreachable_switch_is_named_once_asked_less_and_less_often_and_hides_no_other(fabric):
    watcher = Watcher(PLAN, fabric.reach())
    fabric.script("leaf2", Fault(Call.CONNECT, FaultKind.UNREACHABLE, times=1000))
    looks = [watcher.look() for _ in range(100)]
    assert told(looks[0]) == (["leaf2: unreachable: connect: unreachable"], [])
    assert all(told(look) == ([], []) for look in looks[1:])
    assert all(look.working == ("leaf1",) and len(look.standing) == 1 for look in looks)
    with fabric.store("leaf2").transaction() as switch:
        # Asked in rounds 0, 1, 3, 7, 15, 31, 63 and 95: the pause doubles up to 32 rounds.
        assert 1000 - switch.faults[0].times == 8
    fabric.heal()
    after = [told(watcher.look()) for _ in range(LONGEST_BACKOFF)]
    assert [t for t in after if t != ([], [])] == [([], ["leaf2: unreachable: connect: unreachable"])]


def test_input_files_and_confirmations_are_conditions_too(fabric):
    words = {"stale": "", "unconfirmed": ""}
    watcher = Watcher(PLAN, fabric.reach(), stale=lambda: words["stale"], unconfirmed=lambda: words["unconfirmed"])
    assert told(watcher.look()) == ([], [])
    words.update(stale="changed: topology", unconfirmed="run 2")
    assert told(watcher.look())[0] == ["stale: changed: topology", "unconfirmed: run 2"]
    words.update(stale="")
    assert told(watcher.look()) == ([], ["stale: changed: topology"])


def test_memory_outlives_the_process(tmp_path: Path, fabric):
    file = tmp_path / "state" / "watch-gpt.json"
    memory = {SwitchName("leaf1"): Seen("boot-1", {SessionName("fcn-gpt-0"): 7}), SwitchName("leaf2"): Seen("", {})}
    remember(file, memory)
    assert recall(file) == memory
    with fabric.store("leaf1").transaction() as switch:
        switch.restart("boot-2")
    assert [c.kind for c in Watcher(PLAN, fabric.reach(), memory=recall(file)).look().began] == [
        Kind.RESTARTED,
        Kind.COUNTED_ANEW,
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 1, "switches": {"leaf1": 3}}'])
def test_a_memory_of_no_use_is_no_memory(tmp_path: Path, text: str):
    file = tmp_path / "watch.json"
    assert recall(file) == {}
    file.write_text(text)
    assert recall(file) == {}


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path):
    (tmp_path / "state").write_text("a file")
    with pytest.raises(OutputError, match="cannot be written"):
        remember(tmp_path / "state" / "watch.json", {})


class Shell:
    """Watches once from the command line, over the file-backed fake."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.specs = directory / "specs"
        shutil.copytree(ROOT / "topologies" / "two-host", self.specs)
        self.file, self.state = directory / "plan.json", directory / "state"
        self.plan = make_plan(load_specs(*spec_paths(self.specs)))
        self.file.write_text(plan_to_json(self.plan))
        self.fabric = FakeFabric(self.state, capabilities(self.plan.switches[0].platform))

    def __call__(self, *words: str) -> int:
        self._monkeypatch.setattr("sys.argv", ["flowcheck-net", *words, "--state-dir", str(self.state)])
        with pytest.raises(SystemExit) as ended:
            run()
        self.out = self._capsys.readouterr().out
        return int(ended.value.code or 0)

    def watch(self, *words: str) -> int:
        return self("watch", str(self.file), "--once", *words)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    made = Shell(tmp_path, monkeypatch, capsys)
    assert made("apply", str(made.file)) == 0
    return made


def test_watch_once_remembers_and_gives_exit_codes(shell: Shell):
    assert shell.watch() == 0
    assert "as planned: 1 switch read" in shell.out
    planned = shell.plan.sessions[0]
    with shell.fabric.store(planned.switch).transaction() as switch:
        switch.restart("boot-2")
    assert shell.watch("--json") == 10
    event = json.loads(shell.out.splitlines()[0])
    assert (event["event"], event["kind"], event["switch"]) == ("began", "restarted", planned.switch)
    assert shell.watch() == 0
    shell.fabric.remove(planned.switch, planned.session.name)
    assert shell.watch() == 6
    assert f"{planned.session.name} (job {shell.plan.job.name}) is missing" in shell.out
    shell.fabric.script(planned.switch, Fault(Call.CONNECT, FaultKind.UNREACHABLE))
    assert shell.watch() == 5


def test_changed_inputs_are_told_and_planned_again_but_never_applied(shell: Shell):
    policy = shell.specs / "policy.yaml"
    job = shell.specs / "job.yaml"
    assert shell.watch("--spec", str(shell.specs)) == 0
    before = shell.file.read_bytes()
    job.write_text(job.read_text().replace("elements: 5000", "elements: 6000"))
    assert shell.watch("--spec", str(shell.specs), "--replan") == 3
    assert "stale: changed since the plan was made: job" in shell.out
    assert "nothing was applied" in shell.out
    new = plan_from_json(shell.file.with_name("plan.next.json").read_text(), "next")
    assert new.job != shell.plan.job
    assert shell.file.read_bytes() == before
    assert shell("verify", str(shell.file)) == 0
    policy.write_text("copies: many\n")
    assert shell.watch("--spec", str(shell.specs), "--replan", "--json") == 3
    assert '"not replanned"' in shell.out


def test_an_overdue_confirmation_is_told_and_not_acted_on(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flowcheck_net.cli.guardian.start_guardian", lambda _, __: None)
    assert shell("rollback") == 0
    assert shell("apply", str(shell.file), "--confirm-within", "10s") == 0
    assert shell.watch() == 0
    real = time.time
    monkeypatch.setattr("flowcheck_net.cli.watch_inputs.time.time", lambda: real() + 11)
    assert shell.watch() == 8
    assert "had to be confirmed by" in shell.out
    with Journal(shell.state / "journal.sqlite") as journal:
        assert journal.unconfirmed() is not None


def test_replan_needs_the_files(shell: Shell):
    assert shell.watch("--replan") == 2
