"""A hop of a ring -> its messages: the arithmetic of NCCL's ring all-reduce on RDMA writes.

Source: NCCL 2.8 to 2.30 (``src/device/all_reduce.h``, ``src/enqueue.cc``, ``src/transport/net_ib``).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WireMessage:
    """One RDMA message on one queue pair, in the order of sending."""

    bucket: int
    """Index into ``Wire.buckets``."""
    loop: int
    chunk: int
    """Ring chunk, 0 .. N-1."""
    slice: int
    reduced: bool
    """Fully reduced (all-gather half), else a partial sum."""
    contributions: int
    """Ranks whose gradients are in it; N when reduced."""
    qp: int
    """Index of the queue pair of this connection, 0 .. Q-1."""
    wire_bytes: int
    """RDMA payload bytes, flags included."""
    packets: int
    """Consecutive PSNs that it takes: at least 1."""
    data_offset: int
    """Byte offset of its gradient data in the bucket."""
    data_bytes: int
    """Gradient bytes (0: an empty message)."""
    closes: bool
    """True for the separate 0-byte write with immediate of the adaptive-routing form."""
