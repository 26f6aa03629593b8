"""Arista EOS, as its manual and the configuration samples show it: monitor sessions by configuration session."""

import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from tests.doubles.ssh_box import ENABLE, Platform, Session

_REST = re.compile(
    r"source Ethernet[0-9/]+( (rx|tx|both))?$|destination (Ethernet[0-9/]+|Cpu)$|truncate$|ipv?6? access-group \S+$"
    r"|destination tunnel mode gre source \S+ destination \S+( vrf \S+)?$|sample [0-9]+$"
)
_PORTS = [*range(1, 9), 31, 32, 33, 47, 48]


@dataclass
class Configuration:
    """What runs, or what is to run."""

    sessions: dict[str, list[str]] = field(default_factory=dict)
    """Monitor session -> its lines behind the name, in the order in which they are shown."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """``ip access-list NAME`` -> its entries."""

    def edit(self, line: str) -> str:
        """Carry out a ``monitor session`` line; what is printed when it is wrong."""
        match = re.fullmatch(r"(?P<no>no )?monitor session (?P<name>\S+)(?: (?P<rest>.+))?", line)
        if match is None:
            return "% Invalid input"
        name, rest = match["name"], match["rest"]
        if match["no"]:
            self.sessions.pop(name, None)
            return ""
        if rest is None:
            return "% Incomplete command"
        if not _REST.match(rest):
            return "% Invalid input"
        self.sessions.setdefault(name, []).append(rest)
        return ""


class EosBox(Platform):
    """One switch: what runs, and the configuration sessions that wait."""

    rejection = "% Invalid input"
    most_monitor_sessions = 4
    most_pending = 5

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.running = Configuration()
        self.before_timer: Configuration | None = None
        """What runs again when the timer of ``timed`` expires."""
        self.timed = ""
        """Configuration session whose commit waits for its confirmation."""
        self.pending: dict[str, Configuration] = {}
        self.reloads = 1
        self.down: set[str] = set()
        self.packets: Counter[tuple[str, str]] = Counter()
        """(port, ``rx`` or ``tx``) -> packets."""
        self.saved = 0

    def login(self) -> Session:
        """Unprivileged."""
        return EosSession(self)

    def monitor(self, *lines: str) -> None:
        """Somebody configures."""
        for line in lines:
            if error := self.running.edit(line):
                raise ValueError(error)

    def expire(self) -> None:
        """The commit timer runs out."""
        if self.before_timer is not None:
            self.running, self.before_timer, self.timed = self.before_timer, None, ""


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
        if self.candidate and line != "end":
            return self._in_candidate(line)
        if line == "end":
            self.candidate = self.list = ""
            return ""
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
        return self._show(line) if line.startswith("show ") else self._change(line)

    def _change(self, line: str) -> str:
        box = self.box
        if line == "write memory":
            box.saved += 1
            return "Copy completed successfully."
        if match := re.fullmatch(r"no configure session (\S+)", line):
            box.pending.pop(match[1], None)
            return ""
        match = re.fullmatch(r"configure session (\S+)(?: (commit))?", line)
        if match is None:
            return "% Invalid input"
        if match[2]:
            return self._confirm(match[1])
        if match[1] not in box.pending and len(box.pending) >= box.most_pending:
            return "% Maximum number of pending sessions has been reached. Please commit or abort previous sessions"
        self.candidate = match[1]
        box.pending.setdefault(match[1], deepcopy(box.running))
        return ""

    def _confirm(self, name: str) -> str:
        if name != self.box.timed:
            return f"% Session {name} not found"
        self.box.timed, self.box.before_timer = "", None
        return ""

    def _show(self, line: str) -> str:
        box = self.box
        if line == "show running-config section monitor session":
            shown = sorted(box.running.sessions.items())
            return "\n".join(f"monitor session {name} {text}" for name, texts in shown for text in texts)
        if line == "show running-config section access-list":
            lists = [(name, *(f"   {entry}" for entry in entries)) for name, entries in box.running.lists.items()]
            return "\n!\n".join("\n".join(one) for one in lists)
        if line == "show configuration sessions detail":
            return self._sessions()
        if line == "show reload cause":
            return (
                "Reload Cause 1:\n-------------------\nReload requested by the user.\n\nReload Time:\n------------\n"
                f"Reload occurred at Mon Nov 30 09:00:{box.reloads:02} 2026 UTC.\n"
            )
        if line == "show monitor session":
            return self._monitored()
        if line == "show interfaces status":
            return self._status()
        return self._counters() if line == "show interfaces counters" else "% Invalid input"

    def _sessions(self) -> str:
        box = self.box
        head = "Maximum number of completed sessions: 1\nMaximum number of pending sessions: 5\n"
        head += "Merge on commit is disabled\nAutosave to startup-config on commit is disabled\n\n"
        if box.timed:
            head += (
                f"Session with pending commit timer: {box.timed}\nTime left until commit timer expiry: in 0:01:59\n\n"
            )
        rows = ["  Name             State     User  Terminal Completed Time      Committed By"]
        rows.append("- ---------------- --------- ----- -------- ------------------- ------------")
        rows += [f"  {box.timed:16} committed                2026-11-30 22:00:00 fcn"] if box.timed else []
        return head + "\n".join(rows + [f"  {name:16} pending   admin vty8" for name in box.pending])

    def _monitored(self) -> str:
        if not self.box.running.sessions:
            return "No sessions created"
        text = []
        for name, lines in sorted(self.box.running.sessions.items()):
            text += [f"Session {name}", "-" * 24, "", "Sources:", ""]
            both = [re.sub("^source Ethernet", "Et", s).split()[0] for s in lines if s.startswith("source")]
            text += [f" Both Interfaces: {', '.join(both)}", "", "Destination Ports:", ""]
            ports = [s.removeprefix("destination ") for s in lines if s.startswith("destination Ethernet")]
            for port in ports:
                text.append(
                    f"    {port.replace('Ethernet', 'Et')} :  {'inactive' if port in self.box.down else 'active'}"
                )
            text.append("")
        return "\n".join(text)

    def _status(self) -> str:
        rows = ["Port       Name   Status       Vlan     Duplex Speed  Type            Flags Encapsulation"]
        for number in _PORTS:
            state = "notconnect" if f"Ethernet{number}" in self.box.down else "connected"
            rows.append(f"Et{number:<9}       {state:12} 1        full   400G   400GBASE-SR8")
        return "\n".join(rows)

    def _counters(self) -> str:
        rows = []
        for way, word in (("rx", "In"), ("tx", "Out")):
            names = ("Octets", "UcastPkts", "McastPkts", "BcastPkts")
            rows.append("Port  " + "".join(f"{word + name:>18}" for name in names))
            for number in _PORTS:
                count = self.box.packets[f"Ethernet{number}", way]
                rows.append(f"Et{number:<4}" + "".join(f"{value:>18}" for value in (count * 100, count, 0, 0)))
        return "\n".join(rows)

    def _in_candidate(self, line: str) -> str:
        if line == "exit" and self.list:
            self.list = ""
            return ""
        if line == "abort" and self.list:
            # Within a submode it only leaves the submode: the session stays pending.
            self.list = ""
            return ""
        if line == "abort":
            del self.box.pending[self.candidate]
            self.candidate = ""
            return ""
        if match := re.fullmatch(r"commit(?: timer ([0-9:]+))?", line):
            return self._commit(timed=match[1] is not None)
        candidate = self.box.pending[self.candidate]
        if re.fullmatch(r"ipv?6? access-list \S+", line):
            candidate.lists.setdefault(line, [])
            self.list = line
            return ""
        if line.startswith("no ip"):
            return "" if candidate.lists.pop(line.removeprefix("no "), None) is not None else "% Invalid input"
        if self.list and re.fullmatch(r"[0-9]+ permit udp host \S+ host \S+ eq [0-9]+", line):
            candidate.lists[self.list].append(line)
            return ""
        return candidate.edit(line)

    def _commit(self, *, timed: bool) -> str:
        box = self.box
        candidate = box.pending[self.candidate]
        if len(candidate.sessions) > box.most_monitor_sessions:
            return "% Maximum number of mirroring sessions reached"
        if box.timed:
            return "% Another session is pending commit timer"
        del box.pending[self.candidate]
        if timed:
            box.timed, box.before_timer = self.candidate, box.running
        box.running = candidate
        self.candidate = ""
        return ""

    def _enable(self, password: str) -> str:
        if password != ENABLE:
            return "% Bad secrets"
        self.mode = "#"
        return ""
