"""The words that plan and drivers share: what a mirror session is, and how a switch is changed."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from flowcheck_net.ids import Address, PortName, Qpn, SessionName, SwitchName

_RECKONED = re.compile(
    r"since (?P<when>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}) within (?P<minutes>[0-9]+) min, (?P<rest>.*)"
)
_OWNED = re.compile(r"fcn-(?P<job>[a-z0-9]+(?:-[a-z0-9]+)*)-(?P<number>0|[1-9][0-9]*)")
_CANDIDATE = re.compile(r"fcn-(?P<job>[a-z0-9]+(?:-[a-z0-9]+)*)-[0-9a-f]{8}")


class Direction(StrEnum):
    """Seen from the switch: ``rx`` enters the switch at the port, ``tx`` leaves it."""

    RX = "rx"
    TX = "tx"


@dataclass(frozen=True, slots=True, order=True)
class MirrorSource:
    """One port watched in one direction."""

    port: PortName
    direction: Direction


@dataclass(frozen=True, slots=True, order=True)
class FlowFilter:
    """Mirror only RoCEv2 (UDP 4791) between these two addresses."""

    source: Address
    destination: Address


@dataclass(frozen=True, slots=True, order=True)
class WindowRule:
    """Of the messages of this queue pair mirror only ``low`` to ``high`` (without) of each ``period``.

    Messages are counted by their ends (a write with immediate) from PSN 0 on. With ``low`` above ``high`` the window
    runs over the end of the period; equal, it is empty.
    """

    destination: Address
    qpn: Qpn
    """Queue pair at the destination."""
    period: int
    low: int
    high: int

    @property
    def flow(self) -> tuple[Address, Qpn]:
        """What is followed: a switch has one window for it."""
        return self.destination, self.qpn


@dataclass(frozen=True, slots=True, order=True)
class MirrorSession:
    """One mirror session of a switch, in canonical form (sources, filters, windows sorted, without repeats)."""

    name: SessionName
    sources: tuple[MirrorSource, ...]
    destination: PortName
    """A port of the switch, or ``erspan:ADDRESS``: encapsulated copies to that address, over the fabric."""
    filters: tuple[FlowFilter, ...] = ()
    """Empty means every packet of the sources is mirrored."""
    windows: tuple[WindowRule, ...] = ()
    """Empty means whole ports. Else of a queue pair that is named here only its window is mirrored, of any other one
    every RDMA write and send, and nothing else (no ACK, no CNP)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", tuple(sorted(set(self.windows))))
        object.__setattr__(self, "sources", tuple(sorted(set(self.sources))))
        object.__setattr__(self, "filters", tuple(sorted(set(self.filters))))


