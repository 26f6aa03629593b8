"""The lines of Junos as requests of its XML protocol over NETCONF: the same words as on its command line.

Shows are asked as text, which is what the dialect reads. The exclusive candidate is ``lock-configuration``, which also
stays over several writes, for one who holds the switch.
"""

import re
from collections.abc import Callable
from xml.etree.ElementTree import Element

from flowcheck_net.drivers.dialects.base import Line, Words
from flowcheck_net.drivers.ssh_shell import Confused, LineRejected

Call = Callable[[Element], Element]
"""Request to reply, without namespaces; raises Lost."""
_COMMIT = re.compile(r"commit(?: confirmed (?P<minutes>[0-9]+))?(?: comment (?P<comment>\S+))?")


class NetconfShell:
    """One switch; see ``ssh_shell.Shell``."""

    def __init__(self, call: Call, words: Words, host: str) -> None:
        self._call = call
        self._words = words
        self._host = host
        self._mode = words.exec_mode
        self._held = False
        self.warnings: list[str] = []

    @property
    def mode(self) -> str:
        """Where the last line led."""
        return self._mode

    @property
    def host(self) -> str:
        """The switch, as the reference names it."""
        return self._host

    @property
    def held(self) -> bool:
        """Is the lock kept until ``release``?"""
        return self._held

    def start(self, password: str = "") -> None:
        """A session begins in operation, and has no pager."""

    def ask(self, command: str) -> str:
        """The answer to a command that changes nothing, as text."""
        return self._request(command, _element("command", text=command, format="text"))

    def send(self, line: Line) -> str:
        """One line, as the request that does the same."""
        if line.text == "configure exclusive":
            said = "" if self._held else self._request(line.text, _element("lock-configuration"))
        elif line.text == "exit configuration-mode":
            said = "" if self._held else self._request(line.text, _element("unlock-configuration"))
        else:
            self.require(self._words.config_mode)
            said = self._request(line.text, _change(line.text))
        self._mode = line.then or self._mode
        return said

    def require(self, mode: str) -> None:
        """Raise Confused unless we are in this mode."""
        if self._mode != mode:
            raise Confused(f"the lines lead to mode {self._mode!r}, not {mode!r}: nothing was sent")

    def take(self) -> None:
        """The lock, to keep; raises LineRejected with its holder, or Lost."""
        self.send(Line("configure exclusive"))
        self._held = True

    def release(self) -> None:
        """Let go of it."""
        self._held = False
        self.send(Line("exit configuration-mode"))

    def _request(self, line: str, request: Element) -> str:
        reply = self._call(request)
        errors = [_problem(found) for found in reply.iter("rpc-error")]
        fatal = [text for severity, text in errors if severity != "warning"]
        if fatal:
            text = "; ".join(fatal)
            raise LineRejected(line, text, busy=any(re.search(p, text) for p in self._words.busy))
        self.warnings += [f"{line}: {text}" for _, text in errors]
        return "" if errors else "".join(reply.itertext()).strip("\n")


def _change(line: str) -> Element:
    if line.startswith(("set ", "delete ")):
        request = _element("load-configuration", action="set", format="text")
        request.append(_element("configuration-set", text=line))
        return request
    if line == "rollback 0":
        return _element("load-configuration", rollback="0")
    request = _element("commit-configuration")
    if line == "commit check":
        request.append(_element("check"))
        return request
    commit = _COMMIT.fullmatch(line)
    if commit is None:
        raise Confused(f"{line!r} is no request: nothing was sent")
    if commit["minutes"]:
        request.append(_element("confirmed"))
        request.append(_element("confirm-timeout", text=commit["minutes"]))
    if commit["comment"]:
        request.append(_element("log", text=commit["comment"]))
    return request


def _element(tag: str, text: str = "", **attributes: str) -> Element:
    made = Element(tag, attributes)
    made.text = text or None
    return made


def _problem(found: Element) -> tuple[str, str]:
    """Severity and words of an ``rpc-error``."""
    parts = [found.findtext("error-message"), found.findtext("error-info/bad-element")]
    return (found.findtext("error-severity") or "error").strip(), ": ".join(" ".join(p.split()) for p in parts if p)
