"""NCCL's three wire protocols as arithmetic: how much a chunk holds, and what its data becomes on the wire.

All sizes are bytes. Source: NCCL ``src/include/device.h``, ``src/include/collectives.h``, ``src/device/prims_*.h``;
unchanged from 2.8 to 2.30 (``domain/nccl-wire.md`` section 1).
"""

from dataclasses import dataclass
from types import MappingProxyType

from flowcheck_net.model.job import Protocol

_SIMPLE_STEP = 524_288
"""4 MiB buffer / 8 steps."""
_SIMPLE_SLICE = 2 * _SIMPLE_STEP
"""ALLREDUCE_SLICESTEPS = 2 steps."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of one protocol."""

    chunk: int
    """Gradient bytes of a full chunk of the ring all-reduce."""
    broadcast_chunk: int
    """Gradient bytes of a full chunk of the ring broadcast (one step)."""
    grain: int
    """Chunks are rounded down to a multiple of this (2.22 and later)."""
    line_wire: int
    """Smallest unit that the protocol sends."""
    line_data: int
    """Gradient bytes in that unit."""


_GEOMETRY = MappingProxyType(
    {
        # 64 KiB slot, half of it flags; a 16-byte line holds 8 bytes of data
        Protocol.LL: Geometry(chunk=32_768, broadcast_chunk=32_768, grain=16, line_wire=16, line_data=8),
        # 600 KiB slot, 15/16 of it data; a warp sends 2048 bytes at a time
        Protocol.LL128: Geometry(chunk=576_000, broadcast_chunk=576_000, grain=1920, line_wire=2048, line_data=1920),
        # ALLREDUCE_CHUNKSTEPS = 4 steps, BROADCAST_CHUNKSTEPS = 1
        Protocol.SIMPLE: Geometry(
            chunk=4 * _SIMPLE_STEP, broadcast_chunk=_SIMPLE_STEP, grain=512, line_wire=1, line_data=1
        ),
    }
)


def geometry(protocol: Protocol) -> Geometry:
    """The sizes of ``protocol``."""
    return _GEOMETRY[protocol]


def wire_size(protocol: Protocol, data: int) -> int:
    """Wire bytes, flags included, of a message that carries ``data`` gradient bytes."""
    line = _GEOMETRY[protocol]
    return line.line_wire * -(-data // line.line_data)


def data_before(protocol: Protocol, wire: int, data: int) -> int:
    """Gradient bytes in the first ``wire`` bytes of a message of ``data`` gradient bytes.

    Exact for Simple and LL. LL128 stores its data shuffled inside each 2048 bytes, so there the answer is right at
    multiples of 2048 wire bytes and counts whole 128-byte lines (120 data, 8 flag) in between.
    """
    if protocol is Protocol.LL:
        before = wire // 8 * 4 + min(wire % 8, 4)  # 4 bytes of data, 4 bytes of flag
    elif protocol is Protocol.LL128:
        before = wire // 128 * 120
    else:
        before = wire
    return min(before, data)


def slices(protocol: Protocol, elements: int, element_size: int) -> tuple[int, ...]:
    """Elements of each message of an all-reduce chunk: two for Simple, one for LL and LL128, empty ones included."""
    if protocol is not Protocol.SIMPLE:
        return (elements,)
    slice_elements = max(16 * -(-elements // 32), _SIMPLE_SLICE // element_size // 32)
    first = min(slice_elements, elements)
    return first, min(slice_elements, elements - first)
