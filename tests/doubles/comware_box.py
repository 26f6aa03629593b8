"""H3C Comware 7 as its command references and published outputs show it: mirroring groups, flow mirroring, ACLs, ports.

Layouts: `display mirroring-group all` of the H3C S12500X-AF command reference (R28xx) and of the S6550X configuration
guide; errors with a caret below the line. A port watches for one group; a monitor port serves one group alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.doubles.ssh_box import Platform, Session

UNKNOWN = " ^\n % Unrecognized command found at '^' position."
WRONG = " ^\n % Wrong parameter found at '^' position."
_PORT = r"(?P<port>(?:Ten-GigabitEthernet|HundredGigE)[0-9/]+)"
_WORDS = {"inbound": "Inbound", "outbound": "Outbound", "both": "Both"}


@dataclass
class Group:
    """One mirroring group."""

    sources: dict[str, str] = field(default_factory=dict)
    """Port -> ``inbound``, ``outbound`` or ``both``."""
    monitor: str = ""
    tunnel: str = ""
    """``destination-ip A source-ip B``"""
    head: str = "local"


class ComwareBox(Platform):
    """One switch."""

    rejection = UNKNOWN
    log_line = (
        "%Nov 30 22:00:00:123 2026 leaf1 IFNET/3/PHY_UPDOWN: Physical state on the interface XGE1/0/9 changed to up."
    )
    pager = "---- More ----"
    comments = ("#",)
    most_groups = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.groups: dict[int, Group] = {}
        self.sections: dict[str, list[str]] = {}
        """Head -> lines, of ACLs, classes, behaviours and policies."""
        self.ports = {f"Ten-GigabitEthernet1/0/{n}": ["port link-mode bridge"] for n in range(1, 49)}
        self.down: set[str] = set()
        self.counts = {port: [0, 0] for port in self.ports}
        self.started = "Wed Jun  1 14:45:46 2026"

    def login(self) -> Session:
        """User view."""
        return ComwareSession(self)

    def configure(self, *lines: str) -> None:
        """Somebody configures."""
        session = ComwareSession(self)
        session.view = "system"
        for line in lines:
            if answer := session.do(line):
                raise ValueError(f"{line}: {answer}")

    def working(self, group: Group) -> bool:
        """Has it all that it needs?"""
        return bool(group.sources and group.monitor)

    def groups_shown(self) -> str:
        """`display mirroring-group all`."""
        found = []
        for number, group in sorted(self.groups.items()):
            found += [f"Mirroring group {number}:", "    Type: Local"]
            found.append(f"    Status: {'Active' if self.working(group) else 'Inactive'}")
            found.append("    Mirroring port:" + ("" if group.sources else " None"))
            found += [f"        {port}  {_WORDS[way]}" for port, way in group.sources.items()]
            found.append(f"    Monitor port: {group.monitor or 'None'}")
            if group.tunnel:
                words = group.tunnel.split()
                found.append(f"                  Encapsulation: Destination IP address {words[1]}")
                found.append(f"                                 Source IP address {words[3]}")
        return "\n".join(found)

    def configuration(self) -> str:
        """`display current-configuration`."""
        found = ["#", " version 7.1.070, Release 6616", "#", f" sysname {self.name}", "#", " stp global enable"]
        for number, group in sorted(self.groups.items()):
            found += ["#", f" mirroring-group {number} {group.head}"]
        for port, lines in self.ports.items():
            found += ["#", f"interface {port}", *(f" {line}" for line in lines)]
            for number, group in sorted(self.groups.items()):
                if port in group.sources:
                    found.append(f" mirroring-group {number} mirroring-port {group.sources[port]}")
                if port == group.monitor:
                    found.append(f" mirroring-group {number} monitor-port {group.tunnel}".rstrip())
        for head, lines in self.sections.items():
            found += ["#", head, *(f" {line}" for line in lines)]
        return "\n".join([*found, "#", "return"])

    def links_shown(self) -> str:
        """`display interface brief`: names are abbreviated."""
        head = (
            "Brief information on interfaces in route mode:\nLink: ADM - administratively down; Stby - standby\n"
            "Protocol: (s) - spoofing\nInterface            Link Protocol Primary IP         Description\n"
            "MGE0/0/0             UP   UP       192.0.2.1\n\n"
            "Brief information on interfaces in bridge mode:\nLink: ADM - administratively down; Stby - standby\n"
            "Speed: (a) - auto\nDuplex: (a)/A - auto; H - half; F - full\n"
            "Type: A - access; T - trunk; H - hybrid\n"
            "Interface            Link Speed   Duplex Type PVID Description\n"
        )
        rows = [f"{_short(p):<21}{'DOWN' if p in self.down else 'UP':<5}10G(a)  F(a)   A    1" for p in self.ports]
        return head + "\n".join(rows)

    def counts_shown(self, way: int) -> str:
        """`display counters inbound interface`."""
        rows = [f"{_short(p):<14}{c[way]:>18}{0:>20}{0:>20}{0:>12}" for p, c in self.counts.items()]
        title = "Interface            Total (pkts)    Broadcast (pkts)    Multicast (pkts)  Err (pkts)"
        return "\n".join([title, *rows, "", ' Overflow: More than 14 digits (7 digits for column "Err").'])


def _short(port: str) -> str:
    return port.replace("Ten-GigabitEthernet", "XGE").replace("HundredGigE", "HGE")


class ComwareSession(Session):
    """One login."""

    def __init__(self, box: ComwareBox) -> None:
        self.box = box
        self.view = ""
        """Empty: user view; ``system``; or the head of a section."""
        self._rules: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
            (r"mirroring-group (?P<id>[0-9]+) local(?P<rest> sampler \S+)?", self._group),
            (rf"mirroring-group (?P<id>[0-9]+) mirroring-port {_PORT} (?P<way>inbound|outbound|both)", self._source),
            (
                rf"mirroring-group (?P<id>[0-9]+) monitor-port {_PORT}(?P<tunnel> destination-ip \S+ source-ip \S+)?",
                self._monitor,
            ),
            (r"undo mirroring-group (?P<id>[0-9]+)", self._no_group),
            (rf"interface {_PORT}", lambda m: self._enter(f"interface {m['port']}")),
            (r"acl (?P<six>ipv6 )?advanced name (?P<name>\S+)", self._acl),
            (r"undo acl (?P<six>ipv6 )?name (?P<name>\S+)", self._no_acl),
            (r"traffic classifier (?P<name>\S{1,31})(?: operator (?P<word>and|or))?", self._classifier),
            (r"traffic behavior (?P<name>\S{1,31})", lambda m: self._section(f"traffic behavior {m['name']}")),
            (r"qos policy (?P<name>\S{1,31})", lambda m: self._section(f"qos policy {m['name']}")),
            (r"undo (?P<kind>traffic classifier|traffic behavior|qos policy) (?P<name>\S+)", self._no_section),
        )

    def prompt(self) -> str:
        """As the view has it."""
        box = self.box.name
        if not self.view:
            return f"<{box}>"
        if self.view == "system":
            return f"[{box}]"
        words = self.view.split()
        name = words[-1] if words[0] != "traffic" else words[2]
        kind = {
            "acl advanced": f"acl-ipv4-adv-{name}",
            "acl ipv6": f"acl-ipv6-adv-{name}",
            "traffic classifier": f"classifier-{name}",
            "traffic behavior": f"behavior-{name}",
            "qos policy": f"qospolicy-{name}",
        }.get(" ".join(words[:2]), name)
        return f"[{box}-{kind}]"

    def do(self, line: str) -> str:
        """By view."""
        if line.startswith("display "):
            return self._display(line)
        if not self.view:
            return self._in_user_view(line)
        if line == "return":
            self.view = ""
            return ""
        if line == "quit":
            self.view = "" if self.view == "system" else "system"
            return ""
        if self.view == "system" or re.match(r"(interface|acl|traffic|qos policy|mirroring-group [0-9]+ local) ", line):
            return self._in_system_view(line)
        return self._in_section(line)

    def _display(self, line: str) -> str:
        box = self.box
        shown: dict[str, Callable[[], str]] = {
            "display mirroring-group all": box.groups_shown,
            "display current-configuration": box.configuration,
            "display interface brief": box.links_shown,
            "display counters inbound interface": lambda: box.counts_shown(0),
            "display counters outbound interface": lambda: box.counts_shown(1),
            "display process name scmd": lambda: (
                f"              Job ID: 1\n                 PID: 1\n        Last started: {box.started}\n"
                "       Process state: sleeping"
            ),
        }
        return shown[line]() if line in shown else UNKNOWN

    def _in_user_view(self, line: str) -> str:
        if line == "system-view":
            self.view = "system"
            return "System View: return to User View with Ctrl+Z."
        if line == "screen-length disable":
            self.paging = False
            return ""
        return "Saved." if line == "save force" else UNKNOWN

    def _in_system_view(self, line: str) -> str:
        for pattern, action in self._rules:
            if match := re.fullmatch(pattern, line):
                return action(match)
        return UNKNOWN

    def _in_section(self, line: str) -> str:
        head = self.view
        if head.startswith("interface "):
            return self._on_port(head.split()[1], line)
        allowed = {
            "acl": r"description .{1,127}|rule [0-9]+ permit udp source \S+ \S+ destination \S+ \S+ \S+ eq \S+",
            "traffic classifier": r"if-match acl (?:ipv6 )?name \S+",
            "traffic behavior": r"mirror-to interface \S+(?: destination-ip \S+ source-ip \S+)?",
            "qos": r"classifier \S+ behavior \S+",
        }
        pattern = next(p for start, p in allowed.items() if head.startswith(start))
        if not re.fullmatch(pattern, line):
            return UNKNOWN
        if line not in self.box.sections[head]:
            self.box.sections[head].append(line)
        return ""

    def _on_port(self, port: str, line: str) -> str:
        lines = self.box.ports[port]
        if line == "undo stp enable":
            if line not in lines:
                lines.append(line)
            return ""
        if line == "stp enable":
            if "undo stp enable" in lines:
                lines.remove("undo stp enable")
            return ""
        if match := re.fullmatch(r"(?P<no>undo )?qos apply policy (?P<name>\S+) (?P<way>inbound|outbound)", line):
            return self._apply(lines, match)
        return UNKNOWN

    def _apply(self, lines: list[str], match: re.Match[str]) -> str:
        text = f"qos apply policy {match['name']} {match['way']}"
        if match["no"]:
            if text in lines:
                lines.remove(text)
            return ""
        if f"qos policy {match['name']}" not in self.box.sections:
            return " The QoS policy does not exist."
        if any(line.startswith("qos apply policy") and line.endswith(match["way"]) for line in lines):
            return " The interface already has a QoS policy applied in this direction."
        lines.append(text)
        return ""

    def _enter(self, head: str) -> str:
        self.view = head
        return ""

    def _section(self, head: str) -> str:
        self.box.sections.setdefault(head, [])
        return self._enter(head)

    def _acl(self, match: re.Match[str]) -> str:
        return self._section(f"acl {'ipv6 ' if match['six'] else ''}advanced name {match['name']}")

    def _no_acl(self, match: re.Match[str]) -> str:
        self.box.sections.pop(f"acl {'ipv6 ' if match['six'] else ''}advanced name {match['name']}", None)
        return ""

    def _classifier(self, match: re.Match[str]) -> str:
        return self._section(f"traffic classifier {match['name']} operator {match['word'] or 'and'}")

    def _no_section(self, match: re.Match[str]) -> str:
        head = f"{match['kind']} {match['name']}"
        found = [h for h in self.box.sections if h == head or h.startswith(f"{head} ")]
        text = f"{match['name']}"
        if match["kind"] == "qos policy" and any(f" {text} " in line for p in self.box.ports.values() for line in p):
            return " The QoS policy cannot be deleted because it has been applied."
        for name in found:
            del self.box.sections[name]
        return "" if found else f" The {match['kind']} does not exist."

    def _group(self, match: re.Match[str]) -> str:
        number = int(match["id"])
        if not 1 <= number <= 15:
            return WRONG
        if number not in self.box.groups and len(self.box.groups) >= self.box.most_groups:
            return " Failed to create the mirroring group: the number of groups has reached the upper limit."
        group = self.box.groups.setdefault(number, Group())
        group.head = f"local{match['rest'] or ''}"
        return ""

    def _no_group(self, match: re.Match[str]) -> str:
        return "" if self.box.groups.pop(int(match["id"]), None) else " The mirroring group does not exist."

    def _source(self, match: re.Match[str]) -> str:
        group, port = self.box.groups.get(int(match["id"])), match["port"]
        if group is None:
            return " The mirroring group does not exist."
        for number, other in self.box.groups.items():
            if (port in other.sources and number != int(match["id"])) or port == other.monitor:
                return f" The port is already used by mirroring group {number}."
        group.sources[port] = match["way"]
        return ""

    def _monitor(self, match: re.Match[str]) -> str:
        group, port = self.box.groups.get(int(match["id"])), match["port"]
        if group is None:
            return " The mirroring group does not exist."
        for number, other in self.box.groups.items():
            if port in other.sources or (port == other.monitor and not other.tunnel and number != int(match["id"])):
                return f" The port is already used by mirroring group {number}."
        if not match["tunnel"] and "undo stp enable" not in self.box.ports[port]:
            return " The operation failed: the spanning tree is enabled on the port."
        group.monitor, group.tunnel = port, (match["tunnel"] or "").strip()
        return ""
