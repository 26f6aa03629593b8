"""What is asked of a switch for ``discover``, and how its answers are read: neighbours, speeds of ports, what it is.

Answers about neighbours are kept as they are; the importers read them (flowcheck_net/importers/lldp_dialects.py). Those
of OS10 and of lldpd are put in the words of NAPALM here.

Sources: ntc-templates' recorded outputs (commit d0bc5a48 of 2026-07-26: EOS, NX-OS, Junos, Comware, VRP), which every
reader was run on; for OS10 the XML paths that Dell's Ansible collection and its napalm driver read (2026-12-01); for
Cumulus Linux lldpd's own JSON and the kernel's /sys/class/net/PORT/speed (Documentation/ABI/testing/sysfs-class-net).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects import survey_facts, survey_speeds
from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.drivers.dialects.survey_xml import os10_neighbors, os10_speeds
from flowcheck_net.drivers.lldpd import neighbors_from
from flowcheck_net.ids import PortName
from flowcheck_net.intent import DeviceFacts


@dataclass(frozen=True, slots=True)
class Survey:
    """The questions of one platform and their readers."""

    neighbors: str
    speeds: str
    speeds_from: Callable[[str], Mapping[PortName, int]]
    """Port -> Mbit/s of ports that have a link; raises ParseError where an answer that says something has no port."""
    identity: tuple[str, ...]
    facts_from: Callable[[str], DeviceFacts]
    """Of all answers, joined."""
    neighbors_from: Callable[[str], str] = str
    """The answer as the importers read it; raises ParseError."""
    counted: re.Pattern[str] | None = None
    """Found once for each neighbour, or with their number as its group: what napalm's reading is checked against."""

    def count(self, neighbors: str) -> int:
        """How many neighbours the answer says that it has."""
        found = self.counted.findall(neighbors) if self.counted is not None else []
        return sum(int(number) if str(number).isdigit() else 1 for number in found)


def _lldpd(text: str) -> str:
    try:
        return neighbors_from(text)
    except ValueError as error:
        raise ParseError(f"lldpcli: no JSON: {text[:60]!r}") from error


SURVEYS = {
    "eos": Survey(
        "show lldp neighbors detail",
        "show interfaces status",
        survey_speeds.status_table,
        ("show version", "show hostname"),
        survey_facts.eos,
        counted=re.compile(r"^Interface \S+ detected (\d+) LLDP neighbors:", re.MULTILINE),
    ),
    "nxos": Survey(
        "show lldp neighbors detail",
        "show interface status",
        survey_speeds.status_table,
        ("show version",),
        survey_facts.nxos,
        counted=re.compile(r"^Local Port id:", re.MULTILINE),
    ),
    "junos": Survey(
        "show lldp neighbors",
        'show interfaces | match "Physical interface|Speed"',
        survey_speeds.junos,
        ("show version",),
        survey_facts.junos,
        counted=re.compile(r"^\S+ +\S+ +(?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2} ", re.MULTILINE),
    ),
    "comware": Survey(
        "display lldp neighbor-information list",
        "display interface",
        survey_speeds.comware,
        ("display version", "display current-configuration | include sysname"),
        survey_facts.comware,
    ),
    "vrp": Survey(
        "display lldp neighbor",
        "display interface",
        survey_speeds.vrp,
        ("display version", "display current-configuration | include sysname"),
        survey_facts.vrp,
    ),
    "cumulus": Survey(
        "sudo -n lldpcli -f json0 show neighbors details",
        "grep -sH . /sys/class/net/*/speed",
        survey_speeds.sysfs,
        ("hostname", "cat /etc/os-release"),
        survey_facts.cumulus,
        _lldpd,
    ),
    "dell-os10": Survey(
        "show lldp neighbors | display-xml | no-more",
        "show interface | display-xml | no-more",
        os10_speeds,
        ("show version", "system hostname"),
        survey_facts.os10,
        os10_neighbors,
    ),
}
"""Dialect -> its survey."""
