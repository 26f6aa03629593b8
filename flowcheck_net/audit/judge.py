"""From facts to a verdict and a sentence with numbers: the rules of DESIGN section 7, most serious first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.audit.chunks import Union
from flowcheck_net.audit.result import HopResult, MissingChunk, MissingRange
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.records import Cause

_NAMED = 3
"""Chunks or ranges spelled out in a sentence; the report has them all."""

_CAUSES = {
    Cause.LOST: "lost inside the capture",
    Cause.CAPTURE_START: "before the capture began",
    Cause.CAPTURE_END: "after the capture ended",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """All that decides about one ring in one iteration."""

    hops: tuple[HopResult, ...]
    union: Union
    doubts: tuple[str, ...]
    """Why places or assignments are not certain."""
    drops: Mapping[CapturePort, int]
    """Captures of this ring with drops that the gaps do not explain."""
    truncated: Mapping[CapturePort, int]
    """Captures of this ring with packets that were not captured whole."""
    copies: tuple[str, ...] = ()
    """Messages that two capture ports saw with different ICRCs."""


def judge(facts: Facts) -> tuple[Verdict, str]:
    """The verdict and its reason."""
    for rule in (_gap, _stale, _unknown, _duplicate):
        found = rule(facts)
        if found is not None:
            return found
    return _complete(facts)


def _gap(facts: Facts) -> tuple[Verdict, str] | None:
    if not facts.union.missing or not facts.union.certain:
        return None
    gone = sum(chunk.missing for chunk in facts.union.missing)
    text = f"{gone} of {facts.union.packets} fully reduced packets seen on no hop: {_chunks(facts.union.missing)}"
    causes = _losses(facts.hops)
    return Verdict.GAP, f"{text}; {causes}" if causes else text


def _stale(facts: Facts) -> tuple[Verdict, str] | None:
    wrong = [hop for hop in facts.hops if hop.mismatches]
    if not wrong:
        return None
    named = ", ".join(f"{hop.mismatches} on hop {hop.label}" for hop in wrong)
    return Verdict.STALE, f"messages with another length or start than expected: {named}"


def _unknown(facts: Facts) -> tuple[Verdict, str] | None:
    if facts.drops:
        named = ", ".join(f"{port} dropped {count} packets" for port, count in facts.drops.items())
        return Verdict.UNKNOWN, f"{named} that no gap in the sequence numbers explains"
    if facts.copies:
        more = len(facts.copies) - 1
        return Verdict.UNKNOWN, f"copies of one message differ: {facts.copies[0]}{_more(more)}"
    if facts.doubts:
        return Verdict.UNKNOWN, "; ".join(facts.doubts)
    gone = sum(chunk.missing for chunk in facts.union.missing)
    if gone and facts.truncated:
        named = ", ".join(f"{count} packets at {port}" for port, count in facts.truncated.items())
        return Verdict.UNKNOWN, (
            f"{gone} of {facts.union.packets} fully reduced packets were counted, but their bytes are not proven to be "
            f"there: {named} were not captured whole (raise the snap length)"
        )
    if gone:
        return Verdict.UNKNOWN, (
            f"{gone} of {facts.union.packets} fully reduced packets are proven only if the queue pairs of equal "
            "channels were told apart and every flow was placed rightly, which the capture cannot show; "
            "name the queue pairs in the job (rings.qpns, or a tree's down_qpns and up_qpns): "
            f"{_chunks(facts.union.missing)}"
        )
    return None


def _duplicate(facts: Facts) -> tuple[Verdict, str] | None:
    wrong = [hop for hop in facts.hops if hop.surplus]
    if not wrong:
        return None
    named = ", ".join(f"{hop.surplus} on hop {hop.label} (at {', '.join(hop.captures)})" for hop in wrong)
    return (
        Verdict.DUPLICATE,
        f"all {facts.union.packets} fully reduced packets seen, but more copies than planned: {named}",
    )


def _complete(facts: Facts) -> tuple[Verdict, str]:
    counted = [hop for hop in facts.hops if hop.planned or hop.observed]
    packets = facts.union.packets
    if not any(hop.expected.packets for hop in facts.hops):
        return Verdict.COVERED, "this channel has no message of any bucket: nothing to see"
    torn = [hop for hop in counted if not hop.complete]
    if not torn:
        seen = sum(hop.seen.packets for hop in counted)
        return Verdict.COVERED, (
            f"all {packets} fully reduced packets seen; {seen} of {seen} packets on {_hops(len(counted))}, counts equal"
        )
    losses = _losses(torn)
    if not any(hop.missing_reduced for hop in torn):
        return Verdict.RECOVERED, f"only partial sums are missing, all {packets} fully reduced packets seen; {losses}"
    return Verdict.RECOVERED, f"all {packets} fully reduced packets seen, some only thanks to another hop; {losses}"


def _hops(count: int) -> str:
    return f"{count} hop" if count == 1 else f"{count} hops"


def _chunks(missing: Sequence[MissingChunk]) -> str:
    """``bucket0 chunk 1 (16 of 16 packets) is carried fully reduced only by hop dp0/0/1 (1->0), not observed``."""
    grouped: dict[tuple[str, int, tuple[str, ...], tuple[str, ...]], list[MissingChunk]] = defaultdict(list)
    for chunk in missing:
        grouped[chunk.bucket, chunk.chunk, chunk.carriers, chunk.unobserved].append(chunk)
    texts = [_chunk(bucket, number, many) for (bucket, number, _, _), many in list(grouped.items())[:_NAMED]]
    more = len(grouped) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def _chunk(bucket: str, number: int, many: Sequence[MissingChunk]) -> str:
    gone = sum(chunk.missing for chunk in many)
    total = sum(chunk.packets for chunk in many)
    loops = sorted({chunk.loop for chunk in many})
    where = f", loop {loops[0]}" if len(loops) == 1 and loops[0] else f", {len(loops)} loops" if len(loops) > 1 else ""
    return f"chunk {number} of {bucket}{where} ({gone} of {total} packets) {_carried(many[0])}"


def _carried(chunk: MissingChunk) -> str:
    if not chunk.carriers and not chunk.unobserved:
        return "is carried fully reduced only inside a host, where no switch sees it"
    if not chunk.carriers:
        only = "hop" if len(chunk.unobserved) == 1 else "hops"
        return f"is carried fully reduced only by {only} {', '.join(chunk.unobserved)}, not observed"
    more = len(chunk.unobserved)
    others = f" (and is on {more} hop{'' if more == 1 else 's'} not observed)" if more else ""
    return f"was lost on {', '.join(chunk.carriers)}{others}"


def _losses(hops: Sequence[HopResult]) -> str:
    """Per hop, the missing packets with their sequence numbers and causes."""
    texts = []
    for hop in hops:
        if hop.missing and (hop.planned or hop.observed):
            count = sum(gone.packets for gone in hop.missing)
            named = ", ".join(_range(gone) for gone in hop.missing[:_NAMED])
            more = len(hop.missing) - _NAMED
            texts.append(f"hop {hop.label} misses {count} of {hop.expected.packets} packets: {named}" + _more(more))
    return "; ".join(texts[:_NAMED]) + _more(len(texts) - _NAMED)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _range(gone: MissingRange) -> str:
    if gone.first_psn is None:
        return f"{gone.packets} packets, nothing of the iteration seen ({_CAUSES[gone.cause]})"
    if gone.packets == 1:
        return f"PSN {gone.first_psn} {_CAUSES[gone.cause]}"
    return f"PSN {gone.first_psn}-{gone.last_psn} {_CAUSES[gone.cause]}"
