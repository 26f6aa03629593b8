"""NETCONF over SSH of a Junos switch: its XML protocol in front of a Junos box, for ncclient and PyEZ as they are.

Framing as RFC 6242 has it: ``]]>]]>`` after the hellos, and after each message; chunks where both say base:1.1.
"""

import re
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import asyncssh

from tests.doubles.junos_box import JunosBox, JunosSession
from tests.doubles.ssh_box import Fault, Planned, Session, SshBox

_BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
_END = "]]>]]>"


class NetconfBox(SshBox):
    """The server of one switch; ``typed`` has each request as the line of the command line that does the same."""

    chunked = False
    """Speak base:1.1 too."""

    async def converse(self, session: Session, process: "asyncssh.SSHServerProcess[str]") -> None:
        """One session."""
        assert isinstance(session, JunosSession)
        if process.subsystem != "netconf":
            return
        stream = _Stream(process)
        process.stdout.write(self._hello())
        chunks = "base:1.1" in await stream.read(chunked=False) and self.chunked
        while not session.closed:
            root = ElementTree.fromstring(await stream.read(chunked=chunks))
            reply = self._reply(session, root, process)
            process.stdout.write(f"\n#{len(reply.encode())}\n{reply}\n##\n" if chunks else f"{reply}\n{_END}\n")

    def _hello(self) -> str:
        able = [_BASE, *(f"urn:ietf:params:netconf:capability:{c}" for c in ("candidate:1.0", "confirmed-commit:1.0"))]
        able += ["urn:ietf:params:netconf:base:1.0", "http://xml.juniper.net/netconf/junos/1.0"]
        able += ["urn:ietf:params:netconf:base:1.1"] * self.chunked
        listed = "".join(f"<capability>{c}</capability>" for c in able)
        return (
            "<!-- No zombies were killed during the creation of this user interface -->\n"
            f'<hello xmlns="{_BASE}"><capabilities>{listed}</capabilities><session-id>{4711 + self.logins}</session-id>'
            f"</hello>\n{_END}\n"
        )

    def _reply(self, session: JunosSession, root: ElementTree.Element, process: object) -> str:
        assert isinstance(process, asyncssh.SSHServerProcess)
        request = next(iter(root))
        with self.lock:
            content = "".join(self._one(session, line, request, process) for line in _lines(request)) or "<ok/>"
        number = next(value for key, value in root.attrib.items() if key.endswith("message-id"))
        return (
            f'<rpc-reply xmlns="{_BASE}" xmlns:junos="http://xml.juniper.net/junos/20.4R3/junos" '
            f'message-id="{number}">\n{content}\n</rpc-reply>'
        )

    def _one(self, session: JunosSession, line: str, request: ElementTree.Element, process: object) -> str:
        self.typed.append(("netconf> ", line))
        fault = next((f for f in self.faults if f.strikes(line)), None)
        if fault and fault.kind is Fault.DIE_BEFORE:
            _die(process)
        said = self._do(session, line, fault)
        if fault and fault.kind is Fault.DIE_AFTER:
            _die(process)
        tag = _tag(request)
        if (problem := _problem(said)) is not None:
            # A request that asks for the lock ends at once; others say it within their results.
            return (
                f"<load-configuration-results>{problem}</load-configuration-results>" if tag[:4] == "load" else problem
            )
        if tag == "command":
            if "display set" in line:
                inner = f"<configuration-output>\n{escape(said)}\n</configuration-output>"
                return f"<configuration-information>{inner}</configuration-information>"
            return f"<output>\n{escape(said)}\n</output>"
        if tag == "get-configuration":
            inner = f"<configuration-output>\n{escape(said)}</configuration-output>"
            return f"<configuration-information>{inner}</configuration-information>"
        return "<ok/>"

    def _do(self, session: JunosSession, line: str, fault: Planned | None) -> str:
        if fault and fault.kind is Fault.REJECT:
            return fault.text or self.platform.rejection
        if line == "close-session":
            session.closed = True
            return ""
        if line == "show | compare":
            assert isinstance(self.platform, JunosBox)
            now, then = self.platform.candidate or {}, self.platform.running
            return "".join(f"+ analyzer {name}\n" for name in now if name not in then)
        if line == "unlock" or line == "exit configuration-mode":
            session.close()
            return ""
        return session._show(line) if line.startswith("show ") else session.do(line)


class _Stream:
    """Messages of one client."""

    def __init__(self, process: "asyncssh.SSHServerProcess[str]") -> None:
        self._process = process
        self._text = ""

    async def read(self, *, chunked: bool) -> str:
        """The next one."""
        while (found := self._chunks() if chunked else self._plain()) is None:
            more = await self._process.stdin.read(4096)
            if not more:
                raise EOFError
            self._text += more
        return found

    def _plain(self) -> str | None:
        message, end, rest = self._text.partition(_END)
        if not end:
            return None
        self._text = rest
        return message.strip()

    def _chunks(self) -> str | None:
        place, raw = 0, self._text.encode()
        parts: list[bytes] = []
        while (head := re.compile(rb"\n#(?:([0-9]+)|#)\n").match(raw, place)) is not None:
            if head[1] is None:
                self._text = raw[head.end() :].decode()
                return b"".join(parts).decode()
            place = head.end() + int(head[1])
            parts.append(raw[head.end() : place])
        return None


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _lines(request: ElementTree.Element) -> list[str]:
    """What one would type for a request."""
    parts = {_tag(part): (part.text or "").strip() for part in request}
    tag = _tag(request)
    if tag == "command":
        return [(request.text or "").strip()]
    if tag == "load-configuration":
        if request.get("rollback") == "0":
            return ["rollback 0"]
        assert request.get("action") == "set"
        return [line.strip() for line in parts["configuration-set"].splitlines() if line.strip()]
    if tag == "commit-configuration":
        confirmed = f" confirmed {parts.get('confirm-timeout', '10')}" if "confirmed" in parts else ""
        comment = f" comment {parts['log']}" if "log" in parts else ""
        return ["commit check" if "check" in parts else f"commit{confirmed}{comment}"]
    if tag == "get-configuration" and request.get("compare") == "rollback":
        return ["show | compare"]
    known = {"lock-configuration": "configure exclusive", "unlock-configuration": "exit configuration-mode"}
    return [known.get(tag, tag)]


def _problem(said: str) -> str | None:
    """An ``rpc-error`` for what the command line says, where that is one."""
    warned = said.startswith("warning: statement")
    if not (warned or re.search(r"^error: |^\s*\^|^syntax error|^unknown command", said, re.MULTILINE)):
        return None
    words = escape(re.sub(r"^(?:\s*\^\n|error: |warning: )", "", said, flags=re.MULTILINE))
    severity = "warning" if warned else "error"
    return (
        "<rpc-error><error-type>protocol</error-type><error-tag>operation-failed</error-tag>"
        f"<error-severity>{severity}</error-severity><error-message>\n{words}\n</error-message></rpc-error>"
    ) + "<ok/>" * warned


def _die(process: object) -> None:
    assert isinstance(process, asyncssh.SSHServerProcess)
    process.channel.get_connection().abort()
    raise EOFError
