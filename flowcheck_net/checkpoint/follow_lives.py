"""A receiver that was started again counts its iterations anew: how far it is behind the numbers of its former life.

A position is a PSN unwrapped, so that in both lives it is the PSN modulo 2^24. Where iteration n begins on a queue pair
is ``start + n * span``; what differs between two lives is a number of whole iterations, the same on all queue pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

PSNS = 1 << 24
Line = tuple[int, int]
"""(position of cycle 0, packets of a cycle): where all cycles of a queue pair lie."""
TrackKey = tuple[int, int, str, str, str]
"""(group, queue pair, source, destination, capture port)."""


@dataclass(frozen=True, slots=True)
class Former:
    """What is known of a life that ended."""

    lines: Mapping[TrackKey, Line]
    number: int
    """Of an iteration that was proven in it."""
    moment: int
    """When that began, in nanoseconds."""
    paces: tuple[int, ...]
    """Nanoseconds between iterations that followed one another."""


def lines_of(text: str) -> dict[TrackKey, Line]:
    """What a receiver was told to place; the last anchor of each queue pair holds until the end."""
    spans: list[int] = []
    key: TrackKey | None = None
    pattern = 0
    found: dict[TrackKey, Line] = {}
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "pattern":
            spans.append(0)
        elif word == "slot":
            spans[-1] += int(rest[0])
        elif word == "track":
            pattern = int(rest[0])
            key = (int(rest[1]), int(rest[2]), rest[3], rest[4], rest[5])
        elif word == "anchor" and key is not None:
            found[key] = (int(rest[0]) - int(rest[1]) * spans[pattern], spans[pattern])
    return found


def cycles_of(text: str) -> set[int]:
    """Iterations after which queue pairs carry the same again, of all groups in such a text."""
    return {int(line.split()[5]) for line in text.splitlines() if line.startswith("group ")}


def shift_between(before: Mapping[TrackKey, Line], after: Mapping[TrackKey, Line], low: int, high: int) -> int | None:
    """Number that the new life's iteration 0 has in the former one's count.

    Args:
        before: Of the former life.
        after: Of the new one.
        low: It is no smaller than this.
        high: Nor larger, by the time that passed.

    Returns:
        None where queue pairs are others, do not agree, or more than one number fits: then nothing is certain.
    """
    if not after or any(key not in before or before[key][1] != line[1] or not line[1] for key, line in after.items()):
        return None
    modulus, residue = 1, 0
    for key, (start, span) in after.items():
        common = gcd(span, PSNS)
        offset = (start - before[key][0]) % PSNS
        if offset % common:
            return None
        own = PSNS // common
        found = offset // common * pow(span // common, -1, own) % own
        small = min(own, modulus)  # both are powers of two: one divides the other
        if found % small != residue % small:
            return None
        if own > modulus:
            modulus, residue = own, found
    first = low + (residue - low) % modulus
    return first if first <= high < first + modulus else None


def furthest(number: int, moment: int, now: int, paces: Sequence[int]) -> int | None:
    """The highest number that an iteration which begins until ``now`` can have; None: the pace is not known.

    Args:
        number: Of an iteration that was seen.
        moment: When, in nanoseconds.
        now: Nanoseconds.
        paces: Between iterations that followed one another; none is taken to come twice as quickly as the quickest.
    """
    quickest = min((pace for pace in paces if pace > 0), default=0)
    return None if quickest < 2 else number + 1 + max(0, now - moment) // (quickest // 2)
