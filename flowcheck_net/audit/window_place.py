"""Where iterations lie on a queue pair of which the switch mirrors a window of each loop only.

The start of the connection tells: NCCL begins at PSN 0, declared broadcasts come first, and iterations follow each
other at whole spans. Where the capture began later the lengths of the messages must tell, and since half of them is
never seen they must leave one place only: at another one partial sums could be taken for fully reduced chunks.
"""

from collections.abc import Sequence

from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.model.expect import HopWindow
from flowcheck_net.receive.records import Message

_TRIED = 4096
"""Other places that are tried; with more of them nothing is certain."""


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


def doubt_of(track: Track, pattern: Pattern, bases: Sequence[int]) -> str:
    """Why the iterations may begin elsewhere; empty where the lengths of the messages leave one place only."""
    if not bases:
        return ""
    words = (
        "only a window of its messages is mirrored, the capture did not see the start of the connection, and "
        "the lengths of the messages fit {} places: partial sums could not be told from fully reduced chunks"
    )
    if pattern.self_similar:
        return words.format(pattern.span // pattern.step)
    first = track.between(bases[0], bases[0] + pattern.span)[0]
    places = [first.position - pattern.offsets[index] for index in pattern.indices_of(first)]
    others = [base for base in places if base != bases[0]]
    if len(others) > _TRIED:
        return words.format("too many")
    fitting = sum(_fits(track, pattern, base, bases[-1]) for base in others)
    return words.format(fitting + 1) if fitting else ""


def _fits(track: Track, pattern: Pattern, base: int, last: int) -> bool:
    """Would all messages up to the iteration at ``last`` fit as well if the first one began at ``base``?"""
    for message in track.between(base, last + pattern.span):
        index = pattern.starts.get((message.position - base) % pattern.span)
        if index is None or not pattern.agrees(index, message):
            return False
    return True
