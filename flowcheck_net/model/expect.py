"""Plan points x wire -> what must be seen."""

from dataclasses import dataclass

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, Qpn, Rank
from flowcheck_net.model.job import Wire
from flowcheck_net.model.wire import WireMessage


@dataclass(frozen=True, slots=True)
class ExpectedHop:
    """One hop and what one iteration puts on it."""

    group: GroupName
    channel: Channel
    index: int
    ring_size: int
    src_rank: Rank
    dst_rank: Rank
    source: Address
    destination: Address
    qpns: tuple[Qpn, ...]
    """Destination queue pairs where the job names them, else empty."""
    captures: tuple[CapturePort, ...]
    """Where the plan expects it; empty: not planned (or no plan was given)."""
    copies: int
    """Copies of each packet expected at those captures together."""
    messages: tuple[WireMessage, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """All hops of a job."""

    job: str
    wire: Wire
    hops: tuple[ExpectedHop, ...]
    addresses: frozenset[Address]
    """Of all ranks: traffic between others is foreign."""
    planned: bool
    """False: no plan was given, so every hop may or may not be mirrored."""
