"""What the immediate of a message says, by version of NCCL.

Up to 2.28 it is the length of the whole message (over all queue pairs) in little-endian order, as the records read it.
From 2.29 on it is that length in big-endian order, or with ``NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=BY_ID`` the number
of a request, which nobody can foretell. Source: NCCL v2.28.9 and v2.29.2 ``net_ib``.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from flowcheck_net.model.expect import Expectation
from flowcheck_net.model.wire import broadcast_wire_sizes
from flowcheck_net.receive.records import Message, Records

_OTHER_ORDER = (2, 29, 0)


class Immediates(Enum):
    """What the immediates of a run are."""

    LITTLE = "lengths, little-endian"
    BIG = "lengths, big-endian"
    NUMBERS = "numbers of requests"

    @property
    def are_lengths(self) -> bool:
        """Can they be foretold?"""
        return self is not Immediates.NUMBERS

    def read(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages with lengths as immediates, or with none."""
        if self is Immediates.LITTLE:
            return tuple(messages)
        lengths = self is Immediates.BIG
        return tuple(replace(m, immediate=_swap(m.immediate) if lengths else None) for m in messages)


def immediates_of(expectation: Expectation, records: Records) -> Immediates:
    """By the version, and from 2.29 on by what most messages between the job's hosts carry."""
    if expectation.wire.nccl.version < _OTHER_ORDER:
        return Immediates.LITTLE
    ends = {(hop.source, hop.destination) for hop in expectation.hops}
    lengths = _lengths(expectation)
    told = right = 0
    for flow in records.flows:
        if (flow.source, flow.destination) in ends:
            for message in flow.messages:
                if message.immediate is not None and message.bytes:
                    length = _swap(message.immediate)
                    told += 1
                    right += length == message.bytes or length in lengths
    return Immediates.BIG if 2 * right > told else Immediates.NUMBERS


def _lengths(expectation: Expectation) -> frozenset[int]:
    """Lengths of whole messages that the job sends."""
    whole: dict[tuple[int, int, int, int, int, int, bool], int] = {}
    for number, hop in enumerate(expectation.hops):
        for m in hop.messages:
            key = (number, m.bucket, m.loop, m.chunk, m.slice, m.contributions, m.reduced)
            whole[key] = whole.get(key, 0) + m.wire_bytes
    wire = expectation.wire
    channels = {hop.channel for hop in expectation.hops}
    declared = (broadcast_wire_sizes(wire, b, channel) for b in wire.broadcasts for channel in channels)
    return frozenset(whole.values()).union(*declared)


def _swap(value: int | None) -> int | None:
    return None if value is None else int.from_bytes(value.to_bytes(4, "little"), "big")
