"""What the values of a plan file may be: a digest proves that a file is whole, not that its numbers make sense.

The ranges are those of the input files (``spec.ranges``), so whatever ``plan`` writes is read again, and whatever is
read can be expected, audited and synthesised in bounded time.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from flowcheck_net.intent import is_owned
from flowcheck_net.model.job import Job, Lane, Ring
from flowcheck_net.model.wire_count import job_excess
from flowcheck_net.model.wire_regimes import chunks_overlap
from flowcheck_net.plan.codec import FormError, Rule
from flowcheck_net.plan.windows import LONGEST_PERIOD
from flowcheck_net.spec.ranges import (
    COUNT_END,
    GROUP_PATTERN,
    JOB_LENGTH,
    JOB_PATTERN,
    LEAST_THREADS,
    MANAGEMENT_LENGTH,
    MANAGEMENT_PATTERN,
    MAX_THREADS,
    MOST_BROADCAST_BYTES,
    MOST_CHANNELS,
    MOST_ELEMENTS,
    MOST_QPS,
    MOST_SECONDS,
    MTUS,
    NAME_LENGTH,
    NAME_PATTERN,
    NEWEST_NCCL,
    OLDEST_NCCL,
    PORT_PATTERN,
    QPN_END,
    QPN_FIRST,
    THREAD_STEP,
    canonical_address,
)

_MOST_COUNT = 2**63 - 1
_MOST_TEXT = 255
_MOST_FLOAT = 1e300
_HEAD = r"(\.head[0-9]{1,9})?$"
"""NVLSTree: each head of a group is a tree of its own."""


def _between(low: int, high: int) -> Rule:
    return Rule(f"{low} to {high}", lambda n: low <= n <= high)


def _text(pattern: str, longest: int, words: str) -> Rule:
    compiled = re.compile(pattern)
    return Rule(f"{words}, at most {longest} characters", lambda t: len(t) <= longest and _matches(compiled, t))


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None and text.isprintable()


def _is_address(text: str) -> bool:
    try:
        return canonical_address(text) == text
    except ValueError:
        return False


def _is_capture(text: str) -> bool:
    node, colon, nic = text.partition(":")
    return bool(colon) and all(len(name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, name) for name in (node, nic))


_NAME = _text(NAME_PATTERN, NAME_LENGTH, "letters, digits, dot, underscore or dash")
_PLATFORM = _text(
    rf"{NAME_PATTERN.removesuffix('$')}(?:\+{NAME_PATTERN.removeprefix('^')[:-1]})?$",
    2 * NAME_LENGTH + 1,
    "a platform, or a platform and its chip with + between",
)
_PORT = _text(PORT_PATTERN, NAME_LENGTH, "letters, digits, dot, underscore, slash, colon or dash")
_THREADS = f"a multiple of {THREAD_STEP} from {LEAST_THREADS} to {max(MAX_THREADS.values())}"
_VERSIONS = ".".join(map(str, OLDEST_NCCL)) + " to " + ".".join(map(str, NEWEST_NCCL))

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "int": _between(0, _MOST_COUNT),
        "float": Rule(f"{-_MOST_FLOAT:g} to {_MOST_FLOAT:g}", lambda n: abs(n) <= _MOST_FLOAT),
        "str": Rule(
            f"printable text of at most {_MOST_TEXT} characters", lambda t: len(t) <= _MOST_TEXT and t.isprintable()
        ),
        **dict.fromkeys(("SwitchName", "HostName", "NicName", "NodeName"), _NAME),
        "PortName": _PORT,
        "CapturePort": Rule("node:nic", _is_capture),
        "GroupName": _text(GROUP_PATTERN.removesuffix("$") + _HEAD, NAME_LENGTH, "a group, such as dp0"),
        "Address": Rule("an IPv4 or IPv6 address of one NIC, in its shortest form", _is_address),
        "Rank": _between(0, COUNT_END - 1),
        "Channel": _between(0, MOST_CHANNELS - 1),
        "Qpn": _between(QPN_FIRST, QPN_END - 1),
        "Job.name": _text(JOB_PATTERN, JOB_LENGTH, "lower-case letters and digits, single dashes between"),
        "Job.iteration_time": Rule(f"more than 0 and at most {MOST_SECONDS:.0f}", lambda n: 0 < n <= MOST_SECONDS),
        "Wire.mtu": Rule(f"one of {', '.join(map(str, MTUS))}", lambda n: n in MTUS),
        "Nccl.version": Rule(_VERSIONS, lambda v: OLDEST_NCCL <= v[:2] <= NEWEST_NCCL),
        "Nccl.channels": _between(1, MOST_CHANNELS),
        "Nccl.threads": Rule(
            _THREADS, lambda n: LEAST_THREADS <= n <= max(MAX_THREADS.values()) and n % THREAD_STEP == 0
        ),
        "Nccl.qps_per_connection": _between(1, MOST_QPS),
        "Nccl.adaptive_routing_threshold": _between(0, COUNT_END - 1),
        "Bucket.name": _NAME,
        "Bucket.elements": _between(1, MOST_ELEMENTS),
        "Broadcast.size": _between(1, MOST_BROADCAST_BYTES),
        "Tree.members": _between(2, COUNT_END - 1),
        "Tree.hosts": _between(1, COUNT_END - 1),
        "SwitchAddress.platform": _PLATFORM,
        "SwitchAddress.management": replace(
            _text(MANAGEMENT_PATTERN, MANAGEMENT_LENGTH, "kind:reference, without user and password"), secret=True
        ),
        "Cost.gradient_bytes": _between(1, _MOST_COUNT),
        "CaptureLoad.capacity": _between(1, _MOST_COUNT),
        "MessageWindow.period": _between(1, _MOST_COUNT),
        "MessageWindow.slices": _between(1, 2),
        "WindowRule.period": _between(1, LONGEST_PERIOD),
        "WindowRule.low": _between(0, LONGEST_PERIOD),
        "WindowRule.high": _between(0, LONGEST_PERIOD),
    }
)
"""By ``Class.field``, or by type: see ``Codec``."""


def check_job(job: Job) -> None:
    """What values of the job must fulfil together; raises FormError."""
    nccl = job.wire.nccl
    most = MAX_THREADS[nccl.protocol.value]
    where = "plan.job.wire.nccl.threads"
    _require(nccl.threads <= most, f"{where}: must be at most {most} with {nccl.protocol.value} (found {nccl.threads})")
    _require(not chunks_overlap(nccl), f"{where}: Simple chunks of NCCL up to 2.19 would overlap with {nccl.threads}")
    _require(bool(job.wire.buckets), "plan.job.wire.buckets: must be one or more")
    for lane in job.lanes:
        _check_lane(job, lane)
    excess = job_excess(job)
    _require(not excess, f"plan.job.{excess}")


def check_sessions(job: str, names: Iterable[str]) -> None:
    """Every session carries the mark of the job; raises FormError."""
    for name in names:
        _require(is_owned(name, job), f"plan.sessions: {name[:80]!a} is no session of job {job}")


def _check_lane(job: Job, lane: Lane) -> None:
    nccl = job.wire.nccl
    ring = isinstance(lane, Ring)
    name = f"plan.job.{'rings' if ring else 'trees'}: {lane.group}/{lane.channel}"
    _require(lane.channel < nccl.channels, f"{name}: channel must be 0 to {nccl.channels - 1}")
    _require(bool(lane.carries), f"{name}: must carry a kind of bucket")
    if isinstance(lane, Ring):
        _require(len(set(lane.ranks)) == lane.size, f"{name} names a rank twice")
    else:
        nodes = lane.hosts if lane.heads else lane.members
        _require(lane.size == nodes, f"{name} has {lane.size} ranks, members and hosts say {nodes}")
        _require(lane.head < max(1, lane.heads) <= COUNT_END, f"{name}: head must be less than heads")
        _require(all(len(edge.nics) <= 1 for edge in lane.edges), f"{name}: an edge has the NICs of two ends at most")
    for index in range(lane.hop_count):
        count = len(lane.hop_qpns(index))
        expected = nccl.qps_per_connection
        words = f"has {count} queue pairs on hop {index}, nccl.qps_per_connection is {expected}"
        _require(count in (0, expected), f"{name} {words}")
        source, target = job.ends(lane, index)
        same = source.address == target.address and source.host != target.host
        _require(not same, f"{name}: both ends of hop {index} have the address {source.address}")
        families = {":" in end.address for end in (source, target)}
        _require(len(families) == 1, f"{name}: both ends of hop {index} must be of one address family")


def _require(fits: bool, message: str) -> None:
    if not fits:
        raise FormError(message)
