"""Checks of what messages say of themselves: RETH length, immediate, LL flags."""

from collections.abc import Iterator, Sequence

from flowcheck_net.audit.assign import Assigned
from flowcheck_net.audit.pattern import Pattern, Track
from flowcheck_net.audit.place import Placement, Window
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.model.job import Protocol, Wire
from flowcheck_net.model.wire import WireMessage
from flowcheck_net.receive.records import Message


def content_findings(assigned: Assigned, wire: Wire) -> Iterator[Finding]:
    """Typed findings about one queue pair, each with its first example."""
    subject = assigned.name
    own = assigned.slot.messages
    for track, placement in assigned.flows:
        pairs = list(_matched(track, placement, assigned, own))
        wrong = [(e, m) for e, m in pairs if e is None or e.wire_bytes != m.bytes]
        if wrong:
            yield Finding(FindingKind.LENGTH, Verdict.STALE, subject, _length_text(wrong))
        yield from _immediates(subject, track, placement, assigned.slot.pattern)
        if wire.nccl.protocol is Protocol.LL and wire.nccl.qps_per_connection == 1:
            yield from _flags(subject, track, placement, own, assigned.slot.pattern.offsets)


def _matched(
    track: Track, placement: Placement, assigned: Assigned, own: Sequence[WireMessage]
) -> Iterator[tuple[WireMessage | None, Message]]:
    """Every message inside an iteration with what is expected at its place."""
    pattern = assigned.slot.pattern
    for window in placement.windows:
        if window.base is not None:
            for message in track.between(window.base, window.base + pattern.span):
                index = pattern.starts.get(message.position - window.base)
                yield (None if index is None else own[index]), message


def _length_text(wrong: Sequence[tuple[WireMessage | None, Message]]) -> str:
    expected, message = wrong[0]
    wanted = "no message starts here" if expected is None else f"expected {expected.wire_bytes} B"
    return f"{len(wrong)} messages differ; the first at PSN {message.first_psn}: RETH says {message.bytes} B, {wanted}"


def _immediates(subject: str, track: Track, placement: Placement, pattern: Pattern) -> Iterator[Finding]:
    """Where the immediate is a length (``immediate``), it is that of the whole message."""
    wrong = []
    for base in (w.base for w in placement.windows if w.base is not None):
        for message in track.between(base, base + pattern.span):
            index = pattern.starts.get(message.position - base)
            wanted = None if index is None else pattern.immediates[index]
            if wanted is not None and message.immediate is not None and message.immediate != wanted:
                wrong.append((message, wanted))
    if wrong:
        message, wanted = wrong[0]
        yield Finding(
            FindingKind.IMMEDIATE,
            Verdict.STALE,
            subject,
            f"{len(wrong)} messages differ; the first at PSN {message.first_psn}: "
            f"immediate {message.immediate}, expected {wanted}",
        )


def _flags(
    subject: str, track: Track, placement: Placement, own: Sequence[WireMessage], offsets: Sequence[int]
) -> Iterator[Finding]:
    """Within an iteration the LL flag grows by one from message to message: it is the number of the step."""
    steps = [0]
    for message in own:
        steps.append(steps[-1] + (0 if message.closes else 1))
    wrong = 0
    for window in placement.windows:
        wrong += _wrong_flags(track, window, steps, offsets)
    if wrong:
        text = f"{wrong} messages carry an LL flag that does not follow from the one before"
        yield Finding(FindingKind.LL_FLAG, None, subject, text)


def _wrong_flags(track: Track, window: Window, steps: Sequence[int], offsets: Sequence[int]) -> int:
    if window.base is None:
        return 0
    places = {window.base + offset: index for index, offset in enumerate(offsets)}
    end = window.base + offsets[-1] + 1
    starts = [
        m.ll_flag - steps[places[m.position]]
        for m in track.between(window.base, end)
        if m.ll_flag is not None and m.position in places
    ]
    return sum(start != starts[0] for start in starts)
