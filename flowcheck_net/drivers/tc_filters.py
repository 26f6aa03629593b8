"""The links of a machine and the tc filters at them, from iproute2's JSON; and the cookie that says whose a filter is.

A cookie is 16 bytes: 2 are ours, 1 is kept free (older ones have a mark there), 4 are the job's, 4 the number of the
session, 5 a digest of the whole session. Pure.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from flowcheck_net.drivers.tc_match import Match, Unknown, match_of
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, is_owned, session_name

_MAGIC = "fc4e"
_DIGEST_DIGITS = 10
_COOKIE_DIGITS = 32
_MOST = 1 << 32
SIDES = {Direction.RX: "ingress", Direction.TX: "egress"}
FIRST_PREF, LAST_PREF = 4096, 8191
"""Our preferences: before those that the kernel gives by itself (49152 and below), which stand first are others'."""
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Cookie:
    """Whose a filter is."""

    job: str
    """8 hex digits; see ``job_mark``."""
    number: int
    digest: str

    def text(self) -> str:
        """As tc takes it."""
        return f"{_MAGIC}00{self.job}{self.number:08x}{self.digest}"


@dataclass(frozen=True, slots=True)
class Filter:
    """One tc filter."""

    port: PortName
    direction: Direction
    pref: int
    protocol: str
    kind: str
    handle: str
    match: Match
    mirrors_to: PortName | None
    """Where its copies go; None: it makes none."""
    copies: bool
    """True: one mirred action of ours' form, which copies and lets the packet go on."""
    cookie: Cookie | None
    """None: the filter is not flowcheck-net's."""
    packets: int
    """That matched."""
    failed: int
    """Of them: copies that could not be sent."""
    in_hardware: bool

    def removal(self) -> str:
        """The line of a tc batch that removes it, and nothing else."""
        place = f"dev {self.port} {SIDES[self.direction]} protocol {self.protocol} pref {self.pref}"
        return f"filter del {place} handle {self.handle} {self.kind}"


@dataclass(frozen=True, slots=True)
class Link:
    """A network interface."""

    row: Json

    @property
    def name(self) -> PortName:
        """Of the interface."""
        return PortName(str(self.row["ifname"]))

    @property
    def down(self) -> bool:
        """No link, or switched off."""
        flags = self.row.get("flags")
        return not (isinstance(flags, list) and {"UP", "LOWER_UP"} <= set(flags))

    @property
    def mtu(self) -> int:
        """Bytes above Ethernet's header."""
        value = self.row.get("mtu")
        return value if isinstance(value, int) else 0

    @property
    def bridge(self) -> str:
        """The bridge or bond that it belongs to; empty: none."""
        return str(self.row.get("master", ""))

    @property
    def hardware(self) -> bool:
        """A port of a switch chip, which forwards without the kernel."""
        return bool(self.row.get("phys_switch_id"))

    @property
    def addresses(self) -> tuple[str, ...]:
        """IP addresses, without those that every interface gives itself."""
        rows = self.row.get("addr_info")
        found = [r for r in rows if r.get("scope") != "link"] if isinstance(rows, list) else []
        return tuple(str(r.get("local", "")) for r in found)

    def packets(self, direction: Direction) -> int | None:
        """All that passed; None: not told."""
        stats = self.row.get("stats64")
        side = stats.get(direction.value) if isinstance(stats, dict) else None
        count = side.get("packets") if isinstance(side, dict) else None
        return count if isinstance(count, int) else None


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine at one moment."""

    links: Mapping[str, Link]
    qdiscs: Mapping[str, tuple[str, ...]]
    """Interface -> kinds of its qdiscs."""
    filters: tuple[Filter, ...]
    unread: tuple[tuple[str, str], ...]
    """(interface, why): their filters could not be read."""
    boot: str

    def at(self, port: str, direction: Direction | None = None) -> list[Filter]:
        """Filters at a port, in the order in which they see a packet."""
        found = [f for f in self.filters if f.port == port and direction in (None, f.direction)]
        return sorted(found, key=lambda f: f.pref)


def job_mark(job: str) -> str:
    """8 hex digits for a job."""
    return hashlib.sha256(job.encode()).hexdigest()[:8]


def cookie_of(session: MirrorSession, job: str) -> Cookie:
    """The cookie of a session's filters; raises ValueError where its number has more than 32 bits."""
    number = int(session.name.rpartition("-")[2])
    if not is_owned(session.name, job) or number >= _MOST or session.name != session_name(job, number):
        raise ValueError(
            f"{session.name} cannot be told in a cookie: its number is 0 to {_MOST - 1}, without zeros before"
        )
    return Cookie(job_mark(job), number, session_digest(session))


