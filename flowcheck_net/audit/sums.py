"""A hop over all iterations: the rows of the tables on a terminal and in HTML."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.audit.result import HopResult, RingResult


@dataclass(frozen=True, slots=True)
class HopSum:
    """Packets where nothing else is said; expected = seen + missing, and ``seen`` are unique ones."""

    ring: str
    label: str
    watched: bool
    """The plan watches it, or data of it arrived."""
    captures: str
    qpns: str
    expected: int
    seen: int
    missing: int
    missing_reduced: int
    bytes: int
    raw: int
    repeats: int
    retransmitted: int


def hop_sums(rings: Sequence[RingResult]) -> list[HopSum]:
    """One for each hop, in order of group, channel and number."""
    found: dict[tuple[str, int, int], list[HopResult]] = {}
    for ring in rings:
        for hop in ring.hops:
            found.setdefault((ring.group, ring.channel, hop.index), []).append(hop)
    return [_hop_sum(f"{group}/{channel}", hops) for (group, channel, _), hops in sorted(found.items())]


def _hop_sum(ring: str, hops: Sequence[HopResult]) -> HopSum:
    expected = sum(hop.expected.packets for hop in hops)
    seen = sum(hop.seen.packets for hop in hops)
    return HopSum(
        ring=ring,
        label=hops[0].label,
        watched=any(hop.planned or hop.observed for hop in hops),
        captures=", ".join(sorted({port for hop in hops for port in hop.captures})),
        qpns=", ".join(f"{qpn:#x}" for qpn in sorted({qpn for hop in hops for qpn in hop.qpns})) or "none seen",
        expected=expected,
        seen=seen,
        missing=expected - seen,
        missing_reduced=sum(hop.missing_reduced for hop in hops),
        bytes=sum(hop.seen.bytes for hop in hops),
        raw=sum(hop.raw for hop in hops),
        repeats=sum(hop.repeats for hop in hops),
        retransmitted=sum(hop.retransmitted for hop in hops),
    )
