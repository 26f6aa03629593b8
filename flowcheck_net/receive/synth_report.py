"""What synthesize really wrote and which faults it really made: the ground truth of tests."""

import json
from dataclasses import asdict, dataclass

from flowcheck_net.ids import Address, CapturePort

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault that happened. Numbers count from 0; None: does not apply (or: before the first iteration)."""

    kind: str
    fault: str
    """As it was asked for."""
    capture: CapturePort | None
    """None: in the network, for every capture."""
    hop: str | None
    """``group/channel/index`` of the connection."""
    iteration: int | None
    packet: int | None
    """Index among the hop's data packets of the iteration; None: an acknowledgement or clear-to-send write."""
    psn: int
    dest_qp: int
    opcode: int | None
    """None: a retransmission or a foreign flow, which are many packets."""
    packets: int = 1
    """Retransmission: packets from the lost one to the last one sent in vain. Foreign: packets of the flow."""


@dataclass(frozen=True, slots=True)
class Span:
    """The PSNs that one iteration takes on one queue pair, whether a tap saw them or not."""

    hop: str
    iteration: int | None
    """None: broadcasts before the first iteration."""
    source: Address
    destination: Address
    dest_qp: int
    first_psn: int
    packets: int


@dataclass(frozen=True, slots=True)
class WrittenFlow:
    """Packets written of one direction of a queue pair at one capture port."""

    capture: CapturePort
    hop: str | None
    """The connection that it belongs to; None: foreign."""
    source: Address
    destination: Address
    dest_qp: int
    opcodes: dict[int, int]
    """BTH opcode -> packets."""


@dataclass(frozen=True, slots=True)
class WrittenCapture:
    """One capture port."""

    name: CapturePort
    packets: int
    """In the file."""
    reported_drops: int
    """``ifdrop`` of its interface statistics block."""
    outside: int
    """Copies before a late start or after a cut."""


@dataclass(frozen=True, slots=True)
class SynthReport:
    """All that was written."""

    seed: int
    iterations: int
    packets: int
    captures: tuple[WrittenCapture, ...]
    flows: tuple[WrittenFlow, ...]
    spans: tuple[Span, ...]
    events: tuple[FaultEvent, ...]


def report_to_json(report: SynthReport) -> str:
    """Canonical JSON: sorted keys, ``version`` at the top."""
    return json.dumps({"version": REPORT_VERSION, **asdict(report)}, indent=1, sort_keys=True) + "\n"
