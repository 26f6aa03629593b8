"""Access lists that let through RoCEv2 between given addresses, as IOS-like platforms write them."""

import ipaddress
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.base import Unfit
from flowcheck_net.ids import Address, SessionName
from flowcheck_net.intent import FlowFilter, MirrorSession, Step, StepKind

ROCE_PORT = 4791
_NAMED = re.compile(r"(?P<family>ip|ipv6) access-list (?:standard )?(?P<name>\S+)")
_NUMBERED = re.compile(r"(?:[0-9]+ )?(?P<entry>(?:permit|deny|remark|counters|statistics)\b.*)")
_ENTRY = re.compile(r"permit udp (?P<near>host \S+|\S+/(?:32|128)) (?P<far>host \S+|\S+/(?:32|128)) eq 4791")


@dataclass(frozen=True, slots=True)
class AccessList:
    """One list, as it is in the configuration."""

    family: int
    """4 or 6."""
    name: str
    entries: tuple[str, ...]
    """Without their numbers."""

    def pairs(self) -> tuple[FlowFilter, ...] | None:
        """What it lets through, where that is RoCEv2 between addresses and nothing else; None: it is another list."""
        found = []
        for entry in self.entries:
            match = _ENTRY.fullmatch(entry)
            if match is not None:
                found.append(FlowFilter(_address(match["near"]), _address(match["far"])))
            elif not entry.startswith(("remark", "counters", "statistics")) and not _denies_all(entry):
                return None
        return tuple(found)


def lists_in(text: str) -> Mapping[tuple[int, str], AccessList]:
    """(family, name) -> list, from configuration lines. Lines between that are no entries end a list."""
    found: dict[tuple[int, str], AccessList] = {}
    current: tuple[int, str] | None = None
    for line in text.splitlines():
        named = _NAMED.fullmatch(line.strip())
        entry = _NUMBERED.fullmatch(line.strip())
        if named is not None:
            current = (6 if named["family"] == "ipv6" else 4, named["name"])
            found[current] = AccessList(*current, ())
        elif entry is not None and current is not None:
            before = found[current]
            found[current] = AccessList(*current, (*before.entries, entry["entry"].strip()))
        elif line.strip() and not line.strip().startswith("!"):
            current = None
    return found


def family_of(session: MirrorSession) -> int:
    """4 or 6, of its filters; raises Unfit where they are mixed, since a session takes one list."""
    families = {ipaddress.ip_address(a).version for f in session.filters for a in (f.source, f.destination)}
    if len(families) != 1:
        raise Unfit(f"{session.name}: its filters are of IPv4 and IPv6, and a session takes one access list")
    return families.pop()


def entries_for(filters: Sequence[FlowFilter]) -> tuple[str, ...]:
    """Numbered entries; what none of them permits is denied."""
    return tuple(
        f"{10 * n} permit udp host {f.source} host {f.destination} eq {ROCE_PORT}" for n, f in enumerate(filters, 1)
    )


def list_name(name: SessionName) -> str:
    """An access list of ours bears the name of its session."""
    return str(name)


def refuse_strays(steps: Sequence[Step], there: Container[str]) -> None:
    """Raise Unfit where a list of a new session's name is there already: what it permits would be copied too.

    Args:
        steps: of one write.
        there: names of all lists of the switch.
    """
    gone = set[str]()
    for step in steps:
        name = list_name(step.session.name)
        if step.kind is StepKind.DELETE:
            gone.add(name)
        elif step.session.filters and name in there and name not in gone:
            raise Unfit(f"an access list {name} is there already, and no session has it: remove it by hand")


def _denies_all(entry: str) -> bool:
    return re.fullmatch(r"deny (ip|ipv6) any any", entry) is not None


def _address(text: str) -> Address:
    return Address(str(ipaddress.ip_address(text.removeprefix("host ").split("/")[0])))
