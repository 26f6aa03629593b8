"""Closed integer ranges, sorted and disjoint: the form in which seen and missing packets are kept."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Ranges = tuple[tuple[int, int], ...]


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union as sorted, disjoint, maximal closed ranges."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def clip(ranges: Sequence[tuple[int, int]], first: int, last: int, shift: int = 0) -> Ranges:
    """The part of sorted disjoint ``ranges`` inside [first, last], moved by ``shift``."""
    out: list[tuple[int, int]] = []
    start = max(0, bisect_right(ranges, (first, first)) - 1)
    for at in range(start, len(ranges)):  # no slice: there may be a range for each of a million loops
        low, high = ranges[at]
        if low > last:
            break
        if high >= first:
            out.append((max(low, first) + shift, min(high, last) + shift))
    return tuple(out)


def holes(ranges: Sequence[tuple[int, int]], first: int, last: int) -> Ranges:
    """What of [first, last] is not in sorted disjoint ``ranges``."""
    out: list[tuple[int, int]] = []
    at = first
    for low, high in clip(ranges, first, last):
        if low > at:
            out.append((at, low - 1))
        at = high + 1
    if at <= last:
        out.append((at, last))
    return tuple(out)


def size(ranges: Iterable[tuple[int, int]]) -> int:
    """How many integers the disjoint ranges hold."""
    return sum(last - first + 1 for first, last in ranges)
