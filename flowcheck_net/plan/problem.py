"""The planning problem as plain data: what may be watched, what it costs, what limits it.

Rates are whole Mbit/s: sources are rounded up and capacities down, so that every limit is exact integer arithmetic.
Sizes are bytes of RDMA payload a step. Everything refers to everything else by its place in the tuples below, which are
sorted, so that the same inputs give the same problem whatever the order of the input files.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Counted, Direction


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
    FOREIGN = "other owners' sessions"
    MIRROR = "no mirror of a mirror"
    SHARING = "one session a source"
    ROOMS = "mirror sessions by slice and direction"
    FILTERS = "filter entries"
    UPLINK = "bandwidth for copies that cross the fabric"
    SURVIVE = "survive"
    WINDOW = "message windows"


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
    remote_rate: int = 0
    """``rate`` with the headers that its copies get on their way to another switch."""
    slice: str = ""
    """Slice of the switch's ASIC."""
    filterable: bool = True
    """Its session may be limited to address pairs."""

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
    remote: bool = False
    """The capture NIC hangs on another switch: copies are encapsulated, ``switch_port`` is ``erspan:ADDRESS``."""
    refusals: tuple[Limit, ...] = ()
    """Why no session may send to it; empty: it may be used."""


@dataclass(frozen=True, slots=True, order=True)
class SessionRoom:
    """A limit on the sessions of a switch by slice and direction, other owners' sessions taken off."""

    counts: Counted
    most: int
    slice: str | None
    """Slice whose sources count; ``None``: of the whole switch."""
    foreign: int = 0
    """What sessions of other owners use, already taken off ``most``, which is never below 0."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.counts.value + ("" if self.slice is None else f" in slice {self.slice or '(unnamed)'}")


@dataclass(frozen=True, slots=True, order=True)
class Budget:
    """A way that several sessions share: a link between switches, or a capture NIC that several switches send to."""

    name: str
    limit: Limit
    capacity: int
    """Mbit/s."""
    captures: tuple[int, ...]
    """Sessions to these may use it."""


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """Taps of which every packet of some hops crosses exactly one: chosen all together or not at all."""

    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SwitchLimits:
    """What one switch can do, and where it stands."""

    name: SwitchName
    max_sessions: int
    max_sources: int
    """Sources (port, direction) of one session."""
    apart: tuple[str, ...]
    """Its failure domains of the kinds that ``copies_apart`` names."""
    rooms: tuple[SessionRoom, ...] = ()
    many: bool = False
    """One tap may be a source of several sessions."""
    split: bool = True
    """The two directions of a port may belong to two sessions."""
    once: bool = False
    """A packet goes to one capture port once, however many taps see it."""
    filter_entries: int | None = None
    """Address pairs of all sessions together; ``None``: no limit."""
    entries_by_source: bool = False
    """Each direction has so many rules; a source takes one for each pair of its session, or one if it has none."""
    foreign: int = 0
    """Sessions of other owners, already taken off ``max_sessions``, which is never below 0."""


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
    cuts: tuple[int, ...] = ()
    """Cuts that it crosses: it is seen once by each whole one."""


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
    cuts: tuple[Cut, ...] = ()
    budgets: tuple[Budget, ...] = ()
    exclusive: tuple[tuple[int, int], ...] = ()
    """(capture, capture): a NIC that is a mirror port of its own switch takes no copies from others."""
    carries: tuple[tuple[int, int], ...] = ()
    """(tap, capture): copies to the capture may cross the tap's port, so the two exclude each other."""
    survive: bool = False
    """Every ring stays complete after the loss of any one switch, capture port or checkpoint node."""
    running: tuple[tuple[int, int], ...] | None = None
    """(tap, capture) of the plan in force that are still to be had: stay close to them."""

    def rate(self, tap: int, capture: int) -> int:
        """Mbit/s that copies of the tap take at the capture port."""
        return self.taps[tap].remote_rate if self.captures[capture].remote else self.taps[tap].rate

    def home(self, capture: int) -> SwitchName:
        """The switch that the capture NIC hangs on: another than the watching one where copies cross the fabric."""
        local = (one for one, remote in self.exclusive if remote == capture)
        return self.captures[next(local, capture)].switch

    def sites(self, hop: Hop) -> tuple[int, ...]:
        """Every tap that the hop crosses, or may cross."""
        return tuple(sorted({*hop.taps, *(tap for cut in hop.cuts for tap in self.cuts[cut].taps)}))


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
