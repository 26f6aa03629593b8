"""Random sessions and random writes on every dialect, typed into the platform's double without a connection between.

What is accepted must be there exactly, as another login reads it; what is refused must have changed nothing; what is
others' stays byte for byte; and when all of ours is removed, the switch is what it was before. Cumulus is left out: its
box speaks to a connection only.
"""

import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.dialects.base import Line, Words
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_change import Conversation
from flowcheck_net.drivers.ssh_shell import Confused, LineRejected
from flowcheck_net.errors import Rejected
from flowcheck_net.ids import Address, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, Step, StepKind, SwitchAddress
from tests.conformance.bench import JOB
from tests.conformance.bench_numbered import ComwareBench, Os10Bench, VrpBench
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench
from tests.doubles.ssh_box import Platform, Session

BENCHES: dict[str, type[SshBench]] = {
    "eos": EosBench,
    "nxos": NxosBench,
    "junos": JunosBench,
    "comware": ComwareBench,
    "vrp": VrpBench,
    "os10": Os10Bench,
}
PAIRS = [(f"10.0.0.{n}", f"10.0.1.{n}") for n in range(1, 4)] + [("2001:db8::1", "2001:db8::2")]
MOVING = {"commits", "before_trial", "candidate", "pending", "timed", "before", "revisions", "edits"}
"""Attributes of doubles that tell of what was done, not of what is."""


class Typist:
    """Types lines into a login of a double; see ``Conversation``. No echo, no pager, no noise."""

    def __init__(self, session: Session, words: Words, name: str) -> None:
        self._session, self._words, self._name = session, words, name
        self.warnings: list[str] = []

    @property
    def mode(self) -> str:
        tail = self._session.prompt().splitlines()[-1].strip()
        prompts = ((m.name, m.prompt.replace("{host}", self._name)) for m in self._words.modes)
        return next((name for name, prompt in prompts if re.fullmatch(prompt, tail)), "")

    @property
    def host(self) -> str:
        return self._name

    def start(self, password: str = "") -> None:
        while self.mode != self._words.exec_mode:
            self._session.do(self._words.rise[self.mode])
            if taker := self._session.hidden:
                self._session.hidden = None
                taker("en-s3same")

    def ask(self, command: str) -> str:
        answer = "\n".join(line.rstrip() for line in self._session.do(command).split("\n"))
        self._judge(command, answer, self._words.errors)
        return answer

    def send(self, line: Line) -> str:
        expected = line.then or self.mode
        answer = self._session.do(line.text)
        while taker := self._session.answering:
            words = (a for q, a in self._words.questions if re.search(q, self._session.question.rstrip()))
            self._session.answering, self._session.question = None, ""
            answer += taker(next(words))
        self._judge(line.text, answer, (*self._words.errors, *self._words.refusals))
        if self.mode != expected:
            raise Confused(f"after {line.text!r} in mode {self.mode!r}: {answer}")
        return answer

    def require(self, mode: str) -> None:
        if self.mode != mode:
            raise Confused(f"in mode {self.mode!r}, not {mode!r}")

    def _judge(self, line: str, answer: str, errors: Sequence[str]) -> None:
        for text in answer.split("\n"):
            fine = any(re.search(p, text) for p in (*self._words.harmless, *self._words.noise))
            if not fine and any(re.search(p, text) for p in errors):
                raise LineRejected(line, answer)


class Direct(CliDriver):
    """The driver with a typist for a connection."""

    def __init__(self, bench: type[SshBench], platform: Platform) -> None:
        address = SwitchAddress(SwitchName("leaf1"), bench.PLATFORM, f"ssh:leaf1?timeout=9{bench.WORDS}")
        super().__init__(address, JOB, limits_of(address))
        self._platform = platform

    def _dial(self, jump: Login) -> Conversation:
        return Typist(self._platform.login(), self._dialect.words, self._platform.name)

    def _close(self) -> None:
        pass


def sessions(bench: type[SshBench]) -> st.SearchStrategy[MirrorSession]:
    sources = st.lists(
        st.builds(MirrorSource, st.sampled_from(bench.sources), st.sampled_from(Direction)), min_size=1, max_size=4
    )
    pairs = st.lists(st.sampled_from([FlowFilter(Address(a), Address(b)) for a, b in PAIRS]), max_size=3)
    names = st.sampled_from([SessionName(f"fcn-{JOB}-{n}") for n in range(3)])
    return st.builds(MirrorSession, names, sources.map(tuple), st.sampled_from(bench.destinations), pairs.map(tuple))


def snapshot(platform: Platform) -> dict[str, str]:
    return {name: repr(value) for name, value in sorted(vars(platform).items()) if name not in MOVING}


def read(bench: type[SshBench], platform: Platform) -> tuple[tuple[MirrorSession, ...], tuple[MirrorSession, ...]]:
    with Direct(bench, platform) as driver:
        state = driver.read()
    return state.owned, state.foreign


@pytest.mark.parametrize("name", sorted(BENCHES))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_accepted_is_there_and_what_is_refused_changed_nothing(name: str, data: st.DataObject):
    bench = BENCHES[name]
    platform = bench.platform()
    new = snapshot(platform)
    there: dict[SessionName, MirrorSession] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        steps, now = [], dict(there)
        for wanted in data.draw(st.lists(sessions(bench), min_size=1, max_size=3)):
            if old := now.pop(wanted.name, None):
                steps.append(Step(StepKind.DELETE, old))
            if old is None or data.draw(st.booleans()):
                steps.append(Step(StepKind.CREATE, wanted))
                now[wanted.name] = wanted
        before = snapshot(platform)
        try:
            with Direct(bench, platform) as driver:
                driver.write(steps)
            there = now
        except Rejected:
            assert snapshot(platform) == before
        assert read(bench, platform) == (tuple(sorted(there.values())), tuple(sorted(bench.foreign)))
    with Direct(bench, platform) as driver:
        driver.write([Step(StepKind.DELETE, s) for s in there.values()])
    after = snapshot(platform)
    if name == "nxos":
        # Of two sessions at one port the first knows how the port was, and may go first: the port stays prepared.
        del new["ports"], after["ports"]
    assert after == new
