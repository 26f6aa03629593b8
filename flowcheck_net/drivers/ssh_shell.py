"""A conversation with a command line: prompts and modes, end markers, pagers, questions, log lines in between.

Nothing is taken for an answer that has not its end: a prompt alone may be a line of output, or of the log. After a
question of ours (``ask``) a comment with a word of ours is sent, and the answer ends where that comes back behind a
prompt. After a line that changes something (``send``) its echo must come back, then a prompt of the right mode.
"""

import re
import secrets
import time
from collections.abc import Callable
from typing import Protocol

from flowcheck_net.drivers.dialects.base import Line, Words
from flowcheck_net.drivers.ssh_connect import Lost

_NUDGE = 1.0
"""Seconds of silence after which an empty line is sent: a log line may have taken the prompt away."""
_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Za-z0-9]|\x1b[=>]|\x07|\x00"
)
_QUESTION = re.compile(r"(\[[Yy](es)?[/|][Nn]o?.*\]|\([Yy](es)?/[Nn]o?.*\)|\[[^\]\n]*\]|\?|[Pp]assword):?\s*:?$")
_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*)"
_TRIES = 3


class Stream(Protocol):
    """What carries the conversation; see ``ssh_connect.Wire``."""

    def read(self) -> str:
        """What has arrived; empty: nothing yet. Raises Lost."""
        ...

    def write(self, text: str) -> None:
        """Send. Raises Lost."""
        ...


class LineRejected(Exception):
    """The switch rejected a line, and says why."""

    def __init__(self, line: str, answer: str, *, busy: bool = False) -> None:
        super().__init__(f"line {line!r} was rejected: {answer}")
        self.line = line
        self.answer = answer
        self.busy = busy
        """Somebody else holds the configuration."""


class Confused(Exception):
    """The switch does not behave as its platform does; the text says in what. Nothing more is sent."""


class Judge:
    """Tells by a platform's words whether an answer says that the line was rejected."""

    def __init__(self, words: Words) -> None:
        self._errors, self._harmless, self._busy = map(_any_of, (words.errors, words.harmless, words.busy))
        self._refusals = _any_of((*words.errors, *words.refusals))
        self._secret = ""
        """Never shown, not even a part of it."""
        self.warnings: list[str] = []
        """Lines that looked like errors and are none."""

    def __call__(self, line: str, answer: str, *, changing: bool = False) -> None:
        """Raise LineRejected where it says so; ``changing`` lines are judged by more words."""
        errors = self._refusals if changing else self._errors
        for text in answer.split("\n"):
            if self._harmless and self._harmless.search(text):
                self.warnings.append(f"{line}: {text.strip()}")
            elif errors and errors.search(text):
                busy = bool(self._busy and self._busy.search(answer))
                raise LineRejected(line, " ".join(answer.split()), busy=busy)


