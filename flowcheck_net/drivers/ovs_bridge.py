"""One bridge as its database has it: mirrors, ports, interfaces, read in one transaction."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from flowcheck_net.drivers.ovs_values import Row, first, mapping, number, plain, texts
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, is_owned

JOB, SESSION, DIGEST, FILTERS = (f"flowcheck-net:{key}" for key in ("job", "session", "digest", "filters"))
"""Our marks in external_ids. FILTERS: the address pairs of a session that is made of OpenFlow rules."""
TUNNELS = {"erspan": "erspan", "gre": "gre"}
"""``erspan:ADDRESS`` as a destination -> the type of the tunnel's interface."""
NOWHERE = PortName("(none)")
"""The destination of a mirror whose output port is gone."""
MIRROR_COLUMNS = (
    *("_uuid", "name", "select_all", "select_src_port", "select_dst_port", "select_vlan"),
    *("output_port", "output_vlan", "external_ids"),
)
OPTIONAL_COLUMNS = ("snaplen", "filter")
"""Of the Mirror table, by version of the schema."""
PORT_COLUMNS = ("_uuid", "name", "interfaces", "tag", "trunks", "qos", "external_ids")
INTERFACE_COLUMNS = (
    *("_uuid", "name", "type", "options", "ofport", "error", "link_state", "admin_state"),
    *("external_ids", "statistics"),
)
_FILTER = re.compile(
    r"udp6?,udp_dst=4791,(?:ip|ipv6|nw)_src=(?P<source>[0-9a-f.:]+),(?:ip|ipv6|nw)_dst=(?P<to>[0-9a-f.:]+)"
)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the bridge; of a bond, its first interface."""

    row: Row
    interface: Row
    interfaces: int

    @property
    def uuid(self) -> str:
        """Of the row."""
        return first(self.row["_uuid"])

    @property
    def name(self) -> PortName:
        """As the topology names it."""
        return PortName(plain(self.row["name"]))

    @property
    def kind(self) -> str:
        """Type of the interface; empty: a NIC of the machine."""
        return str(self.interface["type"])

    @property
    def number(self) -> int:
        """OpenFlow port number; -1: the switch could not open it, 0: not seen yet."""
        return number(self.interface["ofport"]) or 0

    @property
    def options(self) -> dict[str, str]:
        """Of a tunnel or patch."""
        return mapping(self.interface["options"])

    @property
    def marks(self) -> dict[str, str]:
        """external_ids."""
        return mapping(self.row["external_ids"])

    def packets(self, direction: Direction) -> int | None:
        """Packets that passed; None: the switch has not counted yet."""
        found = mapping(self.interface["statistics"]).get(f"{direction}_packets")
        return None if found is None else int(found)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A row of the Mirror table."""

    row: Row

    @property
    def uuid(self) -> str:
        """Of the row."""
        return first(self.row["_uuid"])

    @property
    def marks(self) -> dict[str, str]:
        """external_ids."""
        return mapping(self.row["external_ids"])

    @property
    def output(self) -> str:
        """UUID of the output port; empty: none."""
        return first(self.row["output_port"])

    @property
    def packets(self) -> int | None:
        """Copies made; None: the switch has not counted yet."""
        found = mapping(self.row["statistics"]).get("tx_packets")
        return None if found is None else int(found)

    @property
    def by_flows(self) -> tuple[FlowFilter, ...]:
        """The address pairs that OpenFlow rules of ours should pick; empty: the row itself selects."""
        pairs = json.loads(self.marks.get(FILTERS, "[]"))
        return tuple(sorted(FlowFilter(Address(str(a)), Address(str(b))) for a, b in pairs))


