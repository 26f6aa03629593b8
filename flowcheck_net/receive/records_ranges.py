"""Closed ranges of positions: sorted, disjoint, maximal, as ``Flow.seen`` holds them."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

Ranges = Sequence[tuple[int, int]]


def union(one: Ranges, two: Ranges) -> tuple[tuple[int, int], ...]:
    """The positions of either."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((*one, *two)):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def intersection(one: Ranges, two: Ranges) -> list[tuple[int, int]]:
    """The positions of both."""
    found = []
    a = b = 0
    while a < len(one) and b < len(two):
        first, last = max(one[a][0], two[b][0]), min(one[a][1], two[b][1])
        if first <= last:
            found.append((first, last))
        if one[a][1] < two[b][1]:
            a += 1
        else:
            b += 1
    return found


def _from(ranges: Ranges, position: int) -> int:
    """Index of the first range that ends at or behind ``position``."""
    return bisect_left(ranges, position, key=lambda each: each[1])


def covered(ranges: Ranges, first: int, last: int) -> int:
    """How many positions from ``first`` to ``last`` there are."""
    total = 0
    for at in range(_from(ranges, first), len(ranges)):
        if ranges[at][0] > last:
            break
        total += min(ranges[at][1], last) - max(ranges[at][0], first) + 1
    return total


def reach(ranges: Ranges, first: int, count: int) -> int:
    """The last of the ``count`` positions that come at or behind ``first``; there must be so many, and one at least."""
    for at in range(_from(ranges, first), len(ranges)):
        low = max(ranges[at][0], first)
        if count <= ranges[at][1] - low + 1:
            return low + count - 1
        count -= ranges[at][1] - low + 1
    return ranges[-1][1]


def next_in(ranges: Ranges, position: int) -> int | None:
    """The first position at or behind ``position``."""
    at = _from(ranges, position)
    return max(ranges[at][0], position) if at < len(ranges) else None


def size(ranges: Iterable[tuple[int, int]]) -> int:
    """How many positions there are."""
    return sum(last - first + 1 for first, last in ranges)


def positions(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """One by one."""
    for first, last in ranges:
        yield from range(first, last + 1)
