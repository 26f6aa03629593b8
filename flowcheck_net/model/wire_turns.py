"""Queue pairs that take turns on whole messages: which of them each iteration begins on.

``hop_messages`` puts the first message of an iteration on queue pair 0. A connection goes on from wherever it was, so
with S messages an iteration on Q queue pairs iteration k begins S k turns later, modulo Q. What one queue pair carries
then repeats after Q / gcd(S, Q) iterations, and each of these is what ``hop_messages`` puts on some queue pair.

Source: NCCL v2.18 to v2.28 ``src/transport/net_ib.cc`` (``ncclIbIsend`` takes ``qpIndex`` of the connection further).
"""

from collections.abc import Sequence
from math import gcd

from flowcheck_net.model.job import Wire
from flowcheck_net.model.wire import WireMessage, broadcast_wire_sizes
from flowcheck_net.model.wire_qps import splits


def takes_turns(wire: Wire) -> bool:
    """Do whole messages take turns on several queue pairs?"""
    return wire.nccl.qps_per_connection > 1 and not splits(wire.nccl)


def sends(messages: Sequence[WireMessage]) -> int:
    """Messages of NCCL in an iteration, each with all its pieces and its closing write."""
    return len({(m.bucket, m.loop, m.chunk, m.slice, m.reduced) for m in messages})


def rounds(wire: Wire, messages: Sequence[WireMessage], qp: int, before: int) -> tuple[int, ...]:
    """Which part of ``messages`` a queue pair carries in each iteration, until that repeats.

    Args:
        wire: The job's.
        messages: One iteration of the hop, from ``hop_messages``.
        qp: Queue pair of the connection, 0 .. Q-1.
        before: Messages that the connection sent before the first iteration.

    Returns:
        For iteration 0, 1, ...: the ``WireMessage.qp`` of the messages that are on it. ``(qp,)`` where every message is
        cut over all queue pairs.
    """
    if not takes_turns(wire):
        return (qp,)
    count = wire.nccl.qps_per_connection
    shift = sends(messages) % count
    return tuple((qp - before - k * shift) % count for k in range(count // gcd(shift, count)))


def turns_before(wire: Wire, channel: int, hop: int, ring_size: int, messages: Sequence[WireMessage]) -> int:
    """Messages of declared broadcasts before the first iteration, where rank 0 of the ring is their root.

    Nothing goes into the root, and a tree (whose hops carry partial or full sums, never both) carries no broadcast.
    """
    ring = len({m.reduced for m in messages}) > 1
    if not ring or hop == ring_size - 1:
        return 0
    return sum(len(broadcast_wire_sizes(wire, broadcast, channel)) for broadcast in wire.broadcasts)
