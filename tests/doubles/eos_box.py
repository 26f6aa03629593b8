"""Arista EOS, as its manual and the configuration samples show it: monitor sessions by configuration session."""

import re
from copy import deepcopy

from tests.doubles.ssh_box import ENABLE, Platform, Session

_REST = re.compile(
    r"source \S+( (rx|tx|both))?$|destination (Ethernet\S+|Cpu|tunnel .*)$|truncate$|ip access-group \S+$"
)


class EosBox(Platform):
    """One switch: what runs, and the configuration sessions that wait."""

    rejection = "% Invalid input"
    most_monitor_sessions = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.running: dict[str, list[str]] = {}
        """Monitor session -> its lines behind the name, in the order in which they are shown."""
        self.lists: dict[str, list[str]] = {}
        """``ip access-list NAME`` -> its entries."""
        self.pending: dict[str, tuple[dict[str, list[str]], dict[str, list[str]]]] = {}
        """Configuration session -> monitor sessions and lists as they are to be."""
        self.reloads = 1

    def login(self) -> Session:
        """Unprivileged."""
        return EosSession(self)

    def monitor(self, *lines: str) -> None:
        """Somebody configures."""
        for line in lines:
            if error := edit(self.running, line):
                raise ValueError(error)


def edit(sessions: dict[str, list[str]], line: str) -> str:
    """Carry out a ``monitor session`` line; what is printed when it is wrong."""
    match = re.fullmatch(r"(?P<no>no )?monitor session (?P<name>\S+)(?: (?P<rest>.+))?", line)
    if match is None:
        return "% Invalid input"
    name, rest = match["name"], match["rest"]
    if match["no"]:
        if rest is None:
            sessions.pop(name, None)
        else:
            sessions[name] = [text for text in sessions.get(name, []) if not text.startswith(rest)]
        return ""
    if rest is None:
        return "% Incomplete command"
    if not _REST.match(rest):
        return "% Invalid input"
    sessions.setdefault(name, []).append(rest)
    return ""


class EosSession(Session):
    """One login."""

    def __init__(self, box: EosBox) -> None:
        self.box = box
        self.mode = ">"
        self.candidate = ""
        self.list = ""

    def prompt(self) -> str:
        """EOS shows six letters of a configuration session's name."""
        if not self.candidate:
            return f"{self.box.name}{self.mode}"
        where = f"-acl-{self.list.split()[-1]}" if self.list else ""
        return f"{self.box.name}(config-s-{self.candidate[:6]}{where})#"

    def do(self, line: str) -> str:
        """By mode."""
        if self.candidate:
            return self._in_candidate(line)
        if line == "enable":
            self.hidden, self.question = self._enable, "Password: "
            return ""
        if line == "terminal length 0":
            self.paging = False
            return "Pagination disabled."
        if line == "terminal width 511":
            return "Width set to 511 columns."
        if self.mode != "#":
            return "% Invalid input (privileged mode required)"
        return self._privileged(line)

    def _privileged(self, line: str) -> str:
        if line == "end":
            return ""
        if line == "show running-config section monitor session":
            return "\n".join(f"monitor session {n} {t}" for n, texts in sorted(self.box.running.items()) for t in texts)
        if line == "show running-config section access-list":
            return "\n".join(
                text for n, entries in self.box.lists.items() for text in (n, *(f"   {e}" for e in entries))
            )
        if line == "show configuration sessions detail":
            return "Maximum number of completed sessions: 1\nMaximum number of pending sessions: 5\n"
        if line == "show reload cause":
            return f"Reload Cause 1:\n-------------------\nReload requested by the user, number {self.box.reloads}."
        if match := re.fullmatch(r"configure session (\S+)(?: (commit))?", line):
            if match[2]:
                return ""
            self.candidate = match[1]
            self.box.pending.setdefault(match[1], deepcopy((self.box.running, self.box.lists)))
            return ""
        return "% Invalid input"

    def _in_candidate(self, line: str) -> str:
        if line == "end":
            self.candidate = self.list = ""
            return ""
        if line == "exit" and self.list:
            self.list = ""
            return ""
        if line == "abort":
            del self.box.pending[self.candidate]
            self.candidate = self.list = ""
            return ""
        if re.fullmatch(r"commit( timer [0-9:]+)?", line):
            return self._commit()
        sessions, lists = self.box.pending[self.candidate]
        if re.fullmatch(r"ipv?6? access-list \S+", line):
            lists.setdefault(line, [])
            self.list = line
            return ""
        if line.startswith("no ip"):
            lists.pop(line.removeprefix("no "), None)
            return ""
        if self.list and re.fullmatch(r"[0-9]+ permit udp host \S+ host \S+ eq [0-9]+", line):
            lists[self.list].append(line)
            return ""
        return edit(sessions, line)

    def _commit(self) -> str:
        sessions, lists = self.box.pending[self.candidate]
        if len(sessions) > self.box.most_monitor_sessions:
            return "% Maximum number of mirroring sessions reached"
        del self.box.pending[self.candidate]
        self.box.running, self.box.lists = sessions, lists
        self.candidate = ""
        return ""

    def _enable(self, password: str) -> str:
        if password != ENABLE:
            return "% Bad secrets"
        self.mode = "#"
        return ""
