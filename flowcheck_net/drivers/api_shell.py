"""A conversation with a switch that takes commands by requests, each of which begins anew in the exec mode.

The lines that lead to the mode where we are go before each line; entering an object that is there changes nothing.
"""

from collections.abc import Callable, Sequence

from flowcheck_net.drivers.dialects.base import Line, Words
from flowcheck_net.drivers.ssh_shell import Confused, Judge

Call = Callable[[Sequence[str]], Sequence[str]]
"""Carries commands out in one request, from the exec mode; what each printed. Raises LineRejected or Lost."""


class ApiShell:
    """One switch; see ``ssh_shell.Shell``."""

    def __init__(self, call: Call, words: Words, host: str) -> None:
        self._call = call
        self._words = words
        self._host = host
        self._way: list[tuple[str, str]] = []
        """(line, the mode that it leads to), from the exec mode to where we are."""
        # A request may succeed though its text says that the line was rejected.
        self._judge = Judge(words)
        self.warnings = self._judge.warnings

    @property
    def mode(self) -> str:
        """Where the last line led."""
        return self._way[-1][1] if self._way else self._words.exec_mode

    @property
    def host(self) -> str:
        """The switch, as the reference names it."""
        return self._host

    def start(self, password: str = "") -> None:
        """Each request is privileged, and none has a pager."""

    def ask(self, command: str) -> str:
        """The answer to a command that changes nothing."""
        answer = self._call([command])[-1]
        self._judge(command, answer)
        return answer

    def send(self, line: Line) -> str:
        """One line, in the mode where we are."""
        if line.text in ("exit", "end"):
            # A request ends by itself; nothing is to be sent.
            self._way = self._way[:-1] if line.text == "exit" else []
            return ""
        said = self._call([*(text for text, _ in self._way), line.text])[-1]
        self._judge(line.text, said, changing=True)
        if line.then == self._words.exec_mode:
            self._way = []
        elif line.then and line.then != self.mode:
            self._way.append((line.text, line.then))
        return said

    def require(self, mode: str) -> None:
        """Raise Confused unless we are in this mode."""
        if self.mode != mode:
            raise Confused(f"the lines lead to mode {self.mode!r}, not {mode!r}: nothing was sent")


def doubt_of(text: str, login: str) -> str:
    """What to do about a connection that failed so; empty: try again."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "give the switch's CA with ca=FILE"
    if "401" in text or "nauthorized" in text or "uthentication" in text:
        # Trying again locks accounts.
        return f"check user and password ({login})"
    return ""