def session_digest(session: MirrorSession) -> str:
    """40 bits of a session's SHA-256, in hex: says in the cookie what we wrote."""
    text = json.dumps(asdict(session), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def owner_of(cookie: Cookie, job: str) -> SessionName:
    """The session that a cookie belongs to; of another job, by a name that is never one of ours."""
    if cookie.job == job_mark(job):
        return session_name(job, cookie.number)
    return SessionName(f"flowcheck-net-{cookie.job}-{cookie.number}")


def documents(text: str) -> list[object]:
    """The JSON texts of a tc batch, one after the other; several keys ``match`` of one object become a list.

    Raises:
        ValueError: it is not JSON.
    """
    decoder, found, at = json.JSONDecoder(object_pairs_hook=_gather), [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def links_from(rows: object) -> dict[str, Link]:
    """Interfaces by name, from ``ip -j -d -s address show``."""
    every = [Link(r) for r in rows if isinstance(r, dict) and "ifname" in r] if isinstance(rows, list) else []
    return {link.name: link for link in every}


def qdiscs_from(rows: object) -> dict[str, tuple[str, ...]]:
    """Kinds of qdiscs by interface, from ``tc -j qdisc show``."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows if isinstance(rows, list) else ():
        name = str(row.get("dev", ""))
        found[name] = (*found.get(name, ()), str(row.get("kind", "")))
    return found


def filters_from(rows: object, port: PortName, direction: Direction) -> Iterable[Filter]:
    """Filters at one side of an interface, from ``tc -s -j filter show``."""
    for row in rows if isinstance(rows, list) else ():
        options = row.get("options")
        if not isinstance(options, dict):
            continue  # the head of a preference, without a filter
        handle = str(options.get("fh") or options.get("handle") or "")
        if row.get("kind") == "u32" and "ht_divisor" in options:
            continue  # a hash table of u32
        yield _filter(row, options, handle, port, direction)


def _filter(row: Json, options: Json, handle: str, port: PortName, direction: Direction) -> Filter:
    given = options.get("actions")
    actions: Sequence[Json] = [a for a in given if isinstance(a, dict)] if isinstance(given, list) else []
    mirrors = [a for a in actions if a.get("kind") == "mirred"]
    control = mirrors[0].get("control_action") if mirrors else None
    plain = len(actions) == 1 and len(mirrors) == 1 and control == {"type": "continue"}
    copying = plain and (mirrors[0].get("mirred_action"), mirrors[0].get("direction")) == ("mirror", "egress")
    kind = str(row.get("kind", ""))
    stats = mirrors[0].get("stats") if mirrors else None
    counts: Json = stats if isinstance(stats, dict) else {}
    return Filter(
        port=port,
        direction=direction,
        pref=_number(row.get("pref")),
        protocol=str(row.get("protocol", "")),
        kind=kind,
        handle=handle,
        match=match_of(kind, options) if not row.get("chain") else Unknown(f"a filter of chain {row['chain']}"),
        mirrors_to=PortName(str(mirrors[0].get("to_dev", "(none)"))) if mirrors else None,
        copies=copying,
        cookie=next((c for a in actions if (c := _cookie(a.get("cookie")))), None),
        packets=_number(counts.get("packets")),
        failed=_number(counts.get("overlimits")),
        in_hardware=bool(options.get("in_hw")),
    )


def _cookie(value: object) -> Cookie | None:
    text = str(value or "")
    if len(text) != _COOKIE_DIGITS or not text.startswith(_MAGIC):
        return None
    return Cookie(text[6:14], int(text[14:22], 16), text[22:])


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _gather(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if "match" in found:
        found["match"] = [value for key, value in pairs if key == "match"]
    return found
