"""Where iterations lie on a queue pair of which the switch mirrors a window of each loop only.

The start of the connection tells: NCCL begins at PSN 0, declared broadcasts come first, and iterations follow each
other at whole spans. Where the capture began later the lengths of the messages must tell, and since half of them is
never seen they must leave one place only: at another one partial sums could be taken for fully reduced chunks.
"""

from collections.abc import Sequence

from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.audit.settle import in_step
from flowcheck_net.model.expect import HopWindow
from flowcheck_net.receive.records import Message

_TRIED = 4096
"""Other places that are tried; with more of them nothing is certain."""
_WORDS = (
    "only a window of its messages is mirrored, the capture did not see the start of the connection, or it began anew, "
    "and the lengths of the messages fit {} places: partial sums could not be told from fully reduced chunks"
)


def from_start(track: Track, pattern: Pattern, window: HopWindow) -> tuple[list[int], list[Message]] | None:
    """Bases of the iterations that show messages, and the messages before the first one.

    None where the flow does not show the first loop (a small PSN alone proves nothing: it comes again every 2^24
    packets), or a message is not where the start puts it.
    """
    span, start = pattern.span, window.start
    loops = [m for m in track.known if m.position >= start]
    before = [m for m in track.known if m.position < start]
    if not loops or loops[0].position >= start + window.loop or any(message_end(m) > start for m in before):
        return None
    bases: list[int] = []
    for message in loops:
        offset = (message.position - start) % span
        index = pattern.starts.get(offset)
        if index is None or not pattern.agrees(index, message):
            return None
        base = message.position - offset
        if not bases or bases[-1] != base:
            bases.append(base)
    return bases, before


def doubt_of(track: Track, pattern: Pattern, bases: Sequence[int], strange: Sequence[Message]) -> str:
    """Why the iterations may begin elsewhere; empty where the lengths of the messages leave one place only.

    Args:
        track: The flow.
        pattern: One iteration.
        bases: Positions of the iterations.
        strange: Messages outside of them that nothing explains: perhaps they are of iterations that begin elsewhere.
    """
    if not bases:
        return ""
    if pattern.self_similar:
        return _WORDS.format(pattern.span // pattern.step)
    connections = in_step(bases, pattern.span)
    ends = [*(run[0] for run in connections[1:]), None]
    begins = [None, *(run[-1] + pattern.span for run in connections[:-1])]
    for run, begin, end in zip(connections, begins, ends, strict=True):
        near = sum((begin is None or m.position >= begin) and (end is None or m.position < end) for m in strange)
        against = near + sum(track.fit(pattern, base).conflicts for base in run)
        if doubt := _doubt(track, pattern, run, against):
            return doubt
    return ""


def _doubt(track: Track, pattern: Pattern, run: Sequence[int], against: int) -> str:
    """The same of iterations that follow each other at whole spans; ``against``: messages that speak against them."""
    first = track.between(run[0], run[0] + pattern.span)[0]
    places = [first.position - pattern.offsets[index] for index in pattern.indices_of(first)]
    others = [base for base in places if base != run[0]]
    if len(others) > _TRIED:
        return _WORDS.format("too many")
    fitting = sum(_fits(track, pattern, base, run[-1], against) for base in others)
    return _WORDS.format(fitting + 1) if fitting else ""


def _fits(track: Track, pattern: Pattern, base: int, last: int, against: int) -> bool:
    """Would the messages up to the iteration at ``last`` fit no worse if the first one began at ``base``?"""
    for message in track.between(base, last + pattern.span):
        index = pattern.starts.get((message.position - base) % pattern.span)
        if index is None or not pattern.agrees(index, message):
            against -= 1
            if against < 0:
                return False
    return True
