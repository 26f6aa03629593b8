"""Cisco NX-OS, as its guides and the samples show it: numbered monitor sessions, each line in effect, shut at first."""

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.doubles.ssh_box import Platform, Session

_PORTS = [*range(1, 9), 31, 32, 33, 47, 48]
_SOURCE = re.compile(r"source interface (Ethernet1/[0-9]+)(?: (rx|tx|both))?")


@dataclass
class Monitor:
    """One monitor session."""

    kind: str = "local"
    description: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    """Port -> ``rx``, ``tx`` or ``both``."""
    destination: str = ""
    address: str = ""
    erspan_id: int = 0
    group: str = ""
    mtu: int = 0
    shut: bool = True

    def lines(self) -> list[str]:
        """As the running configuration shows it."""
        remote = [f"erspan-id {self.erspan_id}"] * bool(self.erspan_id) + ["vrf default"] * bool(self.address)
        return [
            *([f"description {self.description}"] if self.description else []),
            *remote,
            *([f"destination ip {self.address}"] if self.address else []),
            *([f"mtu {self.mtu}"] if self.mtu else []),
            *([f"filter access-group {self.group}"] if self.group else []),
            *(f"source interface {port} {way}" for port, way in self.sources.items()),
            *([f"destination interface {self.destination}"] if self.destination else []),
            *([] if self.shut else ["no shut"]),
        ]


class NxosBox(Platform):
    """One Nexus 9000."""

    rejection = "                      ^\n% Invalid command at '^' marker."
    log_line = "2026 Nov 30 22:00:00 leaf1 %ETHPORT-5-IF_UP: Interface Ethernet1/9 is up in mode trunk"
    pager = "--More--"

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.monitors: dict[int, Monitor] = {}
        self.lists: dict[str, list[str]] = {}
        self.ports: dict[str, list[str]] = {f"Ethernet1/{n}": ["switchport"] for n in _PORTS}
        self.origin = ""
        self.boots = 1
        self.down: set[str] = set()
        self.packets: Counter[tuple[str, str]] = Counter()

    def login(self) -> Session:
        """Privileged at once, as an administrator's is."""
        return NxosSession(self)

    def state(self, monitor: Monitor) -> str:
        """Of a session, with the reason as NX-OS gives it."""
        if monitor.shut:
            return "down (Session admin shut)"
        if not monitor.sources:
            return "down (No sources configured)"
        if monitor.destination in self.down or not (monitor.destination or monitor.address):
            return "down (No operational src/dst)"
        return "up"


