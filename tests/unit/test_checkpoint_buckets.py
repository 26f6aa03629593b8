"""Which parameter lies in which bucket: by PyTorch's own function, and by hand."""

import random

import pytest

from flowcheck_net.checkpoint.buckets import Piece, bucket_order, ddp_buckets, ddp_first, ddp_unused, megatron_buckets
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype


def test_a_bucket_closes_when_it_reaches_its_cap():
    pieces = [
        Piece(name, elements, Dtype.FP32) for name, elements in [("a", 3), ("b", 2), ("c", 40), ("d", 1), ("e", 1)]
    ]
    # 12 bytes are under 16, 20 reach it; 160 reach 24 at once; 8 remain
    found = ddp_buckets(pieces, [16, 24])
    assert [[piece.name for piece in bucket] for bucket in found] == [["a", "b"], ["c"], ["d", "e"]]


def test_megatron_fills_backwards_and_closes_at_its_size():
    sizes = {"a": 3, "b": 7, "c": 4, "d": 6, "e": 5}
    pieces = [Piece(name, elements, Dtype.BF16) for name, elements in sizes.items()]
    names = [[piece.name for piece in bucket] for bucket in megatron_buckets(pieces, 10)]
    assert names == [["e", "d"], ["c", "b"], ["a"]]  # 5 + 6 and 4 + 7 reach 10, 3 is left
    assert [[piece.name for piece in bucket] for bucket in megatron_buckets(pieces, None)] == [
        ["e", "d", "c", "b", "a"]
    ]


def test_padding_and_offsets():
    pieces = [Piece("a", 3, Dtype.BF16), Piece("b", 10, Dtype.BF16)]
    (bucket,) = bucket_order(GroupName("dp0"), [pieces], ["x"], multiple=8).buckets
    assert [(slot.name, slot.offset, slot.elements) for slot in bucket.slots] == [("a", 0, 3), ("b", 3, 10)]
    assert bucket.elements == 16


@pytest.mark.parametrize("seed", range(40))
def test_as_pytorch_does_it(seed):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
    assign = pytest.importorskip("torch.distributed")._compute_bucket_assignment_by_size
    rng = random.Random(seed)
    kinds = {Dtype.FP32: torch.float32, Dtype.BF16: torch.bfloat16}
    kinds = kinds if seed % 2 else {Dtype.FP32: torch.float32}
    pieces = [Piece(str(n), rng.randint(1, 900), rng.choice(list(kinds))) for n in range(rng.randint(1, 30))]
    tensors = [torch.empty(piece.elements, dtype=kinds[piece.dtype]) for piece in pieces]
    caps = [rng.choice([1, 700]), 2000, 1500][: rng.randint(1, 3)]
    found, _ = assign(tensors, caps, [False] * len(tensors))
    # without indices PyTorch sorts the buckets by their first tensor, and DDP reduces them backwards
    assert [[int(piece.name) for piece in bucket] for bucket in ddp_unused(pieces, caps)] == list(reversed(found))
    if len(kinds) == 1:
        ready = list(range(len(pieces)))
        found, _ = assign(tensors, caps, [False] * len(tensors), ready)
        assert [[int(piece.name) for piece in bucket] for bucket in ddp_buckets(pieces, caps)] == found
    first, _ = assign(tensors, [2**62], [False] * len(tensors))
    assert [[int(piece.name) for piece in bucket] for bucket in ddp_first(pieces)] == list(reversed(first))
