"""Where queue pairs take turns: which part of which iteration a queue pair carried, and is that certain?

A pattern then holds several iterations. Its windows are cut into them here, each with the part (``WireMessage.qp``)
that it carries, so that all counting goes by parts, whichever queue pair they came on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flowcheck_net.audit.assign import Assigned, Slot
from flowcheck_net.audit.pattern import Track, pattern_of
from flowcheck_net.audit.place import Placement, Window, window_at
from flowcheck_net.audit.ranges import clip
from flowcheck_net.ids import CapturePort, Channel, GroupName

_DOUBT = (
    "messages take turns on several queue pairs and are alike, and {}: which of them belong to which iteration "
    "cannot be told (name the queue pairs in the job and capture from the start of the connection)"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a flow shows of a queue pair: its iterations, and the number of the first one."""

    assigned: Assigned
    track: Track
    windows: tuple[Window, ...]
    start: int


def unroll(slot: Slot, track: Track, placement: Placement) -> tuple[Window, ...]:
    """The iterations of a flow, in order, each with the part that it carries.

    At both ends of the flow iterations of which nothing was seen are left out: they were perhaps never captured.
    """
    if not slot.turning:
        return tuple(replace(window, qp=slot.rounds[0]) for window in placement.windows)
    windows = [each for window in placement.windows for each in _cut(slot, track, window)]
    seen = [n for n, window in enumerate(windows) if window.first_time is not None or _any(track, window)]
    return tuple(windows[seen[0] : seen[-1] + 1]) if seen else ()


def _cut(slot: Slot, track: Track, window: Window) -> Iterator[Window]:
    for part, border in zip(slot.rounds, slot.pattern.borders, strict=True):
        if window.base is None:
            yield replace(window, qp=part)
            continue
        pattern = pattern_of(slot.hop.messages, (part,), immediates=False)
        yield replace(window_at(track, pattern, window.base + border), guess=window.guess, qp=part)


def _any(track: Track, window: Window) -> bool:
    if window.base is None or not window.span:
        return False
    return bool(clip(track.flow.seen, window.base, window.base + window.span - 1))


def doubts(assigned: Sequence[Assigned], numbered: Iterable[Shown]) -> list[str]:
    """For each of ``assigned``, why its parts may be others; empty where they are certain.

    Args:
        assigned: Queue pairs of any hops.
        numbered: What was seen of them.
    """
    of_hop: dict[_Hop, list[Assigned]] = defaultdict(list)
    for one in assigned:
        of_hop[_hop(one)].append(one)
    seen: dict[_Hop, list[Shown]] = defaultdict(list)
    for each in numbered:
        if each.assigned.slot.turning:
            seen[_hop(each.assigned)].append(each)
    found = {hop: _doubt(of_hop[hop], many) for hop, many in seen.items()}
    return [found.get(_hop(one), "") for one in assigned]


_Hop = tuple[GroupName, Channel, int]


def _hop(one: Assigned) -> _Hop:
    return one.slot.hop.group, one.slot.hop.channel, one.slot.hop.index


def _doubt(own: Sequence[Assigned], seen: Sequence[Shown]) -> str:
    if _clash(seen):
        return _DOUBT.format("two of them show the same part of one iteration")
    if not any(one.slot.pattern.self_similar for one in own):
        return ""
    if not _all_there(own):
        return _DOUBT.format("not all of them were seen")
    return "" if _in_turn(seen) else _DOUBT.format("they do not follow each other in turn")


def _all_there(own: Sequence[Assigned]) -> bool:
    """Was every queue pair of the connection found? As many carry the same parts as there are of these."""
    families = {one.slot.family: len(one.slot.rounds) for one in own}
    parts = {part for one in own for part in one.slot.rounds}
    return len(own) == sum(families.values()) and parts.issuperset(m.qp for m in own[0].slot.hop.messages)


def _clash(seen: Sequence[Shown]) -> bool:
    """Do two queue pairs carry the same part of one iteration at one capture?"""
    taken: set[tuple[CapturePort, int, int]] = set()
    for each in seen:
        for number, window in enumerate(each.windows, each.start):
            key = (each.track.flow.capture, number, window.qp)
            if window.first_time is not None and key in taken:
                return True
            taken.add(key)
    return False


def _in_turn(seen: Sequence[Shown]) -> bool:
    """Do the messages of each iteration come in the order in which the hop sends them?"""
    times: dict[tuple[CapturePort, int], list[tuple[int, int]]] = defaultdict(list)
    for each in seen:
        for number, window in enumerate(each.windows, each.start):
            if window.first_time is not None:
                times[each.track.flow.capture, number].extend(_times(each, window))
    return all(one[1] <= other[1] for found in times.values() for one, other in pairwise(sorted(found)))


def _times(shown: Shown, window: Window) -> Iterator[tuple[int, int]]:
    """(place in the order of the hop's messages, time) of the messages of an iteration."""
    messages = shown.assigned.slot.hop.messages
    order = [at for at, m in enumerate(messages) if m.qp == window.qp]
    pattern = pattern_of(messages, (window.qp,), immediates=False)
    base = window.base or 0
    for message in shown.track.between(base, base + pattern.span):
        index = pattern.starts.get(message.position - base)
        if index is not None:
            yield order[index], message.first_time
