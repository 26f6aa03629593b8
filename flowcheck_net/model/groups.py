"""Data-parallel groups: from the parallel layout (Megatron's order string) or from explicit lists.

The gradients of dense parameters are reduced over data *and* context parallel ranks (``dp-cp``), not over ``dp`` alone.
Source: Megatron-LM ``megatron/core/parallel_state.py`` (``domain/training-state.md`` section 1).
"""

from itertools import product
from math import prod

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import GroupName, Rank
from flowcheck_net.spec.job import JobSpec, Layout

_REDUCED = ("dp", "cp")
"""The axes over which a dense gradient is summed."""


def data_parallel_groups(job: JobSpec) -> dict[GroupName, tuple[Rank, ...]]:
    """``dp0``, ``dp1``, ... -> global ranks, in index order.

    Raises:
        PlanError: the layout does not fit the number of ranks, or has expert parallelism, whose gradients are reduced
            over groups of their own.
    """
    if job.groups is not None:
        groups = [tuple(Rank(r) for r in group) for group in job.groups]
    else:
        groups = layout_groups(job.layout or Layout(), len(job.ranks))
    return {GroupName(f"dp{i}"): group for i, group in enumerate(groups)}


def layout_groups(layout: Layout, world: int) -> list[tuple[Rank, ...]]:
    """The dp-cp groups of ``world`` ranks: global rank = sum of index x stride, the first axis of the order fastest.

    Groups and the ranks in a group are both in index order, the leftmost of their axes fastest.
    """
    if layout.ep > 1:
        raise PlanError(
            f"layout.ep is {layout.ep}: expert gradients have groups and buckets of their own",
            hint="list the groups to observe, and their buckets, under `groups` instead of `layout`",
        )
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "pp": layout.pp}
    taken = prod(sizes.values())
    if world % taken:
        raise PlanError(
            f"{world} ranks do not divide by tp x cp x pp = {taken}",
            hint="correct `layout`, or list every rank of the job under `ranks`",
        )
    sizes["dp"] = world // taken
    axes = layout.order.split("-")
    unknown = sorted(set(sizes) ^ set(axes))
    if unknown or len(axes) != len(sizes):
        raise PlanError(f"layout.order {layout.order!r} must name each of tp, cp, ep, dp and pp once")
    strides = {axis: prod(sizes[a] for a in axes[:i]) for i, axis in enumerate(axes)}
    bases = _offsets([(sizes[a], strides[a]) for a in axes if a not in _REDUCED])
    members = _offsets([(sizes[a], strides[a]) for a in axes if a in _REDUCED])
    return [tuple(Rank(base + member) for member in members) for base in bases]


def _offsets(axes: list[tuple[int, int]]) -> list[int]:
    """All sums of index x stride over (size, stride) axes, the first axis fastest."""
    ranges = [range(0, size * stride, stride) for size, stride in reversed(axes)]
    return [sum(indices) for indices in product(*ranges)]
