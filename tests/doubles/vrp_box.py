"""Huawei CloudEngine (VRP 8) as its command reference shows it: observing ports, flow mirroring, candidate and commit.

Layouts of `display port-mirroring` and of configurations: CE6800 V300R023C00 command reference and configuration guide.
A candidate belongs to its login and is gone with it; `commit` checks it as a whole.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

from tests.doubles.ssh_box import Platform, Session

UNKNOWN = "                      ^\nError: Unrecognized command found at '^' position."
LINE = "  " + "-" * 77


@dataclass
class Config:
    """A configuration, running or candidate."""

    observers: dict[int, str] = field(default_factory=dict)
    """Index -> port, and what follows it."""
    sections: dict[str, list[str]] = field(default_factory=dict)
    ports: dict[str, list[str]] = field(default_factory=dict)


class VrpBox(Platform):
    """One switch."""

    rejection = UNKNOWN
    log_line = "Nov 30 2026 22:00:00 leaf1 %%01IFNET/2/linkDown_active(l):CID=0x807a0404;The interface status changes."
    pager = "---- More ----"
    comments = ("#",)
    most_observers = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.running = Config(ports={f"100GE1/0/{n}": [] for n in range(1, 49)})
        self.down: set[str] = set()
        self.counts = {port: [0, 0] for port in self.running.ports}
        self.days = 100

    def login(self) -> Session:
        """User view."""
        return VrpSession(self)

    def configure(self, *lines: str) -> None:
        """Somebody configures."""
        session = VrpSession(self)
        session.do("system-view")
        for line in (*lines, "commit"):
            if answer := session.do(line):
                raise ValueError(f"{line}: {answer}")

    def faulty(self, wanted: Config) -> str:
        """What a commit finds wrong; empty: nothing."""
        if len(wanted.observers) > self.most_observers:
            return "Error: The number of observing ports exceeds the upper limit."
        used = [rest.split()[0] for rest in wanted.observers.values()]
        if len(set(used)) < len(used):
            return "Error: The interface has been configured as an observing port."
        for port, lines in wanted.ports.items():
            for index in (line.split()[2] for line in lines if line.startswith("port-mirroring observe-port")):
                if int(index) not in wanted.observers or port in used:
                    return f"Error: The observing port {index} does not exist or is a mirrored port."
        return ""

    def shown(self) -> str:
        """`display current-configuration`."""
        c = self.running
        found = [
            "!Software Version V300R023C00SPC500",
            "#",
            f"sysname {self.name}",
            "#",
            "device board 1 board-type CE6866",
            "#",
        ]
        found += [f"observe-port {index} interface {rest}" for index, rest in sorted(c.observers.items())]
        for head, lines in c.sections.items():
            found += ["#", head, *(f" {line}" for line in lines)]
        for port, lines in c.ports.items():
            found += ["#", f"interface {port}", *(f" {line}" for line in lines)]
        return "\n".join([*found, "#", "return"])

    def mirroring_shown(self) -> str:
        """`display port-mirroring`."""
        found, rows = [], []
        for port, lines in self.running.ports.items():
            name = port
            for words in (line.split() for line in lines if line.startswith("port-mirroring observe-port")):
                to = self.running.observers[int(words[2])].split()[0]
                rows.append(f"  {name:<22}{words[3].capitalize():<17}{words[2]:>11} : {to}")
                name = ""
        if rows:
            title = "  MirroringPort         Direction        ObservePort : Interface"
            found += ["  Observe port mirroring:", LINE, title, LINE, *rows, LINE]
        flows = []
        for head, lines in self.running.sections.items():
            for index in (line.split()[2] for line in lines if line.startswith("mirroring observe-port")):
                to = self.running.observers[int(index)].split()[0]
                flows.append(f"  {head.split()[-1]:<39}{index:>11} : {to}")
        if flows:
            title = "  TrafficBehavior                        ObservePort : Interface"
            found += ["  Traffic mirroring:", LINE, title, LINE, *flows, LINE]
        return "\n".join(found)

    def links_shown(self) -> str:
        """`display interface brief`."""
        head = (
            "PHY: Physical\n*down: administratively down\n^down: standby\n(l): loopback\n"
            "InUti/OutUti: input utility rate/output utility rate\n"
            "Interface                  PHY      Protocol  InUti OutUti   inErrors  outErrors\n"
        )
        state = {port: "*down" if port in self.down else "up" for port in self.running.ports}
        rows = [f"{p:<27}{s:<9}{s.lstrip('*'):<9}0.01%  0.01%{0:>11}{0:>11}" for p, s in state.items()]
        return head + "\n".join(
            [*rows, "MEth0/0/0                  up       up       0.01%  0.01%          0          0"]
        )

    def port_shown(self, port: str) -> str:
        """`display interface PORT`."""
        counts = self.counts[port]
        return (
            f"{port} current state : UP (ifindex: 6)\nLine protocol current state : UP\nDescription:\n"
            "    Last 300 seconds input rate: 0 bits/sec, 0 packets/sec\n"
            f"    Input : {counts[0]:>22} packets, {counts[0] * 64:>28} bytes\n"
            f"    Output: {counts[1]:>22} packets, {counts[1] * 64:>28} bytes\n"
        )


class VrpSession(Session):
    """One login, with its candidate."""

    def __init__(self, box: VrpBox) -> None:
        self.box = box
        self.view = ""
        """Empty: user view; ``system``; or the head of a section."""
        self.candidate: Config | None = None
        self._rules: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
            (r"observe-port (?P<id>[1-8]) interface (?P<rest>100GE\S+(?: cir [0-9]+ kbps)?)", self._observe),
            (r"undo observe-port (?P<id>[1-8])", self._no_observe),
            (r"interface (?P<port>100GE[0-9/]+)", self._interface),
            (r"acl (?P<six>ipv6 )?name (?P<name>\S{1,32}) advance", self._acl),
            (r"undo acl (?P<six>ipv6 )?name (?P<name>\S+)", self._no_acl),
            (r"traffic classifier (?P<name>\S{1,31}) type (?:or|and)", lambda m: self._section(m[0])),
            (r"traffic (?:behavior|policy) \S{1,31}", lambda m: self._section(m[0])),
            (r"undo traffic (?P<kind>classifier|behavior|policy) (?P<name>\S+)", self._no_traffic),
        )

    def prompt(self) -> str:
        """``~``: nothing waits for a commit; ``*``: something does."""
        name, star = self.box.name, "~" if self.candidate is None else "*"
        if not self.view:
            return f"<{name}>"
        if self.view == "system":
            return f"[{star}{name}]"
        words = self.view.split()
        if words[0] == "acl":
            return f"[{star}{name}-acl{6 if 'ipv6' in words else 4}-advance-{words[-2]}]"
        kinds = {"classifier": "classifier", "behavior": "behavior", "policy": "trafficpolicy"}
        inner = words[1] if words[0] == "interface" else f"{kinds[words[1]]}-{words[2]}"
        return f"[{star}{name}-{inner}]"

    @property
    def config(self) -> Config:
        """What this login changes."""
        if self.candidate is None:
            self.candidate = deepcopy(self.box.running)
        return self.candidate

    def do(self, line: str) -> str:
        """By view."""
        if line.startswith("display "):
            return self._display(line)
        if not self.view:
            return self._in_user_view(line)
        if line in ("return", "quit"):
            return self._leave(line)
        if line == "commit":
            return self._commit()
        if line == "clear configuration candidate":
            self.candidate = None
            return ""
        if self.view != "system" and (answer := self._in_section(line)) is not None:
            return answer
        for pattern, action in self._rules:
            if match := re.fullmatch(pattern, line):
                return action(match)
        return UNKNOWN

    def _display(self, line: str) -> str:
        box = self.box
        if line == "display version":
            return (
                "Huawei Versatile Routing Platform Software\n"
                "VRP (R) software, Version 8.230 (CE6866 V300R023C00SPC500)\n"
                "Copyright (C) 2012-2023 Huawei Technologies Co., Ltd.\n"
                f"HUAWEI CE6866-48S8CQ-P uptime is {box.days} day{'s' * (box.days != 1)}, 0 hour, 3 minutes"
            )
        if line == "display clock":
            return "2026-11-30 22:04:05\nMonday\nTime Zone(DefaultZoneName) : UTC"
        if match := re.fullmatch(r"display interface (100GE\S+)", line):
            return box.port_shown(match[1])
        shown = {
            "display current-configuration": box.shown,
            "display port-mirroring": box.mirroring_shown,
            "display interface brief": box.links_shown,
        }
        return shown[line]() if line in shown else UNKNOWN

    def _in_user_view(self, line: str) -> str:
        if line == "system-view":
            self.view = "system"
            return ""
        if line == "screen-length 0 temporary":
            self.paging = False
            return "Info: The configuration takes effect on the current user terminal interface only."
        return "" if line == "save" else UNKNOWN

    def _leave(self, line: str) -> str:
        if line == "quit" and self.view != "system":
            self.view = "system"
            return ""
        if self.candidate is not None:
            self.question = (
                "Warning: Uncommitted configurations found, commit them before exiting? [Y(yes)/N(no)/C(cancel)]:"
            )
            self.answering = self._decide
            return ""
        self.view = ""
        return ""

    def _decide(self, answer: str) -> str:
        if answer.strip().upper() == "Y" and (error := self._commit()):
            return error
        if answer.strip().upper() != "C":
            self.candidate, self.view = None, ""
        return ""

    def _commit(self) -> str:
        if self.candidate is None:
            return ""
        if error := self.box.faulty(self.candidate):
            return error
        self.box.running, self.candidate = self.candidate, None
        return ""

    def _in_section(self, line: str) -> str | None:
        """None: it is a line of the system view."""
        if self.view.startswith("interface "):
            return self._on_port(self.config.ports[self.view.split()[1]], line)
        allowed = {
            "acl": r"description .{1,127}|rule [0-9]+ permit udp source \S+ \S+ destination \S+ \S+ \S+ eq [0-9]+",
            "traffic classifier": r"if-match (?:ipv6 )?acl \S+",
            "traffic behavior": r"mirroring observe-port [1-8]",
            "traffic policy": r"classifier \S+ behavior \S+",
        }
        pattern = next(p for start, p in allowed.items() if self.view.startswith(start))
        if not re.fullmatch(pattern, line):
            return None
        lines = self.config.sections[self.view]
        shown = f"{line} precedence 5" if line.startswith("classifier ") else line
        if shown not in lines:
            lines.append(shown)
        return ""

    def _on_port(self, lines: list[str], line: str) -> str | None:
        match = re.fullmatch(
            r"(?P<no>undo )?(?P<rest>stp disable|port-mirroring observe-port [1-8] (?:inbound|outbound)"
            r"|traffic-policy \S+ (?:inbound|outbound))",
            line,
        )
        if match is None:
            return None
        text = match["rest"]
        if match["no"]:
            if text not in lines:
                return "Error: The configuration does not exist."
            lines.remove(text)
            return ""
        way = text.split()[-1]
        if text.startswith("traffic-policy") and any(t.startswith("traffic-policy") and t.endswith(way) for t in lines):
            return "Error: A traffic policy has been applied to the interface in this direction."
        if text not in lines:
            lines.append(text)
        return ""

    def _section(self, head: str) -> str:
        self.config.sections.setdefault(head, [])
        self.view = head
        return ""

    def _interface(self, match: re.Match[str]) -> str:
        if match["port"] not in self.box.running.ports:
            return "Error: Wrong parameter found at '^' position."
        self.view = match[0]
        return ""

    def _observe(self, match: re.Match[str]) -> str:
        if int(match["id"]) in self.config.observers:
            return "Error: The observing port index has been used."
        self.config.observers[int(match["id"])] = match["rest"]
        return ""

    def _no_observe(self, match: re.Match[str]) -> str:
        for lines in (*self.config.ports.values(), *self.config.sections.values()):
            if any(f"observe-port {match['id']}" in line for line in lines):
                return "Error: The observing port is in use."
        return "" if self.config.observers.pop(int(match["id"]), None) else "Error: The observing port does not exist."

    def _acl(self, match: re.Match[str]) -> str:
        return self._section(f"acl {match['six'] or ''}name {match['name']} advance")

    def _no_acl(self, match: re.Match[str]) -> str:
        head = f"acl {match['six'] or ''}name {match['name']} advance"
        return "" if self.config.sections.pop(head, None) is not None else "Error: The ACL does not exist."

    def _no_traffic(self, match: re.Match[str]) -> str:
        name, kind = match["name"], match["kind"]
        if kind == "policy" and any(
            f"traffic-policy {name} " in line for p in self.config.ports.values() for line in p
        ):
            return "Error: The traffic policy has been applied."
        heads = [h for h in self.config.sections if h.split()[1:3] == [kind, name]]
        for head in heads:
            del self.config.sections[head]
        return "" if heads else f"Error: The traffic {kind} does not exist."