@dataclass(frozen=True, slots=True)
class Bridge:
    """The bridge at one moment."""

    row: Row
    switch: Row
    """The one row of table Open_vSwitch."""
    ports: Mapping[str, Port]
    """By UUID."""
    mirrors: tuple[Mirror, ...]
    counts: tuple[str, ...]
    """All counts of the whole database, other bridges' too: the switch renews them at one moment."""
    tunnels: frozenset[tuple[str, int]]
    """Far address and key of every tunnel of the database: ovs-vswitchd has one table of them for all bridges."""

    @property
    def uuid(self) -> str:
        """Of the row."""
        return first(self.row["_uuid"])

    @property
    def name(self) -> str:
        """Of the bridge."""
        return str(self.row["name"])

    def port(self, name: str) -> Port | None:
        """The port of that name."""
        return next((p for p in self.ports.values() if p.name == name), None)

    def sessions_of(self, job: str) -> dict[SessionName, tuple[Mirror, ...]]:
        """Our rows by session; one that is filtered by the switch itself has a row for each pair."""
        found: dict[SessionName, tuple[Mirror, ...]] = {}
        for mirror in self.mirrors:
            if (name := owned_name(mirror, job)) is not None:
                found[name] = (*found.get(name, ()), mirror)
        return found

    def foreign_of(self, job: str) -> tuple[MirrorSession, ...]:
        """The mirrors of others, each with a name of its own that is never one of ours."""
        taken: set[str] = set()
        found = []
        for mirror in self.mirrors:
            if owned_name(mirror, job) is not None:
                continue
            name = plain(mirror.row["name"]) or f"mirror-{mirror.uuid[:8]}"
            if mirror.marks.get(SESSION, name) != name:
                name = f"{name} (bears the marks of {plain(mirror.marks[SESSION])})"
            elif is_owned(name, job):
                name = f"{name} (not marked as ours)"
            if name in taken:
                name = f"{name} ({mirror.uuid[:8]})"
            taken.add(name)
            found.append(replace(self.as_session(mirror), name=SessionName(name)))
        return tuple(found)

    def as_session(self, mirror: Mirror) -> MirrorSession:
        """What the row selects, without OpenFlow rules."""
        row = mirror.row
        every = [u for u in self.ports if u != mirror.output] if row["select_all"] else []
        pair = _FILTER.fullmatch(_filter_text(row))
        return MirrorSession(
            SessionName(mirror.marks.get(SESSION) or str(row["name"])),
            (
                *self._sources(every or texts(row["select_src_port"]), Direction.RX),
                *self._sources(every or texts(row["select_dst_port"]), Direction.TX),
            ),
            self._destination(mirror),
            (FlowFilter(Address(pair["source"]), Address(pair["to"])),) if pair else (),
        )

    def _sources(self, uuids: Iterable[str], direction: Direction) -> list[MirrorSource]:
        names = [self.ports[u].name if u in self.ports else PortName(f"port-{u[:8]}-of-another-bridge") for u in uuids]
        return [MirrorSource(name, direction) for name in names]

    def _destination(self, mirror: Mirror) -> PortName:
        if port := self.ports.get(mirror.output):
            # A tunnel that a session of ours brought with it is part of the session; any other is a port like others.
            if port.marks.get(SESSION) and port.kind in TUNNELS.values():
                return PortName(f"{port.kind}:{port.options.get('remote_ip', '')}")
            return port.name
        vlan = number(mirror.row["output_vlan"])
        return NOWHERE if vlan is None else PortName(f"vlan:{vlan}")


def owned_name(mirror: Mirror, job: str) -> SessionName | None:
    """The name of our session that the row belongs to; None: it is somebody else's.

    Ours bears our marks, and the name that they say: a copy of our row that somebody made his own by a name is his.
    """
    marks, name = mirror.marks, str(mirror.row["name"])
    return SessionName(name) if marks.get(JOB) == job and marks.get(SESSION) == name and is_owned(name, job) else None


def filter_expression(pair: FlowFilter) -> str:
    """RoCEv2 between the two, as the filter column takes it (Open vSwitch 3.5 and later)."""
    six = ":" in pair.source
    family, word = ("udp6", "ipv6") if six else ("udp", "nw")
    return f"{family},udp_dst=4791,{word}_src={pair.source},{word}_dst={pair.destination}"


def opaque_filter(mirror: Mirror) -> str:
    """The row's own filter where our words do not have it; empty: there is none."""
    text = _filter_text(mirror.row)
    return "" if _FILTER.fullmatch(text) else text


def session_digest(session: MirrorSession) -> str:
    """SHA-256 of a session, 16 hex digits: says in the database what we wrote."""
    text = json.dumps(asdict(session), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def selects(name: str, mirror_columns: Iterable[str]) -> list[dict[str, object]]:
    """The operations that read a bridge."""
    mirror = [*MIRROR_COLUMNS, "statistics", *(c for c in OPTIONAL_COLUMNS if c in mirror_columns)]
    return [
        {"op": "select", "table": "Open_vSwitch", "where": []},
        {"op": "select", "table": "Bridge", "where": [["name", "==", name]]},
        {"op": "select", "table": "Mirror", "where": [], "columns": mirror},
        {"op": "select", "table": "Port", "where": [], "columns": list(PORT_COLUMNS)},
        {"op": "select", "table": "Interface", "where": [], "columns": list(INTERFACE_COLUMNS)},
    ]


def bridge_from(rows: Iterable[list[Row]]) -> Bridge | None:
    """A bridge from the answers to ``selects``; None: there is none of that name."""
    switches, bridges, mirrors, ports, interfaces = rows
    if not switches or not bridges:
        return None
    mine, reflecting = set(texts(bridges[0]["ports"])), set(texts(bridges[0]["mirrors"]))
    by_uuid = {first(i["_uuid"]): i for i in interfaces}
    found = {}
    for row in ports:
        members = texts(row["interfaces"])
        if first(row["_uuid"]) in mine and members and members[0] in by_uuid:
            found[first(row["_uuid"])] = Port(row, by_uuid[members[0]], len(members))
    own = sorted(
        (m for m in mirrors if first(m["_uuid"]) in reflecting), key=lambda m: (str(m["name"]), str(m["_uuid"]))
    )
    counts = tuple(sorted(f"{row['_uuid']} {row['statistics']}" for row in (*mirrors, *interfaces)))
    tunnels = frozenset(end for row in interfaces for end in _tunnel_ends(mapping(row["options"])))
    return Bridge(bridges[0], switches[0], found, tuple(Mirror(m) for m in own), counts, tunnels)


def _tunnel_ends(options: Mapping[str, str]) -> Iterable[tuple[str, int]]:
    for name in ("key", "in_key"):
        with suppress(ValueError):  # a key may be set by flow; then it is nobody's
            yield options.get("remote_ip", ""), int(options.get(name, ""), 0)


def _filter_text(row: Row) -> str:
    return first(row["filter"]) if "filter" in row else ""
