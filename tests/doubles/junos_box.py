"""Juniper Junos, as its references show it: one candidate, exclusive, committed on trial."""

import re
from collections import Counter

from tests.doubles.ssh_box import Platform, Session

_PORTS = [f"xe-0/0/{n}" for n in (*range(1, 9), 31, 32, 33, 47, 48)]
_PATH = r"forwarding-options analyzer (\S+)"
_REST = re.compile(
    r"input (ingress|egress) interface xe-\S+|output (interface xe-\S+|ip-address \S+)|input rate [0-9]+"
)


class JunosBox(Platform):
    """One QFX."""

    rejection = "           ^\nsyntax error."
    log_line = "Message from syslogd@leaf1 at Nov 30 22:00:00  ..."
    pager = "---(more)---"
    comments = ("#",)
    most_analyzers = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.running: dict[str, list[str]] = {}
        """Analyzer -> the rest of its set lines."""
        self.candidate: dict[str, list[str]] | None = None
        self.editor = ""
        """Who holds the candidate."""
        self.before_trial: dict[str, list[str]] | None = None
        self.commits: list[str] = ["2026-11-30 09:10:00 UTC by root via cli"]
        self.boots = 1
        self.down: set[str] = set()
        self.packets: Counter[tuple[str, str]] = Counter()

    def login(self) -> Session:
        """Operational mode."""
        return JunosSession(self)


class JunosSession(Session):
    """One login."""

    def __init__(self, box: JunosBox) -> None:
        self.box = box
        self.configuring = False

    def prompt(self) -> str:
        """With the line that a QFX puts before it."""
        return f"{{master:0}}{'[edit]' * self.configuring}\r\nfcn@{self.box.name}{'#' if self.configuring else '>'} "

    def close(self) -> None:
        """Junos gives the exclusive candidate up with the session, and what was in it."""
        if self.configuring:
            self.box.candidate, self.configuring = None, False

    def do(self, line: str) -> str:
        """By mode."""
        if self.configuring:
            return self._configure(line)
        if line == "set cli screen-length 0":
            self.paging = False
            return "Screen length set to 0"
        if line == "set cli screen-width 511":
            return "Screen width set to 511"
        if line == "configure exclusive":
            if self.box.candidate is not None:
                return (
                    "error: configuration database locked by:\n"
                    "  netops terminal pts/1 (pid 4711) on since 2026-11-30 21:00:00 UTC\n"
                    "      exclusive {master:0}[edit]"
                )
            self.box.candidate = {name: list(rest) for name, rest in self.box.running.items()}
            self.configuring = True
            return "warning: uncommitted changes will be discarded on exit\nEntering configuration mode\n"
        return self._show(line) if line.startswith("show ") else "\n           ^\nunknown command."

    def _configure(self, line: str) -> str:
        box = self.box
        candidate = box.candidate
        assert candidate is not None
        if line == "exit configuration-mode":
            if candidate != box.running:
                self.question = "The configuration has been changed but not committed\r\n"
                self.question += "Discard uncommitted changes? [yes,no] (yes) "
                self.answering = self._discard
                return ""
            self.close()
            return "Exiting configuration mode\n"
        if line == "rollback 0":
            box.candidate = {name: list(rest) for name, rest in box.running.items()}
            return "load complete\n"
        if line.startswith("commit"):
            return self._commit(line)
        if match := re.fullmatch(f"set {_PATH} (.+)", line):
            if not _REST.fullmatch(match[2]):
                return self.box.rejection
            lines = candidate.setdefault(match[1], [])
            if match[2].startswith("output interface"):
                # Another output takes the place of the first, without a word.
                lines[:] = [text for text in lines if not text.startswith("output interface")]
            lines.append(match[2])
            return ""
        if match := re.fullmatch(f"delete {_PATH}", line):
            return "" if candidate.pop(match[1], None) else "warning: statement not found"
        return self.box.rejection

    def _discard(self, answer: str) -> str:
        if answer.strip() in ("", "yes"):
            self.close()
            return "Exiting configuration mode\n"
        return ""

    def _commit(self, line: str) -> str:
        box = self.box
        candidate = box.candidate or {}
        if len(candidate) > box.most_analyzers:
            return "error: analyzer configuration limit exceeded\nerror: configuration check-out failed"
        if line == "commit check":
            return "configuration check succeeds"
        match = re.fullmatch(r"commit(?: confirmed ([0-9]+))?(?: comment (\S+))?", line)
        if match is None:
            return box.rejection
        how = f" commit confirmed, rollback in {match[1]}mins" if match[1] else ""
        box.commits.insert(0, f"2026-11-30 22:00:00 UTC by fcn via cli{how}\n    {match[2]}")
        box.before_trial = box.running if match[1] else None
        box.running = {name: list(rest) for name, rest in candidate.items()}
        trial = f"commit confirmed will be automatically rolled back in {match[1]} minutes unless confirmed\n"
        return (trial if match[1] else "") + "commit complete"

    def _show(self, line: str) -> str:
        box = self.box
        if line == "show configuration forwarding-options analyzer | display set":
            return "\n".join(
                f"set forwarding-options analyzer {n} {r}" for n, rest in box.running.items() for r in rest
            )
        if line == "show forwarding-options analyzer":
            return "\n".join(self._analyzer(name, rest) for name, rest in box.running.items())
        if line == "show interfaces terse":
            rows = ["Interface               Admin Link Proto    Local                 Remote"]
            for port in _PORTS:
                link = "down" if port in box.down else "up"
                rows += [f"{port:<24}up    {link}", f"{port + '.0':<24}up    {link:<5}eth-switch"]
            return "\n".join(rows)
        if line == "show system uptime":
            return (
                "Current time: 2026-11-30 22:00:00 UTC\nTime Source:  NTP CLOCK\n"
                f"System booted: 2026-11-30 09:00:{box.boots:02} UTC (13:00:00 ago)\n"
                "Protocols started: 2026-11-30 09:05:00 UTC (12:55:00 ago)"
            )
        if line == "show system commit":
            return "\n".join(f"{n:<4}{text}" for n, text in enumerate(box.commits))
        match = re.fullmatch(r"show interfaces (xe-\S+) detail", line)
        return self._detail(match[1]) if match and match[1] in _PORTS else box.rejection

    def _analyzer(self, name: str, rest: list[str]) -> str:
        rate = next((text.split()[-1] for text in rest if text.startswith("input rate")), "1")
        rows = [f"Analyzer name                    : {name}", f"  Mirror rate                      : {rate}"]
        rows += ["  Maximum packet length            : 0", "  State                            : up"]
        for word in ("ingress", "egress"):
            ports = [text.split()[-1] for text in rest if text.startswith(f"input {word}")]
            rows += [f"  {word.capitalize()} monitored interfaces     : {port}" for port in ports]
        rows += [
            f"  Output interface                 : {t.split()[-1]}" for t in rest if t.startswith("output interface")
        ]
        return "\n".join(rows)

    def _detail(self, port: str) -> str:
        ins, outs = (self.box.packets[port, way] for way in ("rx", "tx"))
        rows = [f"Physical interface: {port}, Enabled, Physical link is Up", "  Traffic statistics:"]
        rows += [f"   Input  bytes  : {ins * 100:20} 0 bps", f"   Output bytes  : {outs * 100:20} 0 bps"]
        rows += [f"   Input  packets: {ins:20} 0 pps", f"   Output packets: {outs:20} 0 pps"]
        rows += [
            f"  Logical interface {port}.0",
            "    Traffic statistics:",
            "     Input  packets: 0",
            "     Output packets: 0",
        ]
        return "\n".join(rows)
