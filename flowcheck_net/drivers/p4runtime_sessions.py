"""Mirror sessions from the entries of a switch, and entries from mirror sessions (p4/README.md). Pure."""

import hashlib
import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.p4runtime_entries import Clone, Description, Picture, Rule
from flowcheck_net.drivers.p4runtime_flows import Flow
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, Remark, RemarkKind, session_name

FIRST_ID, LAST_ID = 2, 1015
"""Clone session ids of ours: 1 is kept for the site, and Stratum on Tofino ends at 1015."""
PRIORITY = 1000
NOWHERE = PortName("(none)")
"""The destination of a session whose clone session is gone or has no replica."""
ROCE_PORT = 4791
PORT_BITS = 9
_PORT, _UDP, _ADDRESS = (1 << PORT_BITS) - 1, 0xFFFF, (1 << 128) - 1
_MAPPED = 0xFFFF << 32
"""IPv4 stands in 128 bits as ``::ffff:a.b.c.d``."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Port names and numbers: the number, after a prefix that the site chose."""

    prefix: str = ""

    def name(self, number: int) -> PortName:
        """``Ethernet12`` for 12."""
        return PortName(f"{self.prefix}{number}")

    def number(self, name: PortName) -> int:
        """12 for ``Ethernet12``; raises ValueError."""
        digits = name.removeprefix(self.prefix)
        found = int(digits) if digits.isascii() and digits.isdigit() else _PORT
        # 511 is where BMv2 sends what it drops.
        if found >= _PORT or self.name(found) != name:
            form = f"{self.prefix}N" if self.prefix else "a plain number N, or use ports=PREFIX in the reference"
            raise ValueError(f"{name} is no port of a P4 switch: write {form}, 0 to {_PORT - 1}")
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """A session with the entries that make it."""

    session: MirrorSession
    id: int
    rules: tuple[Rule, ...]
    description: Description | None
    clone: Clone | None
    flows: tuple[Flow, ...] = ()
    """Queue pairs that are followed for it."""

    @property
    def ours(self) -> bool:
        """Is it described? Then it is some flowcheck-net's; of our job if its name says so."""
        return self.description is not None


def job_tag(job: str) -> int:
    """How a job is called on a switch: the first four bytes of the SHA-256 of its name."""
    return int.from_bytes(hashlib.sha256(job.encode()).digest()[:4], "big")


def find_sessions(picture: Picture, job: str, ports: Ports) -> tuple[Found, ...]:
    """All sessions of a switch: with our names where our job's tag describes them, else called by what is known."""
    rules: dict[int, list[Rule]] = defaultdict(list)
    for rule in picture.rules:
        rules[rule.clone].append(rule)
    descriptions = {d.clone: d for d in picture.descriptions}
    clones = {c.id: c for c in picture.clones}
    flows: dict[int, list[Flow]] = defaultdict(list)
    for flow in picture.flows:
        flows[flow.clone].append(flow)
    found = []
    for number in sorted({*rules, *descriptions, *clones}):
        described, clone = descriptions.get(number), clones.get(number)
        sources, filters = _watched(rules[number], ports)
        destination = ports.name(clone.replicas[0][0]) if clone and clone.replicas else NOWHERE
        name = _name(number, described, job_tag(job), job)
        windowed = bool(rules[number]) and all(rule.windowed for rule in rules[number])
        windows = tuple(flow.rule for flow in flows[number]) if windowed else ()
        session = MirrorSession(name, sources, destination, filters, windows)
        found.append(Found(session, number, tuple(rules[number]), described, clone, tuple(flows[number])))
    return tuple(found)


def rules_for(session: MirrorSession, clone: int, ports: Ports) -> tuple[Rule, ...]:
    """The rules of a session; raises ValueError where a port or address has no form on the switch."""
    found = []
    for point, source in enumerate(session.sources):
        port = ("port", ports.number(source.port), _PORT)
        if not session.filters:
            found.append(Rule(source.direction, (port,), PRIORITY, clone, point, bool(session.windows)))
        for pair in session.filters:
            addresses = (("dst", _wide(pair.destination), _ADDRESS), ("src", _wide(pair.source), _ADDRESS))
            match = (*addresses, port, ("udp_dst", ROCE_PORT, _UDP))
            found.append(Rule(source.direction, tuple(sorted(match)), PRIORITY, clone, point, bool(session.windows)))
    return tuple(found)


def overlap(one: Rule, other: Rule) -> bool:
    """Can a packet match both? Only one of them would copy it."""
    if one.direction is not other.direction:
        return False
    theirs = {name: (value, mask) for name, value, mask in other.match}
    for name, value, mask in one.match:
        if name in theirs:
            other_value, other_mask = theirs[name]
            if (value ^ other_value) & mask & other_mask:
                return False
    return True


class Rivals:
    """Which rules of which session can match a packet that another rule matches, found by port."""

    def __init__(self, every: Iterable[Found]) -> None:
        self._by_port: dict[tuple[Direction, int | None], list[tuple[Rule, Found]]] = defaultdict(list)
        self._all: dict[Direction, list[tuple[Rule, Found]]] = defaultdict(list)
        for found in every:
            for rule in found.rules:
                self._by_port[rule.direction, _exact_port(rule)].append((rule, found))
                self._all[rule.direction].append((rule, found))

    def of(self, rule: Rule) -> Iterator[tuple[Rule, Found]]:
        """Rules that can meet ``rule``, itself too, each with its session."""
        port = _exact_port(rule)
        near = [(rule.direction, port), (rule.direction, None)]
        candidates = self._all[rule.direction] if port is None else [c for key in near for c in self._by_port[key]]
        return (candidate for candidate in candidates if overlap(rule, candidate[0]))


