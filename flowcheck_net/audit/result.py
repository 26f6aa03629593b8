"""What an audit says: frozen, complete, ready for a table, JSON or HTML."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from flowcheck_net.audit.verdict import Finding, Verdict
from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, Qpn, Rank
from flowcheck_net.model.expect import ExpectedHop
from flowcheck_net.receive.records import Cause

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Count:
    """Messages, packets and RDMA payload bytes. Of what was seen, a message counts when all its packets were seen."""

    messages: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Packets of one hop and iteration that were never seen."""

    qp: int
    """Index of the queue pair of the connection."""
    qpn: Qpn | None
    """None: the queue pair was never seen."""
    first_psn: int | None
    """24-bit, both ends included; None: the place is not known because the iteration was not seen at all."""
    last_psn: int | None
    packets: int
    cause: Cause


def hop_label(hop: ExpectedHop) -> str:
    """``dp0/0/1 (1->0)``: group, channel and number as in plans and faults, then the ranks of sender and receiver."""
    return f"{hop.group}/{hop.channel}/{hop.index} ({hop.src_rank}->{hop.dst_rank})"


@dataclass(frozen=True, slots=True)
class HopResult:
    """One hop in one iteration: the arithmetic."""

    index: int
    label: str
    """See ``hop_label``."""
    src_rank: Rank
    dst_rank: Rank
    source: Address
    destination: Address
    planned: bool
    """The plan watches it."""
    observed: bool
    """Data of it arrived in this run."""
    captures: tuple[CapturePort, ...]
    """Where it arrived, or where the plan expects it."""
    qpns: tuple[Qpn, ...]
    expected: Count
    seen: Count
    missing_reduced: int
    """Packets of fully reduced chunks never seen on this hop."""
    missing_partial: int
    """Packets of partial sums never seen on this hop."""
    missing: tuple[MissingRange, ...]
    raw: int
    """Packets that arrived at all capture ports together. ``seen.packets`` are the unique ones of them."""
    repeats: int
    """Extra arrivals of packets at one capture port, for whatever reason."""
    retransmitted: int
    """Of the repeats, those that the sender sent again; the others were mirrored twice."""
    surplus: int
    """Copies above the planned number, retransmissions of the sender not included."""
    mismatches: int
    """Messages whose start or length is not the expected one."""
    beyond: int = 0
    """Packets outside the message window that the switch copied all the same: those that it could not place."""

    @property
    def complete(self) -> bool:
        """Every expected packet was seen."""
        return (self.observed or not self.expected.packets) and not self.missing and self.seen == self.expected


@dataclass(frozen=True, slots=True)
class MissingChunk:
    """A piece of gradient of which fully reduced packets were seen on no hop."""

    bucket: str
    loop: int
    chunk: int
    slice: int
    data_offset: int
    """Byte offset of the piece in the bucket."""
    packets: int
    missing: int
    """Of its packets, those seen on no observed hop."""
    carriers: tuple[str, ...]
    """Observed hops that carry it fully reduced, all with gaps."""
    unobserved: tuple[str, ...]
    """Hops that carry it fully reduced and were not observed."""


@dataclass(frozen=True, slots=True)
class RingResult:
    """One ring in one iteration."""

    group: GroupName
    channel: Channel
    iteration: int | None
    """From 0, the first one that any flow of the run shows; None: none was found."""
    verdict: Verdict
    reason: str
    """One sentence with numbers."""
    hops: tuple[HopResult, ...]
    chunks_missing: tuple[MissingChunk, ...]
    reduced_packets: int
    """Packets of distinct fully reduced chunks that the iteration has."""
    reduced_seen: int
    """Of them, seen on at least one hop."""


class FlowUse(StrEnum):
    """What the audit made of a flow. Every flow has exactly one."""

    RING = "ring"
    CONTROL = "control"
    """Clear-to-send writes, acknowledgements, congestion notifications: no data."""
    SETUP = "setup"
    """Connection management on queue pair 1."""
    OTHER = "other-rdma"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class FlowResult:
    """What one flow of the records is."""

    capture: CapturePort
    source: Address
    destination: Address
    dest_qp: Qpn
    use: FlowUse
    hop: str
    """``hop_label`` for a ring's flow, else empty."""
    packets: int
    """All packets of the flow, answers included."""
    raw: int
    """Request packets that arrived, each time they did."""
    unique: int
    """Distinct ones."""
    repeated: int
    """Extra arrivals: raw less unique."""
    retransmitted: int
    """Of the repeated, those that the sender sent again."""
    broadcasts: int
    """Messages of declared broadcasts."""
    unrecognised: int
    """Data messages outside of the iterations that nothing declares."""


@dataclass(frozen=True, slots=True)
class IterationResult:
    """All rings of one iteration."""

    number: int
    verdict: Verdict
    publishable: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The whole answer."""

    job: str
    planned: bool
    sources: tuple[str, ...]
    verdict: Verdict
    """The worst of all."""
    iterations: tuple[IterationResult, ...]
    rings: tuple[RingResult, ...]
    """Sorted by (group, channel, iteration)."""
    findings: tuple[Finding, ...]
    flows: tuple[FlowResult, ...]
    warnings: tuple[str, ...]
    """Of the records."""


def report_to_dict(report: AuditReport) -> dict[str, Any]:
    """The report as plain JSON values, versioned."""
    value = asdict(report)
    for ring, plain in zip(report.rings, value["rings"], strict=True):
        for hop, row in zip(ring.hops, plain["hops"], strict=True):
            row["complete"] = hop.complete
    return {"version": REPORT_VERSION, **value}
