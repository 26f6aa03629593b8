"""One packet seen at several capture ports has the same queue pair, PSN and ICRC at each: have the copies?

Records hold a sum of the ICRCs of each message. Where two ports saw a message completely, the sums must agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from flowcheck_net.audit.number import Sighting, SlotKey
from flowcheck_net.audit.survey import Survey
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.records import Message


@dataclass(frozen=True, slots=True)
class Difference:
    """A message of which two capture ports saw different packets."""

    key: SlotKey
    iteration: int
    ports: tuple[CapturePort, CapturePort]
    messages: tuple[Message, Message]

    def __str__(self) -> str:
        """Such as ``PSN 24-47: ICRC sum 0x1f at ckpt1:cap0, 0x20 at ckpt1:cap1``."""
        first = self.messages[0].first_psn
        last = (first + self.messages[0].packets - 1) & 0xFFFFFF
        where = f"PSN {first}" if first == last else f"PSN {first}-{last}"
        sums = ", ".join(f"{m.icrc_sum or 0:#x} at {p}" for m, p in zip(self.messages, self.ports, strict=True))
        return f"{where}: ICRC sum {sums}"


def differences(sighted: Survey) -> tuple[Difference, ...]:
    """All of them, in canonical order."""
    return tuple(
        Difference(key, iteration, (one.track.flow.capture, two.track.flow.capture), pair)
        for key, found in sorted(sighted.sightings.items())
        for one, two in combinations(found, 2)
        if one.track.flow.capture != two.track.flow.capture
        for iteration in range(sighted.iterations)
        for pair in _pairs(one, two, iteration)
    )


def _pairs(one: Sighting, two: Sighting, iteration: int) -> Iterator[tuple[Message, Message]]:
    """Messages at the same place, whole at both, whose sums differ."""
    here, there = one.window(iteration), two.window(iteration)
    if here is None or there is None or here.base is None or there.base is None:
        return
    if (here.base - there.base) % (1 << 24):
        return  # not the same PSNs: another connection
    shift = there.base - here.base
    known = {m.position: m for m in two.track.between(there.base, there.base + there.span)}
    for message in one.track.between(here.base, here.base + here.span):
        other = known.get(message.position + shift)
        if other is not None and _told(message) and _told(other) and message.icrc_sum != other.icrc_sum:
            yield message, other


def _told(message: Message) -> bool:
    return message.icrc_sum is not None and message.packets == message.expected_packets


def copy_findings(sighted: Survey, found: tuple[Difference, ...]) -> Iterator[Finding]:
    """One finding for each queue pair and pair of ports, with its first example."""
    grouped: dict[tuple[SlotKey, tuple[CapturePort, CapturePort]], list[Difference]] = {}
    for each in found:
        grouped.setdefault((each.key, each.ports), []).append(each)
    for (key, _), many in grouped.items():
        yield Finding(
            FindingKind.COPIES_DIFFER,
            Verdict.UNKNOWN,
            sighted.carriers[key][0].name,
            f"{len(many)} messages were seen with other ICRCs at two capture ports: {many[0]}; "
            "one of the copies was changed on its way, or the ports show different connections",
        )
