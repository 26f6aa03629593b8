"""The CLI answers that are understood: how each is told apart, cut into neighbours, and which template reads one.

The templates are those of ntc-templates. They keep no port-ID subtype and no port description, and drop a neighbour of
which they miss a field: so the text is cut here into one piece a neighbour, each piece must give one row, and the two
fields are read beside the template.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One command of one vendor."""

    name: str
    """As ntc-templates and netmiko name the platform."""
    template: str
    """File of ntc-templates, without its ending."""
    signature: re.Pattern[str]
    """Found in every answer of this command, and in none of the others."""
    local: re.Pattern[str] | None
    """A line that names the local port of the neighbours below it; None where each neighbour's piece names it."""
    begin: re.Pattern[str]
    """First line of one neighbour."""
    is_table: bool = False
    """One line a neighbour, below a line of headings."""
    subtype: re.Pattern[str] | None = None
    description: re.Pattern[str] | None = None
    capabilities: re.Pattern[str] | None = None
    """Enabled capabilities: words after the colon."""


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


DIALECTS = (
    Dialect(
        "arista_eos",
        "arista_eos_show_lldp_neighbors_detail",
        signature=_lines(r"^Interface \S+ detected \d+ LLDP neighbors:"),
        local=re.compile(r"Interface \S+ detected \d+ LLDP neighbors:"),
        begin=re.compile(r"\s+Neighbor \S+, age "),
        subtype=_lines(r"^\s*-\s*Port ID type\s*:\s*(.+)$"),
        description=_lines(r'^\s*-\s*Port Description\s*:\s*"?(.*?)"?\s*$'),
        capabilities=_lines(r"^\s*Enabled Capabilities\s*:(.*)$"),
    ),
    Dialect(
        "cisco_nxos",
        "cisco_nxos_show_lldp_neighbors_detail",
        signature=_lines(r"^Local Port id:"),
        local=None,
        begin=re.compile(r"[Cc]hassis [Ii][Dd]: "),
        description=_lines(r"^Port Description:\s*(.*?)\s*$"),
        capabilities=_lines(r"^Enabled Capabilities:(.*)$"),
    ),
    Dialect(
        "juniper_junos",
        "juniper_junos_show_lldp_neighbors",
        signature=_lines(r"^Local Interface\s+Parent Interface\s+Chassis Id\s+Port info\s+System Name"),
        local=None,
        begin=re.compile(r"\S+\s+\S+\s+[0-9a-f]{1,2}(?::[0-9a-f]{1,2}){5}\s"),
        is_table=True,
    ),
    Dialect(
        "huawei_vrp",
        "huawei_vrp_display_lldp_neighbor",
        signature=_lines(r"^\S+ has \d+ neighbors?(\(s\))?:?"),
        local=re.compile(r"\S+ has \d+ neighbors?(\(s\))?:?\s*$"),
        begin=re.compile(r"\s*Neighbor index\s*:\s*\d+"),
        subtype=_lines(r"^\s*Port ID type\s*:(.+)$"),
        description=_lines(r"^\s*Port description\s*:(.*?)\s*$"),
        capabilities=_lines(r"^\s*System capabilities enabled\s*:(.*)$"),
    ),
    Dialect(
        "hp_comware",
        "hp_comware_display_lldp_neighbor-information_list",
        signature=_lines(r"^(System Name\s+Local Interface|Local Interface)\s+Chassis ID\s+Port ID"),
        local=None,
        begin=re.compile(r"\s*\S.*[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}\s"),
        is_table=True,
    ),
)
