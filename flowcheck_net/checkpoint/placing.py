"""What the receiver is to place while packets come, worked out by the audit from what it has seen so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flowcheck_net.audit.anchors import anchors
from flowcheck_net.audit.survey import Survey, survey
from flowcheck_net.checkpoint.payload import FORMS
from flowcheck_net.ids import GroupName
from flowcheck_net.model.expect import Expectation
from flowcheck_net.receive.lay import Layer, PatternKey
from flowcheck_net.receive.layout import Layout, buffer_of, lay_out
from flowcheck_net.receive.placement import placement_text
from flowcheck_net.receive.receiver_spool import spool_records
from flowcheck_net.receive.records import Records


@dataclass(frozen=True, slots=True)
class Learnt:
    """What is known of a job's queue pairs."""

    text: str
    """For the receiver; empty: nothing can be placed."""
    queue_pairs: int
    """That are followed."""
    iterations: int
    """Seen so far."""
    doubts: tuple[str, ...]
    """Queue pairs whose place is not certain: they are not followed."""
    assumptions: Mapping[GroupName, tuple[str, ...]]
    """By group: what is taken for true and cannot be seen. Nothing is placed then, unless told to trust."""
    uncovered: Mapping[GroupName, int]
    """Units that no queue pair brings which is followed, of the groups of which some are."""
    in_step: bool
    """By their times, iterations of one number are one iteration on all queue pairs of a group."""


def learn_placement(
    expectation: Expectation, records: Records, *, trust_order: bool, plan_digest: str | None = None
) -> Learnt:
    """From records of the running connections to what the receiver needs.

    Args:
        expectation: What must be seen.
        records: Of the same connections: positions are those that the receiver will count.
        trust_order: Place also where queue pairs are only taken to ascend in the order of channels.
        plan_digest: Of the plan in force.
    """
    sighted = survey(expectation, records)
    found = anchors(sighted)
    layout = lay_out(expectation.wire, expectation.hops)
    layer = Layer(expectation.wire, layout, found.followed, FORMS[sighted.immediates])
    trusted = trust_order or not found.assumptions
    text = placement_text(layer, layout, plan_digest) if found.followed and trusted else ""
    return Learnt(
        text,
        len(found.followed) if text else 0,
        sighted.iterations,
        found.doubts,
        found.assumptions,
        _uncovered(layer, layout),
        _in_step(sighted),
    )


def _in_step(sighted: Survey) -> bool:
    """Were windows of one number at one time?

    By the pace that was seen alone: the job's iteration time may be wrong, and a receiver that starts amidst a job
    hears an iteration at one port and not at the other.
    """
    flows: dict[GroupName, list[dict[int, int]]] = {}
    for shown in sighted.shown:
        if any(shown.assigned.slot.pattern.sizes):
            windows = enumerate(shown.windows, shown.start)
            times = {number: window.first_time for number, window in windows if window.first_time is not None}
            flows.setdefault(buffer_of(shown.assigned.slot.hop.group), []).append(times)
    return all(map(_together, flows.values()))


def _together(flows: Sequence[Mapping[int, int]]) -> bool:
    """``flows``: times by number. Each must show two iterations, and a number's times must lie within half a step."""
    if len(flows) < 2:
        return True
    steps = [(two[1] - one[1]) / (two[0] - one[0]) for times in flows for one, two in pairwise(sorted(times.items()))]
    if not steps or any(len(times) < _ITERATIONS for times in flows):
        return False
    for number in {number for times in flows for number in times}:
        found = [times[number] for times in flows if number in times]
        if max(found) - min(found) > min(steps) / 2:
            return False
    return True


def _uncovered(layer: Layer, layout: Layout) -> dict[GroupName, int]:
    brought: dict[int, set[int]] = {}
    seen: set[PatternKey] = set()
    for each in layer.tracks():
        if each.key not in seen:
            seen.add(each.key)
            units = brought.setdefault(each.group, set())
            slots = (slot for slot in layer.pattern(each.followed).slots if slot.reduced)
            units.update(unit for slot in slots for unit in range(slot.unit, slot.unit + slot.packets))
    names = {number: name for name, number in layout.numbers.items()}
    missing = {names[number]: _missing(layer, layout, names[number], units) for number, units in brought.items()}
    return {name: count for name, count in missing.items() if count}


def _missing(layer: Layer, layout: Layout, name: GroupName, brought: set[int]) -> int:
    group, cycle = layout.groups[name], layer.cycle(name)
    stride = layer.stride(name)[1] * 8 // cycle
    carriers: Iterable[int] = (unit for piece in group.pieces for unit in group.carriers(piece))
    return sum(1 for unit in carriers for n in range(cycle) if unit + n * stride not in brought)


class Learner:
    """Looks at what a running receiver has written, until it knows where the payload of each queue pair belongs."""

    def __init__(self, expectation: Expectation, *, trust_order: bool, plan_digest: str | None) -> None:
        self._expectation = expectation
        self._trust_order = trust_order
        self._digest = plan_digest
        self._next = 1
        self.latest: Learnt | None = None
        """What was found at the last look."""

    def begin(self) -> None:
        """A life of the receiver begins: its positions are its own."""
        self._next = 1
        self.latest = None

    def look(self, spool: Path, packets: int) -> str:
        """What is to be placed; empty: not known yet.

        Looks only after half as many packets again, so that a long time without success costs little.
        """
        if packets < self._next:
            return ""
        self._next = packets + packets // 2 + 1
        records = spool_records(spool, ())
        found = learn_placement(self._expectation, records, trust_order=self._trust_order, plan_digest=self._digest)
        self.latest = found
        sure = found.iterations >= _ITERATIONS and found.in_step and not found.uncovered and not found.doubts
        return found.text if sure else ""


_ITERATIONS = 2
"""To be seen before what they show is relied on."""
