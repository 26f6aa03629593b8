"""How NCCL's verbs transport lays a message on queue pairs and packets (``domain/nccl-wire.md`` section 4).

Source: NCCL v2.8.4 to v2.28.9 ``src/transport/net_ib.cc`` (``ncclIbIsend``, ``ncclIbMultiSend``).
"""

from dataclasses import dataclass

from flowcheck_net.model.job import Nccl

_SMALLEST_PIECE = 8
_PIECE_ALIGNMENT = 128
"""From 2.13 on."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a message that one queue pair carries."""

    qp: int
    """0 .. Q-1"""
    offset: int
    """Wire bytes before it in the message."""
    length: int
    """Wire bytes; 0 where the message is too short for this queue pair, which still sends its write."""


def packets(length: int, mtu: int) -> int:
    """Packets, which is also PSNs, of an RDMA write of ``length`` bytes: an empty one takes a packet too."""
    return max(1, -(-length // mtu))


def splits(nccl: Nccl) -> bool:
    """Is every message cut over all queue pairs? Up to 2.17 NCCL has no switch for it and always does."""
    return nccl.split_data_on_qps or nccl.version < (2, 18, 0)


def pieces(nccl: Nccl, length: int, turn: int) -> tuple[Piece, ...]:
    """Cut a message of ``length`` wire bytes, the ``turn``-th (from 0) of its connection."""
    count = nccl.qps_per_connection
    if count == 1 or not splits(nccl):
        return (Piece(turn % count, 0, length),)
    size = max(_SMALLEST_PIECE, -(-length // count))
    if nccl.version >= (2, 13, 0):
        size = -(-size // _PIECE_ALIGNMENT) * _PIECE_ALIGNMENT
    starts = [min(q * size, length) for q in range(count)]
    return tuple(Piece(q, start, min(size, length - start)) for q, start in enumerate(starts))


def has_closing_write(nccl: Nccl, length: int) -> bool:
    """Is a message of ``length`` wire bytes closed by a 0-byte write with immediate on each of its queue pairs?"""
    return nccl.adaptive_routing and length > nccl.adaptive_routing_threshold