def remarks_on(found: Found, rivals: Rivals, ports: Ports) -> Iterable[Remark]:
    """What makes a session of ours less than a whole copy, or puts that in doubt."""
    yield from _clone_remarks(found, ports)
    name = found.session.name
    sources, filters = found.session.sources, found.session.filters
    regular = {r for source in sources for r in found.rules if _source(r, ports) == source and _whole(r)}
    if strange := len([r for r in found.rules if r not in regular]):
        text = (
            f"{strange} of its rules are not as we write them, or stand alone: their ports are not counted as sources"
        )
        yield Remark(RemarkKind.FILTER, text, name)
    yield from _window_remarks(found)
    if not found.rules:
        yield Remark(RemarkKind.INACTIVE, "no rule selects packets for it", name)
    for rule in regular:
        source = _source(rule, ports)
        if source and len(regular) == len(found.rules) and rule.point != sources.index(source):
            text = f"copies of {source.port} {source.direction} bear point {rule.point}, not {sources.index(source)}"
            yield Remark(RemarkKind.OTHER, text, name, source.port)
    if len(regular) != len(sources) * max(1, len(filters)):
        yield Remark(RemarkKind.FILTER, "rules stand twice or are missing", name)
    yield from _taken(found, rivals, ports)


def _window_remarks(found: Found) -> Iterable[Remark]:
    name, windows = found.session.name, found.session.windows
    if any(r.windowed for r in found.rules) and not windows:
        text = "only a window of the messages of each loop is copied, and which is not said for the session as a whole"
        yield Remark(RemarkKind.FILTER, text, name)
    if found.flows and not windows:
        yield Remark(RemarkKind.OTHER, f"{len(found.flows)} queue pairs are followed for it in vain", name)
    if shifted := [flow.rule for flow in found.flows if not flow.from_start]:
        text = f"queue pair {shifted[0].qpn:#x} at {shifted[0].destination} is not counted from PSN 0"
        yield Remark(RemarkKind.FILTER, text, name)


def _clone_remarks(found: Found, ports: Ports) -> Iterable[Remark]:
    name, clone = found.session.name, found.clone
    if clone is None:
        yield Remark(RemarkKind.INACTIVE, f"clone session {found.id} is gone: nothing is copied", name)
        return
    if not clone.replicas:
        yield Remark(RemarkKind.INACTIVE, f"clone session {found.id} has no replica: nothing is copied", name)
    if clone.length:
        yield Remark(RemarkKind.TRUNCATION, f"copies are cut to {clone.length} bytes", name)
    if clone.class_of_service:
        text = f"copies have class of service {clone.class_of_service}: their queue may drop them"
        yield Remark(RemarkKind.POLICER, text, name)
    if others := [ports.name(port) for port, _ in clone.replicas[1:]]:
        yield Remark(RemarkKind.OTHER, f"copies are sent to {', '.join(others)} as well", name)


def _taken(found: Found, rivals: Rivals, ports: Ports) -> Iterable[Remark]:
    for rule in found.rules:
        for other, owner in rivals.of(rule):
            if owner.id != found.id and other.priority >= rule.priority:
                source = _source(rule, ports)
                text = f"a rule of {owner.session.name} takes packets from it: a packet is copied once in a direction"
                yield Remark(RemarkKind.FILTER, text, found.session.name, source.port if source else PortName(""))


def _exact_port(rule: Rule) -> int | None:
    port = rule.field("port")
    return port[0] if port and port[1] == _PORT else None


def _name(number: int, described: Description | None, tag: int, job: str) -> SessionName:
    if described is None:
        return SessionName(f"clone-session-{number}")
    if described.tag != tag:
        # A name cannot be had back from its tag.
        return SessionName(f"job-tag-{described.tag:08x}:{described.number}")
    return session_name(job, described.number)


def _watched(rules: Sequence[Rule], ports: Ports) -> tuple[tuple[MirrorSource, ...], tuple[FlowFilter, ...]]:
    """Sources whose rules are whole and of our form, with the filters that all of them have."""
    pairs: dict[MirrorSource, set[FlowFilter | None]] = defaultdict(set)
    for rule in rules:
        source = _source(rule, ports)
        if source and _whole(rule):
            pairs[source].add(_pair(rule))
    wanted = set[FlowFilter | None]().union(*pairs.values())
    # A rule without addresses copies all, pairs beside it say nothing. A source without one of the pairs is not whole.
    whole = {None} if None in wanted else wanted
    sources = tuple(source for source, has in pairs.items() if has >= whole)
    return sources, tuple(pair for pair in whole if pair is not None)


def _source(rule: Rule, ports: Ports) -> MirrorSource | None:
    port = rule.field("port")
    return MirrorSource(ports.name(port[0]), rule.direction) if port and port[1] == _PORT else None


def _whole(rule: Rule) -> bool:
    """Has it one of our two forms: a port alone, or with an address pair and RoCE's port?"""
    masks = {name: mask for name, _, mask in rule.match}
    pair = {"port": _PORT, "src": _ADDRESS, "dst": _ADDRESS, "udp_dst": _UDP}
    return masks == {"port": _PORT} or (masks == pair and rule.field("udp_dst") == (ROCE_PORT, _UDP))


def _pair(rule: Rule) -> FlowFilter | None:
    source, destination = rule.field("src"), rule.field("dst")
    return FlowFilter(_narrow(source[0]), _narrow(destination[0])) if source and destination else None


def _wide(address: Address) -> int:
    found = ipaddress.ip_address(address)
    return int(found) | _MAPPED if found.version == 4 else int(found)


def _narrow(number: int) -> Address:
    address = ipaddress.IPv6Address(number)
    return Address(str(address.ipv4_mapped or address))
