"""The plan: frozen, self-contained, canonical JSON with a digest. It is the whole configuration of all later steps."""

import hashlib
import json
from dataclasses import dataclass, replace
from math import isfinite

from flowcheck_net.errors import StalePlan
from flowcheck_net.ids import CapturePort, Channel, GroupName, HostName, NodeName, PortName, SwitchName
from flowcheck_net.intent import Direction, MirrorSession, SwitchAddress
from flowcheck_net.model.collectives.tree import is_tree
from flowcheck_net.model.expect import Expectation, HopWindow, expect
from flowcheck_net.model.job import Job, RankPlace, TreeEdge
from flowcheck_net.plan.codec import Codec, FormError, OtherFormError
from flowcheck_net.plan.ranges import RULES, check_job, check_sessions
from flowcheck_net.plan.windows import MessageWindow, before_first_loop, rules_by_point

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
    """One hop of a ring or tree that the plan sees, and the single point that counts for it."""

    group: GroupName
    channel: Channel
    index: int
    point: str
    """``Point.id``"""
    copies: int
    """Copies of each packet that arrive at all capture ports together (more than 1: unavoidable double mirroring).

    At most one for each point: fewer where the platform sends a packet to one port once, or where the points are a cut
    of which each packet crosses one."""
    counted: bool = True
    """False: it is seen, but it carries partial sums only (up a tree), or the failure-domain rules of the policy do not
    let it count for its ring."""
    also: tuple[str, ...] = ()
    """``Point.id`` of the other chosen points that see the same hop, one more for each further session."""


@dataclass(frozen=True, slots=True, order=True)
class RingCoverage:
    """What the plan gives to one ring or tree."""

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
class StageProof:
    """One stage of the lexicographic objective."""

    name: str
    value: int
    bound: int
    """Nothing smaller is possible, the stages before it being what they are; equal to ``value`` when proven optimal."""


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
    stages: tuple[StageProof, ...] = ()
    """In the order of the objective."""


@dataclass(frozen=True, slots=True, order=True)
class CaptureLoad:
    """How full a used capture port is, by the policy's rate model."""

    capture: CapturePort
    switch: SwitchName
    port: PortName
    """The switch port that it hangs on: the mirror destination."""
    load: int
    """Mbit/s of all its sources together."""
    capacity: int
    """Mbit/s, headroom taken off."""


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
    fields: tuple[tuple[str, str], ...] = ()
    """(``file.field``, short digest) of each field, sorted: to say what changed."""
    tables: tuple[tuple[str, str], ...] = ()
    """(platform, SHA-256 of what it can mirror) of platforms whose table is the site's own, sorted."""


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
    loads: tuple[CaptureLoad, ...] = ()
    """The capture ports in use, sorted."""
    windows: tuple[MessageWindow, ...] = ()
    """What the switches mirror of each hop, where the policy asks for less than whole ports; sorted."""


_ROWS: frozenset[type] = frozenset({RankPlace, TreeEdge, PlannedHop, RingCoverage})
"""Written as arrays in field order: there are thousands of them."""
_LATER = frozenset({"MirrorSession.windows", "Fingerprint.tables"})
"""Plans that were made before it are still read, and plans without it are the same bytes as then."""


def plan_to_json(plan: Plan) -> str:
    """The plan as canonical JSON: sorted keys, no spaces, ASCII, one line, a newline at the end.

    ``version`` is ``PLAN_VERSION``; ``digest`` is the SHA-256 (hex) of the same text without ``digest`` and newline.
    """
    body: dict[str, object] = {"version": PLAN_VERSION, **Codec(_ROWS, later=_LATER).encode(plan)}
    return _canonical({**body, "digest": _digest(body)}) + "\n"


def plan_from_json(text: str, source: str) -> Plan:
    """The plan in ``text``; ``source`` names the file in messages. Key order and white space do not matter.

    Raises:
        StalePlan: Not a plan, another version, altered after it was written, a value out of its range, or inconsistent
            in itself.
    """
    name = ascii(source)[1:-1]
    try:
        body = _document(text)
        plan = Codec(_ROWS, RULES, _LATER).decode(body, Plan, "plan")
        _check_references(plan)
        _check_windows(plan)
        check_job(plan.job)
        check_sessions(plan.job.name, (planned.session.name for planned in plan.sessions))
    except OtherFormError as error:
        words = f"{name}: written by another version of flowcheck-net: plan again ({error})"
        raise StalePlan(words, hint="run `flowcheck-net plan` again, with the same input files") from None
    except FormError as error:
        raise StalePlan(f"{name}: {error}", hint=_CURE) from None
    return plan


def expectation(plan: Plan) -> Expectation:
    """What must be seen of every hop of the job when the plan is in force."""
    captures: dict[str, list[CapturePort]] = {}
    for point in plan.points:
        captures.setdefault(point.id, []).append(point.capture)
    observed = {
        (hop.group, hop.channel, hop.index): (
            tuple(sorted({capture for point in (hop.point, *hop.also) for capture in captures[point]})),
            hop.copies,
        )
        for hop in plan.hops
    }
    return _within_windows(plan, expect(plan.job, observed))


def _within_windows(plan: Plan, whole: Expectation) -> Expectation:
    """Of hops with a message window only the messages inside it must be seen."""
    if not plan.windows:
        return whole
    windows = {(window.group, window.channel, window.index): window for window in plan.windows}
    lanes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    hops = []
    for hop in whole.hops:
        window, lane = windows.get((hop.group, hop.channel, hop.index)), lanes[hop.group, hop.channel]
        if window is None:
            hops.append(hop)
        else:
            inside = frozenset(n for n, m in enumerate(hop.messages) if window.holds(m, lane))
            start = before_first_loop(plan.job, lane, hop.index).packets
            first = [m for m in hop.messages if (m.bucket, m.loop) == (hop.messages[0].bucket, hop.messages[0].loop)]
            loop = sum(m.packets for m in first)
            hops.append(replace(hop, window=HopWindow(window.period, window.low, window.high, start, loop, inside)))
    return replace(whole, hops=tuple(hops))


