"""ACL rules of Comware and VRP that match RoCEv2 between two hosts: written, and read back. Pure."""

import ipaddress
import re
from collections.abc import Iterable

from flowcheck_net.ids import Address
from flowcheck_net.intent import FlowFilter

ROCE_PORT = 4791
_RULE = re.compile(
    r"rule [0-9]+ permit udp source (?P<source>\S+?)(?:(?: |/)(?P<source_mask>0|0\.0\.0\.0|32|128))?"
    r" destination (?P<destination>\S+?)(?:(?: |/)(?P<destination_mask>0|0\.0\.0\.0|32|128))?"
    rf" destination-port eq {ROCE_PORT}(?: counting)?"
)


def version(pair: FlowFilter) -> int:
    """4 or 6: the ACL that a pair belongs to."""
    return ipaddress.ip_address(pair.source).version


def rule(number: int, pair: FlowFilter) -> str:
    """``rule 5 permit udp source A 0 destination B 0 destination-port eq 4791``; IPv6 with prefix lengths."""
    host = "0" if version(pair) == 4 else "128"
    ends = f"source {pair.source} {host} destination {pair.destination} {host}"
    return f"rule {number} permit udp {ends} destination-port eq {ROCE_PORT}"


def read_rules(lines: Iterable[str]) -> tuple[tuple[FlowFilter, ...], tuple[str, ...]]:
    """The pairs that the rules of an ACL let through, and the rules that are not of our form."""
    pairs, strange = [], []
    for line in lines:
        if not line.startswith("rule "):
            continue
        match = _RULE.fullmatch(line)
        try:
            if match is None:
                raise ValueError
            pairs.append(FlowFilter(_host(match["source"]), _host(match["destination"])))
        except ValueError:
            strange.append(line)
    return tuple(pairs), tuple(strange)


def _host(text: str) -> Address:
    return Address(str(ipaddress.ip_address(text)))
