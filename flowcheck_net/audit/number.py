"""The iterations of all queue pairs under one numbering, by the part of the iteration that each carries."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcheck_net.audit.align import out_of_step, shifts
from flowcheck_net.audit.assign import Assigned, Slot
from flowcheck_net.audit.pattern import Track
from flowcheck_net.audit.place import Window
from flowcheck_net.audit.turns import Shown, doubts, unroll
from flowcheck_net.ids import Channel, GroupName

_OUT_OF_STEP = (
    "its iterations do not keep step with those of other queue pairs: one that is not as expected has no number on one "
    "of them, so that the numbers of others may be wrong"
)

SlotKey = tuple[GroupName, Channel, int, int]
"""(group, channel, hop index, ``WireMessage.qp``): a part of the iteration, on whichever queue pair it comes."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One part of the iterations (``SlotKey``) as one flow carries it, numbered."""

    track: Track
    windows: tuple[Window, ...]
    """The iterations of the flow, in which it may carry other parts too."""
    start: int
    """Number of its first window."""
    part: int

    def window(self, iteration: int) -> Window | None:
        """The window of an iteration, None where the flow does not show this part of it."""
        at = iteration - self.start
        found = self.windows[at] if 0 <= at < len(self.windows) else None
        return found if found is not None and found.qp == self.part else None


@dataclass(frozen=True, slots=True)
class Numbered:
    """All queue pairs that were found."""

    assigned: tuple[Assigned, ...]
    """In canonical order, with what numbering them told of their certainty."""
    sightings: dict[SlotKey, tuple[Sighting, ...]]
    count: int
    """Iterations."""
    shown: tuple[Shown, ...]
    """The same by flow."""


def part_keys(slot: Slot) -> tuple[SlotKey, ...]:
    """The parts that a queue pair carries, in the order of its iterations."""
    return tuple((slot.hop.group, slot.hop.channel, slot.hop.index, part) for part in slot.rounds)


def number_iterations(assigned: Sequence[Assigned], period: float) -> Numbered:
    """Give every flow's iterations their common numbers.

    Only flows with data decide how many there are, by what their messages confirm: empty messages are too alike to
    tell where an iteration begins, and a guess may be no iteration at all.

    Args:
        assigned: The queue pairs that were found.
        period: Nanoseconds from one iteration to the next, for flows that show only one; 0: not known.
    """
    own = sorted(assigned, key=lambda a: (a.slot.hop.group, a.slot.hop.channel, a.slot.hop.index, a.slot.qp))
    data = {id(a) for a in own if any(a.slot.pattern.sizes)} or {id(a) for a in own}
    every = [(a, track, unroll(a.slot, track, placement)) for a in own for track, placement in a.flows]
    starts = shifts([windows for _, _, windows in every], period)
    missed = out_of_step([windows for _, _, windows in every], starts, period)
    stray = {id(a) for (a, _, _), out in zip(every, missed, strict=True) if out}
    seen = [Shown(*each, start) for each, start in zip(every, starts, strict=True) if each[2]]
    firm = [n for each in seen if id(each.assigned) in data for n in _firm(each)]
    first = min(firm, default=0)
    end = max(firm, default=first - 1) + 1
    found: dict[SlotKey, list[Sighting]] = defaultdict(list)
    for each in seen:
        for key in dict.fromkeys(part_keys(each.assigned.slot)):
            found[key].append(Sighting(each.track, each.windows, each.start - first, key[3]))
    why = doubts(own, seen)
    judged = tuple(
        replace(a, doubt=a.doubt or doubt or (_OUT_OF_STEP if id(a) in stray else ""))
        for a, doubt in zip(own, why, strict=True)
    )
    final = {id(a): one for a, one in zip(own, judged, strict=True)}
    shown = tuple(replace(each, assigned=final[id(each.assigned)], start=each.start - first) for each in seen)
    return Numbered(judged, {key: tuple(many) for key, many in found.items()}, end - first, shown)


def _firm(shown: Shown) -> list[int]:
    """Numbers of the windows that are no guess."""
    turning = shown.assigned.slot.turning
    numbered = enumerate(shown.windows, shown.start)
    return [n for n, w in numbered if not w.guess and (w.first_time is not None or not turning)]