class Shell:
    """One terminal session."""

    def __init__(self, stream: Stream, words: Words, *, patience: float = 60, nudge: float = _NUDGE) -> None:
        self._stream = stream
        self._words = words
        self._patience = patience
        self._nudge = nudge
        self._host = ""
        self._mode = ""
        self._text = ""
        self._prompts: dict[str, str] = {}
        self._noise = _any_of(words.noise)
        self._judge = Judge(words)
        self._pager = re.compile(f"(?:{words.pager})\\s*$")
        self.warnings = self._judge.warnings
        self._learn(_HOST)

    @property
    def mode(self) -> str:
        """Name of the mode that the last prompt told."""
        return self._mode

    @property
    def host(self) -> str:
        """The switch's own name, as its prompt has it."""
        return self._host

    def start(self, password: str = "") -> None:
        """From login to the exec mode, with paging off; raises Lost, Confused or LineRejected."""
        self._secret = password
        self._prompt()
        self._synchronise()
        if self._mode != self._words.exec_mode:
            self._rise(password)
        self._turn_paging_off()

    def ask(self, command: str) -> str:
        """The whole answer to a command that changes nothing; raises LineRejected where it is no command."""
        for _ in range(_TRIES):
            self._write(command)
            answer = self._prompt(echo=command)
            whole = None if answer is None else self._to_marker(command)
            if whole is None:
                self._leave_pager()
                self._turn_paging_off()
                continue
            self._judge(command, whole)
            return whole
        raise Confused(f"{command!r}: a pager stops its output, and cannot be turned off")

    def send(self, line: Line) -> str:
        """Send one line that changes something, or the mode; returns what the switch said to it.

        Raises:
            LineRejected: the switch says so.
            Confused: it says nothing of that kind, and is not in the mode where it should be.
            Lost: no answer came.
        """
        expected = line.then or self._mode
        self._write(line.text)
        found = self._prompt(echo=line.text)
        if found is None:
            raise Confused(f"{line.text!r}: a pager stops its output")
        answer = self._clean(found, line.text)
        self._judge(line.text, answer, changing=True)
        if self._mode != expected:
            raise Confused(
                f"after {line.text!r} the switch is in mode {self._mode!r}, not {expected!r}"
                + (f": {answer}" * bool(answer))
            )
        return answer

    def require(self, mode: str) -> None:
        """Raise Confused unless the switch is in this mode, by a prompt that is asked for now."""
        self._synchronise()
        if self._mode != mode:
            raise Confused(f"the switch is in mode {self._mode!r}, not {mode!r}: nothing was sent")

    def _learn(self, host: str) -> None:
        self._prompts = {m.name: m.prompt.replace("{host}", host) for m in self._words.modes}

    def _rise(self, password: str) -> None:
        while self._mode != self._words.exec_mode:
            if (command := self._words.rise.get(self._mode)) is None:
                raise Confused(
                    f"the login lands in mode {self._mode!r}, and there is no way to {self._words.exec_mode!r}"
                )
            before = self._mode
            self._write(command)
            found = self._prompt(echo=command, secret=password)
            self._judge(command, self._clean(found or "", command))
            if self._mode == before:
                raise LineRejected(command, "the switch stays where it was: is the enable password right?")

    def _turn_paging_off(self) -> None:
        for text in self._words.paging_off:
            self.send(Line(text))
        if self._words.paging_check and self._words.paging_is_off:
            answer = self._checked(self._words.paging_check)
            if not re.search(self._words.paging_is_off, answer, re.MULTILINE):
                raise Confused(f"paging cannot be turned off: {self._words.paging_check!r} answers {answer!r}")

    def _checked(self, command: str) -> str:
        self._write(command)
        if self._prompt(echo=command) is None or (answer := self._to_marker(command)) is None:
            raise Confused(f"{command!r}: a pager stops its output")
        self._judge(command, answer)
        return answer

    def _write(self, text: str) -> None:
        if not text.isprintable():
            raise Confused(f"{text!r} would be more than one line: it is not sent")
        self._text = ""
        self._stream.write(text + "\n")

    def _prompt(self, echo: str = "", secret: str = "") -> str | None:
        """What came up to a prompt at the end of the stream, with it; None: a pager stands there."""
        answered = 0

        def ready() -> bool | None:
            nonlocal answered
            tail = self._text.rsplit("\n", 1)[-1].rstrip()
            if self._pager.search(tail):
                return False
            if echo and squeezed(echo) not in squeezed(self._text):
                return None
            if mode := self._mode_of(tail):
                self._mode = mode
                return True
            for pattern, answer in self._words.questions:
                if re.search(pattern, tail):
                    answered = self._answer(answered, answer, tail)
                    return None
            if secret and re.search(r"[Pp]assword:\s*$", tail):
                answered = self._answer(answered, secret, "a password")
            return None

        return self._text if self._wait(ready) else None

    def _answer(self, answered: int, answer: str, question: str) -> int:
        if answered >= _TRIES:
            raise Confused(f"the switch asks again and again: {question!r}")
        self._text += "\n"
        self._stream.write(answer + "\n")
        return answered + 1

    def _synchronise(self) -> None:
        """Wait for a prompt that certainly belongs to now, and learn the switch's name from it."""
        if self._to_marker("") is None:
            self._leave_pager()
            if self._to_marker("") is None:
                raise Confused("a pager stands in the way, and cannot be left")

    def _to_marker(self, command: str) -> str | None:
        """Send the end marker; what stands before it, or None where a pager does."""
        for _ in range(_TRIES):
            # Nobody can have written it into a description or a banner beforehand.
            token = f"fcn-end-{secrets.token_hex(4)}"
            marker = self._words.comment.format(token)
            self._stream.write(marker + "\n")
            if self._prompt(echo=token) is None:
                return None
            for name, prompt in self._prompts.items():
                found = re.search(rf"^{prompt} ?{re.escape(marker)}\s*$", self._text, re.MULTILINE)
                if found is not None and self._is_host(found):
                    if not self._host and "host" in found.groupdict():
                        self._host = found["host"]
                        self._learn(_cut_short(self._host))
                    self._mode = name
                    whole = self._text[: found.start()]
                    return self._clean(whole, command, prompt_follows=False)
        raise Confused(f"{command!r}: the end of the answer cannot be told from its text")

    def _leave_pager(self) -> None:
        self._text = ""
        self._stream.write("q")
        self._prompt()

    def _wait(self, ready: Callable[[], bool | None]) -> bool:
        """Read until ``ready`` tells; raises Lost where the switch is silent for too long."""
        last = nudged = time.monotonic()
        while (found := ready()) is None:
            if piece := self._stream.read():
                head, newline, tail = self._text.rpartition("\n")
                self._text = head + newline + _plain(tail + piece)
                last = nudged = time.monotonic()
                continue
            now = time.monotonic()
            if now - last > self._patience:
                raise Lost(f"no answer for {self._patience:g} s; the last that came: {self._shown()[-80:]!r}")
            tail = self._text.rsplit("\n", 1)[-1].rstrip()
            if now - nudged > self._nudge:
                if _QUESTION.search(tail) and not self._mode_of(tail):
                    raise Confused(f"the switch asks something that is not expected: {tail!r}")
                self._stream.write("\n")
                nudged = now
        return found

    def _shown(self) -> str:
        """What came, fit for a message that is cut."""
        return self._text.replace(self._secret, "********") if self._secret else self._text

    def _mode_of(self, tail: str) -> str:
        for name, prompt in self._prompts.items():
            match = re.fullmatch(prompt, tail)
            if match is not None and self._is_host(match):
                return name
        return ""

    def _is_host(self, match: re.Match[str]) -> bool:
        found = match.groupdict().get("host")
        return not self._host or found is None or self._host.startswith(found)

    def _clean(self, text: str, command: str, *, prompt_follows: bool = True) -> str:
        """The lines of an answer: without what came before the echo, the echo, the prompt and the log."""
        lines = text.split("\n")
        if prompt_follows:
            lines = lines[:-1]
        for place, line in enumerate(lines):
            if command and squeezed(command) in squeezed(line):
                lines = lines[place + 1 :]
                break
        kept = [line.rstrip() for line in lines if not (self._noise and self._noise.search(line))]
        while kept and (not kept[-1] or self._mode_of(kept[-1])):
            kept.pop()
        return "\n".join(kept)


def squeezed(text: str) -> str:
    """Without white space: an echo may be wrapped."""
    return re.sub(r"\s", "", text)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{p})" for p in patterns), re.MULTILINE) if patterns else None


def _cut_short(host: str) -> str:
    """A pattern for the name or any beginning of it, the longest first."""
    pattern = ""
    for character in reversed(host[1:]):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return re.escape(host[0]) + pattern


def _plain(text: str) -> str:
    """What a reader would see: no escapes, carriage returns and backspaces carried out."""
    text = re.sub(r"\r+\n", "\n", _ESCAPES.sub("", text))
    while "\b" in text:
        shorter = re.sub(r"[^\b\n]\b|^\b", "", text, flags=re.MULTILINE)
        if shorter == text:
            break
        text = shorter
    # A carriage return may be the first half of a line end that is still to come.
    return re.sub(r"^[^\n\r]*\r+(?=[^\r\n])", "", text, flags=re.MULTILINE)
