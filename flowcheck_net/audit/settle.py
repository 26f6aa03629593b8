"""Where iterations begin when the pattern is self-similar (equal chunks): message sizes cannot tell, so time has to.

Training computes between iterations, so the longest pauses lie there. Where neither a known start nor the pauses
decide, the placement is called ambiguous and nothing better than UNKNOWN may be built on it.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import median

from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.receive.records import Message

_DOMINATES = 2.0
"""A pause this many times longer than at any other place is a border between iterations."""


def settle(
    track: Track, pattern: Pattern, bases: Sequence[int], others: Sequence[Message], broadcasts: frozenset[int]
) -> tuple[list[int], str]:
    """Shift runs of iterations to where they really begin; the text says why this may be wrong, empty when sure."""
    alike = broadcasts.issuperset(size for size in pattern.sizes if size)  # a broadcast may stand where one begins
    ends = set() if alike else {message_end(m) for m in others if not pattern.indices_of(m)}
    settled: list[int] = []
    doubt = ""
    for run in in_step(bases, pattern.span):
        if run[0] in ends or (run[0] == 0 and track.first == 0 and not alike):
            settled.extend(run)
            continue
        shift = _longest_pause(track, pattern, run)
        whole = not alike and len(pattern.borders) == 1 and _ends_whole(track, pattern, run)
        if shift is None and not whole:
            doubt = _doubt(pattern)
        elif shift:
            doubt = _doubt(pattern) if whole else doubt
            settled.extend(_shifted(track, pattern, run, shift))
            continue
        settled.extend(run)
    return settled, doubt


def _doubt(pattern: Pattern) -> str:
    return (
        f"the {len(pattern.sizes)} messages of an iteration repeat after {pattern.step} of its {pattern.span} packets, "
        "and neither the start of the connection nor the pauses tell where an iteration begins"
    )


def in_step(bases: Sequence[int], span: int) -> list[list[int]]:
    """Bases split where the next one is not a whole number of spans further."""
    runs: list[list[int]] = []
    for base in bases:
        if runs and (base - runs[-1][-1]) % span == 0:
            runs[-1].append(base)
        else:
            runs.append([base])
    return runs


def _ends_whole(track: Track, pattern: Pattern, run: Sequence[int]) -> bool:
    """Does the run begin with a message at the border of the pattern and end with a packet at it?"""
    end = run[-1] + pattern.span
    starts = any(m.position == run[0] for m in track.between(run[0], run[0] + 1))
    return starts and any(first <= end - 1 <= last for first, last in track.flow.seen)


def _longest_pause(track: Track, pattern: Pattern, run: Sequence[int]) -> int | None:
    """Shift in packets, 0 .. span - 1, that puts the borders of iterations on by far the longest pauses; None: none."""
    pauses: dict[int, list[int]] = {}
    stop = bisect_left(track.positions, run[-1] + pattern.span)
    for at in range(max(1, bisect_left(track.positions, run[0])), stop):
        offset = (track.known[at].position - run[0]) % pattern.span
        if offset % pattern.step == 0 or len(pattern.borders) > 1:
            pauses.setdefault(offset, []).append(track.known[at].first_time - track.known[at - 1].last_time)
    if 0 not in pauses:
        return None
    typical = {offset: max(1.0, median(values)) for offset, values in pauses.items()}
    longest = sorted(typical, key=lambda offset: -typical[offset])
    fits = [s for s in range(0, pattern.span, pattern.step) if _on_borders(typical, longest, pattern, s)]
    return fits[0] if len(fits) == 1 else None


def _on_borders(typical: Mapping[int, float], longest: Sequence[int], pattern: Pattern, shift: int) -> bool:
    """Is every pause at a border ``_DOMINATES`` times as long as any other? ``longest``: offsets by their pauses."""
    borders = {(border + shift) % pattern.span for border in pattern.borders}
    at_borders = min(typical.get(border, 0.0) for border in borders)
    inside = next((typical[offset] for offset in longest if offset not in borders), 1.0)
    return at_borders > 1 and at_borders >= _DOMINATES * inside


def _shifted(track: Track, pattern: Pattern, run: Sequence[int], shift: int) -> list[int]:
    """The run moved forward by ``shift``, with the part before it as an iteration that had already begun."""
    moved = [run[0] + shift - pattern.span, *(base + shift for base in run)]
    return [base for base in moved if track.between(base, base + pattern.span)]
