"""DDP's and Megatron's rules for buckets: which parameters an all-reduce holds, in which order.

Facts: PyTorch ``torch/csrc/distributed/c10d/reducer.cpp`` (``compute_bucket_assignment_by_size``, ``rebuild_buckets``)
and ``torch/nn/parallel/distributed.py`` (``_ddp_init_helper``), 2.0 to 2.13; Megatron-LM
``megatron/core/distributed/param_and_grad_buffer.py``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flowcheck_net.checkpoint.layout import Bucket, BucketOrder, Slot
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype

DDP_FIRST_BYTES = 1 << 20
"""``dist._DEFAULT_FIRST_BUCKET_BYTES``: of the first bucket, where the cap is not set by the user."""
DDP_CAP_BYTES = 25 << 20
"""``bucket_cap_mb`` of 25, the default."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One parameter as DDP sees it."""

    name: str
    elements: int
    dtype: Dtype
    """Of its gradient on the wire."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.elements * self.dtype.size


@dataclass(slots=True)
class _Filling:
    """Buckets of one element type while they are filled."""

    caps: Iterator[int]
    cap: int
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0


def ddp_buckets(pieces: Iterable[Piece], caps: Sequence[int]) -> list[tuple[Piece, ...]]:
    """Fill buckets in the order given. One is closed when it **reaches** its cap: a large tensor makes a large bucket.

    Args:
        pieces: In the order in which their gradients become ready.
        caps: Bytes of the first bucket, the second and so on; the last one holds for all that follow. Each element type
            counts through them by itself.

    Returns:
        Buckets in the order in which they are closed. What is left over follows in the order of its first pieces.
    """
    filling: dict[Dtype, _Filling] = {}
    closed = []
    for piece in pieces:
        if piece.dtype not in filling:
            endless = iter(caps)
            filling[piece.dtype] = _Filling(endless, next(endless))
        own = filling[piece.dtype]
        own.pieces.append(piece)
        own.size += piece.size
        if own.size >= own.cap:
            closed.append(tuple(own.pieces))
            own.pieces, own.size, own.cap = [], 0, next(own.caps, own.cap)
    return [*closed, *(tuple(own.pieces) for own in filling.values() if own.pieces)]


def ddp_first(pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """Buckets of the first iteration of a process: one for each element type, in the order of registration.

    That is DDP without ``find_unused_parameters``; see ``ddp_unused`` for the other.
    """
    kinds = list(dict.fromkeys(piece.dtype for piece in pieces))
    return [tuple(piece for piece in pieces if piece.dtype is kind) for kind in reversed(kinds)]


def ddp_unused(pieces: Sequence[Piece], caps: Sequence[int]) -> list[tuple[Piece, ...]]:
    """Buckets with ``find_unused_parameters``, of every iteration: filled as registered, reduced backwards."""
    order = {piece.name: number for number, piece in enumerate(pieces)}
    return sorted(ddp_buckets(pieces, caps), key=lambda bucket: order[bucket[0].name], reverse=True)


def megatron_buckets(pieces: Sequence[Piece], elements: int | None) -> list[tuple[Piece, ...]]:
    """Megatron's buckets without the distributed optimizer: filled backwards, closed at ``elements``, no padding.

    Args:
        pieces: Of one element type, in the order of registration.
        elements: ``max(40 000 000, 1 000 000 * dp)`` by default; None: one bucket (without overlap_grad_reduce).
    """
    found: list[tuple[Piece, ...]] = []
    filling: list[Piece] = []
    filled = 0
    for piece in reversed(pieces):
        filling.append(piece)
        filled += piece.elements
        if elements is not None and filled >= elements:
            found.append(tuple(filling))
            filling, filled = [], 0
    return [*found, tuple(filling)] if filling else found


def bucket_order(
    group: GroupName, buckets: Iterable[Sequence[Piece]], names: Sequence[str], *, multiple: int = 1
) -> BucketOrder:
    """The words of the layout for buckets whose pieces lie one behind another.

    Args:
        group: Reduces them.
        buckets: In the order of their all-reduces.
        names: Of the buckets, as in job.yaml.
        multiple: Elements of a bucket are rounded up to this.
    """
    found = []
    for name, pieces in zip(names, buckets, strict=True):
        slots = []
        offset = 0
        for piece in pieces:
            slots.append(Slot(piece.name, offset, piece.elements))
            offset += piece.elements
        found.append(Bucket(name, pieces[0].dtype, -(-offset // multiple) * multiple, tuple(slots)))
    return BucketOrder(group, tuple(found))
