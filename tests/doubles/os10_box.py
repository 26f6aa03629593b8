"""Dell SmartFabric OS10 10.5 as its guide and published outputs show it: monitor sessions, capture rules, ports.

Layout of `show monitor session all` and of the running configuration: outputs of an S4112F-ON with 10.5.0.2 that users
published; `show ip access-lists in`: OS10 user guide. A session is born shut.
"""

import re
from dataclasses import dataclass, field

from tests.doubles.ssh_box import Platform, Session

ILLEGAL = "% Error: Illegal parameter."
UNKNOWN = "% Error: Unrecognized command."


@dataclass
class Monitor:
    """One monitor session."""

    kind: str = "local"
    description: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    """Port -> ``rx``, ``tx`` or ``both``."""
    destination: str = ""
    tunnel: str = ""
    flow_based: bool = False
    up: bool = False


class Os10Box(Platform):
    """One switch."""

    rejection = UNKNOWN
    log_line = (
        "<165>1 2026-11-30T22:00:00.616888+00:00 leaf1 dn_alm 669 - - Node.1-Unit.1:PRI [event], Dell EMC (OS10) "
        "%IFM_OSTATE_UP: Interface operational state is up :ethernet1/1/9"
    )
    pager = "--More--"
    comments = ("!",)
    most_sessions = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.monitors: dict[int, Monitor] = {}
        self.lists: dict[str, list[str]] = {}
        """``ip access-list NAME`` -> lines."""
        self.captured: dict[str, int] = {}
        """Rule -> packets."""
        self.ports = {f"ethernet1/1/{n}": ["no shutdown", "switchport access vlan 1"] for n in range(1, 49)}
        self.down: set[str] = set()
        self.counts = {port: [0, 0] for port in self.ports}
        self.boot = "0d3a1f62-8b1e-4f9a-9c53-5b7c1d2e3f40"

    def login(self) -> Session:
        """EXEC mode."""
        return Os10Session(self)

    def configure(self, *lines: str) -> None:
        """Somebody configures."""
        session = Os10Session(self)
        for line in ("configure terminal", *lines):
            if answer := session.do(line):
                raise ValueError(f"{line}: {answer}")

    def reason(self, monitor: Monitor) -> str:
        """Why it does not work; ``Is UP`` where it does."""
        if not monitor.up:
            return "Disabled in configuration"
        if not (monitor.destination or monitor.tunnel):
            return "Destination is not configured"
        return "Is UP" if monitor.sources else "No source is configured"

    def offer(self, port: str, way: int, packets: int, pair: tuple[str, str] | None) -> None:
        """Packets pass a port; RoCEv2 ones between a pair of hosts where one is given."""
        self.counts[port][way] += packets
        for line in self.ports[port]:
            if way or pair is None or not re.fullmatch(r"ip(?:v6)? access-group \S+ in", line):
                continue
            name = line.split()[2]
            for rule in self.lists.get(f"{line.split()[0]} access-list {name}", []):
                if f"host {pair[0]} host {pair[1]} eq 4791" in rule:
                    self.captured[f"{name} {rule}"] = self.captured.get(f"{name} {rule}", 0) + packets

    def sessions_shown(self) -> str:
        """`show monitor session all`."""
        title = (
            "S.Id  Source              Destination         Dir   Mode  Source IP        Dest IP          DSCP  TTL"
            "  Gre-Protocol   State     Reason"
        )
        rows = [title, "-" * 135]
        for number, monitor in sorted(self.monitors.items()):
            near, far = monitor.tunnel.split()[1::2] if monitor.tunnel else ("N/A", "N/A")
            reason = self.reason(monitor)
            state = "true" if reason == "Is UP" else "false"
            first = True
            for port, way in monitor.sources.items() or [("", "both")]:
                mode = "flow" if monitor.flow_based else "port"
                start = f"{number if first else '':<6}{port:<20}{monitor.destination:<20}{way:<6}{mode:<6}"
                tail = f"{near:<17}{far:<17}N/A   N/A  N/A            {state:<10}{reason}" if first else ""
                rows.append((start + tail).rstrip())
                first = False
        return "\n".join(rows)

    def configuration(self) -> str:
        """`show running-configuration`."""
        found = [
            "! Version 10.5.0.2",
            "! Last configuration change at Nov  30 21:53:37 2026",
            "!",
            "ip vrf default",
            "!",
        ]
        for port, lines in self.ports.items():
            found += [f"interface {port}", *(f" {line}" for line in lines), "!"]
        for head, lines in self.lists.items():
            found += [head, *(f" {line}" for line in lines), "!"]
        for number, monitor in sorted(self.monitors.items()):
            found.append(f"monitor session {number}{'' if monitor.kind == 'local' else f' type {monitor.kind}'}")
            found += [f" description {monitor.description}"] * bool(monitor.description)
            found += [f" destination interface {monitor.destination}"] * bool(monitor.destination)
            found += [f" {monitor.tunnel}"] * bool(monitor.tunnel)
            found += [" flow-based enable"] * monitor.flow_based
            found += [
                f" source interface {p}{'' if way == 'both' else f' {way}'}" for p, way in monitor.sources.items()
            ]
            found += [" no shut"] * monitor.up + ["!"]
        return "\n".join([*found, 'snmp-server contact "Contact Support"', "!", "telemetry"])

    def links_shown(self) -> str:
        """`show interface status`."""
        rule = "-" * 98
        title = "Port            Description     Status   Speed    Duplex   Mode Vlan Tagged-Vlans"
        rows = [
            f"Eth {p.removeprefix('ethernet'):<28}{'down' if p in self.down else 'up':<9}100G     full     A    1    -"
            for p in self.ports
        ]
        return "\n".join([rule, title, rule, *rows])

    def lists_shown(self, kind: str) -> str:
        """`show ip access-lists in`."""
        found = []
        for head, lines in self.lists.items():
            if not head.startswith(f"{kind} "):
                continue
            name = head.split()[-1]
            found += [f"Ingress {kind.upper()} access-list {name}", " Active on interfaces :"]
            found += [f"  {p}" for p, has in self.ports.items() if f"{kind} access-group {name} in" in has]
            for line in lines:
                shown = f" ({self.captured.get(f'{name} {line}', 0)} packets)" if line.endswith("count") else ""
                found.append(f" {line}{shown}")
        return "\n".join(found)

    def port_shown(self, port: str) -> str:
        """`show interface ethernet1/1/1`."""
        rx, tx = self.counts[port]
        return (
            f"{port.replace('ethernet', 'Ethernet ')} is up, line protocol is up\n"
            "Hardware is Eth, address is 20:04:0f:00:00:01\n"
            "    Current address is 20:04:0f:00:00:01\nMTU 1532 bytes, IP MTU 1500 bytes\n"
            f"Input statistics:\n     {rx} packets, {rx * 64} octets\n     0 64-byte pkts, 0 over 64-byte pkts\n"
            f"Output statistics:\n     {tx} packets, {tx * 64} octets\n     0 64-byte pkts, 0 over 64-byte pkts\n"
        )


