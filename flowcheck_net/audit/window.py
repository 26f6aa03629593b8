"""Hops with a message window: what is missing of them, and is the count of the switch right?"""

from collections.abc import Iterator
from dataclasses import dataclass

from flowcheck_net.audit.arithmetic import Lengths, lengths, mirrored_offsets
from flowcheck_net.audit.ranges import Ranges, clip, holes, size
from flowcheck_net.audit.survey import Survey
from flowcheck_net.audit.turns import Shown
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.model.expect import HopWindow


def window_gaps(sighted: Survey) -> dict[int, int]:
    """``id`` of each flow with a message window -> packets that must be seen and are not, of iterations that are."""
    found: dict[int, int] = {}
    for shown, _ in _windowed(sighted):
        wanted = mirrored_offsets(_rows(shown))
        found[id(shown.track.flow)] = sum(size(holes(own, a, b)) for own in _seen(shown) for a, b in wanted)
    return found


def window_findings(sighted: Survey) -> Iterator[Finding]:
    """Switches whose count is off, and those that copy beyond the window."""
    for shown, window in _windowed(sighted):
        if _as_asked(shown):
            continue
        subject = f"{shown.assigned.name} at {shown.track.flow.capture}"
        tally = _tally(shown, window)
        shift = _shift(tally, window)
        beyond = sum(tally.seen[n] for n in range(window.period) if n not in tally.window)
        if shift:
            yield Finding(FindingKind.WINDOW_SHIFTED, Verdict.STALE, subject, _shift_text(shift, window))
        elif beyond:
            yield Finding(
                FindingKind.BEYOND_WINDOW,
                None,
                subject,
                f"{beyond} packets outside its message window were copied: a switch copies what it cannot place "
                "(after a loss before it, and what the sender repeats)",
            )


def _windowed(sighted: Survey) -> Iterator[tuple[Shown, HopWindow]]:
    for shown in sighted.shown:
        window = shown.assigned.slot.hop.window
        if window is not None:
            yield shown, window


def _seen(shown: Shown) -> Iterator[Ranges]:
    """Of each iteration at a known place, the offsets seen."""
    span = shown.assigned.slot.pattern.span
    for base in (w.base for w in shown.windows if w.base is not None):
        yield clip(shown.track.flow.seen, base, base + span - 1, shift=-base)


def _as_asked(shown: Shown) -> bool:
    """Is of every iteration just the window there? Then nothing has to be counted message by message."""
    wanted = mirrored_offsets(_rows(shown))
    return all(own == wanted for own in _seen(shown))


def _rows(shown: Shown) -> tuple[Lengths, ...]:
    slot = shown.assigned.slot
    return lengths(slot.hop, slot.qp, slot.pattern)


@dataclass(frozen=True, slots=True)
class _Tally:
    """By message of a loop, over all loops of all iterations that a flow shows."""

    seen: tuple[int, ...]
    """Packets."""
    sent: tuple[int, ...]
    """Packets."""
    window: frozenset[int]
    """Messages that the switch should mirror."""

    @property
    def shown(self) -> frozenset[int]:
        """Messages of which more than half was seen."""
        return frozenset(n for n, (seen, sent) in enumerate(zip(self.seen, self.sent, strict=True)) if 2 * seen > sent)


def _tally(shown: Shown, window: HopWindow) -> _Tally:
    rows, seen, sent = _rows(shown), [0] * window.period, [0] * window.period
    numbers = _numbers(rows, window.period)
    for own in _seen(shown):
        for number, row in zip(numbers, rows, strict=True):
            seen[number] += size(clip(own, row.first, row.last))
            sent[number] += row.message.packets
    return _Tally(tuple(seen), tuple(sent), _turned(window, 0))


def _numbers(rows: tuple[Lengths, ...], period: int) -> tuple[int, ...]:
    """Place in its loop of the message that each row belongs to: a closing write ends the one before it."""
    numbers, ended = [], 0
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        numbers.append(ended % period)
        open_still = following is not None and following.message.closes and not row.message.closes
        ended += not open_still
    return tuple(numbers)


def _turned(window: HopWindow, count: int) -> frozenset[int]:
    """Messages that a switch mirrors which has counted ``count`` too many."""
    return frozenset((n - count) % window.period for n in range(window.low, window.high))


def _shift(tally: _Tally, window: HopWindow) -> int:
    """By how many messages the count is too high; 0: it is right, or no shift explains what was seen."""
    if not tally.window or tally.shown == tally.window:
        return 0
    fitting = [k for k in range(1, window.period) if _turned(window, k) == tally.shown]
    return fitting[0] if len(fitting) == 1 else 0


def _shift_text(count: int, window: HopWindow) -> str:
    lacking = len(_turned(window, 0) - _turned(window, count))
    asked = window.high - window.low
    return (
        f"the switch counts {count} of {window.period} messages too many: of each loop it leaves out {lacking} of the "
        f"{asked} messages that were asked for, and mirrors others instead. Add {count} to low and high of its window, "
        f"modulo {window.period}, with the traffic running (p4/README.md), or declare what else the queue pair carries "
        "(broadcasts in job.yaml), plan and apply again"
    )