class NxosSession(Session):
    """One login."""

    def __init__(self, box: NxosBox) -> None:
        self.box = box
        self.mode = ""
        self.number = 0
        self.object = ""

    def prompt(self) -> str:
        """By mode."""
        return f"{self.box.name}({self.mode})#" if self.mode else f"{self.box.name}#"

    def do(self, line: str) -> str:
        """Several commands may stand on one line."""
        output = ""
        for part in line.split(" ; "):
            output = self._do(part.strip())
            if output.lstrip().startswith(("%", "^", "ERROR")):
                return output
        return output

    def _do(self, line: str) -> str:
        if line == "end":
            self.mode = ""
            return ""
        if line.startswith("show ") and not self.mode:
            return self._show(line)
        if line == "terminal length 0":
            self.paging = False
            return ""
        if line in ("terminal width 511", "copy running-config startup-config"):
            return ""
        if not self.mode:
            if line == "configure terminal":
                self.mode = "config"
                return "Enter configuration commands, one per line. End with CNTL/Z."
            return self.box.rejection
        if line == "exit":
            self.mode = "" if self.mode == "config" else "config"
            return ""
        return self._configure(line)

    def _configure(self, line: str) -> str:
        # Another object is entered from any submode.
        if match := re.fullmatch(r"monitor session ([0-9]+)(?: type (erspan-source))?", line):
            self.number = int(match[1])
            self.box.monitors.setdefault(self.number, Monitor(match[2] or "local"))
            self.mode = "config-erspan-src" if match[2] else "config-monitor"
            return ""
        if match := re.fullmatch(r"no monitor session ([0-9]+)", line):
            self.box.monitors.pop(int(match[1]), None)
            return ""
        if match := re.fullmatch(r"(ip|ipv6) access-list (\S+)", line):
            self.object, self.mode = line, "config-acl"
            self.box.lists.setdefault(line, [])
            return ""
        if match := re.fullmatch(r"no ((?:ip|ipv6) access-list (\S+))", line):
            return self._remove_list(match[1], match[2])
        if match := re.fullmatch(r"interface (Ethernet1/[0-9]+)", line):
            self.object, self.mode = match[1], "config-if"
            return ""
        return self._in_object(line)

    def _in_object(self, line: str) -> str:
        if self.mode == "config-acl" and re.fullmatch(r"[0-9]+ permit udp host \S+ host \S+ eq 4791", line):
            number, entry = line.split(" ", 1)
            # As NX-OS shows it back.
            shown = re.sub(r"host (10[0-9.]+)", r"\1/32", entry)
            self.box.lists[self.object].append(f"{number} {shown}")
            return ""
        if self.mode == "config-if":
            return self._port(line)
        if self.mode in ("config-monitor", "config-erspan-src"):
            return self._monitor(self.box.monitors[self.number], line)
        return self.box.rejection

    def _remove_list(self, key: str, name: str) -> str:
        if key not in self.box.lists:
            return f"ERROR: access-list {name} does not exist"
        del self.box.lists[key]
        return ""

    def _port(self, line: str) -> str:
        lines = self.box.ports[self.object]
        if line in ("switchport", "no switchport"):
            lines[:] = [text for text in lines if text not in ("switchport", "no switchport")]
            lines.insert(0, line)
        elif line == "switchport monitor":
            if "switchport" not in lines:
                return "ERROR: Ethernet1/31: requested config change not allowed"
            lines.append(line)
        elif line == "no switchport monitor":
            if self.object in {m.destination for m in self.box.monitors.values()}:
                return "ERROR: port is configured as the destination of a monitor session"
            lines[:] = [text for text in lines if text != "switchport monitor"]
        elif line in ("shutdown", "no shutdown"):
            lines[:] = [text for text in lines if text != "shutdown"] + ["shutdown"] * (line == "shutdown")
        else:
            return self.box.rejection
        return ""

    def _monitor(self, monitor: Monitor, line: str) -> str:
        words = line.split()
        setting = {"erspan-id": "erspan_id", "destination ip": "address", "filter access-group": "group"}
        if line in ("shut", "no shut"):
            monitor.shut = line == "shut"
        elif match := _SOURCE.fullmatch(line):
            monitor.sources[match[1]] = match[2] or "both"
        elif line.startswith("description ") and len(line) <= 32 + len("description "):
            monitor.description = line.removeprefix("description ")
        elif match := re.fullmatch(r"destination interface (\S+)", line):
            if "switchport monitor" not in self.box.ports[match[1]]:
                return f"ERROR: {match[1]}: Dst in wrong mode"
            monitor.destination = match[1]
        elif match := re.fullmatch(r"no (destination interface|filter access-group) \S+", line):
            setattr(monitor, "destination" if match[1].startswith("d") else "group", "")
        elif name := setting.get(" ".join(words[:-1])):
            if name == "group" and not any(key.endswith(f" {words[-1]}") for key in self.box.lists):
                return "ERROR: access-list does not exist"
            setattr(monitor, name, int(words[-1]) if name == "erspan_id" else words[-1])
        elif line != "vrf default":
            return self.box.rejection
        return ""

    def _show(self, line: str) -> str:
        box = self.box
        head = f"\n!Command: {line}\n!Running configuration last done at: Mon Nov 30 21:58:11 2026\n"
        head += "!Time: Mon Nov 30 22:00:00 2026\n\nversion 9.3(5) Bios:version 07.67 \n"
        if line == "show running-config monitor":
            shown = [(number, monitor) for number, monitor in sorted(box.monitors.items())]
            types = {n: " type erspan-source" if m.kind != "local" else " " for n, m in shown}
            text = "\n\n".join("\n  ".join([f"monitor session {n}{types[n]}", *m.lines()]) for n, m in shown)
            return (
                f"{head}monitor erspan origin ip-address {box.origin} global\n{text}\n" if box.origin else head + text
            )
        if line == "show running-config aclmgr":
            return head + "\n".join("\n  ".join([name, *entries]) for name, entries in box.lists.items())
        if match := re.fullmatch(r"show running-config interface (\S+)", line):
            return head + "\n" + "\n  ".join([f"interface {match[1]}", *box.ports[match[1]]]) + "\n"
        if line == "show monitor session all":
            return "\n".join(self._table(n, m) for n, m in sorted(box.monitors.items())) or "No sessions configured"
        if line == "show interface status":
            return self._status()
        if line == "show system uptime":
            return (
                f"System start time:          Mon Nov 30 09:00:{box.boots:02} 2026\n"
                "System uptime:              0 days, 13 hours, 0 minutes, 0 seconds\n"
                "Kernel uptime:              0 days, 13 hours, 1 minutes, 40 seconds\n"
                "Active supervisor uptime:   0 days, 12 hours, 58 minutes, 16 seconds"
            )
        return self._counters() if line == "show interface counters" else box.rejection

    def _table(self, number: int, monitor: Monitor) -> str:
        ways: dict[str, list[str]] = {"rx": [], "tx": [], "both": []}
        for port, way in monitor.sources.items():
            for column in ("rx", "tx", "both") if way == "both" else (way,):
                ways[column].append(port.replace("Ethernet", "Eth"))
        rows = [f"   session {number}", "---------------", f"type              : {monitor.kind}"]
        rows += [f"state             : {self.box.state(monitor)}"]
        rows += [f"acl-name          : {monitor.group or 'acl-name not specified'}", "source intf       : "]
        rows += [f"    {way:<14}: {' '.join(found)}" for way, found in ways.items()]
        rows += ["source VLANs      : ", "    rx            : ", "filter VLANs      : filter not specified"]
        rows += [f"destination ports : {monitor.destination.replace('Ethernet', 'Eth')}", ""]
        rows += ["Feature       Enabled   Value   Modules Supported       Modules Not-Supported", "-" * 77]
        rows += [f"MTU-Trunc     Yes       {monitor.mtu}" if monitor.mtu else "MTU-Trunc     No"]
        rows += ["rate-limit-rx No", "rate-limit-tx No", "Sampling      No", "", "Legend:", "L3-TX  = L3 Multicast"]
        return "\n".join(rows)

    def _status(self) -> str:
        rule = "-" * 80
        rows = [rule, "Port          Name               Status    Vlan      Duplex  Speed   Type", rule]
        for number in _PORTS:
            state = "notconnec" if f"Ethernet1/{number}" in self.box.down else "connected"
            rows.append(f"{f'Eth1/{number}':<14}{'--':<19}{state:<10}trunk     full    400G    QSFP-DD-400G-DR4")
        return "\n".join(rows)

    def _counters(self) -> str:
        rows, rule = [], "-" * 82
        for way, word in (("rx", "In"), ("tx", "Out")):
            for names in (("Octets", "UcastPkts"), ("McastPkts", "BcastPkts")):
                rows += ["", rule, "Port" + "".join(f"{word + name:>30}" for name in names), rule]
                for number in _PORTS:
                    count = self.box.packets[f"Ethernet1/{number}", way]
                    values = (count * 100, count) if names[0] == "Octets" else (0, 0)
                    rows.append(f"Eth1/{number:<4}" + "".join(f"{value:>30}" for value in values))
        return "\n".join(rows)