_CURE = "plans are written by `flowcheck-net plan` and never edited; run it again"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(body: dict[str, object]) -> str:
    return hashlib.sha256(_canonical(body).encode("ascii")).hexdigest()


def _document(text: str) -> dict[str, object]:
    """The fields of the plan, once version and digest are proven."""
    try:
        body = json.loads(text, object_pairs_hook=_object, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FormError(f"not a plan: {error}") from None
    if not isinstance(body, dict) or "version" not in body or "digest" not in body:
        raise FormError("not a plan: no version and digest")
    digest = body.pop("digest")
    if body["version"] != PLAN_VERSION or isinstance(body["version"], bool):
        raise FormError(f"plan version {ascii(body['version'])[:40]}, this program reads version {PLAN_VERSION}")
    if digest != _digest(body):
        raise FormError("the digest does not fit the content: the file was altered or cut")
    del body["version"]
    return body


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormError("not a plan: a key stands twice in one object")
    return found


def _finite(word: str) -> float:
    """JSON knows no infinity and no NaN, but Python's reader does: ``NaN``, ``Infinity``, ``1e999``."""
    number = float(word)
    if not isfinite(number):
        raise FormError(f"not a plan: {word[:40]} is not a number")
    return number


def _check_references(plan: Plan) -> None:
    """Everything named exists, so that no later step meets a name it cannot look up."""
    for number, place in enumerate(plan.job.places):
        _require(place.rank == number, f"plan.job.places[{number}]: rank {place.rank} is out of order")
    for ring in plan.job.rings:
        known = all(0 <= rank < len(plan.job.places) for rank in ring.ranks)
        _require(
            known and len(ring.ranks) > 1, f"plan.job.rings: {ring.group}/{ring.channel} names unknown ranks or too few"
        )
        _require(
            len(ring.qpns) in (0, ring.size), f"plan.job.rings: {ring.group}/{ring.channel} has qpns for some hops only"
        )
        _require(
            len(ring.nics) in (0, ring.size), f"plan.job.rings: {ring.group}/{ring.channel} has nics for some hops only"
        )
    for tree in plan.job.trees:
        edges = [(edge.parent, edge.child) for edge in tree.edges]
        known = all(0 <= rank < len(plan.job.places) for pair in edges for rank in pair)
        _require(
            known and bool(edges) and is_tree(edges) and tree.members >= tree.hosts > 0,
            f"plan.job.trees: {tree.group}/{tree.channel} names unknown ranks or is no tree",
        )
    switches = {switch.name for switch in plan.switches}
    sources: dict[tuple[SwitchName, CapturePort], set[tuple[PortName, str]]] = {}
    for planned in plan.sessions:
        _require(planned.switch in switches, f"plan.sessions: unknown switch {planned.switch!a}")
        _require((planned.switch, planned.capture) not in sources, f"plan.sessions: two to {planned.capture!a}")
        pairs = {(s.port, s.direction.value) for s in planned.session.sources}
        sources[planned.switch, planned.capture] = pairs
    for point in plan.points:
        found = (point.port, point.direction.value) in sources.get((point.switch, point.capture), ())
        _require(found, f"plan.points: no session watches {point.id!a}")
    _require(len(set(plan.points)) == len(plan.points), "plan.points: a point stands twice")
    _require(sum(len(s) for s in sources.values()) == len(plan.points), "plan.sessions: a source is not a point")
    _check_hops(plan, {point.id for point in plan.points})


def _check_windows(plan: Plan) -> None:
    """The sessions say of each queue pair what the windows of the hops say, and nothing else."""
    sizes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    for window in plan.windows:
        lane = sizes.get((window.group, window.channel))
        name = f"plan.windows: {window.group!a}/{window.channel} hop {window.index}"
        _require(lane is not None and 0 <= window.index < lane.hop_count, f"{name}: no such hop")
        _require(0 <= window.low <= window.high <= window.period, f"{name}: not within its period")
        _require(lane is None or window.qpns == lane.hop_qpns(window.index), f"{name}: the job has other queue pairs")
    told = rules_by_point(plan.job, plan.windows, plan.hops)
    for planned in plan.sessions:
        points = (f"{planned.switch}:{s.port}:{s.direction}" for s in planned.session.sources)
        rules = {rule for point in points for rule in told.get(point, ())}
        fits = planned.session.windows == tuple(sorted(rules))
        _require(fits, f"plan.sessions: {planned.session.name} has not its message windows")


def _check_hops(plan: Plan, points: set[str]) -> None:
    lanes = plan.job.lanes
    sizes = {(lane.group, lane.channel): lane.hop_count for lane in lanes}
    _require(len(sizes) == len(lanes), "plan.job.rings: a ring or tree stands twice")
    for hop in plan.hops:
        name = f"plan.hops: {hop.group!a}/{hop.channel} hop {hop.index}"
        _require(0 <= hop.index < sizes.get((hop.group, hop.channel), 0), f"{name}: no such hop")
        _require(points.issuperset((hop.point, *hop.also)), f"{name}: unknown point")
        _require(1 <= hop.copies <= 1 + len(hop.also), f"{name}: copies and points differ")
    covered = sorted((c.group, c.channel) for c in plan.coverage)
    _require(covered == sorted(sizes), "plan.coverage: not exactly one line a ring")


def _require(fits: bool, message: str) -> None:
    if not fits:
        raise FormError(message)
