"""What the receiver is to place while packets come, worked out by the audit from what it has seen so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from flowcheck_net.audit.anchors import anchors
from flowcheck_net.audit.survey import survey
from flowcheck_net.checkpoint.payload import FORMS
from flowcheck_net.ids import GroupName
from flowcheck_net.model.expect import Expectation
from flowcheck_net.receive.lay import Layer
from flowcheck_net.receive.layout import lay_out
from flowcheck_net.receive.placement import placement_text
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
    """By group: what is taken for true and cannot be seen. Such a group is not placed unless told to trust."""


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
    return Learnt(text, len(found.followed) if text else 0, sighted.iterations, found.doubts, found.assumptions)
