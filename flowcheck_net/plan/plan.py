"""The plan: frozen, self-contained, canonical JSON with a digest. It is the whole configuration of all later steps."""

from dataclasses import dataclass

from flowcheck_net.ids import CapturePort, Channel, GroupName, HostName, NicName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Direction, MirrorSession, SwitchAddress
from flowcheck_net.model.job import Job

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """An observation point: one port watched in one direction, and where its copies arrive."""

    switch: SwitchName
    port: PortName
    direction: Direction
    capture: CapturePort
    """``node:nic``"""

    @property
    def id(self) -> str:
        """``switch:port:direction``, for tables and findings."""
        return f"{self.switch}:{self.port}:{self.direction}"


@dataclass(frozen=True, slots=True, order=True)
class PlannedSession:
    """One mirror session to program."""

    switch: SwitchName
    session: MirrorSession
    capture: CapturePort


@dataclass(frozen=True, slots=True, order=True)
class PlannedHop:
    """One ring hop that the plan sees, and the single point that counts for it."""

    group: GroupName
    channel: Channel
    index: int
    point: str
    """``Point.id``"""
    copies: int
    """Copies of each packet that arrive at all capture ports together (more than 1: unavoidable double mirroring)."""


@dataclass(frozen=True, slots=True, order=True)
class RingCoverage:
    """What the plan gives to one ring."""

    group: GroupName
    channel: Channel
    copies: int
    """Every fully reduced byte is seen at this many distinct hops or more."""
    wanted: int
    """``policy.copies``; more than ``copies`` where the ring has too few network hops to give it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the plan costs, in the order of the objective."""

    unmet: int
    """Rings with fewer copies than the ring can give: always 0."""
    duplicate_bytes: int
    """Bytes a step that arrive more than once as copies of the same hop."""
    mirrored_bytes: int
    """Bytes of collective payload a step that are mirrored, RDMA payload only."""
    gradient_bytes: int
    """Bytes of gradient a step of all groups: the bound of a perfect observer (times protocol overhead)."""
    sessions: int
    switches: int


@dataclass(frozen=True, slots=True)
class Proof:
    """What the solver proved."""

    solver: str
    status: str
    """``optimal`` or why not."""
    bound: float
    """Best bound on the last stage of the objective."""
    gap: float
    """Relative gap; 0 means proven optimal."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The part of the fabric that the report draws."""

    switches: tuple[SwitchName, ...]
    hosts: tuple[HostName, ...]
    nodes: tuple[NodeName, ...]
    links: tuple[tuple[str, str, str, str], ...]
    """(device a, port a, device b, port b)"""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """SHA-256 (hex) of each input as it was understood, so that a stale plan can name what changed."""

    topology: str
    job: str
    policy: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that apply, receive and audit need."""

    fingerprint: Fingerprint
    job: Job
    switches: tuple[SwitchAddress, ...]
    """The switches to program, sorted by name."""
    points: tuple[Point, ...]
    sessions: tuple[PlannedSession, ...]
    hops: tuple[PlannedHop, ...]
    coverage: tuple[RingCoverage, ...]
    cost: Cost
    proof: Proof
    picture: Picture


# to be written by the owner of this file (plan helper):
#   def plan_to_json(plan: Plan) -> str: canonical JSON: sorted keys, {"version": 1, "digest": sha256 of the rest, ...}
#   def plan_from_json(text: str, source: str) -> Plan: raises StalePlan on a wrong digest or version
_ = (NicName,)
