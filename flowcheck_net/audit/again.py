"""Iterations that came twice at the same positions: a connection began anew, on the places of the old one.

A sender that goes back repeats what is not acknowledged, and never a whole iteration of many messages.
"""

from collections.abc import Sequence

from flowcheck_net.audit.pattern import Pattern, Track
from flowcheck_net.audit.ranges import clip

_IN_THE_AIR = 8
"""Messages of a connection that NCCL has under way at most (``NCCL_STEPS``)."""
_PART = 0.9
"""Of an iteration's packets seen: so many came again. All of them would, if no copy was lost."""
_WORDS = (
    "iterations on it came again, whole and at the same positions, as from a connection that began anew: which packets "
    "are of which is not certain; audit records of one of them alone (start a new file when the job restarts)"
)


def came_again(track: Track, pattern: Pattern, bases: Sequence[int]) -> str:
    """Why the iterations of a flow may be two of two connections each; empty: they are not.

    Args:
        track: The flow.
        pattern: One iteration, or as many as it takes queue pairs to take turns.
        bases: Positions of all iterations that messages confirm.
    """
    flow = track.flow
    if not flow.retransmitted:
        return ""
    whole = 0
    for base in bases:
        end = base + pattern.span
        seen = sum(last - first + 1 for first, last in clip(flow.seen, base, end - 1))
        again = len(track.repeats(base, end))
        if not seen or again < _PART * seen or again > flow.retransmitted:
            continue
        whole += 1
        if whole > 1 or len(track.between(base, end)) > _IN_THE_AIR:
            return _WORDS
    return ""