class StepKind(StrEnum):
    """What a step does. A change of a session is a delete and a create."""

    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one switch."""

    kind: StepKind
    session: MirrorSession
    """The whole session, also for a delete, so that the journal says what was there."""


class RemarkKind(StrEnum):
    """What makes a session less than a whole copy of its sources, or puts that in doubt."""

    SAMPLING = "sampling"
    """Only one packet in so many is copied."""
    TRUNCATION = "truncation"
    """Copies are cut short."""
    FILTER = "filter"
    """The session has a filter that our words do not have: it copies less than it says."""
    INACTIVE = "inactive"
    """Configured, and not working."""
    DESTINATION_DOWN = "destination down"
    NO_NEXT_HOP = "no next hop"
    """Copies are encapsulated, and the switch knows no way to their address."""
    SOURCE_DOWN = "source down"
    """A watched port has no link: nothing to copy now."""
    POLICER = "policer"
    """Copies above some rate are dropped."""
    RESERVED_PORT = "reserved port"
    """The destination is in use for something else as well, or the switch keeps it for itself."""
    OTHER = "other"
    """What the driver read and does not understand. Never left out: unknown does not become fine."""

    @property
    def incomplete(self) -> bool:
        """True: copies are certainly missing while this stands. False: it depends, on rate, link or meaning."""
        return self in _CERTAIN


_CERTAIN = frozenset(
    {
        *(RemarkKind.SAMPLING, RemarkKind.TRUNCATION, RemarkKind.FILTER),
        *(RemarkKind.INACTIVE, RemarkKind.DESTINATION_DOWN, RemarkKind.NO_NEXT_HOP),
    }
)


_NO_SESSION = SessionName("")
_NO_PORT = PortName("")


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """Something that a driver saw while it read, which is no part of the configuration that we write."""

    kind: RemarkKind
    text: str
    """In plain words, with the numbers: ``1 packet in 1024``. No secrets."""
    session: SessionName = _NO_SESSION
    """The session that it is about; empty: a port, or the whole switch."""
    port: PortName = _NO_PORT
    """The port that it is about; empty: the session as a whole."""


@dataclass(frozen=True, slots=True)
class SwitchState:
    """The mirror sessions of a switch: ours, and everybody else's (which nothing may change).

    Two states are equal when their sessions are; what a driver noticed beside them takes no part.
    """

    owned: tuple[MirrorSession, ...]
    foreign: tuple[MirrorSession, ...]
    remarks: tuple[Remark, ...] = field(default=(), compare=False)
    """About our sessions and their ports. Foreign sessions are not judged."""
    restart_mark: str = field(default="", compare=False)
    """Changes when the switch restarted or was upgraded (boot id, start time, firmware); empty: not known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "owned", tuple(sorted(self.owned)))
        object.__setattr__(self, "foreign", tuple(sorted(self.foreign)))
        object.__setattr__(self, "remarks", tuple(sorted(set(self.remarks))))

    def digest(self) -> str:
        """SHA-256 (hex) of our own sessions: the guard of a rollback."""
        text = json.dumps([asdict(s) for s in self.owned], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class SessionSource:
    """One source of one session: an observation point as the switch knows it."""

    session: SessionName
    source: MirrorSource


@dataclass(frozen=True, slots=True)
class Counters:
    """Packet counts at one moment. What the switch cannot count is left out: unknown is not 0."""

    sessions: Mapping[SessionName, int] = field(default_factory=dict)
    """Copies that each of our sessions made since it was created (or since the switch last forgot)."""
    sources: Mapping[SessionSource, int] = field(default_factory=dict)
    """Copies of each source alone, where the switch counts them apart: the count at an observation point."""
    ports: Mapping[MirrorSource, int] = field(default_factory=dict)
    """All packets that passed a watched port in a direction, mirrored or not: the port's own counter."""


class Counted(StrEnum):
    """What a limit on sessions counts."""

    SESSIONS = "sessions"
    RX = "rx"
    """Sessions with a source that is watched as it enters the switch."""
    TX = "tx"
    """Sessions with a source that is watched as it leaves the switch."""
    DIRECTIONS = "directions"
    """Sessions and their directions: one that watches both counts twice."""


@dataclass(frozen=True, slots=True, order=True)
class SessionLimit:
    """One limit on the sessions of a switch, or of each slice of its ASIC."""

    counts: Counted
    most: int
    per_slice: bool = False
    """True: it holds in each slice for itself, for the sessions that have a source on the slice's ports."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a platform can mirror. Copies are never truncated or sampled: no field asks for it."""

    platform: str
    max_sessions: int
    """Mirror sessions of the whole switch, other owners' included."""
    max_sources_per_session: int
    directions: frozenset[Direction]
    filters: bool
    """Can a session be limited to given address pairs?"""
    source_in_many_sessions: bool
    """May one (port, direction) be a source of two sessions?"""
    split_directions: bool = True
    """May the two directions of one port be watched by two sessions?"""
    session_limits: tuple[SessionLimit, ...] = ()
    """Beside ``max_sessions``: by slice and by direction."""
    shared_destinations: bool = False
    """May two sessions send to one port?"""
    filter_families: frozenset[int] = frozenset({4, 6})
    """IP versions that a filter can match."""
    filter_directions: frozenset[Direction] = frozenset(Direction)
    """Directions in which a session can be limited to address pairs."""
    max_filter_entries: int | None = None
    """Address pairs of all sessions together; None: more than any job has."""
    filter_entries_by_source: bool = False
    """An entry is a rule for one source: each source of a session takes one for each of its pairs, or one where it has
    none, and each direction has ``max_filter_entries`` for itself."""
    encapsulation_bytes: int | None = None
    """Bytes that the way to another switch adds to each copy (ERSPAN); None: copies cannot leave the switch."""
    one_copy_per_output: bool = False
    """A packet goes to one mirror port once, however many sources select it; else once for each source."""
    message_window: bool = False
    """Can it count the messages of a queue pair and mirror a window of each loop?"""


def restarted(before: str, now: str) -> bool:
    """Do two restart marks tell of a restart between them? Empty ones do not tell.

    A mark that was reckoned from an uptime bears its uncertainty (``since 2026-11-30T21:40 within 2 min, RELEASE``):
    two such marks that lie within it are one start.
    """
    if not before or not now or before == now:
        return False
    one, other = (_RECKONED.fullmatch(mark) for mark in (before, now))
    if one is None or other is None or one["rest"] != other["rest"]:
        return True
    apart = datetime.fromisoformat(one["when"]) - datetime.fromisoformat(other["when"])
    return abs(apart) > timedelta(minutes=int(one["minutes"]))


def session_name(job: str, number: int) -> SessionName:
    """The name of our session ``number`` for ``job``: the mark by which we know our own."""
    return SessionName(f"fcn-{job}-{number}")


def is_owned(name: str, job: str) -> bool:
    """Is this session ours, for this very job? A session of another flowcheck-net job is foreign.

    So is a name that ``session_name`` never gives, such as one with zeros before its number.
    """
    match = _OWNED.fullmatch(name)
    return match is not None and match["job"] == job


def is_candidate(name: str, job: str) -> bool:
    """Is this the name of a pending change (a candidate, a commit on trial) of this very job?

    Job ``gpt`` and job ``gpt-0`` begin alike, so the whole name decides.
    """
    match = _CANDIDATE.fullmatch(name)
    return match is not None and match["job"] == job


def split_state(
    sessions: Iterable[MirrorSession], job: str, *, remarks: Iterable[Remark] = (), restart_mark: str = ""
) -> SwitchState:
    """Sort all sessions of a switch into ours and foreign ones; remarks on foreign ones are left out."""
    every = tuple(sessions)
    return SwitchState(
        owned=tuple(s for s in every if is_owned(s.name, job)),
        foreign=tuple(s for s in every if not is_owned(s.name, job)),
        remarks=tuple(r for r in remarks if not r.session or is_owned(r.session, job)),
        restart_mark=restart_mark,
    )


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a device says that it is; empty: it does not tell."""

    hostname: str = ""
    model: str = ""
    version: str = ""
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a device tells of its cables, and of itself."""

    neighbors: str
    """What it hears by LLDP: NAPALM's ``lldp_neighbors_detail`` as JSON, or the answer of its command line."""
    speeds: Mapping[PortName, int] = field(default_factory=dict)
    """Ports by their speed in Mbit/s; what it does not tell is left out."""
    facts: DeviceFacts = field(default_factory=DeviceFacts)
    refused: tuple[str, ...] = ()
    """Questions that it does not answer us, with its words."""
    doubts: tuple[str, ...] = ()
    """What was asked and not understood, or told in two ways: nothing of it is in the other fields."""


@dataclass(frozen=True, slots=True, order=True)
class SwitchAddress:
    """How a driver finds a switch. Secrets are never here: ``management`` is a reference."""

    name: SwitchName
    platform: str
    management: str
