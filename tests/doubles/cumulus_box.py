"""Cumulus Linux 5 as NVIDIA's NVUE reference shows it: a shell, revisions, port-mirror sessions, access lists.

Layout of `nv show system port-mirror session -o json`: NVUE reference. A revision belongs to the login that attached
it; `apply` checks it as a whole and puts it into effect at once.
"""

import json
import re
from copy import deepcopy
from typing import Any

from tests.doubles.ssh_box import Platform, Session


class CumulusBox(Platform):
    """One switch."""

    rejection = "Error: Failed to set configuration."
    log_line = "Broadcast message from systemd-journald@leaf1 (Mon 2026-11-30 22:00:00 UTC):"
    pager = ":"
    comments = ("#",)
    most_destinations = 4

    def __init__(self, name: str = "leaf1") -> None:
        self.name = name
        self.applied: dict[str, Any] = {"interface": {f"swp{n}": {"type": "swp"} for n in range(1, 49)}}
        self.revision = 1
        self.down: set[str] = set()
        self.counts = {port: [0, 0] for port in self.applied["interface"]}
        self.boot = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
        self.neighbours = [{"dst": "10.1.0.2", "dev": "swp40", "lladdr": "44:38:39:00:00:02", "state": ["REACHABLE"]}]

    def login(self) -> Session:
        """A shell."""
        return CumulusSession(self)

    def configure(self, *lines: str) -> None:
        """Somebody configures."""
        session = CumulusSession(self)
        for line in ("nv config attach applied -y", *lines, "nv config apply -y"):
            answer = session.do(line)
            if answer and not re.fullmatch(r"(attached|applied) \[rev_id: [0-9]+\]", answer):
                raise ValueError(f"{line}: {answer}")

    def sessions(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Number -> port-mirror session."""
        found = settings.get("system", {}).get("port-mirror", {}).get("session", {})
        return dict(found)

    def faulty(self, wanted: dict[str, Any]) -> str:
        """What an apply finds wrong; empty: nothing."""
        watched: dict[tuple[str, str], str] = {}
        targets = set()
        for number, session in self.sessions(wanted).items():
            if not 0 <= int(number) <= 7:
                return f"Error: config apply failed: session {number} is not in 0..7"
            for settings in session.values():
                if not settings.get("destination"):
                    return f"Error: config apply failed: session {number} has no destination"
                targets.add(json.dumps(settings["destination"], sort_keys=True))
                for port in settings.get("source-port", {}):
                    key = (port, settings.get("direction", "ingress"))
                    if key in watched:
                        return f"Error: config apply failed: {port} has two destinations"
                    watched[key] = number
        if len(targets) > self.most_destinations:
            return "Error: config apply failed: too many SPAN destinations"
        for port, settings in wanted["interface"].items():
            if missing := [name for name in settings.get("acl", {}) if name not in wanted.get("acl", {})]:
                return f"Error: config apply failed: interface {port}: acl {missing[0]} does not exist"
        return ""

    def working(self) -> str:
        """`nv show system port-mirror session -o json`."""
        shown = {}
        for number, session in self.sessions(self.applied).items():
            kept = {k: v for k, v in session.items() if v.get("enable") == "on"}
            shown[number] = {k: {n: x for n, x in v.items() if n != "enable"} for k, v in kept.items()}
        return json.dumps({k: v for k, v in shown.items() if v}, indent=2)

    def links(self, *, counted: bool) -> str:
        """`ip -j link show`."""
        found = [{"ifname": "lo", "operstate": "UNKNOWN"}, {"ifname": "eth0", "operstate": "UP"}]
        for port, (rx, tx) in self.counts.items():
            link: dict[str, Any] = {"ifname": port, "operstate": "DOWN" if port in self.down else "UP"}
            if counted:
                link["stats64"] = {"rx": {"bytes": rx * 64, "packets": rx}, "tx": {"bytes": tx * 64, "packets": tx}}
            found.append(link)
        return json.dumps(found)


class CumulusSession(Session):
    """One login."""

    paging = False

    def __init__(self, box: CumulusBox) -> None:
        self.box = box
        self.pending: dict[str, Any] | None = None

    def prompt(self) -> str:
        """bash's."""
        return f"fcn@{self.box.name}:mgmt:~$ "

    def do(self, line: str) -> str:
        """A command of the shell."""
        box = self.box
        if line.startswith(("nv set ", "nv unset ")):
            return self._change(line)
        if match := re.fullmatch(r"ip -j route get (\S+)", line):
            if not match[1].startswith("10."):
                return "RTNETLINK answers: Network is unreachable"
            return json.dumps([{"dst": match[1], "gateway": "10.1.0.2", "dev": "swp40", "prefsrc": "10.255.0.1"}])
        shown = {
            "nv config show -r applied -o json": lambda: json.dumps(
                [{"header": {"nvue-api-version": "nvue_v1", "rev-id": 1.0}}, {"set": box.applied}], indent=2
            ),
            "nv show system port-mirror session -o json": box.working,
            "ip -j link show": lambda: box.links(counted=False),
            "ip -j -s link show": lambda: box.links(counted=True),
            "ip -j neigh show": lambda: json.dumps(box.neighbours),
            "cat /proc/sys/kernel/random/boot_id": lambda: box.boot,
            "export PAGER=cat TERM=dumb": lambda: "",
            "nv config attach applied -y": self._attach,
            "nv config apply -y": self._apply,
            "nv config detach": self._detach,
            "nv config save": lambda: "",
        }
        return shown[line]() if line in shown else f"-bash: {line.split()[0]}: command not found"

    def _attach(self) -> str:
        self.pending = deepcopy(self.box.applied)
        self.box.revision += 1
        return f"attached [rev_id: {self.box.revision}]"

    def _detach(self) -> str:
        self.pending = None
        return ""

    def _apply(self) -> str:
        if self.pending is None:
            return "Error: nothing to apply"
        if error := self.box.faulty(self.pending):
            return error
        self.box.applied, self.pending = self.pending, None
        return f"applied [rev_id: {self.box.revision}]"

    def _change(self, line: str) -> str:
        if self.pending is None:
            self._attach()
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)][1:]
        if not _KNOWN.fullmatch(" ".join(words[1:])):
            return f"Error: '{words[-1]}' is not one of the words that are expected here"
        settings: Any = self.pending
        path = words[1:]
        if words[0] == "unset":
            _remove(settings, path)
            return ""
        leaf = path[-2] in _LEAVES and not ("port-mirror" in path and path[-2].endswith("-ip"))
        for word in path[: -2 if leaf else -1]:
            settings = settings.setdefault(word, {})
        if leaf:
            settings[path[-2]] = path[-1]
        else:
            for name in path[-1].split(","):
                settings.setdefault(name, {})
        return ""


