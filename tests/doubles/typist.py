"""A driver whose lines are typed into a login of a double, with no connection between them: quick, without luck."""

import re
from collections.abc import Callable, Sequence

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.cli_driver import CliDriver
from flowcheck_net.drivers.dialects.base import Line, Words
from flowcheck_net.drivers.login import Login
from flowcheck_net.drivers.ssh_change import Conversation
from flowcheck_net.drivers.ssh_shell import Confused, LineRejected
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Capabilities, SwitchAddress
from tests.conformance.bench import JOB
from tests.conformance.bench_ssh import SshBench
from tests.doubles.ssh_box import Platform, Session


class Typist:
    """Types lines into a login of a double; see ``Conversation``. No echo, no pager, no noise."""

    def __init__(self, session: Session, words: Words, name: str, tick: Callable[[], None] = lambda: None) -> None:
        """``tick`` is called before and after each line."""
        self._session, self._words, self._name, self._tick = session, words, name, tick
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
        answer = "\n".join(line.rstrip() for line in self._do(command).split("\n"))
        self._judge(command, answer, self._words.errors)
        return answer

    def send(self, line: Line) -> str:
        expected = line.then or self.mode
        answer = self._do(line.text)
        while taker := self._session.answering:
            words = (a for q, a in self._words.questions if re.search(q, self._session.question.rstrip()))
            self._session.answering, self._session.question = None, ""
            answer += taker(next(words))
            self._tick()
        self._judge(line.text, answer, (*self._words.errors, *self._words.refusals))
        if self.mode != expected:
            raise Confused(f"after {line.text!r} in mode {self.mode!r}: {answer}")
        return answer

    def require(self, mode: str) -> None:
        if self.mode != mode:
            raise Confused(f"in mode {self.mode!r}, not {mode!r}")

    def _do(self, text: str) -> str:
        self._tick()
        answer = self._session.do(text)
        self._tick()
        return answer

    def _judge(self, line: str, answer: str, errors: Sequence[str]) -> None:
        for text in answer.split("\n"):
            fine = any(re.search(p, text) for p in (*self._words.harmless, *self._words.noise))
            if not fine and any(re.search(p, text) for p in errors):
                raise LineRejected(line, answer)


class Direct(CliDriver):
    """The driver with a typist for a connection."""

    def __init__(
        self,
        bench: type[SshBench],
        platform: Platform,
        job: str = JOB,
        *,
        name: str = "leaf1",
        limits: Capabilities | None = None,
        tick: Callable[[], None] = lambda: None,
        logins: list[Session] | None = None,
    ) -> None:
        """``logins`` has the session while it is open; ``limits``: None for those of the platform."""
        address = SwitchAddress(SwitchName(name), bench.PLATFORM, f"ssh:{name}?timeout=9{bench.WORDS}")
        super().__init__(address, job, limits or limits_of(address))
        self._platform = platform
        self._tick = tick
        self._logins = logins if logins is not None else []
        self._session: Session | None = None

    def _dial(self, jump: Login) -> Conversation:
        self._session = self._platform.login()
        self._logins.append(self._session)
        return Typist(self._session, self._dialect.words, self._platform.name, self._tick)

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._logins.remove(session)
            session.close()