class Os10Session(Session):
    """One login."""

    def __init__(self, box: Os10Box) -> None:
        self.box = box
        self.mode = ""
        """Empty: EXEC; ``config``; or the head of a section."""

    def prompt(self) -> str:
        """As the mode has it."""
        if not self.mode:
            return f"{self.box.name}# "
        if self.mode == "config":
            return f"{self.box.name}(config)# "
        words = self.mode.split()
        if words[0] == "monitor":
            kind = self.box.monitors[int(words[2])].kind
            return f"{self.box.name}(conf-mon-{kind}-{words[2]})# "
        inner = {"ip": "ipv4-acl", "ipv6": "ipv6-acl"}.get(words[0]) or words[1].replace("ethernet", "if-eth")
        return f"{self.box.name}(conf-{inner})# "

    def do(self, line: str) -> str:
        """By mode."""
        if line == "end":
            self.mode = ""
            return ""
        if not self.mode:
            return self._exec(line)
        if line == "exit":
            self.mode = "" if self.mode == "config" else "config"
            return ""
        answer = self._section(line) if self.mode != "config" else None
        return self._config(line) if answer is None else answer

    def _exec(self, line: str) -> str:
        box = self.box
        if line == "configure terminal":
            self.mode = "config"
            return ""
        if line == "terminal length 0":
            self.paging = False
            return ""
        if match := re.fullmatch(r"show interface (ethernet\S+)", line):
            return box.port_shown(match[1]) if match[1] in box.ports else ILLEGAL
        shown = {
            "show running-configuration": box.configuration,
            "show monitor session all": box.sessions_shown,
            "show interface status": box.links_shown,
            "show ip access-lists in": lambda: box.lists_shown("ip"),
            "show ipv6 access-lists in": lambda: box.lists_shown("ipv6"),
            'system "cat /proc/sys/kernel/random/boot_id"': lambda: box.boot,
            "write memory": lambda: "",
        }
        return shown[line]() if line in shown else UNKNOWN

    def _config(self, line: str) -> str:
        box = self.box
        if match := re.fullmatch(r"monitor session ([0-9]+)(?: type (local|erspan-source))?", line):
            number, kind = int(match[1]), match[2] or "local"
            if not 1 <= number <= 18:
                return ILLEGAL
            if number in box.monitors:
                if match[2] and box.monitors[number].kind != kind:
                    return "% Error: Configuration mismatch."
            elif len(box.monitors) >= box.most_sessions:
                return "% Error: Maximum number of monitor sessions is configured."
            else:
                box.monitors[number] = Monitor(kind)
            self.mode = f"monitor session {number}"
            return ""
        if match := re.fullmatch(r"no monitor session ([0-9]+)", line):
            return "" if box.monitors.pop(int(match[1]), None) else "% Error: Session does not exist."
        if match := re.fullmatch(r"interface (ethernet\S+)", line):
            self.mode = line if match[1] in box.ports else self.mode
            return "" if match[1] in box.ports else ILLEGAL
        if match := re.fullmatch(r"(no )?(ip(?:v6)? access-list \S+)", line):
            return self._list(match[2], gone=bool(match[1]))
        return UNKNOWN

    def _list(self, head: str, *, gone: bool) -> str:
        if not gone:
            self.box.lists.setdefault(head, [])
            self.mode = head
            return ""
        group = head.replace("access-list", "access-group")
        if any(line.startswith(group) for lines in self.box.ports.values() for line in lines):
            return "% Error: ACL is in use."
        return "" if self.box.lists.pop(head, None) is not None else "% Error: ACL not found."

    def _section(self, line: str) -> str | None:
        """None: it is a line of the configuration mode."""
        words = self.mode.split()
        if words[0] == "monitor":
            return self._in_monitor(self.box.monitors[int(words[2])], line)
        if words[0] == "interface":
            return self._on_port(words[1], line)
        if not re.fullmatch(r"seq [0-9]+ permit (?:ip|ipv6|udp) .*", line):
            return None
        if line not in self.box.lists[self.mode]:
            self.box.lists[self.mode].append(line)
        return ""

    def _in_monitor(self, monitor: Monitor, line: str) -> str | None:
        if line in ("shut", "no shut"):
            monitor.up = line == "no shut"
        elif match := re.fullmatch(r"description (.{1,255})", line):
            monitor.description = match[1]
        elif match := re.fullmatch(r"source interface (ethernet\S+)(?: (rx|tx|both))?", line):
            return self._source(monitor, match[1], match[2] or "both")
        elif match := re.fullmatch(r"(no )?destination interface (ethernet\S+)", line):
            return self._destination(monitor, match[2], gone=bool(match[1]))
        elif re.fullmatch(r"source-ip \S+ destination-ip \S+", line):
            if monitor.kind != "erspan-source":
                return UNKNOWN
            monitor.tunnel = line
        elif line == "flow-based enable":
            monitor.flow_based = True
        else:
            return None
        return ""

    def _source(self, monitor: Monitor, port: str, way: str) -> str:
        for other in self.box.monitors.values():
            if (port in other.sources and other is not monitor) or port == other.destination:
                return "% Error: MD port is already being monitored."
        if port not in self.box.ports:
            return ILLEGAL
        monitor.sources[port] = way
        return ""

    def _destination(self, monitor: Monitor, port: str, *, gone: bool) -> str:
        if gone:
            monitor.destination = "" if monitor.destination == port else monitor.destination
            return ""
        if monitor.kind != "local" or (monitor.destination and monitor.destination != port):
            return "% Error: Configuration mismatch."
        if any(line.startswith("switchport") for line in self.box.ports.get(port, ["switchport"])):
            return "% Error: Destination interface has other configuration."
        if any(port == o.destination and o is not monitor for o in self.box.monitors.values()):
            return "% Error: Destination is used by another session."
        monitor.destination = port
        return ""

    def _on_port(self, port: str, line: str) -> str | None:
        lines = self.box.ports[port]
        if line == "no switchport":
            self.box.ports[port] = [text for text in lines if not text.startswith("switchport")]
            return ""
        if re.fullmatch(r"switchport (?:mode access|access vlan [0-9]+)", line):
            if any(port == monitor.destination for monitor in self.box.monitors.values()):
                return "% Error: Interface is a monitor session destination."
            if "vlan" in line:
                self.box.ports[port] = [*(text for text in lines if not text.startswith("switchport")), line]
            return ""
        if match := re.fullmatch(r"(no )?(ip(?:v6)? access-group) (\S+) in", line):
            text = f"{match[2]} {match[3]} in"
            if match[1]:
                self.box.ports[port] = [has for has in lines if has != text]
                return ""
            if any(has.startswith(match[2]) and has != text for has in lines):
                return "% Error: Another access list is applied."
            self.box.ports[port] = [*(has for has in lines if has != text), text]
            return ""
        return None
