"""Blocks of lines sent over a command line: through a candidate that is committed, or each line in effect at once.

What is promised is that of ``Driver.write``: a rejected line leaves nothing of its step behind, and where that cannot
be said for certain, it is not said.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from flowcheck_net.drivers.dialects.base import Block, Line, Transaction, Words
from flowcheck_net.drivers.ssh_connect import Lost
from flowcheck_net.drivers.ssh_shell import Confused, LineRejected

_log = logging.getLogger(__name__)


class Conversation(Protocol):
    """Lines to a switch, and what it says; see ``ssh_shell.Shell``."""

    warnings: list[str]
    """Lines that looked like errors and are none."""

    @property
    def mode(self) -> str:
        """Name of the mode that it is in."""
        ...

    @property
    def host(self) -> str:
        """The switch's own name."""
        ...

    def start(self, password: str = "") -> None:
        """From login to the exec mode."""
        ...

    def ask(self, command: str) -> str:
        """The whole answer to a command that changes nothing."""
        ...

    def send(self, line: Line) -> str:
        """One line that changes something, or the mode; raises LineRejected, Confused or Lost."""
        ...

    def require(self, mode: str) -> None:
        """Raise Confused unless the switch is in this mode."""
        ...


class Refused(Exception):
    """A line was rejected; of the steps, exactly the first ``done`` are in effect."""

    def __init__(self, text: str, done: int, hint: str = "", *, lost: bool = False) -> None:
        super().__init__(text)
        self.done = done
        self.hint = hint
        self.lost = lost
        """The connection is gone as well."""


class Doubt(Exception):
    """A step may be in effect by half, or wholly."""


class Change:
    """One write over one shell, which is in the exec mode before and after."""

    def __init__(
        self, shell: Conversation, words: Words, name: str, minutes: int, rivals: Callable[[], str] = str
    ) -> None:
        """``rivals`` says, in the exec mode, what others did meanwhile that undoing might destroy; empty: nothing."""
        self._shell = shell
        self._rivals = rivals
        self._words = words
        self._values = {"{name}": name, "{minutes}": str(minutes), "{mm}": f"{minutes:02}"}

    def carry_out(self, blocks: Sequence[Block]) -> None:
        """Send all blocks; raises Refused or Doubt."""
        try:
            if self._words.transaction is not None:
                self._commit(blocks, self._words.transaction)
            else:
                self._one_by_one(blocks)
        except Lost as error:
            raise Doubt(f"connection lost: {error}") from error
        except Confused as error:
            raise Doubt(str(error)) from error
        for warning in self._shell.warnings:
            _log.warning("%s: %s", self._shell.host, warning)
        self._shell.warnings.clear()

    def run(self, lines: Sequence[Line]) -> None:
        """Lines from the exec mode to it; raises LineRejected, Lost or Confused."""
        self._shell.require(self._words.exec_mode)
        for line in lines:
            self._send(line)
        self._shell.require(self._words.exec_mode)

    def _send(self, line: Line) -> None:
        text = line.text
        for key, value in self._values.items():
            text = text.replace(key, value)
        try:
            self._shell.send(Line(text, line.then))
        except LineRejected:
            if not line.may_fail:
                raise

    def _commit(self, blocks: Sequence[Block], words: Transaction) -> None:
        self._shell.require(self._words.exec_mode)
        effective = words.effective % len(words.commit)
        try:
            self._fill(blocks, words)
            for line in words.commit[:effective]:
                self._send(line)
        except (LineRejected, Confused) as error:
            self._abort(words, error)
        except Lost as error:
            # Without its commit a candidate does nothing; the next write clears it away.
            raise Refused(f"connection lost before the commit, nothing is in effect: {error}", 0, lost=True) from error
        try:
            self._send(words.commit[effective])
        except LineRejected as error:
            self._abort(words, error)
        try:
            for line in words.commit[effective + 1 :]:
                self._send(line)
        except LineRejected as error:
            raise Doubt(f"committed, and then: {error}") from error
        if words.timed:
            self._confirm(words)

    def _fill(self, blocks: Sequence[Block], words: Transaction) -> None:
        """Everything into the candidate."""
        for line in words.begin:
            self._send(line)
        for block in blocks:
            self._shell.require(self._words.config_mode)
            for line in block.lines:
                self._send(line)
        self._shell.require(self._words.config_mode)

    def _abort(self, words: Transaction, cause: LineRejected | Confused) -> None:
        busy = isinstance(cause, LineRejected) and cause.busy
        try:
            self._back()
            for line in words.abort:
                self._send(line)
        except (LineRejected, Confused) as error:
            raise Doubt(f"{cause}; then the candidate could not be thrown away: {error}") from error
        hint = "wait until the other one has ended" if busy else ""
        raise Refused(f"{cause}; the candidate was thrown away, nothing is in effect", 0, hint) from cause

    def _confirm(self, words: Transaction) -> None:
        """The switch still answers: what was committed on trial is kept."""
        try:
            self.run(words.confirm)
        except LineRejected as error:
            raise Doubt(f"committed on trial, and the confirmation was rejected: {error}") from error

    def _one_by_one(self, blocks: Sequence[Block]) -> None:
        self._shell.require(self._words.exec_mode)
        sent: list[Block] = []
        try:
            for line in self._words.configure:
                self._send(line)
            for block in blocks:
                self._shell.require(self._words.config_mode)
                sent.append(block)
                for line in block.lines:
                    self._send(line)
            self._back()
        except LineRejected as error:
            if not sent:
                hint = "wait until the other one has ended" if error.busy else ""
                raise Refused(str(error), 0, hint) from error
            self._undo(sent, error)

    def _undo(self, sent: Sequence[Block], cause: LineRejected) -> None:
        """Take back what went in of the step that was rejected; always raises."""
        step = sent[-1].step
        try:
            self._back()
            if text := self._rivals():
                raise Doubt(f"{_place(sent[-1])}: {cause}; it was not undone, since {text}")
            for line in self._words.configure:
                self._send(line)
            for block in reversed([b for b in sent if b.step == step]):
                for line in block.undo:
                    self._send(line)
            self._back()
        except (LineRejected, Confused, Lost) as error:
            raise Doubt(f"{_place(sent[-1])}: {cause}; then it could not be undone: {error}") from error
        text = f"{_place(sent[-1])}: {cause}; what went in of the step was undone"
        raise Refused(text, step, "wait until the other one has ended" if cause.busy else "") from cause

    def _back(self) -> None:
        if self._shell.mode != self._words.exec_mode:
            for line in self._words.leave:
                self._send(Line(line.text, line.then or self._words.exec_mode))
        self._shell.require(self._words.exec_mode)


def _place(block: Block) -> str:
    return f"step {block.step + 1}" + (f" ({block.name})" if block.name else "")