def _remove(settings: dict[str, Any], path: list[str]) -> None:
    """Below a thing that has nothing left in it there is nothing to show either."""
    if path[0] not in settings:
        return
    if path[1:]:
        _remove(settings[path[0]], path[1:])
    if not path[1:] or not settings[path[0]]:
        del settings[path[0]]


_LEAVES = {"type", "direction", "enable", "remark", "protocol", "source-ip", "dest-ip", "size"}
_SESSION = r"system port-mirror session [0-9]+"
_KNOWN = re.compile(
    rf"{_SESSION}|{_SESSION} span (?:direction (?:ingress|egress)|source-port \S+|destination swp\S+|enable (?:on|off)"
    rf"|truncate (?:enable (?:on|off)|size [0-9]+))"
    rf"|{_SESSION} erspan (?:direction (?:ingress|egress)|source-port \S+|destination (?:source|dest)-ip \S+"
    r"|enable (?:on|off))"
    r"|acl \S+|acl \S+ type (?:ipv4|ipv6)|acl \S+ rule [0-9]+ remark .+|acl \S+ rule [0-9]+ action permit"
    r"|acl \S+ rule [0-9]+ action span swp\S+|acl \S+ rule [0-9]+ action erspan (?:source|dest)-ip \S+"
    r"|acl \S+ rule [0-9]+ match ip (?:protocol udp|source-ip \S+|dest-ip \S+|udp dest-port [0-9]+)"
    r"|interface swp\S+ acl \S+(?: (?:inbound|outbound))?"
)
