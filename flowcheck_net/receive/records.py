"""Records: what was seen, per capture port and flow.

``records_write`` and ``records_read`` make files of them; ``records_json`` is the JSON document.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from flowcheck_net.ids import Address, CapturePort, Qpn

RECORDS_VERSION = 2


class Cause(StrEnum):
    """Why a packet sequence number was never seen."""

    LOST = "lost"
    """A later packet of the same flow was seen: the copy was lost inside the capture."""
    CAPTURE_START = "capture_start"
    """The message had begun before the first packet seen of the flow."""
    CAPTURE_END = "capture_end"
    """After the last packet seen of the flow, where its unfinished message would go on."""


@dataclass(frozen=True, slots=True, order=True)
class Missing:
    """Packets never seen. PSNs are the 24-bit numbers of the wire, both ends included."""

    position: int
    """Unwrapped PSN of the first one: grows through wraps, equals the PSN in the first epoch of the flow."""
    first_psn: int
    last_psn: int
    packets: int
    cause: Cause


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A jump in the PSNs when it was seen, whether or not it was filled later."""

    position: int
    first_psn: int
    last_psn: int
    packets: int
    filled: int
    """How many of them came later (reorder or retransmission)."""


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """One RDMA message: a write of one or more packets."""

    position: int
    """Unwrapped PSN of its first packet."""
    first_psn: int
    bytes: int | None
    """DMA length of its RETH; None where the packet that carries it was not seen."""
    packets: int
    """Distinct packets seen."""
    expected_packets: int | None
    """From length and MTU; None where unknown."""
    immediate: int | None
    """Immediate data as on the wire, read little-endian (NCCL up to 2.28); None: none seen."""
    opcode: int
    """BTH opcode of its first packet seen."""
    first_time: int
    """Nanoseconds since the epoch."""
    last_time: int
    ll_flag: int | None
    """First LL flag of the payload where it looks like LL lines (both flags of the first line equal), else None."""
    icrc_sum: int | None
    """Sum of the ICRCs of its distinct packets: equal where two places saw the very same packets. None: unknown."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of one queue pair at one capture port."""

    capture: CapturePort
    source: Address
    destination: Address
    dest_qp: Qpn
    packets: dict[str, int]
    """By class (``docs/records-format.md`` lists them): write, clear_to_send, send, ack, nak, setup ..."""
    bytes: int
    """RDMA payload bytes of distinct request packets."""
    mtu: int | None
    """Path MTU as learned from First and Middle packets."""
    seen: tuple[tuple[int, int], ...]
    """Distinct request packets seen, as closed ranges of positions (unwrapped PSNs), sorted, disjoint, maximal."""
    repeats: tuple[tuple[int, int], ...]
    """(position, extra copies) of request packets seen more than once."""
    retransmitted: int
    """Repeats that look like go-back-N or a timeout of the sender."""
    duplicated: int
    """Repeats that look like the same packet mirrored twice (same PSN and ICRC, interleaved with newer packets)."""
    reordered: int
    """Packets that filled a gap without a rewind of the sender."""
    missing: tuple[Missing, ...]
    gaps: tuple[Gap, ...]
    messages: Sequence[Message]
    """By position. A tuple, or ``MessageRows``, which makes them when they are asked for."""
    truncated: int = 0
    """Packets of which fewer bytes were captured than the IP header says; counted in ``packets`` too."""


class TunnelKind(StrEnum):
    """How a mirrored frame was wrapped."""

    GRE = "gre"
    ERSPAN1 = "erspan1"
    ERSPAN2 = "erspan2"
    ERSPAN3 = "erspan3"
    VXLAN = "vxlan"


@dataclass(frozen=True, slots=True, order=True)
class Tunnel:
    """Mirrored frames that came in outer headers of one sender and session: where they were copied."""

    outer_source: Address
    """Source of the outer IP header: the switch that mirrors."""
    kind: TunnelKind
    session: int | None
    """ERSPAN session id, VXLAN network id or GRE key; None: the headers have none."""
    packets: int
    sequence_gaps: int | None
    """Sequence numbers never seen: copies lost on the way. None: unknown, there are no numbers or all are 0."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture port: everything that arrived, by name, and what is known to be lost."""

    name: CapturePort
    packets: int
    bytes: int
    frames: dict[str, int]
    """Every frame by what it was: rocev2, arp, ptp, ... (``docs/records-format.md``). Their sum is ``packets``."""
    first_time: int
    last_time: int
    dropped: int | None
    """Drops that the capture itself reports; None: unknown."""
    attributes: dict[str, int] = field(default_factory=dict)
    """Other facts about frames: ethernet_broadcast, vlan, ... A frame may have any number of them."""
    tunnels: tuple[Tunnel, ...] = ()
    """Sorted by outer source, kind and session."""
    loss: dict[str, int | None] = field(default_factory=dict)
    """What a live receiver knows of its losses, by name: device, kernel, rings, workers. None: unknown."""


@dataclass(frozen=True, slots=True)
class Records:
    """All of one run."""

    sources: tuple[str, ...]
    """Input files or interfaces."""
    warnings: tuple[str, ...]
    """Such as a cut last record with its offset."""
    captures: tuple[Capture, ...]
    flows: tuple[Flow, ...]
    """Sorted by (capture, source, destination, dest_qp)."""
