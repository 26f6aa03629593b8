"""Match-action tables of the P4 twin: entries as a P4Runtime server holds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WIDTHS: Mapping[str, int] = {
    "port": 9,
    "src": 128,
    "dst": 128,
    "udp_dst": 16,
    "qp": 24,
    "opcode": 8,
    "psn8": 32,
    "ether_dst": 48,
    "session": 10,
}
"""Match field -> bits."""


@dataclass(slots=True)
class Entry:
    """One table entry with its direct counter."""

    match: Mapping[str, tuple[int, int]]
    """Field -> (value, mask); a field that is left out matches everything."""
    action: str
    """With the name of the P4Info: ``fc.follow``."""
    parameters: Mapping[str, int]
    priority: int = 0
    """Higher wins; 0 in an exact table."""
    packets: int = 0
    octets: int = 0

    def takes(self, values: Mapping[str, int]) -> bool:
        """Do these field values match?"""
        return all(values[name] & mask == value & mask for name, (value, mask) in self.match.items())


@dataclass(slots=True)
class Table:
    """Entries; the caller keeps keys unique and values inside their masks, as a P4Runtime server does."""

    entries: list[Entry] = field(default_factory=list)

    def lookup(self, values: Mapping[str, int]) -> Entry | None:
        """The matching entry of highest priority, None where none matches."""
        return max((e for e in self.entries if e.takes(values)), key=lambda e: e.priority, default=None)

    def hit(self, values: Mapping[str, int], octets: int) -> Entry | None:
        """As ``lookup``, and count the packet of that length at the entry."""
        found = self.lookup(values)
        if found is not None:
            found.packets += 1
            found.octets += octets
        return found


def exact(**values: int) -> dict[str, tuple[int, int]]:
    """``exact(port=3)``: match fields by their whole width."""
    return {name: (value, (1 << WIDTHS[name]) - 1) for name, value in values.items()}
