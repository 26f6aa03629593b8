"""The planning problem as plain data: what may be watched, what it costs, what limits it.

Rates are whole Mbit/s: sources are rounded up and capacities down, so that every limit is exact integer arithmetic.
Sizes are bytes of RDMA payload a step. Everything refers to everything else by its place in the tuples below, which are
sorted, so that the same inputs give the same problem whatever the order of the input files.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Direction


class Limit(StrEnum):
    """What can forbid a choice, in the words of a person."""

    HOPS = "network hops"
    PATH = "no port that every path crosses"
    DIRECTION = "mirror direction"
    TENANT = "tenant isolation"
    ALLOWED = "allowed_ports"
    CAPTURE = "capture ports"
    CHECKPOINT_APART = "checkpoint_apart"
    COPIES_APART = "copies_apart"
    SESSIONS = "mirror sessions"
    SOURCES = "sources per session"
    BANDWIDTH = "capture bandwidth"


@dataclass(frozen=True, slots=True, order=True)
class Tap:
    """One port in one direction that certainly sees at least one hop of the job."""

    switch: SwitchName
    port: PortName
    direction: Direction
    rate: int
    """Mbit/s that its copies can reach under the policy's rate model."""
    needs_filter: bool
    """Foreign traffic may cross it, so its session must be limited to the job's address pairs."""
    refusals: tuple[Limit, ...]
    """Why it may not be chosen; empty: it may."""

    @property
    def id(self) -> str:
        """``switch:port:direction``, the ``Point.id`` of the plan."""
        return f"{self.switch}:{self.port}:{self.direction}"


@dataclass(frozen=True, slots=True, order=True)
class Capture:
    """A capture port: a checkpoint node's NIC on a switch."""

    switch: SwitchName
    switch_port: PortName
    """The mirror destination."""
    port: CapturePort
    node: NodeName
    capacity: int
    """Mbit/s: the slower end of the cable, less the headroom."""
    number: int
    """Session number on its switch, from 1: stable when another capture port falls out of use."""


@dataclass(frozen=True, slots=True)
class SwitchLimits:
    """What one switch can do, and where it stands."""

    name: SwitchName
    max_sessions: int
    max_sources: int
    """Sources (port, direction) of one session."""
    apart: tuple[str, ...]
    """Its failure domains of the kinds that ``copies_apart`` names."""


@dataclass(frozen=True, slots=True)
class RingNeed:
    """What one ring or tree wants and where its hops may count."""

    group: GroupName
    channel: Channel
    size: int
    wanted: int
    """``policy.copies``"""
    copies: int
    """What is asked of the plan: the smaller of ``wanted`` and what the ring's network hops can give; at least 1."""
    hops: int
    """Distinct hops that give so many copies."""
    network_hops: int
    """Hops between two hosts that carry fully reduced data; those inside a host are invisible to every switch."""
    captures: tuple[int, ...]
    """Capture ports at which its hops may count (``checkpoint_apart``)."""
    complete: bool = False
    """One hop shows everything: in a tree, and in a ring with the extra step. Else it takes one hop more."""
    kind: str = "ring"
    """``ring`` or ``tree``, for messages."""

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.kind} {self.group}/{self.channel}"


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a ring or tree between two hosts."""

    ring: int
    index: int
    """Number of the hop in its ring or tree."""
    source: Address
    destination: Address
    size: int
    """Bytes a step."""
    taps: tuple[int, ...]
    """Every tap that certainly sees it, the refused ones too."""
    counts: bool = True
    """False: it carries partial sums only (up a tree), is mirrored with the others, and gives no copy."""


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """Choose taps and a capture port for each, so that every ring is seen by enough distinct hops."""

    job: str
    extra_step: bool
    """The patched all-reduce: one hop is complete by itself."""
    copies_apart: bool
    """No two counted hops of a ring may be seen in one failure domain of the named kinds."""
    taps: tuple[Tap, ...]
    captures: tuple[Capture, ...]
    switches: tuple[SwitchLimits, ...]
    rings: tuple[RingNeed, ...]
    hops: tuple[Hop, ...]
    """Sorted by (ring, index); hops within a host are not here."""
    gradient_bytes: int
    """Bytes of gradient a step of all groups."""
    headroom: float
    """Share of a capture port's speed that stays free; already taken off ``Capture.capacity``."""


def capacity(gbps: int, headroom: float) -> int:
    """Mbit/s that a capture port of ``gbps`` Gbit/s may be given: its headroom off, rounded down."""
    return int(gbps * 1000 * (1 - Fraction(str(headroom))))


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen set of taps, each with its capture port, and the hops that count."""

    taps: tuple[tuple[int, int], ...]
    """(tap, capture), sorted."""
    counted: tuple[tuple[int, int], ...]
    """(hop, tap), sorted: the hop counts for its ring, as seen at this tap."""
