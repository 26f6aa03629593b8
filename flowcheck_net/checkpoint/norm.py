"""Clipping by the global norm: shards exchange the norms of their parameters, and each reckons the same coefficient.

As ``torch.nn.utils.clip_grad_norm_``: the norm of the norms of all parameters in the optimizer's order. A shard that
added up its own part first would get other last bits.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def total_norm(order: Sequence[str], norms: Mapping[str, float], dtype: "torch.dtype") -> float:
    """The global norm.

    Args:
        order: All parameters, as the optimizer has them.
        norms: By parameter, of all shards together.
        dtype: Of the gradients.
    """
    import torch

    return float(torch.linalg.vector_norm(torch.stack([torch.tensor(norms[n], dtype=dtype) for n in order]), 2.0))


def coefficient(max_norm: float, total: float, dtype: "torch.dtype") -> "torch.Tensor":
    """What every gradient is multiplied with, also where it is 1."""
    import torch

    return torch.clamp(max_norm / (torch.tensor(total, dtype=dtype) + 1e-6), max=1.0)
